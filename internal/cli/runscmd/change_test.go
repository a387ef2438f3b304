package runscmd_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/run"
)

func TestCancelInAPipeReturnsAtOnce(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	c := e.Serve(t, map[string]clitest.Reply{
		"POST /api/runs/a/cancel": {Body: api.CancelReply{RunID: clitest.ID("a"), Status: run.Running, Cancelled: true, GraceS: 90}},
		"POST /api/runs/b/cancel": {Body: api.CancelReply{RunID: clitest.ID("b"), Status: run.Cancelled, Cancelled: true}},
		"POST /api/runs/c/cancel": {Body: api.CancelReply{RunID: clitest.ID("c"), Status: run.Succeeded}},
	})
	if err := execute(t, e, "cancel", "a", "b", "c", "--grace", "90"); err != nil {
		t.Fatal(err)
	}
	want := "run a0000000 is asked to stop; it has 1m 30s\nrun b0000000 is cancelled\nrun c0000000 had ended already: succeeded\n"
	if e.Stdout.String() != want {
		t.Errorf("got %q", e.Stdout)
	}
	if got := c.Requests()[0].Body; got != `{"grace_s":90}` {
		t.Errorf("asked %s", got)
	}
}

func TestCancelOnATerminalWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 80)
	id := clitest.ID("a")
	ended := api.Run{Row: run.Row{ID: id, Status: run.Cancelled, StartedAt: clitest.Ago(time.Minute), CancelRequestedAt: clitest.Ago(5 * time.Second), FinishedAt: clitest.Ago(time.Second)}}
	e.Serve(t, map[string]clitest.Reply{
		"POST /api/runs/a/cancel": {Body: api.CancelReply{RunID: id, Status: run.Running, Cancelled: true, GraceS: 30}},
		"GET /api/runs/" + id:     {Body: ended},
	})
	if err := execute(t, e, "cancel", "a"); err != nil {
		t.Fatal(err)
	}
	if got := e.Stderr.String(); got != "⊘ run a0000000  cancelled after 4s\n" {
		t.Errorf("got %q", got)
	}
}

