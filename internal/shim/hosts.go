package shim

import (
	"bufio"
	"net"
	"sync"
	"time"

	"cdui/internal/shim/wire"
)

// hosts takes connections on the shim's socket and brings the loop what they
// say.
type hosts struct {
	ln   *net.UnixListener
	in   chan hostInput
	quit chan struct{}
	wg   sync.WaitGroup

	mu   sync.Mutex
	open map[*hostConn]struct{}
}

// hostInput is a new connection (no message), a message, or a loss (gone).
type hostInput struct {
	from *hostConn
	msg  *wire.Message
	gone bool
}

func acceptHosts(ln *net.UnixListener) *hosts {
	h := &hosts{
		ln: ln, in: make(chan hostInput, 16), quit: make(chan struct{}),
		open: map[*hostConn]struct{}{},
	}
	h.wg.Go(func() {
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			hc := newHostConn(c)
			h.mu.Lock()
			h.open[hc] = struct{}{}
			h.mu.Unlock()
			h.wg.Go(hc.write)
			h.wg.Go(func() { h.read(hc) })
		}
	})
	return h
}

func (h *hosts) bring(in hostInput) bool {
	select {
	case h.in <- in:
		return true
	case <-h.quit:
		return false
	}
}

func (h *hosts) read(hc *hostConn) {
	defer func() {
		hc.close()
		h.mu.Lock()
		delete(h.open, hc)
		h.mu.Unlock()
	}()
	if !h.bring(hostInput{from: hc}) {
		return
	}
	br := bufio.NewReaderSize(hc.c, 16<<10)
	for {
		m, err := wire.Read(br)
		if err != nil {
			h.bring(hostInput{from: hc, gone: true})
			return
		}
		if !h.bring(hostInput{from: hc, msg: &m}) {
			return
		}
	}
}

// close ends every connection, once what waits for it has been written, and
// waits for the goroutines of h.
func (h *hosts) close() {
	close(h.quit)
	h.ln.Close()
	h.mu.Lock()
	for hc := range h.open {
		_ = hc.c.SetReadDeadline(time.Now())
	}
	h.mu.Unlock()
	h.wg.Wait()
}

// hostConn writes to one host without ever holding up the loop: messages wait
// in a short queue, and of the nudges only the newest.
type hostConn struct {
	c    *net.UnixConn
	wake chan struct{}

	mu     sync.Mutex
	queue  []wire.Message
	nudge  *wire.Message
	closed bool
}

// maxQueue is how many messages a host may leave unread before it is dropped.
const maxQueue = 64

func newHostConn(c *net.UnixConn) *hostConn {
	return &hostConn{c: c, wake: make(chan struct{}, 1)}
}

func (hc *hostConn) send(m wire.Message) {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	if m.Op == wire.OpAppended {
		hc.nudge = &m
	} else {
		hc.queue = append(hc.queue, m)
	}
	if len(hc.queue) > maxQueue {
		hc.c.Close()
	}
	hc.signal()
}

func (hc *hostConn) signal() {
	select {
	case hc.wake <- struct{}{}:
	default:
	}
}

func (hc *hostConn) take() (batch []wire.Message, closed bool) {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	batch = hc.queue
	if hc.nudge != nil {
		batch = append(batch, *hc.nudge)
	}
	hc.queue, hc.nudge = nil, nil
	return batch, hc.closed
}

func (hc *hostConn) write() {
	defer hc.c.Close()
	for range hc.wake {
		batch, closed := hc.take()
		for _, m := range batch {
			b, err := wire.Encode(m)
			if err != nil {
				continue
			}
			_ = hc.c.SetWriteDeadline(time.Now().Add(5 * time.Second))
			if _, err := hc.c.Write(b); err != nil {
				return
			}
		}
		if closed {
			return
		}
	}
}

// close ends the connection once what is queued has been written.
func (hc *hostConn) close() {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	hc.closed = true
	hc.signal()
}
