package e2e_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// line is how a proxy carries bytes, one way like the other.
type line struct {
	// Each piece takes delay and up to jitter more; it overtakes none.
	delay, jitter time.Duration
	// A second carries rate bytes in pieces of piece; 0 is no bound.
	rate, piece int
}

// proxy stands between a machine and the control plane.
type proxy struct {
	t    testing.TB
	line line
	to   string
	l    net.Listener
	wg   sync.WaitGroup
	done chan struct{}

	mu    sync.Mutex
	conns []net.Conn
	// open is closed while bytes go through.
	open chan struct{}
}

// through makes a machine call the control plane through a proxy.
func (b *box) through(l line) *proxy {
	t := b.w.t
	t.Helper()
	listener, err := net.Listen("tcp", hub+":0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, line: l, to: b.w.addr, l: listener, done: make(chan struct{}), open: make(chan struct{})}
	close(p.open)
	b.control = "http://" + listener.Addr().String()
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) accept() {
	for {
		here, err := p.l.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", p.to)
		if err != nil {
			here.Close() // as if nobody listened
			continue
		}
		p.mu.Lock()
		for _, c := range []net.Conn{here, there} {
			p.conns = append(p.conns, c)
			if p.line.rate > 0 {
				// What can't go on must wait with the sender.
				_ = c.(*net.TCPConn).SetReadBuffer(16 << 10)
				_ = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
			}
		}
		p.mu.Unlock()
		p.wg.Go(func() { p.carry(here, there) })
		p.wg.Go(func() { p.carry(there, here) })
	}
}

// carry takes bytes from one side to the other, and the end after them.
func (p *proxy) carry(from, to net.Conn) {
	type piece struct {
		due time.Time
		b   []byte
	}
	way := make(chan piece, 256)
	p.wg.Go(func() {
		defer func() {
			_ = to.(*net.TCPConn).CloseWrite()
			for range way { // nobody takes the rest
			}
		}()
		for x := range way {
			if !p.until(x.due) {
				return
			}
			if _, err := to.Write(x.b); err != nil {
				from.Close()
				return
			}
		}
	})
	defer close(way)
	last, size := time.Now(), 16<<10
	if p.line.piece > 0 {
		size = p.line.piece
	}
	for {
		buf := make([]byte, size)
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		due := time.Now().Add(p.line.delay)
		if p.line.jitter > 0 {
			due = due.Add(rand.N(p.line.jitter))
		}
		if p.line.rate > 0 {
			// A busy machine wakes us late, which is made up for; silence is not.
			if floor := time.Now().Add(-time.Second); last.Before(floor) {
				last = floor
			}
			last = last.Add(time.Duration(n) * time.Second / time.Duration(p.line.rate))
			if !p.until(last) {
				return
			}
		}
		if due.Before(last) {
			due = last
		}
		last = due
		way <- piece{due, buf[:n]}
	}
}

// until waits for a moment, and then for the proxy to let bytes through; false
// means that it is closed.
func (p *proxy) until(due time.Time) bool {
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.done:
		return false
	}
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
		return true
	case <-p.done:
		return false
	}
}

// stall keeps all that comes from now on, until it goes on.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

func (p *proxy) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.open)
}

