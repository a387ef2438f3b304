package runs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/runs"
	"cdui/internal/store"
)

// fullDisk is a store that can't be written while full is set.
type fullDisk struct {
	runs.Store
	full atomic.Bool
}

func (f *fullDisk) Apply(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	if f.full.Load() {
		return nil, fmt.Errorf("write: %w", store.ErrFull)
	}
	return f.Store.Apply(ctx, changes...)
}

func withFullDisk(w *world) *fullDisk {
	f := &fullDisk{}
	w.wrap = func(s runs.Store) runs.Store { f.Store = s; return f }
	w.restart()
	return f
}

// W-04: what is not on disk is not acknowledged.
func TestAFullDiskRefusesSubmitsAndLosesNothing(t *testing.T) {
	w := newWorld(t)
	disk := withFullDisk(w)
	ctx := context.Background()
	running, queued := w.submit(map[string]any{"device": "cuda:0"}), w.submit(map[string]any{"device": "cuda:0"})
	w.untilStarted(running)
	disk.full.Store(true)

	if _, err := w.svc.Submit(ctx, "", command(nil)); !errors.Is(err, store.ErrFull) {
		t.Errorf("submit: %v", err)
	}
	if _, err := w.svc.Cancel(ctx, queued, -1, false); !errors.Is(err, store.ErrFull) {
		t.Errorf("cancel of a waiting run: %v", err)
	}
	if v := w.view(queued); v.Status != run.Queued || v.QueuePosition == nil {
		t.Errorf("the waiting run lost its place: %+v", v)
	}
	if _, err := w.svc.Hold(ctx, queued); !errors.Is(err, store.ErrFull) {
		t.Errorf("hold: %v", err)
	}
	if v := w.view(queued); v.Options.Hold || v.QueuePosition == nil {
		t.Errorf("the hold was half done: %+v", v)
	}
	// A running run can still be stopped.
	if reply, err := w.svc.Cancel(ctx, running, time.Second, false); err != nil || !reply.Cancelled {
		t.Errorf("cancel of a running run: %+v, %v", reply, err)
	}
	records := []protocol.Record{
		{Seq: 1, Type: protocol.RunStarted, TS: time.Now(), Started: &protocol.Started{PID: 9}},
		{Seq: 2, Type: protocol.Warning, TS: time.Now(), Kind: "x"},
		{Seq: 3, Type: protocol.RunFinished, TS: time.Now(), Finished: &protocol.Finished{Status: string(run.Succeeded)}},
	}
	for range 3 {
		if err := w.exec.sink.Record(ctx, running, 1, records); err == nil {
			t.Fatal("records were acknowledged on a full disk")
		}
	}
	disk.full.Store(false)
	if err := w.exec.sink.Record(ctx, running, 1, records); err != nil {
		t.Fatal(err)
	}
	if got := w.events(running); !slices.Equal(got, []string{run.EventExecutionStart, run.EventRunWarning, run.EventExecutionComplete}) {
		t.Errorf("events %v", got)
	}
	w.untilStarted(queued)
	w.exec.finish(t, queued, run.Succeeded)
	if w.used("cuda:0") != 0 {
		t.Error("a slot stuck")
	}
}

func TestAPlacementWaitsOutAFullDisk(t *testing.T) {
	w := newWorld(t)
	disk := withFullDisk(w)
	blocker := w.submit(map[string]any{"device": "cuda:0"})
	w.untilStarted(blocker)
	id := w.submit(map[string]any{"device": "cuda:0"})
	w.exec.send(t, blocker, protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 1}})
	disk.full.Store(true)
	done := make(chan error, 1)
	go func() {
		done <- w.exec.sink.Record(context.Background(), blocker, 1, []protocol.Record{
			{Seq: 2, Type: protocol.RunFinished, TS: time.Now(), Finished: &protocol.Finished{Status: string(run.Succeeded)}},
		})
	}()
	if err := <-done; err == nil {
		t.Fatal("the end was acknowledged on a full disk")
	}
	if _, ok := w.exec.job(id); ok {
		t.Fatal("a run was started that is not written down as started")
	}
	disk.full.Store(false)
	w.untilStarted(id)
}

// Any mix of submits, cancels, reports and restarts keeps every slot within its
// cap, every log gapless with one terminal event, and no run behind for ever.
// Proves, D.4.
func TestAnyHistoryIsSound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		defer w.stop()
		ctx := context.Background()
		ids := []string{}
		steps := rapid.IntRange(1, 25).Draw(rt, "steps")
		for range steps {
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0, 1:
				options := map[string]any{"device": rapid.SampledFrom([]string{"cpu", "cuda:0", "cuda:1"}).Draw(rt, "device")}
				if rapid.Bool().Draw(rt, "set") {
					options["target"] = map[string]any{"devices": []string{"cuda:0", "cuda:1"}}
				}
				if rapid.IntRange(0, 5).Draw(rt, "hold") == 0 {
					options["hold"] = true
				}
				ids = append(ids, w.submit(options))
			case 2:
				if len(ids) > 0 {
					if _, err := w.svc.Cancel(ctx, rapid.SampledFrom(ids).Draw(rt, "cancel"), 0, false); err != nil {
						rt.Fatal(err)
					}
				}
			case 3, 4:
				w.finishOne(t, rt, ids)
			case 5:
				w.restart()
			case 6:
				if len(ids) > 0 {
					_, _ = w.svc.Release(ctx, rapid.SampledFrom(ids).Draw(rt, "release"))
				}
			}
			for d, slot := range w.svc.Board().DeviceStates(scheduler.Local) {
				if len(slot.Holders) > slot.Limit {
					rt.Fatalf("%s holds %v, its cap is %d", d, slot.Holders, slot.Limit)
				}
			}
		}
		for _, id := range ids {
			_, _ = w.svc.Release(ctx, id)
		}
		for range 2*len(ids) + 1 {
			if !w.finishOne(t, rt, ids) {
				break
			}
		}
		for _, id := range ids {
			if v := w.view(id); v.Active {
				rt.Fatalf("run %s is %s for ever: %s", id, v.Status, v.QueueReason)
			}
		}
		for d, slot := range w.svc.Board().DeviceStates(scheduler.Local) {
			if len(slot.Holders) > 0 {
				rt.Fatalf("%s still holds %v", d, slot.Holders)
			}
		}
		report, err := w.st.Check(ctx)
		if err != nil || len(report.Findings) > 0 {
			rt.Fatalf("%v, %v", report.Findings, err)
		}
	})
}

// finishOne ends one executing run, if there is one or is about to be.
func (w *world) finishOne(t *testing.T, rt *rapid.T, ids []string) bool {
	for _, id := range ids {
		if v := w.view(id); v.Status.Terminal() || v.QueueReasonCode != "" {
			continue
		}
		w.untilStarted(id)
		w.exec.finish(t, id, rapid.SampledFrom([]run.Status{run.Succeeded, run.Failed, run.Cancelled}).Draw(rt, "end"))
		return true
	}
	return false
}
