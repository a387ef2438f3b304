package follow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/run"
)

// script is a source that plays a run: what it is at which time.
type script struct {
	start  time.Time
	row    func(at time.Duration) api.Run
	events []timed
	output []timedBytes
	// away is when nobody answers.
	away [2]time.Duration
}

type timed struct {
	at      time.Duration
	kind    string
	payload string
}

type timedBytes struct {
	at time.Duration
	p  string
}

func (s *script) now() time.Duration { return time.Since(s.start) }

func (s *script) gone() error {
	if n := s.now(); n >= s.away[0] && n < s.away[1] {
		return &client.Unreachable{Text: "nobody answers"}
	}
	return nil
}

func (s *script) Run(context.Context, string) (api.Run, error) {
	if err := s.gone(); err != nil {
		return api.Run{}, err
	}
	return s.row(s.now()), nil
}

// park waits until ready or wait is over.
func (s *script) park(ctx context.Context, wait time.Duration, ready func() bool) error {
	deadline := time.Now().Add(wait)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.gone(); err != nil {
			return err
		}
		if ready() || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *script) Events(ctx context.Context, id string, cursor int64, wait time.Duration, _ int) (api.Events, error) {
	page := api.Events{RunID: id, Cursor: cursor}
	err := s.park(ctx, wait, func() bool {
		row := s.row(s.now())
		page.Status, page.Active = row.Status, row.Status.Active()
		for i, e := range s.events {
			if int64(i) >= cursor && e.at <= s.now() {
				page.Events = append(page.Events, api.Event{Cursor: int64(i + 1), Type: e.kind, Payload: json.RawMessage(e.payload), TS: clitest.Now()})
				page.Cursor = int64(i + 1)
			}
		}
		return len(page.Events) > 0 || !page.Active
	})
	return page, err
}

func (s *script) Log(ctx context.Context, _ string, offset int64, limit int, wait time.Duration) (client.LogChunk, error) {
	var c client.LogChunk
	err := s.park(ctx, wait, func() bool {
		all := ""
		for _, o := range s.output {
			if o.at <= s.now() {
				all += o.p
			}
		}
		c = client.LogChunk{Offset: offset, Size: int64(len(all)), Ended: s.row(s.now()).Status.Terminal()}
		c.Bytes = []byte(all[min(int(offset), len(all)):min(int(offset)+limit, len(all))])
		c.Next = offset + int64(len(c.Bytes))
		return len(c.Bytes) > 0 || c.Ended
	})
	return c, err
}

// usual is a run that waits for 3 s, prints for 4 s and ends as given.
func usual(end run.Row) *script {
	pid, two := 41277, 2
	id := clitest.ID("3f1c9ab2")
	return &script{
		start: time.Now(),
		row: func(at time.Duration) api.Run {
			r := api.Run{Row: run.Row{ID: id, QueueKey: "cuda:0", CreatedAt: clitest.Now()}}
			switch {
			case at < 3*time.Second:
				r.Status, r.QueuePosition, r.QueueReason = run.Queued, &two, "behind 81d00211"
			case at < 7*time.Second:
				r.Status, r.PID, r.StartedAt = run.Running, &pid, clitest.Ago(0)
			default:
				r.Row = end
				r.ID, r.StartedAt, r.FinishedAt = id, clitest.Ago(64*time.Second), clitest.Ago(0)
				r.FinalMetrics = map[string]json.RawMessage{"loss": json.RawMessage("0.0502")}
			}
			return r
		},
		events: []timed{
			{3 * time.Second, run.EventExecutionStart, `{"run_id":"` + id + `"}`},
			{4 * time.Second, run.EventMetric, `{"points":[{"name":"loss","value":0.5,"step":1},{"name":"lr","value":null,"nonfinite":"nan","step":1}]}`},
			{5 * time.Second, run.EventRunWarning, `{"kind":"processes_killed","count":2}`},
			{7 * time.Second, terminal(end.Status), `null`},
		},
		output: []timedBytes{{4 * time.Second, "hello\n"}, {6 * time.Second, "bye\n"}},
	}
}

func terminal(s run.Status) string {
	switch s {
	case run.Succeeded:
		return run.EventExecutionComplete
	case run.Failed:
		return run.EventExecutionError
	default:
		return run.EventExecutionStopped
	}
}

