package tui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/client/live"
	"cdui/internal/run"
	"cdui/internal/study"
	"cdui/internal/sweep"
	"cdui/internal/tui"
	"cdui/internal/tui/ui"
)

// variantOf makes variant i of a sweep.
func variantOf(i int, status run.Status, params ...string) api.SweepVariant {
	v := api.SweepVariant{
		Index: i, RunID: fmt.Sprintf("%08x%024x", 0xabc00000+i, i), RunExists: true, Status: status, QueueKey: "box1/cuda:0",
	}
	for p := 0; p < len(params); p += 2 {
		v.Params = append(v.Params, api.SweepValue{Address: sweep.Address{Arg: params[p]}, Value: json.RawMessage(params[p+1])})
	}
	if status != run.Queued {
		v.WorkerID, v.Devices = "box1", []string{fmt.Sprintf("cuda:%d", i%2)}
	}
	return v
}

func summed(w api.Sweep) api.Sweep {
	w.Counts = map[run.Status]int{}
	for _, v := range w.Variants {
		w.Counts[v.Status]++
		if v.Rank != nil && *v.Rank == 1 {
			w.Best = &api.SweepBest{Index: v.Index, RunID: v.RunID, Objective: v.Objective}
		}
	}
	return w
}

// smallGroups is a sweep that goes on, one that failed in part, one with no
// result, a study that goes on and one that ended.
func smallGroups() ([]api.Sweep, []api.Study) {
	ranked := func(v api.SweepVariant, rank int, objective string) api.SweepVariant {
		v.Rank, v.Objective = &rank, json.RawMessage(objective)
		return v
	}
	first := variantOf(2, run.Running, "--lr", "0.003", "--width", "64", "--optimizer", `"adamw"`)
	first.RunID = idSweep
	broken := variantOf(4, run.Failed, "--lr", "0.3", "--width", "64", "--optimizer", `"sgd"`)
	broken.Error = "RuntimeError: loss is nan after 12 steps; lower the learning rate or clip gradients"
	warning := `no variant logged the metric "acc"; is it the name that the runs use?`
	domain := func(args ...string) (out []sweep.Domain) {
		for _, a := range args {
			out = append(out, sweep.Domain{Address: sweep.Address{Arg: a}})
		}
		return out
	}
	sweeps := []api.Sweep{
		summed(api.Sweep{
			SweepSummary: api.SweepSummary{
				SweepID: clitest.ID("51ee9000"), Name: "學習率 lr × width 🔍", User: "ada", State: sweep.Running, Method: "grid",
				Objective: sweep.Objective{Metric: "val_accuracy", Direction: sweep.Maximize}, CreatedAt: *ago(20 * time.Minute),
			},
			Params: domain("--lr", "--width", "--optimizer"), TotalCombinations: 6,
			Variants: []api.SweepVariant{
				ranked(variantOf(1, run.Succeeded, "--lr", "0.001", "--width", "64", "--optimizer", `"adamw"`), 1, "0.93125"),
				ranked(variantOf(0, run.Succeeded, "--lr", "0.0001", "--width", "64", "--optimizer", `"adamw"`), 2, "0.88"),
				first, variantOf(3, run.Queued, "--lr", "0.01", "--width", "128", "--optimizer", `"sgd"`), broken,
				variantOf(5, run.Cancelled, "--lr", "0.1", "--width", "128", "--optimizer", `"evil\u001b[31m"`),
			},
		}),
		summed(api.Sweep{
			SweepSummary: api.SweepSummary{
				SweepID: clitest.ID("0dd00000"), Name: "evil\x1b[31m\nname", State: sweep.Finished, Method: "random", ObjectiveWarning: &warning,
				Objective: sweep.Objective{Metric: "acc", Direction: sweep.Maximize}, CreatedAt: *ago(30 * time.Hour),
			},
			Params: domain("--lr"), Variants: []api.SweepVariant{variantOf(0, run.Succeeded, "--lr", "1")},
		}),
	}
	attempt := func(n int, prefix string, status run.Status) api.StudyAttempt {
		return api.StudyAttempt{
			Attempt: n, RunID: clitest.ID(prefix), RunExists: true, Status: status, WorkerID: "box2", Devices: []string{"cuda:0"}, QueueKey: "box2/cuda:0",
			StartedAt: ago(40 * time.Minute),
		}
	}
	lost := attempt(1, "a1", run.Interrupted)
	lost.Lost, lost.Error = true, "worker box2 was away for too long"
	last := func(acc, loss string) map[string]run.Last {
		return map[string]run.Last{"acc": {Value: json.RawMessage(acc)}, "loss": {Value: json.RawMessage(loss)}}
	}
	metrics := []study.Summary{
		{Name: "acc", N: 2, Mean: ptr(0.9125), SD: ptr(0.0125), CILow: ptr(0.8), CIHigh: ptr(0.99), Min: ptr(0.9), Max: ptr(0.925)},
		{Name: "loss", N: 2, Nonfinite: 1, Mean: ptr(0.31), SD: ptr(0.02), CILow: ptr(0.2), CIHigh: ptr(0.4), Min: ptr(0.3), Max: ptr(0.32)},
	}
	studies := []api.Study{
		{
			StudySummary: api.StudySummary{
				StudyID: clitest.ID("57d40000"), Name: "best of lr, 5 seeds", State: api.StudyRunning, Spec: study.Spec{Repetitions: 5, Confidence: 0.95},
				Counts: map[study.Outcome]int{study.Scored: 2, study.Going: 1, study.Waiting: 1, study.Failed: 1}, Metrics: metrics, CreatedAt: *ago(50 * time.Minute),
			},
			List: []api.StudyRepetition{
				{Index: 0, Seed: 7, Outcome: study.Scored, Attempts: []api.StudyAttempt{lost, attempt(2, "a2", run.Succeeded)}, Metrics: last("0.9", "0.3")},
				{Index: 1, Seed: 8, Outcome: study.Scored, Attempts: []api.StudyAttempt{attempt(1, "a3", run.Succeeded)}, Metrics: last("0.925", "0.32")},
				{Index: 2, Seed: 9, Outcome: study.Going, Attempts: []api.StudyAttempt{attempt(1, "a77e2100", run.Disconnected)}},
				{Index: 3, Seed: 10, Outcome: study.Failed, Attempts: []api.StudyAttempt{{Attempt: 1, Error: "no worker has the device cuda:9"}}},
				{Index: 4, Seed: 11, Outcome: study.Waiting},
			},
		},
		{StudySummary: api.StudySummary{
			StudyID: clitest.ID("57d50000"), Name: "old", State: api.StudyFinished, Stopped: study.ByActiveTime, Spec: study.Spec{Repetitions: 3, Confidence: 0.95},
			Counts: map[study.Outcome]int{study.Scored: 1, study.Cancelled: 2}, CreatedAt: *ago(70 * time.Hour),
		}},
	}
	return sweeps, studies
}

