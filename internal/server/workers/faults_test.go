package workers_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/run"
)

// TestRandomFaultsLoseAndDoubleNothing cuts the link and restarts the control
// plane at random points of a run. Its worker keeps a spool, as agents do: what
// is not acknowledged is sent again from where the welcome says.
func TestRandomFaultsLoseAndDoubleNothing(t *testing.T) {
	const total = 200
	random := rand.New(rand.NewSource(7)) //nolint:gosec // a test that can be repeated
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	id := p.submit(on("box"))
	as := a.assigned(id)
	spool := []protocol.Record{started()}
	for i := range total {
		spool = append(spool, note(fmt.Sprintf("n%d", i)))
	}
	spool = append(spool, finished(run.Succeeded))
	tally := map[string]int{}
	for sent := 0; sent < len(spool); {
		n := min(1+random.Intn(40), len(spool)-sent)
		a.report(as, uint64(sent+1), spool[sent:sent+n]...) //nolint:gosec // small
		sent += n
		switch random.Intn(6) {
		case 0:
			tally["cut"]++
			a.cut()
		case 1:
			tally["restart"]++
			p.restart()
		case 2:
			tally["replaced"]++
		default:
			continue
		}
		a = p.dial(dialing{token: secret})
		a.send(hello("box", func(h *protocol.Hello) { h.HeldRuns = 1 }))
		w := take[*protocol.Welcome](a)
		for _, held := range w.Runs {
			sent = int(held.RecordedSeq) //nolint:gosec // small
		}
		if len(w.Runs) == 0 {
			// What the connection before had brought was still being stored when
			// the welcome before said how far it was.
			if v := p.view(id); v.Active {
				t.Fatalf("the control plane dropped the run after %d records: it is %s", sent, v.Status)
			}
			sent = len(spool)
		}
		alive := []protocol.AliveRun{{RunID: id, Attempt: 1, State: protocol.AliveRunning}}
		if len(w.Runs) == 0 {
			alive = nil // its end is acknowledged by now, or soon
		}
		a.send(&protocol.RunAlive{Runs: alive})
	}
	v := p.until(id, run.Succeeded)
	if v.Attempt != 1 {
		t.Errorf("attempt %d", v.Attempt)
	}
	var got []string
	for _, line := range p.log(id) {
		var n int
		if _, err := fmt.Sscanf(line, "run_warning n%d", &n); err == nil {
			got = append(got, fmt.Sprint(n))
		}
	}
	want := make([]string, total)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d of %d notes, or in another order: %v", len(got), total, got)
	}
	log := p.log(id)
	if ends := slices.DeleteFunc(slices.Clone(log), func(s string) bool { return s != run.EventExecutionComplete }); len(ends) != 1 || log[len(log)-1] != run.EventExecutionComplete {
		t.Errorf("terminal events %v", ends)
	}
	if len(p.svc.Board().DeviceStates("box")["cpu"].Holders) != 0 {
		t.Error("a slot is stuck")
	}
	t.Logf("survived %v", tally)
}
