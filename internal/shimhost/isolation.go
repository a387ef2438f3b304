package shimhost

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

// resolve finds the isolation to use. One that was asked for and does not hold
// falls back to the best that does.
func (h *Host) resolve(want string) (string, error) {
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
		err := h.probe(way)
		if err == nil {
			return way, nil
		}
		h.log.Warn("isolation does not hold here", "isolation", way, "error", err)
	}
	return wire.IsolateNone, nil
}

// probe tries a way of isolation once. What needs no right is not tried.
func (h *Host) probe(way string) error {
	if way == wire.IsolateNone || way == wire.IsolateKeeper && slices.Contains(autoOrder(), way) {
		return nil
	}
	pid, err := h.exec(wire.Start{Dir: h.dir, Isolation: way, Probe: true}, nil)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(10 * time.Second)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		status, done := h.collect(pid)
		switch {
		case done && status.Exited() && status.ExitStatus() == 0:
			return nil
		case done:
			return fmt.Errorf("trial ended with %s", describe(status))
		case time.Now().After(deadline):
			h.killStarted(pid)
			return errors.New("trial did not end within 10s")
		}
		time.Sleep(pause)
	}
}

func (h *Host) collect(pid int) (syscall.WaitStatus, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	if got != pid && err == nil {
		return 0, false
	}
	delete(h.unreaped, pid)
	return status, true
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