// hugeGroups is as many as a page holds, the newest of a thousand variants with
// a dozen params each.
func hugeGroups() ([]api.Sweep, []api.Study) {
	var sweeps []api.Sweep
	var studies []api.Study
	for i := range 200 {
		w := api.Sweep{SweepSummary: api.SweepSummary{
			SweepID: fmt.Sprintf("%08x%024x", uint32(i)*2654435761, i), Name: fmt.Sprintf("超參數搜尋 with a name that goes on and on #%d", i), User: "ada", State: sweep.Finished,
			Method: "random", Objective: sweep.Objective{Metric: "a/very/long/name/of/a/metric", Direction: sweep.Minimize},
			Counts: map[run.Status]int{run.Succeeded: 980, run.Failed: 20}, CreatedAt: *ago(time.Duration(i+1) * time.Hour),
		}}
		w.Best = &api.SweepBest{Index: 811, Objective: json.RawMessage("0.00012345")}
		if i == 0 {
			for p := range 12 {
				w.Params = append(w.Params, sweep.Domain{Address: sweep.Address{NodeID: "trainer", Param: fmt.Sprintf("param%d", p)}})
			}
			for n := range 1000 {
				v := variantOf(n, run.Succeeded)
				for p := range 12 {
					v.Params = append(v.Params, api.SweepValue{Address: w.Params[p].Address, Value: json.RawMessage(fmt.Sprint(n * (p + 1)))})
				}
				v.Rank, v.Objective = ptr(n+1), json.RawMessage(fmt.Sprintf("%g", math.Sqrt(float64(n)/7)))
				w.Variants = append(w.Variants, v)
			}
		}
		sweeps = append(sweeps, w)
		studies = append(studies, api.Study{StudySummary: api.StudySummary{
			StudyID: fmt.Sprintf("%08x%024x", uint32(i)*2246822519, i), Name: fmt.Sprintf("seeds %d", i), State: api.StudyFinished,
			Spec: study.Spec{Repetitions: 1000, Confidence: 0.99}, Counts: map[study.Outcome]int{study.Scored: 1000}, CreatedAt: *ago(time.Duration(i+1)*time.Hour + time.Minute),
			Metrics: []study.Summary{{Name: "acc", N: 1000, Mean: ptr(0.5), SD: ptr(0.1)}},
		}})
	}
	return sweeps, studies
}

