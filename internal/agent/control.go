package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cdui/internal/agent/folder"
	"cdui/internal/protocol"
	"cdui/internal/shim/unixsock"
	"cdui/internal/version"
	"cdui/internal/warm/stock"
)

// ErrNotRunning is wrapped when no agent of the name is at work.
var ErrNotRunning = errors.New("no agent is running")

// Status is what cdui agent status shows.
type Status struct {
	Name     string `json:"name"`
	WorkerID string `json:"worker_id"`
	Control  string `json:"control"`
	PID      int    `json:"pid"`
	Version  string `json:"version"`
	// Connected tells whether the control plane has welcomed this agent; Since
	// is when that changed, Problem why it is not so.
	Connected bool       `json:"connected"`
	Since     *time.Time `json:"since"`
	Refused   bool       `json:"refused"`
	Problem   string     `json:"problem,omitempty"`
	Draining  bool       `json:"draining"`
	Devices   []string   `json:"devices"`
	Isolation string     `json:"isolation"`
	Python    string     `json:"python,omitempty"`
	Torch     string     `json:"torch,omitempty"`
	// Spares are children that were started ahead of their runs.
	Spares []stock.Status `json:"spares"`
	// Runs are the runs that it has.
	Runs []protocol.AliveRun `json:"runs"`
}

// request is one line of the control socket.
type request struct {
	Op         string `json:"op"`
	CancelRuns bool   `json:"cancel_runs,omitempty"`
}

// reply answers it.
type reply struct {
	Status *Status `json:"status,omitempty"`
	// Left is how many runs go on without the agent.
	Left  int    `json:"left"`
	Error string `json:"error,omitempty"`
}

const (
	opStatus = "status"
	opStop   = "stop"
	// askTimeout is how long an agent may take to answer.
	askTimeout = 10 * time.Second
)

// control is the listening end of the agent's socket: its folder is its
// owner's alone.
type control struct {
	a  *agent
	ln *net.UnixListener
	wg sync.WaitGroup
}

func (a *agent) listen() (*control, error) {
	// The lock is ours, so nobody listens on a socket that is there.
	_ = os.Remove(filepath.Join(a.folder.Dir(), folder.SocketFile))
	ln, _, err := unixsock.Listen(a.folder.Dir(), folder.SocketFile)
	if err != nil {
		return nil, err
	}
	return &control{a: a, ln: ln}, nil
}

func (c *control) serve(ctx context.Context) {
	defer c.wg.Wait()
	for {
		conn, err := c.ln.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil || !pause(ctx, 100*time.Millisecond) {
				return
			}
			continue
		}
		c.wg.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(askTimeout))
			c.answer(ctx, conn)
		})
	}
}

func (c *control) close() { _ = c.ln.Close() }

func (c *control) answer(ctx context.Context, conn *net.UnixConn) {
	var req request
	if err := json.NewDecoder(conn).Decode(&req); err != nil {
		return
	}
	rep := reply{}
	switch req.Op {
	case opStatus:
		s := c.a.status()
		rep.Status = &s
	case opStop:
		if !req.CancelRuns {
			ids, _ := c.a.book.executing()
			rep.Left = len(ids)
		}
	default:
		rep.Error = fmt.Sprintf("unknown operation %q", req.Op)
	}
	// Who hung up does without.
	_ = json.NewEncoder(conn).Encode(rep)
	if req.Op != opStop {
		return
	}
	c.a.cfg.Logger.InfoContext(ctx, "told to stop", "cancel_runs", req.CancelRuns, "runs_left", rep.Left)
	if req.CancelRuns {
		c.a.cancelRuns()
	}
	c.a.stop(errStopped)
}

func (a *agent) status() Status {
	b := a.book
	a.mu.Lock()
	note := a.note
	a.mu.Unlock()
	s := Status{
		Name: a.cfg.Name, WorkerID: note.WorkerID, Control: a.cfg.Control, PID: os.Getpid(), Version: version.String(),
		Devices: a.devices.Inventory().Names(), Isolation: b.host.Isolation(),
		Python: a.facts.Python.Path, Torch: a.facts.Python.Torch, Spares: b.stock.Spares(), Runs: b.alive(),
	}
	_, s.Draining = b.executing()
	b.mu.Lock()
	defer b.mu.Unlock()
	d := a.door
	s.Connected, s.Refused = d.link.Up, d.link.Refusal != nil
	if !d.since.IsZero() {
		since := d.since.UTC().Truncate(time.Millisecond)
		s.Since = &since
	}
	if d.link.Err != nil {
		s.Problem = d.link.Err.Error()
	}
	return s
}

// List names the agents that have a folder in the data folder.
func List(dataDir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(folder.Path(dataDir, "x")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && protocol.ValidName(e.Name()) == nil {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Query asks the agent of that name how it stands. ErrNotRunning is wrapped
// when there is none.
func Query(ctx context.Context, dataDir, name string) (Status, error) {
	rep, err := ask(ctx, dataDir, name, request{Op: opStatus})
	if err != nil {
		return Status{}, err
	}
	if rep.Status == nil {
		return Status{}, fmt.Errorf("ask the agent %s: it does not know how it stands: %s", name, rep.Error)
	}
	return *rep.Status, nil
}

// Stop ends the agent of that name and waits until it has gone. Its runs go on
// unless they are cancelled; left tells how many do.
func Stop(ctx context.Context, dataDir, name string, cancelRuns bool) (left int, err error) {
	rep, err := ask(ctx, dataDir, name, request{Op: opStop, CancelRuns: cancelRuns})
	if err != nil {
		return 0, err
	}
	for {
		held, err := folder.Held(dataDir, name)
		if err != nil || !held {
			return rep.Left, err
		}
		if !pause(ctx, 20*time.Millisecond) {
			return rep.Left, fmt.Errorf("stop agent %s: it is still at work: %w", name, context.Cause(ctx))
		}
	}
}

func ask(ctx context.Context, dataDir, name string, req request) (reply, error) {
	var rep reply
	conn, err := unixsock.Dial(folder.Path(dataDir, name), folder.SocketFile)
	if err != nil {
		return rep, fmt.Errorf("%w under the name %s in %s; start one with cdui agent start", ErrNotRunning, name, dataDir)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(askTimeout))
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return rep, fmt.Errorf("ask the agent %s: %w", name, err)
	}
	if err := json.NewDecoder(conn).Decode(&rep); err != nil {
		return rep, fmt.Errorf("ask the agent %s: %w", name, err)
	}
	if rep.Error != "" {
		return rep, fmt.Errorf("ask the agent %s: %s", name, rep.Error)
	}
	return rep, nil
}

func userNodes(dataDir string) string { return filepath.Join(dataDir, "nodes") }
