package follow_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/follow"
	"cdui/internal/run"
)

// training is a graph run that trains from 3 to 7 s, in 1,000 epochs.
func training(end run.Row, mode string, more ...timed) *script {
	s := usual(end)
	row := s.row
	s.row = func(at time.Duration) api.Run {
		r := row(at)
		r.Options.ErrorMode = mode
		return r
	}
	s.output = nil
	node := func(at time.Duration, payload string) timed { return timed{at, run.EventNodeStatus, payload} }
	s.events = []timed{
		{3 * time.Second, run.EventExecutionStart, `{}`},
		node(3*time.Second, `{"node_id":"trainer","status":"running"}`),
		node(3*time.Second, `{"node_id":"trainer","status":"progress","outputs":[{"output_kind":"progress","progress":{"event":"config","config":{"epochs":1000}}}]}`),
	}
	for i := 1; i <= 1000; i += 3 {
		s.events = append(s.events, node(3*time.Second+time.Duration(i)*4*time.Millisecond, fmt.Sprintf(
			`{"node_id":"trainer","status":"progress","outputs":[{"output_kind":"progress","progress":{"event":"epoch","epoch":%d,"total_epochs":1000,"loss":0.12345,"lr":0.001}}]}`, i)))
	}
	s.events = append(s.events, more...)
	s.events = append(s.events,
		node(7*time.Second, `{"node_id":"trainer","status":"completed"}`),
		node(7*time.Second, `{"node_id":"test","status":"completed","outputs":[{"output_kind":"text","text":"accuracy 0.97"}]}`),
		timed{7 * time.Second, terminal(end.Status), `null`})
	return s
}

func TestEpochsInAPipeAreKeptApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 0)
		o := options()
		o.Texts = true
		if err := follow.Follow(t.Context(), e.Env, training(run.Row{Status: run.Succeeded}, "fail_fast"), o); err != nil {
			t.Fatal(err)
		}
		if e.Stdout.String() != "accuracy 0.97\n" {
			t.Errorf("out %q", e.Stdout)
		}
		// Events of the fake have one time, so only the first and the last are due.
		want := "trainer    epoch 1/1000     loss 0.1235  lr 0.001\ntrainer    epoch 1000/1000  loss 0.1235  lr 0.001\nsucceeded  1m 04s   loss 0.0502\n"
		if !strings.HasSuffix(e.Stderr.String(), want) {
			t.Errorf("err\n%s", e.Stderr)
		}
	})
}

func TestOnATerminalATrainingHasABar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := clitest.New(t, 80)
		if err := follow.Follow(t.Context(), e.Env, training(run.Row{Status: run.Succeeded}, "fail_fast"), options()); err != nil {
			t.Fatal(err)
		}
		got := e.Stderr.String()
		if !strings.Contains(got, "▇▇▇▇▇▁▁▁▁▁  loss 0.1235  lr 0.001") || !strings.Contains(got, "  trainer    epoch ") {
			t.Errorf("no bar in %q", got)
		}
		if strings.Contains(got, "accuracy") || e.Stdout.String() != "" {
			t.Errorf("texts are shown unasked: %q", e.Stdout)
		}
		if screen(strings.ReplaceAll(got, "\r\x1b[A\x1b[J", "\r\x1b[J")) == "" {
			t.Error("nothing stays")
		}
	})
}

func TestNodesThatFailAreNamedWhereTheRunGoesOn(t *testing.T) {
	t.Parallel()
	for mode, says := range map[string]string{
		"fail_fast": "",
		"continue":  "error      node \"conv\": ValueError: too deep\nskipped    node \"later\": it needs one that failed\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			e := clitest.New(t, 0)
			s := training(run.Row{Status: run.Succeeded}, mode,
				timed{6 * time.Second, run.EventNodeStatus, `{"node_id":"conv","status":"error","error":"ValueError: too\u001b[31m deep","error_type":"ValueError"}`},
				timed{6 * time.Second, run.EventNodeStatus, `{"node_id":"later","status":"skipped"}`})
			if err := follow.Follow(t.Context(), e.Env, s, options()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(e.Stderr.String(), "ValueError"); got != (says != "") || !strings.Contains(e.Stderr.String(), says) {
				t.Errorf("%s: %s", mode, e.Stderr)
			}
		})
	}
}