// groupsOf gives a source what fits a frame.
func groupsOf(s *source, f api.LiveFrame) {
	switch n := len(f.Runs); {
	case n > 100:
		s.sweeps, s.studies = hugeGroups()
	case n > 0:
		s.sweeps, s.studies = smallGroups()
	}
}

func (s *source) Sweeps(context.Context, int, int) (api.SweepList, error) {
	s.reads = append(s.reads, "list")
	out := api.SweepList{Total: len(s.sweeps)}
	for _, w := range s.sweeps {
		out.Sweeps = append(out.Sweeps, w.SweepSummary)
	}
	return out, s.err
}

func (s *source) Studies(context.Context, int, int) (api.StudyList, error) {
	out := api.StudyList{Total: len(s.studies)}
	for _, y := range s.studies {
		out.Studies = append(out.Studies, y.StudySummary)
	}
	return out, s.err
}

func (s *source) Sweep(_ context.Context, id string) (api.Sweep, error) {
	s.reads = append(s.reads, "sweep "+run.Short(id))
	for _, w := range s.sweeps {
		if w.SweepID == id {
			return w, s.err
		}
	}
	return api.Sweep{}, api.Errorf(api.NotFound, "no sweep %s", run.Short(id))
}

func (s *source) Study(_ context.Context, id string) (api.Study, error) {
	s.reads = append(s.reads, "study "+run.Short(id))
	for _, y := range s.studies {
		if y.StudyID == id {
			return y, s.err
		}
	}
	return api.Study{}, api.Errorf(api.NotFound, "no study %s", run.Short(id))
}

func (s *source) CancelSweep(_ context.Context, id string) (api.SweepCancelReply, error) {
	return api.SweepCancelReply{Cancelled: 2, AlreadyFinished: 4}, s.note("cancel sweep %s", run.Short(id))
}

func (s *source) RerunSweep(_ context.Context, id string) (api.SweepRerunReply, error) {
	return api.SweepRerunReply{Variants: make([]api.SweepChild, 2)}, s.note("rerun sweep %s", run.Short(id))
}

func (s *source) CancelStudy(_ context.Context, id string) (api.Study, error) {
	return api.Study{}, s.note("cancel study %s", run.Short(id))
}

func (s *source) ResumeStudy(_ context.Context, id string, _ api.StudyResumeRequest) (api.Study, error) {
	return s.studies[0], s.note("resume study %s", run.Short(id))
}

func (s *source) submitSweep(_ context.Context, sub ui.Submission) (api.SweepReply, error) {
	return api.SweepReply{SweepID: clitest.ID("5eed")}, s.note("sweep %s on %s %v", sub.File, sub.Worker, sub.Devices)
}

func (s *source) submitStudy(_ context.Context, sub ui.Submission) (api.StudyReply, error) {
	return api.StudyReply{Study: api.Study{StudySummary: api.StudySummary{StudyID: clitest.ID("57d9")}}}, s.note("study %s %v %d times on %s %v", sub.File, sub.Args, sub.Repetitions, sub.Worker, sub.Devices)
}

