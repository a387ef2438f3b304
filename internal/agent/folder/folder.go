// Package folder is an agent's own folder, <data>/agent/<name>/: its lock, its
// worker token, what it knows of its enrollment, its control socket, and the
// folders of its runs.
//
// The lock says whether an agent of that name is at work, and nothing else
// does: two agents on one folder would both answer for the same runs.
package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/fsinfo"
)

const (
	lockFile  = "lock"
	tokenFile = "token"
	noteFile  = "agent.json"
	// SocketFile is where the agent answers cdui agent status and stop.
	SocketFile = "sock"
)

// ErrBusy is wrapped when another agent holds the folder.
var ErrBusy = errors.New("another agent holds the folder")

// Note is agent.json: the enrollment, and who holds the folder. It holds no
// secret; one-time tokens appear as their hash.
type Note struct {
	Name     string `json:"name"`
	WorkerID string `json:"worker_id,omitempty"`
	// Control is the address of the control plane, Pin its key where pinned,
	// CAFile the authorities where given.
	Control string `json:"control"`
	Pin     string `json:"pin,omitempty"`
	CAFile  string `json:"ca_file,omitempty"`
	// Tunnel is the file that names the end of the tunnel to it, where there is
	// one.
	Tunnel string `json:"tunnel,omitempty"`
	// EnrolledWith is the hash of the one-time token of the last enrollment, so
	// that a unit file that still names it can start the agent again.
	EnrolledWith string `json:"enrolled_with,omitempty"`
	PID          int    `json:"pid"`
	Version      string `json:"version"`
	// ResumeGraceS is how long the control plane keeps the runs of a worker
	// that is away, as it last said.
	ResumeGraceS int64 `json:"resume_grace_s,omitempty"`
}

// Folder is an agent's folder, locked.
type Folder struct {
	dir  string
	lock *os.File
}

// Path gives the folder of the agent of that name.
func Path(dataDir, name string) string { return filepath.Join(dataDir, "agent", name) }

// Open makes the folder and takes its lock.
func Open(dataDir, name string) (*Folder, error) {
	dir, err := filepath.Abs(Path(dataDir, name))
	if err != nil {
		return nil, fmt.Errorf("open agent folder: %w", err)
	}
	if kind, yes := fsinfo.Network(dir); yes {
		return nil, fmt.Errorf("the agent's folder %s lies on a network file system (%s), where locks and spools can't be trusted; choose a local one with --data or CDUI_HOME", dir, kind)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make agent folder: %w; choose another with --data or CDUI_HOME", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("guard agent folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock agent folder: %w", err)
	}
	if err := take(f); err != nil {
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock agent folder %s: %w", dir, err)
		}
		who := ""
		if n, err := ReadNote(dir); err == nil && n.PID > 0 {
			who = fmt.Sprintf(" (pid %d)", n.PID)
		}
		return nil, fmt.Errorf("%w: %s%s; stop it with cdui agent stop, or start this one under another --name", ErrBusy, dir, who)
	}
	return &Folder{dir: dir, lock: f}, nil
}

// take takes the lock. Who only looks whether it is held has it for a moment.
func take(f *os.File) error {
	for try := 0; ; try++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || try == 10 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Close lets go of the lock.
func (f *Folder) Close() error { return f.lock.Close() }

// Dir is the folder's path.
func (f *Folder) Dir() string { return f.dir }

// RunsDir holds the shims' folders.
func (f *Folder) RunsDir() string { return filepath.Join(f.dir, "agent-runs") }

// FilesDir holds what runs read and write here: their code, their checkpoints.
func (f *Folder) FilesDir(runID string) string { return filepath.Join(f.dir, "files", runID) }

// FilesOf lists the runs that have files here.
func (f *Folder) FilesOf() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(f.dir, "files"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list files of runs: %w", err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// Token reads the worker token; empty without one.
func (f *Folder) Token() (string, error) {
	b, err := os.ReadFile(filepath.Join(f.dir, tokenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read worker token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// KeepToken keeps the worker token for later starts.
func (f *Folder) KeepToken(token string) error {
	if err := replace(filepath.Join(f.dir, tokenFile), []byte(token+"\n")); err != nil {
		return fmt.Errorf("keep worker token: %w", err)
	}
	return nil
}

// Note reads agent.json; zero when there is none.
func (f *Folder) Note() (Note, error) { return ReadNote(f.dir) }

// KeepNote writes agent.json.
func (f *Folder) KeepNote(n Note) error {
	b, err := json.MarshalIndent(n, "", "  ")
	if err == nil {
		err = replace(filepath.Join(f.dir, noteFile), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", noteFile, err)
	}
	return nil
}

// ReadNote reads the agent.json of an agent folder.
func ReadNote(dir string) (Note, error) {
	var n Note
	b, err := os.ReadFile(filepath.Join(dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		return n, fmt.Errorf("read %s: %w", filepath.Join(dir, noteFile), err)
	}
	return n, nil
}

// replace writes a file of mode 0600 in one step that a crash can't halve.
func replace(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Held tells whether an agent of that name is at work.
func Held(dataDir, name string) (bool, error) {
	f, err := os.Open(filepath.Join(Path(dataDir, name), lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at agent folder: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at agent folder: %w", err)
	}
	return false, nil
}
