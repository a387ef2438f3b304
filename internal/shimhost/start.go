package shimhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/unixsock"
	"cdui/internal/shim/wire"
)

// assignPatience is how long a shim may take to note its assignment.
const assignPatience = 30 * time.Second

// startIn makes dir, starts a shim in it and hands it the assignment.
func (h *Host) startIn(ctx context.Context, dir, isolation string, a protocol.Assignment) (_ *Run, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, ErrExists
		}
		return nil, err
	}
	pid := 0
	defer func() {
		if err == nil {
			return
		}
		if pid > 0 {
			h.spawner.Kill(pid)
		}
		if rmErr := removeFolder(dir); rmErr != nil {
			err = errors.Join(err, rmErr)
		}
	}()
	if pid, err = h.spawn(h.startArgs(dir, isolation)); err != nil {
		return nil, err
	}
	conn, err := unixsock.Dial(dir, wire.SocketFile)
	if err != nil {
		return nil, h.spawner.StartError(pid, err)
	}
	br := bufio.NewReaderSize(conn, 4<<10)
	if err := handOver(ctx, conn, br, a); err != nil {
		conn.Close()
		return nil, h.spawner.StartError(pid, err)
	}
	r := newRun(h, dir, a.RunID, a.Attempt, pid)
	r.devices = a.VisibleDevices
	r.follow(conn, br)
	return r, nil
}

// handOver sends the assignment and waits until the shim has noted it.
func handOver(ctx context.Context, conn *net.UnixConn, br *bufio.Reader, a protocol.Assignment) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(assignPatience))
	b, err := wire.Encode(wire.Message{Op: wire.OpAssign, Assignment: &a})
	if err != nil {
		return err
	}
	if _, err := conn.Write(b); err != nil {
		return fmt.Errorf("send assignment: %w", errors.Join(ctx.Err(), err))
	}
	for {
		m, err := wire.Read(br)
		switch {
		case err != nil:
			return fmt.Errorf("hand over assignment: %w", errors.Join(ctx.Err(), err))
		case m.Op == wire.OpAssigned:
			if !stop() {
				return ctx.Err()
			}
			return conn.SetDeadline(time.Time{})
		case m.Op == wire.OpRefused:
			return fmt.Errorf("hand over assignment: the shim refused it: %s", m.Error)
		}
	}
}

// spawn starts a shim, in a scope of its own where there are any.
func (h *Host) spawn(start wire.Start) (int, error) {
	pid, err := h.spawner.Shim(start)
	if err == nil {
		h.apart(start.Dir, pid)
	}
	return pid, err
}