// toSweeps are the keys that lead to the list.
var toSweeps = []string{"tab", "tab", "tab"}

func sweepKeys(more ...string) []string { return append(slices.Clone(toSweeps), more...) }

// Proves T-02: the ranked table of a sweep with the place of each variant, and a
// study's mean and deviation; enter leads on to a run and esc back.
func TestSweepsAndStudiesOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 140, 30, small())
		s.press(toSweeps...)
		s.shows("2 sweeps, 2 studies", "val_accuracy 0.9313 (#2)", "acc 0.9125 ± 0.0125", "4/6", "3/5")
		s.press("enter")
		s.shows("RANK", "--optimizer", "adamw", "box1/cuda:0", "2 succeeded", "maximize val_accuracy")
		s.shows("0.914") // of a variant that runs: where the feed says that it is
		s.press("down", "down", "enter")
		s.shows("resnet epoch sweep #3", "overview")
		s.press("esc")
		s.shows("RANK")
		s.press("/")
		s.write("sgd")
		s.press("enter")
		s.shows("failed: RuntimeError")
		s.hides("adamw")
		s.press("esc", "esc", "down", "enter")
		s.shows("best of lr, 5 seeds", "0.9125 ± 0.0125", "95%: 0.8 to 0.99", "OUTCOME", "scored", "interrupted: lost: worker box2", "refused: no worker has")
		s.press("end", "enter")
		s.shows("its run is not there")
		s.press("up", "up", "l")
		s.shows("a77e2100", "following")
	})
}

// quiet is a line on which nothing is told.
type quiet struct{}

func (quiet) Next() (api.LiveFrame, error) {
	return api.LiveFrame{Type: api.LiveDelta, Boot: "b", Cursor: 13}, nil
}

func (quiet) Close() {}

// Proves T-01: sweeps are read when the feed tells of a run of theirs, at most
// once a second, and never for the sake of time that passes.
func TestSweepsAreReadWhenTheFeedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := clitest.Now()
		s := newScreen(t, 120, 30, small(), func(c *tui.Config) {
			c.Now = func() time.Time { return now }
			c.Dial = func(context.Context, string, int64) (live.Conn, error) { return quiet{}, nil }
		})
		reads := func(want string) {
			t.Helper()
			if got := strings.Join(s.src.reads, ", "); got != want {
				t.Errorf("read %q, want %q", got, want)
			}
			s.src.reads = nil
		}
		// pass lets seconds go by, each with a key that does nothing.
		pass := func(seconds int) {
			for range seconds {
				now = now.Add(time.Second)
				s.press("x")
			}
		}
		orders := map[string]int64{idLong: 6}
		changed := func(id, sweepID string, status run.Status) {
			if orders[id] == 0 {
				orders[id] = int64(90 + len(orders))
			}
			s.send(tui.Fed(api.LiveFrame{Type: api.LiveDelta, Boot: "b", Runs: []api.LiveRun{{ID: id, Order: orders[id], SweepID: sweepID, Status: status, CreatedAt: now}}}))
		}
		reads("")
		s.press(toSweeps...)
		reads("list")
		pass(5)
		reads("")
		changed("ee", "", run.Running)
		changed("ee", "", run.Running) // no news
		changed("ee", "", run.Succeeded)
		pass(10)
		reads("list, list, list") // at once, and of what came within the second twice

		s.press("enter")
		pass(5)
		reads("sweep 51ee9000")
		changed("ff", "", run.Running)
		pass(3)
		reads("")
		changed("ab", clitest.ID("51ee9000"), run.Running)
		changed("ab", clitest.ID("51ee9000"), run.Failed)
		s.press("x", "x", "x")
		reads("sweep 51ee9000")
		pass(10)
		reads("sweep 51ee9000, sweep 51ee9000")
		s.press("esc") // the list has heard of it too
		pass(3)
		reads("list, list")

		s.press("down", "enter") // a study
		pass(3)
		reads("study 57d40000")
		changed("cc", "", run.Queued) // may be its next attempt
		pass(5)
		reads("study 57d40000, study 57d40000")
		changed("cc", "", run.Running) // isn't
		pass(5)
		reads("")
		changed(idLong, "", run.Succeeded)
		pass(5)
		reads("study 57d40000, study 57d40000")

		// A control plane that is away is asked again, slowly.
		s.src.err = errors.New("away")
		changed(idLong, "", run.Running)
		pass(11)
		s.shows("away")
		if n := len(s.src.reads); n < 2 || n > 4 {
			t.Errorf("%d reads of what fails", n)
		}
	})
}