func options() follow.Options {
	return follow.Options{ID: clitest.ID("3f1c9ab2"), Console: true, Patience: time.Minute}
}

func TestInAPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 0)
		o := options()
		o.Artifacts = func(context.Context, string) (api.Artifacts, error) {
			return api.Artifacts{Artifacts: []api.Artifact{{Path: "models/resnet.pt", Meta: json.RawMessage(`{"bytes":46137344}`)}}}, nil
		}
		if err := follow.Follow(t.Context(), e.Env, usual(run.Row{Status: run.Succeeded}), o); err != nil {
			t.Fatal(err)
		}
		if e.Stdout.String() != "hello\nbye\n" {
			t.Errorf("console is %q", e.Stdout)
		}
		want := `queued     2nd on cuda:0, behind 81d00211
running    pid 41277
warning    processes killed {"count":2}
succeeded  1m 04s   loss 0.0502
saved      models/resnet.pt (44 MiB)
`
		if e.Stderr.String() != want {
			t.Errorf("said\n%s", e.Stderr)
		}
	})
}

func TestOnATerminalOneBlockUpdates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 60)
		if err := follow.Follow(t.Context(), e.Env, usual(run.Row{Status: run.Succeeded}), options()); err != nil {
			t.Fatal(err)
		}
		got := e.Stderr.String()
		for _, want := range []string{
			"○ queued     2nd on cuda:0, behind 81d00211", "\r\x1b[J● running    pid 41277\n", "step 1  loss 0.5  lr nan", "\r\x1b[J✓ succeeded  1m 04s   loss 0.0502\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("lacks %q in %q", want, got)
			}
		}
		if strings.Count(got, "behind") != 1 {
			t.Errorf("the same block is drawn again: %q", got)
		}
		for line := range strings.SplitSeq(strings.NewReplacer("\r\x1b[J", "\n").Replace(got), "\n") {
			if text.Cells(line) > 60 {
				t.Errorf("%q is too wide", line)
			}
		}
		if screen(e.Stderr.String()) != "● running    pid 41277\nwarning    processes killed {\"count\":2}\n✓ succeeded  1m 04s   loss 0.0502\n" {
			t.Errorf("what stays is %q", screen(got))
		}
	})
}

// screen is what is left of lines that are erased by "\r\x1b[J".
func screen(s string) string {
	var kept strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		parts := strings.Split(line, "\r\x1b[J")
		kept.WriteString(parts[len(parts)-1])
	}
	return kept.String()
}

func TestJSONIsEventsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 0)
		o := options()
		o.JSON = true
		err := follow.Follow(t.Context(), e.Env, usual(run.Row{Status: run.Failed, Error: "exit code 3"}), o)
		var exit *env.Exit
		if !errors.As(err, &exit) || exit.Code != 1 || exit.Text != "" {
			t.Errorf("%v", err)
		}
		if e.Stderr.String() != "" || strings.Count(e.Stdout.String(), "\n") != 4 {
			t.Errorf("out %q, err %q", e.Stdout, e.Stderr)
		}
		for line := range strings.Lines(e.Stdout.String()) {
			var ev map[string]json.RawMessage
			if err := json.Unmarshal([]byte(line), &ev); err != nil || len(ev) != 4 {
				t.Errorf("%q: %v", line, err)
			}
		}
	})
}

// E: 0, 1, and the child's own code when asked for.
func TestHowItEndsIsTheExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		end  run.Row
		own  bool
		code int
		says string
	}{
		{run.Row{Status: run.Succeeded}, true, 0, "succeeded"},
		{run.Row{Status: run.Failed, Error: "exit code 3"}, false, 1, "failed     1m 04s   exit code 3"},
		{run.Row{Status: run.Failed, Error: "exit code 3"}, true, 3, "failed"},
		{run.Row{Status: run.Failed, Error: "killed by signal 9 (SIGKILL)"}, true, 137, "failed"},
		{run.Row{Status: run.Cancelled}, true, 1, "cancelled"},
		{run.Row{Status: run.Interrupted, Error: "the server stopped"}, false, 1, "interrupted 1m 04s   the server stopped"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := clitest.New(t, 0)
			o := options()
			o.ExitCode = c.own
			err := follow.Follow(t.Context(), e.Env, usual(c.end), o)
			code := 0
			var exit *env.Exit
			if errors.As(err, &exit) {
				code = exit.Code
			}
			if code != c.code || !strings.Contains(e.Stderr.String(), c.says) {
				t.Errorf("%+v: code %d, said %q", c.end, code, e.Stderr)
			}
		})
	}
}

