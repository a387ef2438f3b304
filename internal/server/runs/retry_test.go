package runs_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fleet"
	"cdui/internal/server/runs/board"
	"cdui/internal/store"
)

func (w *world) repeats(id string) string {
	w.t.Helper()
	next, err := w.st.RetriedAs(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return next
}

// A run that fails is repeated by a run of its own, as often as it was asked
// for; those that wait for it wait for the last one.
func TestAFailedRunIsRepeated(t *testing.T) {
	w := newWorld(t)
	first := w.submit(map[string]any{"retry": map[string]any{"limit": 2, "delay_s": 0}, "priority": 3})
	w.untilStarted(first)
	after := w.submit(map[string]any{"after": []map[string]any{{"run": first}}})
	w.exec.finish(t, first, run.Failed)
	second := w.repeats(first)
	if second == "" {
		t.Fatal("it is not repeated")
	}
	w.untilStarted(second)
	row := w.view(second)
	if row.RetryOf != first || row.Options.Priority != 3 || row.Options.Retry.Number != 1 || row.RetryRoot() != first {
		t.Errorf("repeated as %+v of %s", row.Options.Retry, row.RetryOf)
	}
	var facts struct {
		As string `json:"retried_as"`
	}
	if err := json.Unmarshal(w.view(first).Facts, &facts); err != nil || facts.As != second {
		t.Errorf("the first one names %q, %v", facts.As, err)
	}
	w.restart()
	if v := w.view(after); v.QueueReasonCode != run.ReasonAfter || v.QueueReasonParams["run"] != second {
		t.Errorf("who waits for it says %v", v.QueueReason)
	}
	w.exec.finish(t, second, run.Failed)
	third := w.repeats(second)
	w.untilStarted(third)
	w.exec.finish(t, third, run.Succeeded)
	w.untilStarted(after)
	if next := w.repeats(third); next != "" {
		t.Errorf("one that succeeded is repeated as %s", next)
	}
}

func TestWhatIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	retry := map[string]any{"limit": 5, "delay_s": 0}
	cancelled := w.submit(map[string]any{"retry": retry})
	w.untilStarted(cancelled)
	if _, err := w.svc.Cancel(context.Background(), cancelled, -1, false); err != nil {
		t.Fatal(err)
	}
	w.exec.finish(t, cancelled, run.Failed) // it failed while it was being stopped
	other := w.submit(map[string]any{"retry": map[string]any{"limit": 5, "on": []string{"worker_lost"}}})
	w.untilStarted(other)
	w.exec.finish(t, other, run.Failed)
	for _, id := range []string{cancelled, other} {
		if next := w.repeats(id); next != "" {
			t.Errorf("%s is repeated as %s", w.view(id).Status, next)
		}
	}
}