func TestSweepActions(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		did  string
		said []string
	}{
		"cancel":                {sweepKeys("c", "y"), "[cancel sweep 51ee9000]", []string{"2 stopped or stopping, 4 had ended", "cdui sweep cancel 51ee9000"}},
		"asks first":            {sweepKeys("c"), "[]", []string{"Cancel this sweep?", "學習率", "2 succeeded"}},
		"not cancelled":         {sweepKeys("c", "enter"), "[]", nil},
		"cancel what has ended": {sweepKeys("end", "c"), "[]", []string{"it has ended"}},
		"rerun":                 {sweepKeys("enter", "r"), "[rerun sweep 51ee9000]", []string{"2 queued again", "cdui sweep rerun --failed 51ee9000"}},
		"cancel a study":        {sweepKeys("down", "enter", "c", "y"), "[cancel study 57d40000]", []string{"its runs are stopping", "cdui study cancel 57d40000"}},
		"new sweep": {
			append(sweepKeys(), append(typedKeys("S", "my lr.yaml"), "enter")...), "[sweep my lr.yaml on  []]",
			[]string{"queued as 5eed", "cdui sweep run 'my lr.yaml'"},
		},
		"new sweep somewhere": {
			append(typedKeys("S", "lr.yaml"), "down", "right", "right", "down", "right", "space", "down", "enter"), "[sweep lr.yaml on box1 [cuda:0 cuda:1]]",
			[]string{"queued as 5eed", "cdui sweep run --worker box1 --devices cuda:0,cuda:1 lr.yaml"},
		},
		"new sweep, not queued":    {append(typedKeys("S", "lr.yaml"), "down", "down", "down", "left", "enter"), "[]", nil},
		"new sweep without a file": {typedKeys("S", ""), "[]", []string{"Queue a sweep", "as the file says", "go where the file says"}},
		"new study": {
			append(sweepKeys(), append(typedKeys("T", "train.py --lr 1"), "down", "right", "down", "down", "backspace", "8", "enter")...),
			"[study train.py [--lr 1] 8 times on box1 [cuda:0]]", []string{"queued as 57d9", "cdui study run -n 8 --worker box1 --devices cuda:0 train.py -- --lr 1"},
		},
		"new study, how often?":  {append(sweepKeys(), append(typedKeys("T", "a.py"), "up", "down", "down", "down", "x", "enter")...), "[]", []string{"Queue a study", `"5x" is not a number`}},
		"a copy of a variant":    {sweepKeys("enter", "down", "down", "s"), "[]", []string{"Queue resnet epoch sweep #3 again", "cdui runs rerun 3f1c9a"}},
		"a copy of what is gone": {sweepKeys("enter", "s"), "[]", []string{"its run is not there"}},
		"resume a study":         {sweepKeys("down", "r"), "[resume study 57d40000]", []string{"2 of 5 have a score", "cdui study resume 57d40000"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScreen(t, 120, 30, small())
				s.press(c.keys...)
				if got := fmt.Sprint(s.src.did); got != c.did {
					t.Errorf("did %s, want %s", got, c.did)
				}
				s.shows(c.said...)
			})
		})
	}
}

func TestTheCommandOfASweepIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 30, small())
		s.press(sweepKeys("y", "down", "enter", "y")...)
		if got := s.copied(); got != "cdui sweep show 51ee9000; cdui study show 57d40000" {
			t.Errorf("copied %q", got)
		}
	})
}

func TestASweepThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 30, small())
		s.press(toSweeps...)
		s.src.sweeps = nil
		s.press("enter")
		s.shows("it is not there any more", "no sweep 51ee9000")
		s.press("esc")
		s.shows("2 sweeps, 2 studies")
	})
}
