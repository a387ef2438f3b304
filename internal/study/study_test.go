package study_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cdui/internal/run"
	"cdui/internal/study"
)

var t0 = time.Date(2026, 3, 4, 14, 0, 0, 0, time.UTC)

func spec(n int) study.Spec {
	return study.Spec{Repetitions: n, Seed: 7, Confidence: 0.95, MaxAttempts: 2}
}

// attempt makes one that began at second from and, when to isn't negative,
// ended at second to.
func attempt(number int, status run.Status, from, to int) study.Attempt {
	a := study.Attempt{Number: number, RunID: fmt.Sprint("r", number), Status: status}
	if from >= 0 {
		at := t0.Add(time.Duration(from) * time.Second)
		a.StartedAt = &at
	}
	if to >= 0 {
		at := t0.Add(time.Duration(to) * time.Second)
		a.FinishedAt = &at
	}
	return a
}

func with(a study.Attempt, change func(*study.Attempt)) study.Attempt {
	change(&a)
	return a
}

func TestSpecsThatMakeNoSense(t *testing.T) {
	if err := spec(5).Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*study.Spec){
		"repetitions":        func(s *study.Spec) { s.Repetitions = 0 },
		"seed":               func(s *study.Spec) { s.Seed = -1 },
		"confidence":         func(s *study.Spec) { s.Confidence = 1 },
		"max_attempts":       func(s *study.Spec) { s.MaxAttempts = 0 },
		"max_run_seconds":    func(s *study.Spec) { s.MaxRunSeconds = -1 },
		"max_active_seconds": func(s *study.Spec) { s.MaxActiveSeconds = 1e10 },
	} {
		s := spec(5)
		change(&s)
		if err := s.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// SW-02: each repetition has its own seed, derived and the same for all of its
// attempts; an attempt has one key.
func TestSeedsAndKeys(t *testing.T) {
	s := spec(3)
	s.Seed = 4294967294
	if got := []int64{s.SeedOf(0), s.SeedOf(1), s.SeedOf(2)}; !slices.Equal(got, []int64{4294967294, 4294967295, 0}) {
		t.Error(got)
	}
	if got := study.Key(strings.Repeat("a", 32), 999, 100); len(got) > run.MaxKeyChars || got != "study:"+strings.Repeat("a", 32)+":999:100" {
		t.Error(got)
	}
}

// Proves SW-02, SWP-09: lost attempts are repeated and not scored, up to a
// number; failed ones are not repeated; one that goes on counts.
func TestStepStartsWhatIsWanting(t *testing.T) {
	class := func(c run.EndClass) func(*study.Attempt) { return func(a *study.Attempt) { a.EndClass = c } }
	for name, c := range map[string]struct {
		attempts []study.Attempt
		outcome  study.Outcome
		start    int
	}{
		"new":                  {nil, study.Waiting, 1},
		"waits":                {[]study.Attempt{attempt(1, run.Queued, -1, -1)}, study.Going, 0},
		"runs":                 {[]study.Attempt{attempt(1, run.Running, 0, -1)}, study.Going, 0},
		"out of sight":         {[]study.Attempt{attempt(1, run.Disconnected, 0, -1)}, study.Going, 0},
		"scored":               {[]study.Attempt{attempt(1, run.Succeeded, 0, 1)}, study.Scored, 0},
		"failed":               {[]study.Attempt{with(attempt(1, run.Failed, 0, 1), class(run.EndUserCode))}, study.Failed, 0},
		"refused":              {[]study.Attempt{{Number: 1, Error: "no worker"}}, study.Failed, 0},
		"lost":                 {[]study.Attempt{attempt(1, run.Interrupted, 0, 1)}, study.Waiting, 2},
		"worker lost":          {[]study.Attempt{with(attempt(1, run.Failed, 0, 1), class(run.EndWorkerLost))}, study.Waiting, 2},
		"lost, then runs":      {[]study.Attempt{attempt(1, run.Interrupted, 0, 1), attempt(2, run.Running, 2, -1)}, study.Going, 0},
		"lost, then scored":    {[]study.Attempt{attempt(1, run.Interrupted, 0, 1), attempt(2, run.Succeeded, 2, 3)}, study.Scored, 0},
		"lost twice":           {[]study.Attempt{attempt(1, run.Interrupted, 0, 1), attempt(2, run.Interrupted, 2, 3)}, study.Lost, 0},
		"removed":              {[]study.Attempt{with(attempt(1, run.Running, 0, -1), func(a *study.Attempt) { a.Gone = true })}, study.Waiting, 2},
		"cancelled by hand":    {[]study.Attempt{attempt(1, run.Cancelled, 0, 1)}, study.Cancelled, 0},
		"ran too long":         {[]study.Attempt{with(attempt(1, run.Cancelled, 0, 1), func(a *study.Attempt) { a.Stopped = study.ByRunTime })}, study.OverTime, 0},
		"failed, now void":     {[]study.Attempt{with(attempt(1, run.Failed, 0, 1), func(a *study.Attempt) { a.Void = true })}, study.Waiting, 2},
		"void, then lost":      {[]study.Attempt{with(attempt(1, run.Interrupted, 0, 1), func(a *study.Attempt) { a.Void = true }), attempt(2, run.Interrupted, 2, 3)}, study.Waiting, 3},
		"stopped, interrupted": {[]study.Attempt{with(attempt(1, run.Interrupted, 0, 1), func(a *study.Attempt) { a.Stopped = study.ByCancel })}, study.Cancelled, 0},
	} {
		s := study.Situation{Spec: spec(1), Repetitions: [][]study.Attempt{c.attempts}, Now: t0.Add(time.Minute)}
		d := study.Step(s)
		if got := s.Spec.OutcomeOf(c.attempts, false); got != c.outcome {
			t.Errorf("%s: %s, want %s", name, got, c.outcome)
		}
		if c.start == 0 && len(d.Starts) > 0 || c.start > 0 && !slices.Equal(d.Starts, []study.Start{{0, c.start}}) {
			t.Errorf("%s: starts %v", name, d.Starts)
		}
		if done := c.outcome != study.Waiting && c.outcome != study.Going; d.Done != done || len(d.Cancel) > 0 || d.Stop != "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// Proves SWP-08, F.2: an attempt that executes too long is cancelled, and so are
// all when together they did.
func TestBudgets(t *testing.T) {
	s := study.Situation{Spec: spec(3), Now: t0.Add(10 * time.Second), Repetitions: [][]study.Attempt{
		{attempt(1, run.Running, 0, -1)}, {attempt(1, run.Running, 4, -1)}, {attempt(1, run.Queued, -1, -1)},
	}}
	s.Spec.MaxRunSeconds = 8
	d := study.Step(s)
	if !slices.Equal(d.Cancel, []study.Order{{0, 1, "r1", study.ByRunTime}}) || !d.Wake.Equal(t0.Add(12*time.Second)) || d.Stop != "" || d.Done {
		t.Errorf("%+v", d)
	}
	s.Repetitions[0][0].Asked = true
	if d = study.Step(s); len(d.Cancel) > 0 {
		t.Errorf("asked again: %+v", d)
	}

	s.Spec.MaxRunSeconds, s.Spec.MaxActiveSeconds = 0, 20
	if d = study.Step(s); len(d.Cancel) > 0 || d.Stop != "" || d.Wake.Before(t0.Add(12*time.Second)) || d.Wake.After(t0.Add(12100*time.Millisecond)) {
		t.Errorf("with 4 s left for two: %+v", d)
	}
	s.Now = t0.Add(12 * time.Second)
	d = study.Step(s)
	if d.Stop != study.ByActiveTime || len(d.Cancel) != 2 || d.Cancel[0].Repetition != 1 || d.Cancel[1].Repetition != 2 || len(d.Starts) > 0 {
		t.Errorf("%+v", d)
	}
	if got := s.ActiveTime(); got != 20*time.Second {
		t.Errorf("active %s", got)
	}
	// What is over can't be stopped.
	s.Repetitions = [][]study.Attempt{{attempt(1, run.Succeeded, 0, 60)}}
	if d = study.Step(s); d.Stop != "" || !d.Done {
		t.Errorf("%+v", d)
	}
}

func TestAStoppedStudyStartsNothing(t *testing.T) {
	s := study.Situation{Spec: spec(3), Now: t0.Add(time.Minute), Stopped: study.ByCancel, Repetitions: [][]study.Attempt{
		nil, {attempt(1, run.Interrupted, 0, 1)}, {attempt(1, run.Running, 0, -1)},
	}}
	d := study.Step(s)
	if len(d.Starts) > 0 || d.Done || !slices.Equal(d.Cancel, []study.Order{{2, 1, "r1", study.ByCancel}}) {
		t.Errorf("%+v", d)
	}
	s.Repetitions[2][0] = attempt(1, run.Cancelled, 0, 2)
	if d = study.Step(s); !d.Done {
		t.Errorf("%+v", d)
	}
}

// Proves SWP-09: a resume gives nothing to what is scored or goes on.
func TestWhoIsWanting(t *testing.T) {
	got := study.Wanting([][]study.Attempt{
		{attempt(1, run.Succeeded, 0, 1)},
		{attempt(1, run.Interrupted, 0, 1), attempt(2, run.Running, 2, -1)},
		{attempt(1, run.Failed, 0, 1)},
		{attempt(1, run.Cancelled, 0, 1)},
		nil,
		{attempt(1, run.Queued, -1, -1)},
		{attempt(1, run.Interrupted, 0, 1), attempt(2, run.Interrupted, 0, 1)},
	})
	if !slices.Equal(got, []int{2, 3, 4, 6}) {
		t.Error(got)
	}
}

// Whatever happens to its attempts, a study has at most one of a repetition at
// a time, none after a score, and comes to its end. SW-02, SWP-09.
func TestNoRepetitionRunsTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		s := study.Situation{Spec: spec(n), Repetitions: make([][]study.Attempt, n), Now: t0}
		s.Spec.MaxAttempts = rapid.IntRange(1, 3).Draw(t, "attempts")
		s.Spec.MaxActiveSeconds = float64(rapid.SampledFrom([]int{0, 50}).Draw(t, "budget"))
		s.Spec.MaxRunSeconds = float64(rapid.SampledFrom([]int{0, 20}).Draw(t, "limit"))
		resumes := rapid.IntRange(0, 2).Draw(t, "resumes")
		for range 500 {
			d := study.Step(s)
			if d.Stop != study.NotStopped {
				s.Stopped = d.Stop
			}
			for _, start := range d.Starts {
				for _, a := range s.Repetitions[start.Repetition] {
					if a.Active() || a.Scored() {
						t.Fatalf("repetition %d is run twice: %+v", start.Repetition, s.Repetitions[start.Repetition])
					}
				}
				if want := len(s.Repetitions[start.Repetition]) + 1; start.Attempt != want {
					t.Fatalf("attempt %d, want %d", start.Attempt, want)
				}
				s.Repetitions[start.Repetition] = append(s.Repetitions[start.Repetition], study.Attempt{Number: start.Attempt, RunID: "r", Status: run.Queued})
			}
			for _, o := range d.Cancel {
				a := &s.Repetitions[o.Repetition][o.Attempt-1]
				if !a.Active() || a.Asked {
					t.Fatalf("cancels %+v", *a)
				}
				a.Asked, a.Stopped = true, o.Why
			}
			if d.Done {
				for i, attempts := range s.Repetitions {
					if o := s.Spec.OutcomeOf(attempts, s.Stopped != ""); o == study.Waiting || o == study.Going {
						t.Fatalf("done, but repetition %d is %s: %+v", i, o, attempts)
					}
				}
				if resumes == 0 {
					return
				}
				resumes--
				for _, i := range study.Wanting(s.Repetitions) {
					for k := range s.Repetitions[i] {
						s.Repetitions[i][k].Void = true
					}
				}
				s.Stopped, s.Spec.MaxActiveSeconds = study.NotStopped, 0
				continue
			}
			s.Now = s.Now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "seconds")) * time.Second)
			for i := range s.Repetitions {
				for k := range s.Repetitions[i] {
					event(t, &s.Repetitions[i][k], s.Now)
				}
			}
		}
		t.Fatalf("it never ends: %+v", s)
	})
}

// event lets something happen to an attempt.
func event(t *rapid.T, a *study.Attempt, now time.Time) {
	if !a.Active() {
		return
	}
	ends := []run.Status{run.Succeeded, run.Failed, run.Interrupted}
	if a.Asked {
		ends = []run.Status{run.Cancelled, run.Succeeded, run.Interrupted}
	}
	switch rapid.IntRange(0, 4).Draw(t, "event") {
	case 0:
		if a.Status == run.Queued {
			a.Status, a.StartedAt = run.Running, &now
		}
	case 1:
		a.Status, a.FinishedAt = rapid.SampledFrom(ends).Draw(t, "end"), &now
	case 2:
		if a.StartedAt != nil {
			a.Status = rapid.SampledFrom([]run.Status{run.Running, run.Disconnected}).Draw(t, "link")
		}
	case 3:
		a.Gone = rapid.IntRange(0, 20).Draw(t, "gone") == 0
	}
}
