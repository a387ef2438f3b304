package nvml

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running `cdui nvml`, as its Prober sees it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	// answers holds the one that was asked for.
	answers chan answer
	// gone is closed when the process has ended and was reaped.
	gone chan struct{}
	said tail

	// asked is when the request was made that has no answer yet; answered is
	// set after the first one. Both are the Prober's.
	asked    time.Time
	answered bool

	mu      sync.Mutex
	reaping bool
	fault   error
	status  error
}

// startProcess starts exe, in a process group of its own: a Ctrl-C on the
// terminal is not meant for it, and a nvidia-smi that it started ends with it.
func startProcess(exe string, args, environ []string) (*process, error) {
	p := &process{cmd: exec.Command(exe, args...), answers: make(chan answer, 1), gone: make(chan struct{})} //nolint:gosec,noctx // our own program; it outlives the call that starts it
	p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = environ, &p.said, time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", exe, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", exe, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", exe, err)
	}
	go p.follow(out)
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// request asks for an answer, unless one is being waited for. It is false when
// the process takes no requests any more.
func (p *process) request() bool {
	if !p.asked.IsZero() {
		return true
	}
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return false
	}
	p.asked = time.Now()
	return true
}

// follow hands on what the process writes until it ends. That it wrote
// something else than answers ends it.
func (p *process) follow(out io.Reader) {
	defer close(p.gone)
	in := bufio.NewScanner(out)
	in.Buffer(make([]byte, 0, 64<<10), maxAnswer)
	for in.Scan() {
		a, err := decodeAnswer(in.Bytes())
		if err == nil {
			select {
			case p.answers <- a:
				continue
			default:
				err = errors.New("it answers without being asked")
			}
		}
		p.end(err)
		break
	}
	if err := in.Err(); err != nil {
		p.end(fmt.Errorf("read what the driver's reader says: %w", err))
	}
	p.mu.Lock()
	p.reaping = true
	p.mu.Unlock()
	status := p.cmd.Wait()
	p.mu.Lock()
	p.status = status
	p.mu.Unlock()
}

// end kills the process because of a fault.
func (p *process) end(fault error) {
	p.mu.Lock()
	p.fault = fault
	p.mu.Unlock()
	p.kill()
}

// kill ends the process and what it started. One that hangs in the kernel goes
// when the kernel lets it.
func (p *process) kill() {
	_ = p.in.Close()
	p.mu.Lock()
	if !p.reaping {
		// Its group's number is its own until it is reaped.
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
	}
	p.mu.Unlock()
	_ = p.cmd.Process.Kill()
}

// epitaph says how the process ended.
func (p *process) epitaph() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var words []string
	switch {
	case p.fault != nil:
		words = append(words, p.fault.Error())
	case p.status != nil:
		words = append(words, p.status.Error())
	default:
		words = append(words, "without an error")
	}
	if last := p.said.lastLine(); last != "" {
		words = append(words, last)
	}
	return strings.Join(words, ": ")
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailSize; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
