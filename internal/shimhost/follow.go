package shimhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"cdui/internal/shim/proctree"
	"cdui/internal/shim/unixsock"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost/spawn"
)

// sendPatience is how long a message to a shim may take.
const sendPatience = 2 * time.Second

// link is one connection to a shim.
type link struct {
	mu   sync.Mutex
	conn *net.UnixConn
}

func (l *link) send(m wire.Message) error {
	b, err := wire.Encode(m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(sendPatience))
	if _, err := l.conn.Write(b); err != nil {
		// Half a message would garble the next one.
		l.conn.Close()
		return fmt.Errorf("send %s: %w", m.Op, err)
	}
	return nil
}

// follow keeps up with the shim in a goroutine that Close ends: over conn, or
// over a new connection where there is none, until the shim is dead.
func (r *Run) follow(conn *net.UnixConn, br *bufio.Reader) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancelFollow = cancel
	if conn != nil {
		r.link = &link{conn: conn}
	}
	go func() {
		defer close(r.done)
		defer cancel()
		r.keepUp(ctx, conn, br)
	}()
}

func (r *Run) keepUp(ctx context.Context, conn *net.UnixConn, br *bufio.Reader) {
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		if conn != nil {
			pause = time.Millisecond
			replaced := r.listen(ctx, conn, br)
			if replaced || ctx.Err() != nil {
				return
			}
		}
		held, err := spawn.Locked(r.dir)
		if err != nil {
			r.update(func() { r.failed = err })
			return
		}
		if !held {
			r.awaitGone()
			r.update(func() { r.dead, r.status.Dead = true, true })
			return
		}
		conn, err = unixsock.Dial(r.dir, wire.SocketFile)
		if err == nil {
			br = bufio.NewReader(conn)
			l := &link{conn: conn}
			r.update(func() { r.link = l })
			continue
		}
		conn = nil
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// listen takes what the shim says until the connection ends. It tells whether
// another host has taken over.
func (r *Run) listen(ctx context.Context, conn *net.UnixConn, br *bufio.Reader) (replaced bool) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		stop()
		conn.Close()
		r.update(func() { r.link = nil })
	}()
	for {
		m, err := wire.Read(br)
		if err != nil {
			return false
		}
		if m.Op == wire.OpRefused && m.Code == wire.CodeReplaced {
			r.update(func() { r.failed = ErrReplaced })
			return true
		}
		if m.Op == wire.OpHello && m.V > wire.Version {
			r.update(func() {
				r.failed = fmt.Errorf("its shim speaks version %d, this release knows %d", m.V, wire.Version)
			})
			return true
		}
		r.update(func() { r.status.take(m) })
	}
}

func (s *Status) take(m wire.Message) {
	switch m.Op {
	case wire.OpHello, wire.OpAppended:
		s.Seq, s.Console = max(s.Seq, m.Seq), max(s.Console, m.Console)
	case wire.OpImported:
		s.Torch = slices.Contains(m.Modules, "torch")
	case wire.OpStopping:
		if m.Deadline != nil {
			s.Stopping, s.StopReason = *m.Deadline, m.Reason
		}
	}
}

// awaitGone waits until a shim whose lock is free has really ended: the kernel
// frees the lock a moment before it has ended the processes of a namespace.
func (r *Run) awaitGone() {
	if r.shimPID > 0 {
		r.host.spawner.Reap(r.shimPID, 5*time.Second)
		return
	}
	note, ok, err := wire.ReadNote(r.dir)
	if err != nil || !ok {
		return
	}
	shim, err := proctree.Open(note.Shim)
	if err != nil {
		return
	}
	defer shim.Close()
	shim.Ended(5000)
}

// Cancel asks the run to stop within grace, or at once with force. It returns
// when the shim has been told; Status and the records show how it goes on. With
// force, a shim that does not react is killed, and the run with it.
func (r *Run) Cancel(ctx context.Context, grace time.Duration, force bool) error {
	told := r.tell(ctx, wire.Message{Op: wire.OpCancel, GraceMS: grace.Milliseconds(), Force: force})
	if !force || errors.Is(told, ErrEnded) || errors.Is(told, ErrReplaced) {
		return told
	}
	if told == nil && r.awaitStop(ctx, 3*time.Second) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.killShim()
}

// tell sends m, waiting a moment for a connection where there is none.
func (r *Run) tell(ctx context.Context, m wire.Message) error {
	patience := 5 * time.Second
	if m.Force {
		patience = time.Second
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		l, changed, dead, failed := r.link, r.changed, r.dead, r.failed
		r.mu.Unlock()
		switch {
		case dead:
			return fmt.Errorf("tell run %s: %w", r.id, ErrEnded)
		case failed != nil:
			return fmt.Errorf("tell run %s: %w", r.id, failed)
		case l != nil:
			if err := l.send(m); err == nil {
				return nil
			}
		}
		select {
		case <-changed:
		case <-timeout.C:
			return fmt.Errorf("tell run %s: its shim does not answer", r.id)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitStop waits until the shim says that it stops the run, or is gone.
func (r *Run) awaitStop(ctx context.Context, patience time.Duration) bool {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		changed, stops := r.changed, r.dead || !r.status.Stopping.IsZero()
		r.mu.Unlock()
		if stops {
			return true
		}
		select {
		case <-changed:
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// killShim kills a shim that does not react, by its whole identity: its pid
// alone may be a stranger's by now.
func (r *Run) killShim() error {
	note, ok, err := wire.ReadNote(r.dir)
	if err != nil || !ok {
		return fmt.Errorf("kill shim of run %s: it has left no note: %w", r.id, err)
	}
	shim, err := proctree.Open(note.Shim)
	if errors.Is(err, proctree.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill shim of run %s: %w", r.id, err)
	}
	defer shim.Close()
	if err := shim.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, proctree.ErrGone) {
		return fmt.Errorf("kill shim of run %s: %w", r.id, err)
	}
	return nil
}
