package shimhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/unixsock"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost/spawn"
	"cdui/internal/spool"
)

// State is what became of a run that has a folder.
type State string

// The states of a found run.
const (
	// Live: its shim is at work.
	Live State = "live"
	// Ended: its end is recorded.
	Ended State = "ended"
	// Lost: its shim died after it was assigned and left no record of the end.
	Lost State = "lost"
	// NeverStarted: no child of it was ever started; it may be placed again.
	NeverStarted State = "never_started"
)

// Found is one run folder.
type Found struct {
	RunID       string
	Attempt     int
	State       State
	BootChanged bool
	// Swept lists what was left of it and killed when the Host was opened.
	Swept []protocol.KilledProcess
}

// Find lists every run that has a folder, by id.
func (h *Host) Find(ctx context.Context) ([]Found, error) {
	ids, err := h.folders()
	if err != nil {
		return nil, err
	}
	var out []Found
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if isSpare(id) {
			continue // a run that nobody has asked for
		}
		h.mu.Lock()
		busy := h.starting[id]
		swept := h.swept[id]
		h.mu.Unlock()
		if busy {
			continue
		}
		f, err := h.look(id)
		if errors.Is(err, ErrNoRun) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at run %s: %w", id, err)
		}
		f.Swept = swept
		out = append(out, f)
	}
	return out, nil
}

func (h *Host) folders() ([]string, error) {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return nil, fmt.Errorf("list run folders: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && plainName(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// look finds out what became of one run.
func (h *Host) look(id string) (Found, error) {
	f := Found{RunID: id}
	dir := filepath.Join(h.dir, id)
	if _, err := os.Stat(dir); err != nil {
		return f, fmt.Errorf("%w: %s", ErrNoRun, id)
	}
	live, err := spawn.Locked(dir)
	if err != nil {
		return f, err
	}
	note, noted := h.note(id)
	if live && !noted && stopWaiting(dir) {
		// Its host died before it gave the shim anything to do.
		live = false
		note, noted = h.note(id)
	}
	f.Attempt = note.Attempt
	switch {
	case live:
		f.State = Live
		return f, nil
	case !noted || note.State == wire.Waiting:
		f.State = NeverStarted
		return f, nil
	}
	f.BootChanged = note.Shim.BootID != proctree.BootID()
	ended, err := hasEnd(dir)
	f.State = Lost
	if ended {
		f.State = Ended
	}
	return f, err
}

// note reads a run's note. One that is damaged, as after a loss of power, says
// at least that the run was assigned; it is of no known boot.
func (h *Host) note(id string) (n wire.Note, noted bool) {
	n, noted, err := wire.ReadNote(filepath.Join(h.dir, id))
	if err != nil {
		h.log.Error("note of a run is damaged", "run_id", id, "error", err)
		noted = true
	}
	return n, noted
}

// hasEnd tells whether the end of a run is recorded in dir.
func hasEnd(dir string) (bool, error) {
	if _, ok, err := wire.ReadExit(dir); ok && err == nil {
		return true, nil
	}
	last, ok, err := spool.Last(dir)
	if err != nil || !ok {
		return false, err
	}
	rec, err := protocol.DecodeRecord(last.Data)
	return err == nil && rec.Type == protocol.RunFinished, nil
}

// stopWaiting asks a shim without an assignment to end, and tells whether it
// is gone.
func stopWaiting(dir string) bool {
	conn, err := unixsock.Dial(dir, wire.SocketFile)
	if err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		if b, err := wire.Encode(wire.Message{Op: wire.OpStop}); err == nil {
			_, _ = conn.Write(b)
		}
		// It closes the connection when it goes.
		br := bufio.NewReader(conn)
		for err == nil {
			_, err = wire.Read(br)
		}
	}
	return waitUnlocked(dir, 2*time.Second)
}

// waitUnlocked waits until dir's lock is free.
func waitUnlocked(dir string, patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		held, err := spawn.Locked(dir)
		if err != nil {
			return false
		}
		if !held {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

// sweepDead ends the processes of runs whose shims are dead: both processes of
// a pair may have been killed at once.
func (h *Host) sweepDead() {
	ids, err := h.folders()
	if err != nil {
		h.log.Error("run folders are not swept", "error", err)
		return
	}
	// dead maps what processes bear to the run that they were of.
	dead := map[string]string{}
	for _, id := range ids {
		if held, err := spawn.Locked(filepath.Join(h.dir, id)); err == nil && !held {
			for _, mark := range h.marks(id) {
				dead[mark] = id
			}
		}
	}
	if len(dead) > 0 {
		for mark, list := range sweep(func(mark string) bool { return dead[mark] != "" }) {
			h.log.Warn("processes of a dead run were killed", "run_id", dead[mark], "count", len(list))
			h.swept[dead[mark]] = append(h.swept[dead[mark]], list...)
		}
	}
	h.endSpares(ids)
}

// marks are what the processes of a run bear as CDUI_RUN_ID: its id, and the
// name of the spare that its first process was.
func (h *Host) marks(id string) []string {
	if note, _, err := wire.ReadNote(filepath.Join(h.dir, id)); err == nil && note.Spare != "" {
		return []string{id, note.Spare}
	}
	return []string{id}
}

// sweepRun kills what is left of a run.
func (h *Host) sweepRun(id string) []protocol.KilledProcess {
	marks := h.marks(id)
	var all []protocol.KilledProcess
	for _, list := range sweep(func(mark string) bool { return slices.Contains(marks, mark) }) {
		all = append(all, list...)
	}
	return all
}

// sweep kills every process that bears the run id of a run that wanted accepts,
// until none is found.
func sweep(wanted func(id string) bool) map[string][]protocol.KilledProcess {
	killed := map[string][]protocol.KilledProcess{}
	deadline := time.Now().Add(5 * time.Second)
	for {
		found := proctree.ByEnv("CDUI_RUN_ID", wanted)
		if len(found) == 0 || time.Now().After(deadline) {
			return killed
		}
		// Stopped first, so that they don't fork between the look and the end.
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, list := range found {
				for _, p := range list {
					proctree.Signal(p, sig)
				}
			}
		}
		for id, list := range found {
			for _, p := range list {
				k := protocol.KilledProcess{PID: p.PID, Name: p.Name}
				if !slices.Contains(killed[id], k) {
					killed[id] = append(killed[id], k)
				}
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Remove takes away the folder of a run whose shim is gone, after whatever is
// left of the run. A shim that is about to end is waited for.
func (h *Host) Remove(runID string) error {
	dir, err := h.runDir(runID)
	if err != nil {
		return fmt.Errorf("remove run: %w", err)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !waitUnlocked(dir, 5*time.Second) {
		return fmt.Errorf("remove run %s: %w", runID, ErrLive)
	}
	h.spawner.Reap(0, 0)
	if ended, err := hasEnd(dir); err != nil || !ended {
		h.sweepRun(runID)
	}
	if err := removeFolder(dir); err != nil {
		return fmt.Errorf("remove run %s: %w", runID, err)
	}
	h.mu.Lock()
	delete(h.swept, runID)
	h.mu.Unlock()
	return nil
}

// removeFolder removes a run's folder and the sockets that lie elsewhere.
func removeFolder(dir string) error {
	for _, name := range []string{wire.SocketFile, wire.ReportFile} {
		if target, err := os.Readlink(filepath.Join(dir, name)); err == nil {
			_ = os.RemoveAll(filepath.Dir(target))
		}
	}
	return os.RemoveAll(dir)
}
