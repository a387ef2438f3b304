package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"cdui/internal/run"
)

func TestRepeat(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	parse := func(text string) run.Options {
		o, err := run.ParseOptions(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	cases := []struct {
		name    string
		options string
		status  run.Status
		class   run.EndClass
		again   bool
	}{
		{"nobody asked", `{}`, run.Failed, run.EndUserCode, false},
		{"it failed", `{"retry":{"limit":1}}`, run.Failed, run.EndUserCode, true},
		{"its worker was lost", `{"retry":{"limit":1}}`, run.Interrupted, run.EndWorkerLost, true},
		{"it succeeded", `{"retry":{"limit":1}}`, run.Succeeded, "", false},
		{"it was cancelled", `{"retry":{"limit":1}}`, run.Cancelled, run.EndCancel, false},
		{"its graph is bad", `{"retry":{"limit":1}}`, run.Failed, run.EndBadGraph, false},
		{"its time was over", `{"retry":{"limit":1}}`, run.Failed, run.EndTimeout, false},
		{"its time was over, and that is asked for", `{"retry":{"limit":1,"on":["timeout"]}}`, run.Failed, run.EndTimeout, true},
		{"another end is asked for", `{"retry":{"limit":1,"on":["worker_lost"]}}`, run.Failed, run.EndUserCode, false},
	}
	for _, c := range cases {
		if _, again := parse(c.options).Repeat("a", c.status, c.class, now); again != c.again {
			t.Errorf("%s: repeated %v", c.name, again)
		}
	}
	o := parse(`{"retry":{"limit":3,"delay_s":30},"key":"k","hold":true}`)
	for n, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		next, again := o.Repeat([]string{"a", "b", "c"}[n], run.Failed, run.EndUserCode, now)
		if !again || next.Retry.Number != n+1 || next.Retry.Root != "a" || next.Retry.NotBefore.Sub(now) != pause || next.Key != "" || next.Hold {
			t.Fatalf("repetition %d: %+v, key %q, held %v", n+1, next.Retry, next.Key, next.Hold)
		}
		o = next
	}
	if _, again := o.Repeat("d", run.Failed, run.EndUserCode, now); again {
		t.Error("a fourth repetition of three")
	}
	if fresh := o.Fresh(); fresh.Retry.Number != 0 || fresh.Retry.Root != "" || fresh.Retry.NotBefore != nil || fresh.Retry.Limit != 3 {
		t.Errorf("a copy begins with %+v", fresh.Retry)
	}
}

// Proves MEM-06: an estimate that was too small is raised.
func TestAnEstimateIsRaisedAfterOutOfMemory(t *testing.T) {
	o, err := run.ParseOptions(json.RawMessage(`{"retry":{"limit":1},"target":{"worker":"b","memory_source":"estimate"}}`))
	if err != nil {
		t.Fatal(err)
	}
	o.Target.MemoryGiB = 4
	next, again := o.Repeat("a", run.Failed, run.EndOutOfMemory, time.Now())
	if !again || next.Target.MemoryGiB != 6 || !next.Target.Raised || o.Target.MemoryGiB != 4 {
		t.Errorf("repeated with %+v after %+v", next.Target, o.Target)
	}
	if fresh := next.Fresh().Target; fresh.Raised || fresh.MemoryGiB != 0 {
		t.Errorf("a copy begins with %+v", fresh)
	}
	for _, c := range []struct {
		peaks  []run.Peak
		gib    float64
		raised bool
	}{
		{nil, 0, false},
		{[]run.Peak{{MiB: 1000}, {MiB: 2000}}, 2.25, false},
		{[]run.Peak{{MiB: 2000}, {MiB: 2000, Class: run.EndOutOfMemory}}, 3, true},
		{[]run.Peak{{MiB: 4000}, {MiB: 2000, Class: run.EndOutOfMemory}}, 4.5, false},
	} {
		if gib, raised := run.Estimate(c.peaks); gib != c.gib || raised != c.raised {
			t.Errorf("%v: %v GiB, raised %v; want %v, %v", c.peaks, gib, raised, c.gib, c.raised)
		}
	}
}