func TestSeveralRunsGoOnAfterAFailure(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Serve(t, map[string]clitest.Reply{
		"POST /api/runs/a/hold": clitest.Refusal(api.Conflict, "run a is running; only a waiting one can be held"),
		"POST /api/runs/b/hold": {Body: api.RunState{RunID: clitest.ID("b"), Status: run.Queued, Held: true}},
	})
	err := execute(t, e, "hold", "a", "b")
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Code != api.Conflict {
		t.Errorf("%v", err)
	}
	if got := e.Stdout.String(); got != "run b0000000 is held; let it queue again with: cdui runs release b0000000\n" {
		t.Errorf("got %q", got)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	id := clitest.ID("a")
	c := e.Serve(t, map[string]clitest.Reply{
		"GET /api/runs/a":        {Body: api.Run{Row: run.Row{ID: id}}},
		"DELETE /api/runs/" + id: {Body: api.RunState{RunID: id}},
	})
	if err := execute(t, e, "rm", "a"); err != nil || e.Stdout.String() != "run a0000000 is removed\n" {
		t.Errorf("%v, %q", err, e.Stdout)
	}
	if got := c.Requests(); len(got) != 2 {
		t.Errorf("asked %v", got)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	ok := api.Run{Row: run.Row{ID: clitest.ID("a"), Name: "first", Status: run.Succeeded}}
	bad := api.Run{Row: run.Row{ID: clitest.ID("b"), Name: "second", Status: run.Failed, Error: "exit code 7"}}
	replies := map[string]clitest.Reply{
		"GET /api/runs/a": {Body: ok}, "GET /api/runs/" + ok.ID: {Body: ok},
		"GET /api/runs/b": {Body: bad}, "GET /api/runs/" + bad.ID: {Body: bad},
	}
	for _, c := range []struct {
		args string
		code int
	}{
		{"a", 0}, {"b", 1}, {"a b", 1}, {"b --exit-code", 7},
	} {
		e := clitest.New(t, 0)
		e.Serve(t, replies)
		err := execute(t, e, append([]string{"wait"}, strings.Fields(c.args)...)...)
		var exit *env.Exit
		if c.code == 0 && err != nil || c.code != 0 && (!errors.As(err, &exit) || exit.Code != c.code) {
			t.Errorf("wait %s: %v", c.args, err)
		}
	}
}

func TestWaitTimesOut(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	row := api.Run{Row: run.Row{ID: clitest.ID("a"), Status: run.Running}}
	e.Serve(t, map[string]clitest.Reply{
		"GET /api/runs/a": {Body: row}, "GET /api/runs/" + row.ID: {Body: row},
		"GET /api/runs/" + row.ID + "/events": {Body: api.Events{Status: run.Running, Active: true}},
	})
	err := execute(t, e, "wait", "a", "--timeout", "0.05")
	var exit *env.Exit
	if !errors.As(err, &exit) || exit.Code != 124 || !strings.Contains(exit.Text, "1 run is still going on") {
		t.Errorf("%v", err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	id := clitest.ID("a")
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	all := api.Metrics{RunID: id, Names: []string{"loss", "n"}, Metrics: []api.Metric{
		{NodeID: "script", Name: "loss", Step: raw("1"), Value: raw("2.3")},
		{NodeID: "script", Name: "loss", Step: raw("2"), Value: raw("null"), Nonfinite: "nan"},
		{NodeID: "script", Name: "loss", Step: raw("3"), Value: raw("1e400")},
		{NodeID: "script", Name: "loss", Step: raw("4"), Value: raw("0.5")},
		{NodeID: "script", Name: "n", Step: raw("1"), Value: raw("null"), Nonfinite: "inf"},
	}}
	replies := map[string]clitest.Reply{
		"GET /api/runs/a":                  {Body: api.Run{Row: run.Row{ID: id}}},
		"GET /api/runs/" + id + "/metrics": {Body: all},
	}
	for name, args := range map[string][]string{"metrics-table": nil, "metrics-plot": {"--plot"}} {
		e := clitest.New(t, 60)
		e.Serve(t, replies)
		if err := execute(t, e, append([]string{"metrics", "a"}, args...)...); err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, name, e.Stdout.String())
	}
	replies["GET /api/runs/"+id+"/metrics"] = clitest.Reply{Body: []byte("\xef\xbb\xbfrun_id,name\n")}
	e := clitest.New(t, 0)
	c := e.Serve(t, replies)
	if err := execute(t, e, "metrics", "a", "--csv", "--name", "loss"); err != nil || e.Stdout.String() != "\xef\xbb\xbfrun_id,name\n" {
		t.Errorf("%v, %q", err, e.Stdout)
	}
	if got := c.Requests()[1].Query; got != "format=csv&name=loss" {
		t.Errorf("asked %s", got)
	}
}

func TestEventsAreNDJSON(t *testing.T) {
	t.Parallel()
	id := clitest.ID("a")
	page := api.Events{RunID: id, Status: run.Succeeded, Cursor: 2, Events: []api.Event{
		{Cursor: 1, Type: run.EventExecutionStart, Payload: json.RawMessage(`{"run_id":"a"}`), TS: clitest.Now()},
		{Cursor: 2, Type: run.EventExecutionComplete, Payload: json.RawMessage(`null`), TS: clitest.Now()},
	}}
	e := clitest.New(t, 0)
	e.Serve(t, map[string]clitest.Reply{
		"GET /api/runs/a":                 {Body: api.Run{Row: run.Row{ID: id, Status: run.Succeeded}}},
		"GET /api/runs/" + id:             {Body: api.Run{Row: run.Row{ID: id, Status: run.Succeeded}}},
		"GET /api/runs/" + id + "/events": {Body: page},
	})
	if err := execute(t, e, "events", "a", "-f", "--json"); err != nil {
		t.Fatal(err)
	}
	want := `{"cursor":1,"type":"execution_start","payload":{"run_id":"a"},"ts":"2026-03-04T14:02:00Z"}` + "\n" +
		`{"cursor":2,"type":"execution_complete","payload":null,"ts":"2026-03-04T14:02:00Z"}` + "\n"
	if e.Stdout.String() != want {
		t.Errorf("got %s", e.Stdout)
	}
}
