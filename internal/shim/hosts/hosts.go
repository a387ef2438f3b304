// Package hosts is the shim's side of its socket: it takes connections, brings the
// loop what they say, and writes to them without ever holding the loop up. Which
// host counts, and what a message means, is not its business.
package hosts

import (
	"bufio"
	"net"
	"sync"
	"time"

	"cdui/internal/shim/wire"
)

// Hosts takes connections on the shim's socket and brings the loop what they
// say.
type Hosts struct {
	ln *net.UnixListener
	// In brings what comes.
	In   chan Input
	quit chan struct{}
	wg   sync.WaitGroup

	mu   sync.Mutex
	open map[*Conn]struct{}
}

// Input is a new connection (no message), a message, or a loss (gone).
type Input struct {
	From *Conn
	Msg  *wire.Message
	Gone bool
}

// Accept takes every connection on ln until Close.
func Accept(ln *net.UnixListener) *Hosts {
	h := &Hosts{
		ln: ln, In: make(chan Input, 16), quit: make(chan struct{}),
		open: map[*Conn]struct{}{},
	}
	h.wg.Go(func() {
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			hc := newConn(c)
			h.mu.Lock()
			h.open[hc] = struct{}{}
			h.mu.Unlock()
			h.wg.Go(hc.write)
			h.wg.Go(func() { h.read(hc) })
		}
	})
	return h
}

func (h *Hosts) bring(in Input) bool {
	select {
	case h.In <- in:
		return true
	case <-h.quit:
		return false
	}
}

func (h *Hosts) read(hc *Conn) {
	defer func() {
		hc.Close()
		h.mu.Lock()
		delete(h.open, hc)
		h.mu.Unlock()
	}()
	if !h.bring(Input{From: hc}) {
		return
	}
	br := bufio.NewReaderSize(hc.c, 16<<10)
	for {
		m, err := wire.Read(br)
		if err != nil {
			h.bring(Input{From: hc, Gone: true})
			return
		}
		if !h.bring(Input{From: hc, Msg: &m}) {
			return
		}
	}
}

// Close ends every connection, once what waits for it has been written, and
// waits for the goroutines of h.
func (h *Hosts) Close() {
	close(h.quit)
	h.ln.Close()
	h.mu.Lock()
	for hc := range h.open {
		_ = hc.c.SetReadDeadline(time.Now())
	}
	h.mu.Unlock()
	h.wg.Wait()
}

// Conn writes to one host without ever holding up the loop: messages wait
// in a short queue, and of the nudges only the newest.
type Conn struct {
	c    *net.UnixConn
	wake chan struct{}

	mu     sync.Mutex
	queue  []wire.Message
	nudge  *wire.Message
	closed bool
}

// maxQueue is how many messages a host may leave unread before it is dropped.
const maxQueue = 64

func newConn(c *net.UnixConn) *Conn {
	return &Conn{c: c, wake: make(chan struct{}, 1)}
}

// Send queues m. A host that leaves too much unread is dropped.
func (hc *Conn) Send(m wire.Message) {
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

func (hc *Conn) signal() {
	select {
	case hc.wake <- struct{}{}:
	default:
	}
}

func (hc *Conn) take() (batch []wire.Message, closed bool) {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	batch = hc.queue
	if hc.nudge != nil {
		batch = append(batch, *hc.nudge)
	}
	hc.queue, hc.nudge = nil, nil
	return batch, hc.closed
}

func (hc *Conn) write() {
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

// Close ends the connection once what is queued has been written.
func (hc *Conn) Close() {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	hc.closed = true
	hc.signal()
}