// E: 130.
func TestCtrlCLeavesTheRunGoing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(&env.Interrupted{Signal: os.Interrupt}) })
		e := clitest.New(t, 0)
		err := follow.Follow(ctx, e.Env, usual(run.Row{Status: run.Succeeded}), options())
		var exit *env.Exit
		if !errors.As(err, &exit) || exit.Code != 130 {
			t.Errorf("%v", err)
		}
		if !strings.Contains(e.Stderr.String(), "run 3f1c9ab2 goes on. Follow it: cdui logs -f 3f1c9ab2   stop it: cdui cancel 3f1c9ab2") {
			t.Errorf("said %q", e.Stderr)
		}
	})
}

func TestTimeoutEndsTheWaitingAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 0)
		o := options()
		o.Timeout = 2 * time.Second
		err := follow.Follow(t.Context(), e.Env, usual(run.Row{Status: run.Succeeded}), o)
		var exit *env.Exit
		if !errors.As(err, &exit) || exit.Code != 124 || !strings.Contains(exit.Text, "has not ended after 2s; it goes on") {
			t.Errorf("%v", err)
		}
	})
}

func TestARestartOfTheControlPlaneIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 0)
		s := usual(run.Row{Status: run.Succeeded})
		s.away = [2]time.Duration{4500 * time.Millisecond, 20 * time.Second}
		if err := follow.Follow(t.Context(), e.Env, s, options()); err != nil {
			t.Fatal(err)
		}
		if e.Stdout.String() != "hello\nbye\n" {
			t.Errorf("console is %q", e.Stdout)
		}
		for _, want := range []string{"does not answer; the run goes on", "answers again", "succeeded"} {
			if strings.Count(e.Stderr.String(), want) != 1 {
				t.Errorf("%q is not said once in %q", want, e.Stderr)
			}
		}
	})
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 0)
		s := usual(run.Row{Status: run.Succeeded})
		s.away = [2]time.Duration{4500 * time.Millisecond, time.Hour}
		err := follow.Follow(t.Context(), e.Env, s, options())
		var gone *client.Unreachable
		if !errors.As(err, &gone) || !strings.Contains(err.Error(), "goes on without it") {
			t.Errorf("%v", err)
		}
	})
}

func TestEndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		row, err := follow.End(t.Context(), usual(run.Row{Status: run.Failed}), clitest.ID("3f1c9ab2"))
		if err != nil || row.Status != run.Failed {
			t.Errorf("%v, %v", row.Status, err)
		}
	})
}

func TestStoppingShowsTheCountdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 80)
		start := time.Now()
		e.Now = func() time.Time { return clitest.Now().Add(time.Since(start)) }
		deadline := clitest.Now().Add(30 * time.Second)
		src := reader(func() api.Run {
			r := api.Run{Row: run.Row{ID: clitest.ID("a"), Status: run.Running, CancelRequestedAt: clitest.Ago(0), StartedAt: clitest.Ago(time.Hour)}, StoppingDeadline: &deadline}
			if time.Since(start) > 4*time.Second {
				end := clitest.Now().Add(4 * time.Second)
				r.Status, r.FinishedAt = run.Cancelled, &end
			}
			return r
		})
		if err := follow.Stopping(t.Context(), e.Env, src, []string{clitest.ID("a")}); err != nil {
			t.Fatal(err)
		}
		for n := 30; n > 25; n-- {
			if want := fmt.Sprintf("stopping, %d s left", n); !strings.Contains(e.Stderr.String(), want) {
				t.Errorf("lacks %q in %q", want, e.Stderr)
			}
		}
		if !strings.HasSuffix(e.Stderr.String(), "⊘ run a0000000  cancelled after 4s\n") {
			t.Errorf("ends with %q", e.Stderr)
		}
	})
}

type reader func() api.Run

func (r reader) Run(context.Context, string) (api.Run, error) { return r(), nil }
