package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"cdui/internal/device"
)

// Config is what a Prober is made of.
type Config struct {
	// Exe is the cdui binary; empty is this process's own.
	Exe string
	// Environ is what the reading process gets its environment from; nil is
	// this process's own.
	Environ []string
	// Deadline is how long one Probe waits; 0 is 10 s. Patience is how long the
	// reading process may take over its first answer before it is killed: cards
	// that sleep take seconds each to wake up; 0 is a minute. Pause is the wait
	// before the second start after a failure, doubled with each; 0 is 1 s.
	Deadline, Patience, Pause time.Duration
	Logger                    *slog.Logger
}

const (
	maxPause = time.Minute
	// silentAfter is how many answers in a row may fail to come before the
	// cards count as unhealthy.
	silentAfter = 3
	// reapGrace is how long a killed process gets to be gone.
	reapGrace = 2 * time.Second
)

// Reading is the cards as far as they are known.
type Reading struct {
	// Cards are in PCI order and keep their names for as long as the Prober
	// lives. What the driver doesn't say is nil.
	Cards []device.Device
	// Way is how the driver was asked: "library" or "nvidia-smi", and empty
	// where there is neither. Driver is its version, where it is known.
	Way, Driver string
	// At is when the driver last answered.
	At time.Time
	// Fault says why the cards are those of At and not of now; else nil.
	Fault error
}

// Prober asks the driver, never for longer than its deadline. It owns the
// process that does the asking. Its methods may be called from anywhere; calls
// wait for each other.
type Prober struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	closed  bool
	process *process
	// dying was killed and is not gone yet: the kernel holds it in a driver
	// call. No other one is started before it has gone.
	dying   *process
	retryAt time.Time
	deaths  int
	// answered is set once the library has answered, smi when it ends its
	// callers and nvidia-smi is asked instead.
	answered, smi bool

	known []device.Device
	last  answer
	at    time.Time
	fails int
	fault error
}

// NewProber makes a Prober; the first Probe starts its process.
func NewProber(c Config) *Prober {
	c.Deadline = orDefault(c.Deadline, 10*time.Second)
	c.Patience = orDefault(c.Patience, time.Minute)
	c.Pause = orDefault(c.Pause, time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	return &Prober{cfg: c, log: c.Logger}
}

func orDefault(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

// Look asks once, from a process started for it.
func Look(ctx context.Context, c Config) Reading {
	p := NewProber(c)
	defer p.Close()
	return p.Probe(ctx)
}

// Probe asks the driver once. A machine without a driver has no cards and no
// fault.
func (p *Prober) Probe(ctx context.Context) Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.ask(ctx)
	switch {
	case ctx.Err() != nil:
		return p.reading(context.Cause(ctx))
	case errors.Is(err, errTooEarly):
		return p.reading(p.fault)
	case err != nil:
		p.fails++
		if p.fault == nil || p.fault.Error() != err.Error() {
			p.log.WarnContext(ctx, "the NVIDIA driver does not answer as it should", "error", err, "failures", p.fails)
		}
		p.fault = err
		return p.reading(err)
	}
	if p.fault != nil {
		p.log.InfoContext(ctx, "the NVIDIA driver answers again", "cards", len(a.Cards))
	}
	p.fails, p.fault = 0, nil
	p.known, p.last, p.at = merge(p.known, a.Cards), a, time.Now()
	return p.reading(nil)
}

// reading gives the known cards, without the values that are out of date.
func (p *Prober) reading(fault error) Reading {
	r := Reading{Way: p.last.Way, Driver: p.last.Driver, At: p.at, Fault: fault, Cards: make([]device.Device, 0, len(p.known))}
	for _, d := range p.known {
		if fault != nil {
			d = unknown(d)
		}
		if fault != nil && p.fails >= silentAfter && d.Health.OK() {
			d.Health = device.Health{
				Code: device.UnhealthyNoAnswer,
				Text: fmt.Sprintf("no answer from the driver since %s: %v", p.at.UTC().Format(time.TimeOnly+" MST"), fault),
			}
		}
		r.Cards = append(r.Cards, d)
	}
	return r
}

// Close ends the process. Probe fails from now on.
func (p *Prober) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.process != nil {
		p.stop()
	}
}

// errTooEarly means that the driver is left alone for a while after a failure.
var errTooEarly = errors.New("too early to ask the driver again")