func (p *proxy) close() {
	close(p.done)
	p.l.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// undisturbedSince makes sure that a worker kept its connection.
func (b *box) undisturbedSince(since time.Time) {
	b.w.t.Helper()
	if row := b.row(); row.State != api.WorkerOnline || !row.ConnectedAt.Equal(since) {
		b.w.t.Errorf("%s is %s, connected at %s, not %s", b.name, row.State, row.ConnectedAt, since)
	}
}

// P1, W-03, DSC-14: a line on which everything takes most of a second, now more
// and now less, is as good as any other.
func TestP1_ALineThatDelaysEverything(t *testing.T) {
	inWorld(t, 6*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		b.through(line{delay: 300 * time.Millisecond, jitter: 200 * time.Millisecond})
		b.enroll()
		since := *b.row().ConnectedAt
		tr := w.train(b, "counts", "0.1")
		folder := filepath.Join(shortTemp(t), "proj")
		program(t, folder)
		id := w.runIn(folder, "--worker", b.name, "train.py")
		w.succeeded(id)
		w.cameBack(t, id, string(w.rawLog(id)))
		loud := w.succeeded(w.run("--worker", b.name, "--no-files", "--", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' a"))
		if log := w.rawLog(loud.ID); len(log) != 3000000 || len(bytes.Trim(log, "a")) > 0 {
			t.Errorf("%d of 3000000 bytes, or others", len(log))
		}
		stopped := w.run("--worker", b.name, "--no-files", "--", "sleep", "1000")
		pid := w.running(stopped)
		w.cdui("cancel", stopped)
		if r := w.ended(stopped); r.Status != run.Cancelled || alive(pid) {
			t.Errorf("cancelled: %s, child alive %t", r.Status, alive(pid))
		}
		tr.goesOn()
		tr.finish()
		if warned := tr.warned(); len(warned) > 0 {
			t.Errorf("warned of %q", warned)
		}
		b.undisturbedSince(since)
	})
}

// P1, W-03: a line of some kilobytes a second is slow and not dead.
func TestP1_ALineThatTrickles(t *testing.T) { trickle(t, 100_000) }

// P1, P2, W-03: not even when one frame takes longer on it than three
// heartbeats may be away.
func TestP1_ALineThatTricklesForMinutes(t *testing.T) {
	soak(t)
	trickle(t, 1_000_000)
}

// trickle has a worker train, and execute what takes size bytes to say, at the
// end of a line of 20 kB a second.
func trickle(t *testing.T, size int) {
	inWorld(t, 14*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		b.through(line{rate: 20_000, piece: 200})
		b.enroll()
		since := *b.row().ConnectedAt
		tr := w.train(b, "counts", "0.2")
		args := []string{"--worker", b.name, "--no-files"}
		for i := range 10 {
			args = append(args, "--env", fmt.Sprintf("LONG_%d=%s", i, strings.Repeat("x", size/10)))
		}
		long := w.run(append(args, "--", "sh", "-c", "env | grep -c ^LONG_.=x")...)
		var r api.Run
		eventually(t, 10*time.Minute, "what takes long to say is done", func() bool { r = w.show(long); return !r.Active })
		if log := string(w.rawLog(long)); r.Status != run.Succeeded || r.Attempt != 1 || log != "10\n" {
			t.Errorf("%s %q, attempt %d, console %q", r.Status, r.Error, r.Attempt, log)
		}
		tr.goesOn()
		tr.finish()
		if warned := tr.warned(); len(warned) > 0 {
			t.Errorf("warned of %q", warned)
		}
		b.undisturbedSince(since)
	})
}

// P1, DSC-02, DSC-10, DSC-11: a line that holds everything back for longer than
// three heartbeats, and then brings all of it, is one disconnection.
func TestP1_ALineThatStalls(t *testing.T) {
	soak(t)
	inWorld(t, 6*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		p := b.through(line{})
		b.enroll()
		tr := w.train(b, "counts", "0.2")
		p.stall()
		over := time.NewTimer(45 * time.Second)
		eventually(t, time.Minute, "the run is out of sight", func() bool { return w.show(tr.id).Status == run.Disconnected })
		<-over.C
		p.goOn()
		b.online()
		eventually(t, time.Minute, "the run is back", func() bool { return w.show(tr.id).Status == run.Running })
		since := *b.row().ConnectedAt
		tr.goesOn()
		tr.finish()
		if warned := tr.warned(); !slices.Equal(warned, []string{protocol.CodeWorkerDisconnected, protocol.CodeWorkerReconnected}) {
			t.Errorf("warned of %q", warned)
		}
		b.undisturbedSince(since)
	})
}
