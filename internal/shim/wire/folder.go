package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cdui/internal/protocol"
)

// The files of a run's folder, besides the spool's segments and the console.
const (
	SocketFile = "sock"
	ReportFile = "report"
	NoteFile   = "shim.json"
	ExitFile   = "exit.json"
	ExitDraft  = "exit.tmp"
)

// State is how far a shim has come.
type State string

// The states of a shim, in order.
const (
	Waiting  State = "waiting"
	Warm     State = "warm"
	Assigned State = "assigned"
	Running  State = "running"
	Stopping State = "stopping"
	Ended    State = "ended"
)

// Identity names one process for good: a pid alone may belong to a stranger
// by the time that somebody looks.
type Identity struct {
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot, as /proc tells it.
	Start  uint64 `json:"start_ticks"`
	BootID string `json:"boot_id"`
	// PIDNS is the inode of the pid namespace that PID is counted in.
	PIDNS uint64 `json:"pid_ns"`
}

// Note is shim.json: who works on the run, and how far it came. It holds no
// secret, and never the environment. The file is also the run's lock: it is
// held for as long as the shim lives, whatever it says.
type Note struct {
	V         int       `json:"v"`
	RunID     string    `json:"run_id"`
	Attempt   int       `json:"attempt"`
	State     State     `json:"state"`
	Isolation string    `json:"isolation"`
	Shim      Identity  `json:"shim"`
	StartedAt time.Time `json:"started_at"`
	// Devices are the run's own.
	Devices []string `json:"devices,omitempty"`
	// Spare is the run id that the child was started with, where that was not
	// this run's.
	Spare string `json:"spare,omitempty"`
}

// Exit is exit.json: how the run ended, for the case that the spool could not
// take the last record.
type Exit struct {
	V        int               `json:"v"`
	RunID    string            `json:"run_id"`
	Attempt  int               `json:"attempt"`
	TS       time.Time         `json:"ts"`
	Finished protocol.Finished `json:"finished"`
}

// ExitBytes is the room that is kept on disk for exit.json.
const ExitBytes = 16 << 10

// WriteNote writes the note into shim.json. It is written once in a shim's
// life, in one piece: until then the file is missing or empty, which says the
// same.
func WriteNote(f *os.File, n Note) error {
	n.V = Version
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("write %s: %w", NoteFile, err)
	}
	if _, err := f.WriteAt(append(b, '\n'), 0); err != nil {
		return fmt.Errorf("write %s: %w", NoteFile, err)
	}
	return nil
}

// ReadNote reads dir's shim.json; false when there is none.
func ReadNote(dir string) (Note, bool, error) {
	var n Note
	ok, err := readDocument(filepath.Join(dir, NoteFile), &n)
	if err == nil && ok && n.V > Version {
		return n, true, fmt.Errorf("read %s: version %d is newer than this release", NoteFile, n.V)
	}
	return n, ok, err
}

// ReadExit reads dir's exit.json; false when there is none.
func ReadExit(dir string) (Exit, bool, error) {
	var e Exit
	ok, err := readDocument(filepath.Join(dir, ExitFile), &e)
	if err == nil && ok && e.V > Version {
		return e, true, fmt.Errorf("read %s: version %d is newer than this release", ExitFile, e.V)
	}
	return e, ok, err
}

func readDocument(path string, into any) (bool, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}

// PrepareExit takes the room of exit.json on disk, so that a full disk can't
// lose how the run ended.
func PrepareExit(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, ExitDraft), make([]byte, ExitBytes), 0o600); err != nil {
		return fmt.Errorf("prepare %s: %w", ExitFile, err)
	}
	return nil
}

// WriteExit writes exit.json into the room that PrepareExit took. What makes
// it too long is cut: the output's tail, then the list of killed processes.
// durable asks for a sync to disk.
func WriteExit(dir string, e Exit, durable bool) error {
	e.V = Version
	b, err := encodeExit(e)
	if err != nil {
		return fmt.Errorf("write %s: %w", ExitFile, err)
	}
	draft := filepath.Join(dir, ExitDraft)
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", ExitFile, err)
	}
	_, err = f.WriteAt(b, 0)
	err = errors.Join(err, f.Truncate(int64(len(b))))
	if durable {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", ExitFile, err)
	}
	if err := os.Rename(draft, filepath.Join(dir, ExitFile)); err != nil {
		return fmt.Errorf("write %s: %w", ExitFile, err)
	}
	return nil
}

func encodeExit(e Exit) ([]byte, error) {
	for {
		b, err := json.Marshal(e)
		if err != nil || len(b) < ExitBytes {
			return append(b, '\n'), err
		}
		f := &e.Finished
		switch {
		case len(f.OutputTail) > 0:
			f.OutputTail = f.OutputTail[(len(f.OutputTail)+1)/2:]
		case len(f.Killed) > 0:
			f.Killed = f.Killed[:len(f.Killed)/2]
		case len(f.Error) > 1024:
			f.Error = f.Error[:1024]
		default:
			return append(b, '\n'), nil
		}
	}
}