// ask gets one answer out of the process, which it starts where there is none.
func (p *Prober) ask(ctx context.Context) (answer, error) {
	if err := p.ensure(); err != nil {
		return answer{}, err
	}
	if !p.process.request() {
		return p.died(ctx)
	}
	timer := time.NewTimer(p.cfg.Deadline)
	defer timer.Stop()
	select {
	case a := <-p.process.answers:
		return a, p.heard(a)
	case <-p.process.gone:
		select { // it may have answered with its last breath
		case a := <-p.process.answers:
			return a, p.heard(a)
		default:
			return p.died(ctx)
		}
	case <-timer.C:
		return answer{}, p.late()
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// ensure makes sure that there is a process to ask.
func (p *Prober) ensure() error {
	if p.closed {
		return errors.New("ask the NVIDIA driver: the prober is closed")
	}
	if p.process != nil {
		return nil
	}
	if p.dying != nil {
		select {
		case <-p.dying.gone:
			p.dying = nil
		default:
			return fmt.Errorf("the process that asks the NVIDIA driver (pid %d) hangs in it and can't be killed; see dmesg", p.dying.pid())
		}
	}
	if p.fault != nil && time.Now().Before(p.retryAt) {
		return errTooEarly
	}
	exe := p.cfg.Exe
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
	}
	args := []string{"nvml"}
	if p.smi {
		args = append(args, "--smi")
	}
	started, err := startProcess(exe, args, environ(p.cfg.Environ))
	if err != nil {
		p.backOff()
		return err
	}
	p.process = started
	return nil
}

// heard takes note of an answer. One that holds an error is an error.
func (p *Prober) heard(a answer) error {
	p.process.asked, p.process.answered = time.Time{}, true
	if a.Error != "" {
		// It may have to start from the beginning.
		p.stop()
		p.backOff()
		return errors.New(a.Error)
	}
	if a.Way == "" {
		p.stop() // there is nothing to wait for
	}
	p.answered = p.answered || a.Way == wayLibrary
	p.deaths = 0
	return nil
}

// died deals with a process that ended. Where no process of this Prober ever
// got an answer out of the library, nvidia-smi is asked from now on.
func (p *Prober) died(ctx context.Context) (answer, error) {
	dead := p.process
	p.stop()
	err := fmt.Errorf("the process that asks the NVIDIA driver ended: %s", dead.epitaph())
	if p.answered || p.smi {
		p.backOff()
		return answer{}, err
	}
	p.log.WarnContext(ctx, "the NVIDIA library ends its caller; nvidia-smi is asked instead", "error", err)
	p.smi = true
	a, smiErr := p.ask(ctx)
	if smiErr == nil && a.Way == "" {
		// Without that tool, this is all that can be said.
		p.smi = false
		p.backOff()
		return answer{}, err
	}
	return a, smiErr
}

// late decides about a process that is over the deadline.
func (p *Prober) late() error {
	patience := p.cfg.Deadline
	if !p.process.answered {
		patience = max(patience, p.cfg.Patience)
	}
	if waited := time.Since(p.process.asked); waited < patience {
		return fmt.Errorf("the NVIDIA driver has not answered for %s; it may be waking up its cards", waited.Round(time.Second))
	}
	p.stop()
	p.backOff()
	return fmt.Errorf("the NVIDIA driver did not answer within %s", patience)
}

// stop kills the process.
func (p *Prober) stop() {
	p.process.kill()
	timer := time.NewTimer(reapGrace)
	defer timer.Stop()
	select {
	case <-p.process.gone:
	case <-timer.C:
		p.dying = p.process
	}
	p.process = nil
}

// backOff delays the next start.
func (p *Prober) backOff() {
	pause := min(p.cfg.Pause<<min(p.deaths, 10), maxPause)
	p.deaths++
	p.retryAt = time.Now().Add(pause)
}

// environ picks what the driver's library, nvidia-smi and their loader look
// at. LD_BIND_NOW would end the process at its start: the program names symbols
// that only a later driver has. Nothing else is the driver's business, secrets
// least of all.
func environ(all []string) []string {
	var out []string
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "GOCOVERDIR":
		default:
			if !strings.HasPrefix(name, "NVIDIA_") && !strings.HasPrefix(name, "NVML_") && !strings.HasPrefix(name, "CUDA_") {
				continue
			}
		}
		out = append(out, entry)
	}
	return out
}
