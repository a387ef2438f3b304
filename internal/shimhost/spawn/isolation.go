package spawn

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"cdui/internal/shim/wire"
)

// Auto asks for the best isolation that holds on this machine.
const Auto = "auto"

// Isolation finds the isolation to use for the runs in dir. One that was asked for and does not hold
// falls back to the best that does.
func (s *Spawner) Isolation(dir, want string) (string, error) {
	order := autoOrder()
	switch want {
	case "", Auto:
	case wire.IsolatePIDNS, wire.IsolateUserNS, wire.IsolateKeeper, wire.IsolateNone:
		order = append([]string{want}, order...)
	default:
		return "", fmt.Errorf("isolation %q is unknown; use auto, pidns, userns, keeper or none", want)
	}
	order = slices.Compact(order)
	for _, way := range order {
		err := s.probe(dir, way)
		if err == nil {
			return way, nil
		}
		s.logger.Warn("isolation does not hold here", "isolation", way, "error", err)
	}
	return wire.IsolateNone, nil
}

// probe tries a way of isolation once. What needs no right is not tried.
func (s *Spawner) probe(dir, way string) error {
	if way == wire.IsolateNone || way == wire.IsolateKeeper && slices.Contains(autoOrder(), way) {
		return nil
	}
	pid, err := s.exec(wire.Start{Dir: dir, Isolation: way, Probe: true}, nil)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(10 * time.Second)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		status, done := s.collect(pid)
		switch {
		case done && status.Exited() && status.ExitStatus() == 0:
			return nil
		case done:
			return fmt.Errorf("trial ended with %s", describe(status))
		case time.Now().After(deadline):
			s.Kill(pid)
			return errors.New("trial did not end within 10s")
		}
		time.Sleep(pause)
	}
}

func (s *Spawner) collect(pid int) (syscall.WaitStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	if got != pid && err == nil {
		return 0, false
	}
	delete(s.unreaped, pid)
	return status, true
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
