package runscmd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/runscmd"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

// execute runs a command of the package against e.
func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := runscmd.New(e.Env, runscmd.Deps{Client: e.Client})
	return executeCommand(t, e, cmd, args...)
}

func executeCommand(t *testing.T, e *clitest.Env, cmd *cobra.Command, args ...string) error {
	t.Helper()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(e.Stdout)
	cmd.SetErr(e.Stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	return cmd.ExecuteContext(t.Context())
}

func TestListAtEachWidth(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{0, 40, 80, 120} {
		e := clitest.New(t, columns)
		e.Serve(t, map[string]clitest.Reply{"GET /api/runs": {Body: clitest.Runs()}})
		if err := execute(t, e, "ls"); err != nil {
			t.Fatal(err)
		}
		got := e.Stdout.String()
		clitest.Golden(t, fmt.Sprintf("ls-%d", columns), got)
		for line := range strings.SplitSeq(got, "\n") {
			if columns > 0 && text.Cells(line) > columns {
				t.Errorf("%d columns: %q has %d cells", columns, line, text.Cells(line))
			}
		}
		if strings.Contains(got, "\x1b") {
			t.Errorf("%d columns: control sequences in %q", columns, got)
		}
	}
}

func TestListWithoutUTF8IsASCII(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 80)
	e.Set("LANG", "C")
	list := clitest.Runs()
	list.Runs = list.Runs[:1]
	e.Serve(t, map[string]clitest.Reply{"GET /api/runs": {Body: list}})
	if err := execute(t, e, "ls"); err != nil {
		t.Fatal(err)
	}
	if got := e.Stdout.String(); !strings.Contains(got, "\n*  3f1c9ab2") || strings.ContainsFunc(got, func(r rune) bool { return r > 126 }) {
		t.Errorf("got %q", got)
	}
}

func TestListColoursOnlyTheMark(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 120)
	e.Set("NO_COLOR", "")
	e.Serve(t, map[string]clitest.Reply{"GET /api/runs": {Body: clitest.Runs()}})
	if err := execute(t, e); err != nil {
		t.Fatal(err)
	}
	if got := e.Stdout.String(); !strings.Contains(got, "\n\x1b[36m●\x1b[0m  3f1c9ab2  resnet") {
		t.Errorf("got %q", got)
	}
}

func TestListQuietAndJSON(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	c := e.Serve(t, map[string]clitest.Reply{"GET /api/runs": {Body: clitest.Runs()}})
	if err := execute(t, e, "ls", "-q", "--status", "failed,Queued", "--tag", "nightly", "-n", "5", "--offset", "2"); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Fields(e.Stdout.String()); len(lines) != 6 || lines[0] != clitest.ID("3f1c9ab2") {
		t.Errorf("ids are %q", lines)
	}
	if got := c.Requests()[0].Query; got != "limit=5&offset=2&status=failed&status=queued&tag=nightly" {
		t.Errorf("asked for %s", got)
	}
	e = clitest.New(t, 0)
	e.Serve(t, map[string]clitest.Reply{"GET /api/runs": {Body: clitest.Runs()}})
	if err := execute(t, e, "--json"); err != nil {
		t.Fatal(err)
	}
	var list api.RunList
	if err := json.Unmarshal([]byte(e.Stdout.String()), &list); err != nil || list.Total != 1204 || strings.Count(e.Stdout.String(), "\n") != 1 {
		t.Errorf("%v: %s", err, e.Stdout)
	}
}

func TestListRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"--limit 0", "--limit must be 1 to 500"},
		{"--limit 501", "--limit must be 1 to 500"},
		{"--offset -1", "--offset must be 0 or more"},
		{"--status gone", "use queued, running, disconnected"},
		{"-a --status failed", "can't be given together"},
		{"ls extra", "takes no argument"},
		{"sho", `Did you mean runs show?`},
	} {
		e := clitest.New(t, 0)
		if err := execute(t, e, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	list := clitest.Runs()
	failed := list.Runs[4]
	failed.Facts = json.RawMessage(`{"exit":{"code":1,"signal":null},"isolation":"keeper","peak_memory":{"cuda:1":{"mib":6246,"exact":true}},"output_tail":"Traceback\nCUDA out of memory\u001b[31m\n","killed":[{"pid":7,"name":"python"}]}`)
	failed.Options.Command = nil
	graph := json.RawMessage(`{"nodes":[{"id":"start","type":"Start"},{"id":"hint","type":"note"},{"id":"train","type":"TrainingLoop"},{"id":"conv","type":"Conv2d"},{"id":"later","type":"Print"}],"edges":[]}`)
	events := api.Events{Cursor: 5}
	for i, payload := range []string{
		`{"node_id":"start","status":"running"}`, `{"node_id":"start","status":"completed"}`, `{"node_id":"train","status":"running"}`,
		`{"node_id":"train","status":"progress","outputs":[{"output_kind":"progress","progress":{"event":"epoch","epoch":7,"total_epochs":10,"loss":0.1235,"lr":0.001}}]}`,
		`{"node_id":"conv","status":"error","error":"ValueError: too deep","error_type":"ValueError"}`,
	} {
		at := clitest.Now().Add(time.Duration(i)*time.Second - 12*time.Minute)
		events.Events = append(events.Events, api.Event{Cursor: int64(i + 1), Type: run.EventNodeStatus, Payload: json.RawMessage(payload), TS: at})
	}
	for i := range list.Runs {
		list.Runs[i].LastCursor = &events.Cursor
	}
	list.Runs[0].Active = true
	failed.LastCursor = &events.Cursor
	for name, r := range map[string]api.Run{"running": list.Runs[0], "held": list.Runs[2], "succeeded": list.Runs[3], "failed": failed} {
		e := clitest.New(t, 80)
		e.Serve(t, map[string]clitest.Reply{
			"GET /api/runs/x": {Body: r}, "GET /api/runs/" + r.ID + "/graph": {Body: graph}, "GET /api/runs/" + r.ID + "/events": {Body: events},
		})
		if err := execute(t, e, "show", "x"); err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, "show-"+name, e.Stdout.String())
	}
}