// The pause before a repetition holds across a restart, and release ends it.
func TestARepetitionWaitsForItsPause(t *testing.T) {
	w := newWorld(t)
	first := w.submit(map[string]any{"retry": map[string]any{"limit": 1, "delay_s": 3600}})
	w.untilStarted(first)
	w.exec.finish(t, first, run.Failed)
	second := w.repeats(first)
	w.restart()
	v := w.view(second)
	if v.Status != run.Queued || v.QueueReasonCode != run.ReasonBackoff || !strings.HasPrefix(v.QueueReason, "repeats "+run.Short(first)+" (1 of 1) at ") {
		t.Fatalf("%s: %s", v.Status, v.QueueReason)
	}
	if _, err := w.svc.Release(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	w.untilStarted(second)

	soon := w.submit(map[string]any{"retry": map[string]any{"limit": 1, "delay_s": 0.05}})
	w.untilStarted(soon)
	w.exec.finish(t, soon, run.Failed)
	w.untilStarted(w.repeats(soon))
}

// A higher priority goes first in its line; a held key waits as a whole.
func TestPriorityAndHeldKeys(t *testing.T) {
	w := newWorld(t)
	busy := w.submit(map[string]any{"device": "cuda:0"})
	w.untilStarted(busy)
	low, high := w.submit(map[string]any{"device": "cuda:0"}), w.submit(map[string]any{"device": "cuda:0", "priority": 1})
	if v := w.view(high); *v.QueuePosition != 1 || *w.view(low).QueuePosition != 2 {
		t.Errorf("the higher one stands at %d", *v.QueuePosition)
	}
	w.svc.Board().HoldKey("cuda:0", run.KeyHeld("cuda:0", "lunch"))
	w.exec.finish(t, busy, run.Succeeded)
	if v := w.view(high); v.QueueReason != "the queue cuda:0 is held: lunch" {
		t.Errorf("held: %s", v.QueueReason)
	}
	other := w.submit(map[string]any{"device": "cuda:1"})
	w.untilStarted(other)
	w.svc.Board().ReleaseKey("cuda:0")
	w.untilStarted(high)
	if _, started := w.exec.job(low); started {
		t.Error("both run on one card")
	}
}

func ptr[T any](v T) *T { return &v }

func sharedBox(w *world, used ...device.Process) {
	free := int64(10000)
	for _, p := range used {
		free -= *p.MemoryMiB
	}
	w.svc.Board().SetWorker("box", board.Worker{Machine: fleet.Machine{Connected: true, Inventory: device.Inventory{{
		Device: "cuda:0", Kind: "cuda", UUID: ptr("A"), MemoryTotalMiB: ptr(int64(10000)), MemoryFreeMiB: &free, Processes: used,
	}}}})
}

// Proves MEM-01, MEM-02, MEM-06, Q-02, Q-04, RSN-01, RSN-03, RSN-04, S2: budgets are let in side by side; one
// that doesn't fit starts once an outsider frees the memory, with no other event.
func TestSharedCardsLetBudgetsIn(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetPolicy(scheduler.Slot{Worker: "box", Device: "cuda:0"}, fleet.Policy{Shared: true})
	sharedBox(w)
	on := func(gib float64) map[string]any {
		return map[string]any{"target": map[string]any{"worker": "box", "memory_gib": gib}, "device": "cuda:0"}
	}
	a, b := w.submit(on(3)), w.submit(on(3))
	w.untilAway(a)
	w.untilAway(b)
	c := w.submit(on(4))
	if v := w.view(c); v.QueueReasonCode != run.ReasonMemoryWait || v.QueueReasonParams["asked_mib"] != int64(4608) || v.QueueReasonParams["room_mib"] != int64(2832) {
		t.Errorf("%v %v", v.QueueReason, v.QueueReasonParams)
	}
	w.away.finish(t, a, run.Succeeded)
	w.untilAway(c)
	w.away.finish(t, b, run.Succeeded)
	w.away.finish(t, c, run.Succeeded)

	sharedBox(w, device.Process{PID: 7, User: ptr("alice"), MemoryMiB: ptr(int64(8000))})
	d := w.submit(on(4))
	if v := w.view(d); v.QueueReasonCode != run.ReasonMemoryWait {
		t.Fatalf("beside an outsider: %s %s", v.Status, v.QueueReason)
	}
	sharedBox(w)
	w.untilAway(d)
	bare := w.submit(map[string]any{"target": map[string]any{"worker": "box"}, "device": "cuda:0"})
	if v := w.view(bare); v.QueueReasonCode != run.ReasonMemoryNoBudget {
		t.Errorf("without a budget: %s", v.QueueReason)
	}
	w.away.finish(t, d, run.Succeeded)
	w.untilAway(bare)
}

// Proves MEM-06: estimates come from earlier runs of the same program and are
// raised after one ran out of memory.
func TestEstimatesComeFromEarlierRuns(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetPolicy(scheduler.Slot{Worker: "box", Device: "cuda:0"}, fleet.Policy{Shared: true})
	sharedBox(w)
	on := map[string]any{
		"target": map[string]any{"worker": "box", "memory_source": "estimate"}, "device": "cuda:0",
		"retry": map[string]any{"limit": 1, "delay_s": 0},
	}
	finish := func(id string, f protocol.Finished) {
		code := 0
		f.Exit.Code = &code
		w.away.send(t, id, protocol.Record{Type: protocol.RunFinished, Finished: &f})
	}
	first := w.submit(on)
	w.untilAway(first)
	if v := w.view(first); v.Options.Target.MemoryGiB != 0 {
		t.Errorf("with nothing to go by it is estimated at %v GiB", v.Options.Target.MemoryGiB)
	}
	finish(first, protocol.Finished{Status: "succeeded", PeakMemory: map[string]protocol.PeakMemory{"cuda:0": {MiB: 2000, Exact: true}}})
	second := w.submit(on)
	w.untilAway(second)
	if v := w.view(second); v.Options.Target.MemoryGiB != 2.25 {
		t.Errorf("estimated at %v GiB", v.Options.Target.MemoryGiB)
	}
	finish(second, protocol.Finished{Status: "failed", EndClass: string(run.EndOutOfMemory)})
	third := w.repeats(second)
	w.untilAway(third)
	if v := w.view(third); v.Options.Target.MemoryGiB != 3.375 || !v.Options.Target.Raised {
		t.Errorf("repeated with %+v", v.Options.Target)
	}
	holder := w.submit(map[string]any{"target": map[string]any{"worker": "box", "memory_gib": 4.5}, "device": "cuda:0"})
	w.untilAway(holder)
	if v := w.view(w.submit(on)); v.QueueReasonCode != run.ReasonBudgetRaised {
		t.Errorf("the next one: %s %s", v.Status, v.QueueReason)
	}
}

// Proves TGT-02: a run that may not wait is refused when it could not start,
// and nothing of it is left.
func TestARunThatMayNotWait(t *testing.T) {
	w := newWorld(t)
	now := map[string]any{"target": map[string]any{"devices": []string{"cuda:0"}, "wait": false}}
	first := w.submit(now)
	w.untilStarted(first)
	_, err := w.svc.Submit(context.Background(), "", command(nil), command(map[string]any{"target": now["target"]}))
	if err == nil || !strings.Contains(err.Error(), "runs[1]: it could not start now: cuda:0 is busy with "+run.Short(first)) {
		t.Fatalf("refused with %v", err)
	}
	rows, err := w.st.Active(context.Background())
	if err != nil || len(rows) != 1 || w.used("cpu") != 0 {
		t.Errorf("%d runs are there, %d hold the cpu, %v", len(rows), w.used("cpu"), err)
	}
	w.exec.finish(t, first, run.Succeeded)
	w.untilStarted(w.submit(now))
}

// S1: what is set aside says why, and what stands behind it starts.
func TestWhatIsSetAsideHoldsNobodyUp(t *testing.T) {
	w := newWorld(t)
	big := board.Worker{Machine: fleet.Machine{Connected: true, Inventory: device.Inventory{{
		Device: "cuda:0", Kind: "cuda", UUID: ptr("B"), MemoryTotalMiB: ptr(int64(80000)), MemoryFreeMiB: ptr(int64(80000)),
	}}}}
	w.svc.Board().SetWorker("big", big)
	w.svc.Board().SetPolicy(scheduler.Slot{Worker: "box", Device: "cuda:0"}, fleet.Policy{Shared: true})
	sharedBox(w)
	busy := w.submit(map[string]any{"target": map[string]any{"worker": "big"}, "device": "cuda:0"})
	w.untilAway(busy)
	any70 := map[string]any{"target": map[string]any{"worker": "any", "memory_gib": 60}, "device": "cuda"}
	requests := make([]api.SubmitRequest, 600)
	for i := range requests {
		requests[i] = command(map[string]any{"target": any70["target"], "device": "cuda"})
	}
	replies, err := w.svc.Submit(context.Background(), "", requests...)
	if err != nil {
		t.Fatal(err)
	}
	if v := w.view(replies[0].RunID); v.QueueReasonCode != run.ReasonSlotBusy {
		t.Errorf("while the card is there they say %s", v.QueueReasonCode)
	}
	big.Connected = false
	w.svc.Board().SetWorker("big", big)
	small := w.submit(map[string]any{"target": map[string]any{"worker": "any", "memory_gib": 1}, "device": "cuda"})
	w.untilAway(small)
	w.untilStarted(w.submit(map[string]any{"device": "cuda:0"}))
	for _, n := range []int{0, 1, 599} {
		v := w.view(replies[n].RunID)
		if v.QueueReasonCode != run.ReasonMemoryWait || *v.QueuePosition != n+1 {
			t.Errorf("number %d says %s at %d", n+1, v.QueueReasonCode, *v.QueuePosition)
		}
	}
	big.Connected = true
	w.svc.Board().SetWorker("big", big)
	w.away.finish(t, busy, run.Succeeded)
	w.untilAway(replies[0].RunID)
	w.away.finish(t, replies[0].RunID, run.Succeeded)
	w.untilAway(replies[1].RunID)
}

// A run that waits for a worker by name ends with it also when the control
// plane died before it could end the run.
func TestWhatWaitsForARemovedWorkerEndsAtTheNextStart(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	if err := w.st.AddEnrollment(ctx, store.Enrollment{TokenHash: "h", CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := w.st.Enroll(ctx, "h", "box", "t", store.WorkerFacts{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	w.svc.Board().SetWorker("box", board.Worker{})
	w.svc.Board().SetWorker("passing", board.Worker{})
	gone, other := w.submit(map[string]any{"target": map[string]any{"worker": "box"}}), w.submit(map[string]any{"target": map[string]any{"worker": "passing"}})
	if err := w.st.RemoveWorker(ctx, "box"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if v := w.view(gone); v.Status != run.Failed || v.Error != "worker box was removed" {
		t.Errorf("%s: %s", v.Status, v.Error)
	}
	if v := w.view(other); v.Status != run.Queued || v.QueueReasonCode != run.ReasonWorkerOffline {
		t.Errorf("one that may come back: %s %s", v.Status, v.QueueReasonCode)
	}
	if log := w.events(gone); !slices.Equal(log, []string{run.EventExecutionError}) {
		t.Errorf("its log is %v", log)
	}
}
