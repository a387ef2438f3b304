package shimhost

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/protocol"
	"cdui/internal/shim/unixsock"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost/spawn"
)

// sparePrefix begins the names of all spares' folders, and no run's id.
const sparePrefix = "spare-"

// ErrNoSpares is wrapped where a system can't hold spares.
var ErrNoSpares = errors.New("spares are not to be had on this system")

// Spare is a shim that this host keeps, with a child that was started ahead.
// It lives only as long as this process does.
type Spare struct {
	host *Host
	id   string
	pid  int
	conn *net.UnixConn
	// answer has what the shim said to an assignment.
	answer chan wire.Message
	ready  chan struct{}
	gone   chan struct{}

	mu      sync.Mutex
	dir     string
	modules []string
	paths   map[string]int64
	why     string
	given   bool
	br      *bufio.Reader
}

// ownSpares begins the names of this folder's spares: their processes are told
// by it from those of another folder.
func (h *Host) ownSpares() string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(h.dir)) // never fails
	return fmt.Sprintf("%s%08x-", sparePrefix, sum.Sum32())
}

func isSpare(id string) bool { return strings.HasPrefix(id, sparePrefix) }

// StartSpare starts a child ahead of its run; of a, how it is started counts.
// It is of use once Ready is closed.
func (h *Host) StartSpare(a protocol.Assignment, life time.Duration) (_ *Spare, err error) {
	if !sparesWork {
		return nil, ErrNoSpares
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime aborts instead
	id := h.ownSpares() + hex.EncodeToString(b[:])
	s := &Spare{
		host: h, id: id, dir: filepath.Join(h.dir, id),
		answer: make(chan wire.Message, 1), ready: make(chan struct{}), gone: make(chan struct{}),
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("start spare: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		if s.pid > 0 {
			h.spawner.Kill(s.pid)
		}
		err = errors.Join(fmt.Errorf("start spare: %w", err), removeFolder(s.dir))
	}()
	start := h.startArgs(s.dir, h.isolation)
	start.AssignWait = life
	if s.pid, err = h.spawn(start); err != nil {
		return nil, err
	}
	if s.conn, err = unixsock.Dial(s.dir, wire.SocketFile); err != nil {
		return nil, h.spawner.StartError(s.pid, err)
	}
	a.RunID, a.Dir = id, "/"
	if err = s.send(wire.Message{Op: wire.OpWarm, Assignment: &a}); err != nil {
		s.conn.Close()
		return nil, err
	}
	s.br = bufio.NewReaderSize(s.conn, 4<<10)
	go s.listen()
	return s, nil
}

func (s *Spare) send(m wire.Message) error {
	b, err := wire.Encode(m)
	if err != nil {
		return err
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(sendPatience))
	_, err = s.conn.Write(b)
	_ = s.conn.SetWriteDeadline(time.Time{})
	return err
}

// listen takes what the shim says until it has a run, or is gone.
func (s *Spare) listen() {
	defer close(s.gone)
	for {
		m, err := wire.Read(s.br)
		if err != nil {
			return
		}
		switch m.Op {
		case wire.OpReady:
			s.mu.Lock()
			s.modules, s.paths = m.Modules, m.Paths
			s.mu.Unlock()
			close(s.ready)
		case wire.OpAssigned:
			s.answer <- m
			return
		case wire.OpRefused:
			s.mu.Lock()
			s.why = m.Error
			given := s.given
			s.given = false
			s.mu.Unlock()
			if given {
				s.answer <- m
				return
			}
		}
	}
}

// ID is the spare's name.
func (s *Spare) ID() string { return s.id }

// Ready is closed once the spare can serve.
func (s *Spare) Ready() <-chan struct{} { return s.ready }

// Gone is closed when it is no spare any more: it has a run, or has ended.
func (s *Spare) Gone() <-chan struct{} { return s.gone }

// Why is what the shim said of its end.
func (s *Spare) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// Modules are the top-level modules that it has imported.
func (s *Spare) Modules() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modules
}

// Stale tells whether the environment of its interpreter has changed.
func (s *Spare) Stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, at := range s.paths {
		now := int64(0)
		if info, err := os.Stat(path); err == nil {
			now = info.ModTime().UnixNano()
		}
		if now != at {
			return true
		}
	}
	return false
}

// Assign makes the spare the run of a. When it returns an error, nothing of
// the run was started, the spare is gone and nothing is left behind.
func (s *Spare) Assign(ctx context.Context, a protocol.Assignment) (*Run, error) {
	r, err := s.assign(ctx, a)
	if err != nil {
		s.End()
		return nil, fmt.Errorf("start run %s from a spare: %w", a.RunID, err)
	}
	return r, nil
}

func (s *Spare) assign(ctx context.Context, a protocol.Assignment) (*Run, error) {
	h := s.host
	dir, err := h.runDir(a.RunID)
	if err != nil {
		return nil, err
	}
	free, err := h.claim(a.RunID)
	if err != nil {
		return nil, err
	}
	defer free()
	// The folder that is made here is the claim; the spare's takes its place.
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, ErrExists
		}
		return nil, err
	}
	s.mu.Lock()
	err = unix.Rename(s.dir, dir) // os.Rename takes no folder that is there
	if err == nil {
		s.dir, s.given = dir, true
	}
	s.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if err := s.send(wire.Message{Op: wire.OpAssign, Assignment: &a, Dir: dir}); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(assignPatience)
	defer timeout.Stop()
	select {
	case <-s.gone: // it says no more, or has said that it is no spare any more
	case <-timeout.C:
		return nil, errors.New("the shim does not answer")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case m := <-s.answer:
		if m.Op == wire.OpRefused {
			return nil, fmt.Errorf("the shim refused it: %s", m.Error)
		}
	default:
		return nil, errors.New("the spare is gone")
	}
	r := newRun(h, dir, a.RunID, a.Attempt, s.pid)
	r.devices = a.VisibleDevices
	r.follow(s.conn, s.br)
	return r, nil
}

// End ends the spare and waits until it is gone.
func (s *Spare) End() {
	// It lives as long as this connection.
	s.conn.Close()
	s.mu.Lock()
	dir := s.dir
	s.mu.Unlock()
	if !waitUnlocked(dir, 5*time.Second) {
		s.host.spawner.Kill(s.pid)
	}
	s.host.spawner.Reap(s.pid, 5*time.Second)
	sweep(func(id string) bool { return id == s.id })
	if err := removeFolder(dir); err != nil {
		s.host.log.Warn("clear folder of a spare", "spare", s.id, "error", err)
	}
}

// endSpares ends the spares of an earlier host, should any be left: they end by
// themselves when it does. Processes of spares that serve a run are the run's.
func (h *Host) endSpares(ids []string) {
	serving, sure := map[string]bool{}, true
	for _, id := range ids {
		dir := filepath.Join(h.dir, id)
		held, err := spawn.Locked(dir)
		if !isSpare(id) {
			if held || err != nil {
				n, noted, err := wire.ReadNote(dir)
				serving[n.Spare], sure = true, sure && noted && err == nil
			}
			continue
		}
		if err == nil && held && !stopWaiting(dir) {
			h.log.Warn("a spare of an earlier process does not end", "spare", id)
			continue
		}
		if err := removeFolder(dir); err != nil {
			h.log.Warn("clear folder of a spare", "spare", id, "error", err)
		}
	}
	if !sure {
		return // the processes may be of a run that just began
	}
	own := h.ownSpares()
	for id, list := range sweep(func(id string) bool { return strings.HasPrefix(id, own) && !serving[id] }) {
		h.log.Warn("processes of a spare were killed", "spare", id, "count", len(list))
	}
}
