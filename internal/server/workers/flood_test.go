package workers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// TestAFloodOfOneRunDoesNotHoldUpAnother: DSC-15, W-03: sends many records of one run, within
// its credit, and finishes a quiet run of the same worker beside it.
func TestAFloodOfOneRunDoesNotHoldUpAnother(t *testing.T) {
	p := newPlane(t, nil)
	a := p.connect(p.enrolled("box"), "box", nil)
	loud := a.assigned(p.submit(on("box")))
	quiet := a.assigned(p.submit(on("box")))
	const batches, size = 15, 500
	points := json.RawMessage(`[{"name":"loss","value":0.5,"step":1}]`)
	seq := uint64(1)
	for range batches {
		list := make([]protocol.Record, size)
		for i := range list {
			list[i] = protocol.Record{Type: protocol.Metrics, Points: points}
		}
		a.report(loud, seq, list...)
		seq += size
		a.ackedTo(loud, seq-size/2) // a credit of 1,024 is never used up
	}
	a.report(quiet, 1, started(), finished(run.Succeeded))
	p.until(quiet.RunID, run.Succeeded)
	a.report(loud, seq, finished(run.Succeeded))
	p.until(loud.RunID, run.Succeeded)
	if got := len(p.log(loud.RunID)); got != batches*size+2 {
		t.Errorf("the loud run's log has %d events", got)
	}
}

// TestManyAgentsComeBackAtOnce drops 300 agents together and lets all of them
// back in.
func TestManyAgentsComeBackAtOnce(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 50
	}
	p := newPlane(t, nil)
	name := func(i int) string { return fmt.Sprintf("box-%d", i) }
	all := make([]*agent, n)
	online := func(want int) func() bool {
		return func() bool {
			up := 0
			for _, w := range p.reg.List(t.Context()) {
				if w.State == api.WorkerOnline {
					up++
				}
			}
			return up == want
		}
	}
	for round := range 2 {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { all[i] = p.connect(sessionToken, name(i), nil) })
		}
		wg.Wait()
		eventually(t, fmt.Sprintf("all online in round %d", round), online(n))
		for _, a := range all {
			a.cut()
		}
		eventually(t, "all away", online(0))
	}
}

// console answers fetch_log requests as an agent would, from a text.
func (a *agent) console(text []byte, stop <-chan struct{}) {
	for {
		a.mu.Lock()
		var f *protocol.FetchLog
		for i, frame := range a.frames {
			if got, ok := frame.(*protocol.FetchLog); ok {
				f = got
				a.frames = slices.Delete(a.frames, i, i+1)
				break
			}
		}
		a.mu.Unlock()
		if f != nil {
			a.answer(f, text)
			continue
		}
		timer := time.NewTimer(time.Millisecond)
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return
		}
	}
}

func (a *agent) answer(f *protocol.FetchLog, text []byte) {
	size := int64(len(text))
	if f.Index {
		a.send(&protocol.LogChunk{RequestID: f.RequestID, Size: size, Final: true, Marks: []protocol.LogMark{{Offset: 0, UnixMS: 1000}, {Offset: 5, UnixMS: 2000}}})
		return
	}
	off, left := f.Offset, f.Limit
	for off < size && left > 0 {
		n := min(int64(10), left, size-off)
		a.send(&protocol.LogChunk{RequestID: f.RequestID, Offset: off, Size: size, Data: text[off : off+n], Final: n == left})
		off, left = off+n, left-n
	}
	if left > 0 && !f.Follow {
		a.send(&protocol.LogChunk{RequestID: f.RequestID, Offset: off, Size: size, Final: true})
	}
}

func TestConsoleOutputComesOverTheConnection(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	as := a.assigned(p.submit(on("box")))
	text := []byte("epoch 1\nepoch 2\nepoch 3 \xff\n")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		a.console(text, stop)
	}()
	c := p.reg.Console(t.Context(), "box", as.RunID)
	if size, err := c.Size(); size != int64(len(text)) || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	buf := make([]byte, 100)
	if n, at, err := c.ReadAt(buf, 3); err != nil || at != 3 || !bytes.Equal(buf[:n], text[3:]) {
		t.Errorf("read %q at %d, %v", buf[:n], at, err)
	}
	if n, _, err := c.ReadAt(buf[:4], 0); err != nil || string(buf[:n]) != "epoc" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	if marks, err := c.Marks(0, 100, 10); err != nil || len(marks) != 2 || marks[1].Offset != 5 {
		t.Errorf("marks %v, %v", marks, err)
	}
	if err := c.Await(3, time.Second); err != nil {
		t.Errorf("await what is there: %v", err)
	}
	begun := time.Now()
	if err := c.Await(int64(len(text)), 50*time.Millisecond); err != nil || time.Since(begun) < 50*time.Millisecond {
		t.Errorf("await what doesn't come: %v", err)
	}
	close(stop)
	<-done
	a.cut()
	eventually(t, "away", func() bool { return !p.reg.Online("box") })
	if _, err := c.Size(); api.CodeOf(err) != api.Unavailable {
		t.Errorf("of a worker that is away: %v", err)
	}
}
