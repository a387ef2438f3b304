package runscmd_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/runscmd"
	"cdui/internal/run"
)

// logServer serves the console output of a run that has ended. Bytes from hole
// to holeEnd are cut.
func logServer(t *testing.T, e *clitest.Env, out []byte, hole, holeEnd int, marks ...api.LogMark) {
	t.Helper()
	id := clitest.ID("3f1c9ab2")
	row := clitest.Runs().Runs[3]
	row.ID = id
	c := e.Serve(t, map[string]clitest.Reply{
		"GET /api/runs/3f":                   {Body: row},
		"GET /api/runs/" + id:                {Body: row},
		"GET /api/runs/" + id + "/events":    {Body: api.Events{Status: run.Succeeded}},
		"GET /api/runs/" + id + "/log/index": {Body: api.LogIndex{Size: int64(len(out)), Marks: marks}},
	})
	canned := c.Config.Handler
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/runs/"+id+"/log" {
			canned.ServeHTTP(w, r)
			return
		}
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		start := offset
		if start >= hole && start < holeEnd {
			start = holeEnd
		}
		end := min(len(out), start+limit)
		if start < hole {
			end = min(end, hole)
		}
		end = max(end, start)
		w.Header().Set(api.HeaderLogOffset, strconv.Itoa(start))
		w.Header().Set(api.HeaderLogNext, strconv.Itoa(end))
		w.Header().Set(api.HeaderLogSize, strconv.Itoa(len(out)))
		w.Header().Set(api.HeaderLogCut, strconv.Itoa(start-offset))
		w.Header().Set(api.HeaderLogEnded, "true")
		_, _ = w.Write(out[min(start, len(out)):end])
	}))
	t.Cleanup(srv.Close)
	e.Set("CDUI_SERVER", srv.URL)
}

// lines is a display that passes whole lines through.
type lines struct{ held []byte }

func (l *lines) Write(p []byte) []byte {
	l.held = append(l.held, p...)
	at := bytes.LastIndexByte(l.held, '\n') + 1
	out := bytes.Clone(l.held[:at])
	l.held = l.held[at:]
	return out
}

func (l *lines) Flush() []byte {
	out := l.held
	l.held = nil
	return out
}

func (l *lines) Line() string { return string(l.held) }

func deps(e *clitest.Env) runscmd.Deps {
	return runscmd.Deps{Client: e.Client, Display: func(bool, bool) follow.Display { return &lines{} }}
}

func logs(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	return executeCommand(t, e, runscmd.NewLogs(e.Env, deps(e), nil), append([]string{"3f"}, args...)...)
}

func TestLogsRawIsByteExact(t *testing.T) {
	t.Parallel()
	out := make([]byte, 3<<20+17)
	for i := range out {
		out[i] = byte(i * 7)
	}
	for _, args := range [][]string{{"--raw"}, {"--raw", "-f"}} {
		e := clitest.New(t, 0)
		logServer(t, e, out, 0, 0)
		if err := logs(t, e, args...); err != nil {
			t.Fatal(err)
		}
		if e.Stdout.String() != string(out) {
			t.Errorf("%v: %d bytes came, %d were written", args, len(e.Stdout.String()), len(out))
		}
	}
}

func TestLogsTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		out  string
		n    string
		want string
	}{
		{"a\nb\nc\n", "2", "b\nc\n"},
		{"a\nb\nc", "2", "b\nc"},
		{"a\nb\nc\n", "9", "a\nb\nc\n"},
		{"a\nb\n", "0", ""},
		{"", "3", ""},
		{"\n\n\n", "2", "\n\n"},
		{strings.Repeat("x", 200<<10) + "\nlast\n", "1", "last\n"},
		{strings.Repeat("x", 200<<10) + "\nlast\n", "2", strings.Repeat("x", 200<<10) + "\nlast\n"},
	} {
		e := clitest.New(t, 0)
		logServer(t, e, []byte(c.out), 0, 0)
		if err := logs(t, e, "--tail", c.n); err != nil {
			t.Fatal(err)
		}
		if got := e.Stdout.String(); got != c.want {
			t.Errorf("--tail %s of %.20q: %.20q", c.n, c.out, got)
		}
	}
}

func TestLogsSayWhereTheCapCut(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	logServer(t, e, []byte("head\nGONEtail\n"), 5, 9)
	if err := logs(t, e); err != nil {
		t.Fatal(err)
	}
	if e.Stdout.String() != "head\ntail\n" || !strings.Contains(e.Stderr.String(), "4 B of output are not kept") {
		t.Errorf("out %q, err %q", e.Stdout, e.Stderr)
	}
}

func TestLogsSinceAndTimes(t *testing.T) {
	t.Parallel()
	out := []byte("one\ntwo\nthree\n")
	marks := []api.LogMark{{Offset: 0, TS: *clitest.Ago(time.Hour)}, {Offset: 4, TS: *clitest.Ago(10 * time.Minute)}, {Offset: 8, TS: *clitest.Ago(time.Minute)}}
	for since, want := range map[string]string{
		"15m": "two\nthree\n", "2h": "one\ntwo\nthree\n", "10s": "", "14:00": "three\n", "2026-03-04T13:30:00Z": "two\nthree\n",
	} {
		e := clitest.New(t, 0)
		logServer(t, e, out, 0, 0, marks...)
		if err := logs(t, e, "--since", since); err != nil {
			t.Fatal(err)
		}
		if got := e.Stdout.String(); got != want {
			t.Errorf("--since %s: %q, want %q", since, got, want)
		}
	}
	// With --tail as well it is the last lines of those since then.
	for args, want := range map[string]string{"--since 15m --tail 1": "three\n", "--since 15m --tail 9": "two\nthree\n", "--since 10s --tail 2": ""} {
		e := clitest.New(t, 0)
		logServer(t, e, out, 0, 0, marks...)
		if err := logs(t, e, strings.Fields(args)...); err != nil || e.Stdout.String() != want {
			t.Errorf("%s: %q, %v", args, e.Stdout, err)
		}
	}
	e := clitest.New(t, 0)
	logServer(t, e, out, 0, 0, marks...)
	if err := logs(t, e, "-t"); err != nil {
		t.Fatal(err)
	}
	got := e.Stdout.String()
	for i, m := range marks {
		want := m.TS.Local().Format("2006-01-02 15:04:05.000") + "  " + []string{"one", "two", "three"}[i] + "\n"
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q in %q", want, got)
		}
	}
}

func TestLogsRefuseNonsense(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"--raw -t", "can't be given together"},
		{"--tail -2", "0 or more"},
		{"--since never", "neither a duration"},
	} {
		e := clitest.New(t, 0)
		logServer(t, e, nil, 0, 0)
		if err := logs(t, e, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

func TestLogsReadsItsOptions(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	var got runscmd.LogsOptions
	cmd := runscmd.NewLogs(e.Env, deps(e), func(_ context.Context, o *runscmd.LogsOptions) error {
		got = *o
		return nil
	})
	if err := executeCommand(t, e, cmd, "-f", "-t", "-n", "5", "abc"); err != nil {
		t.Fatal(err)
	}
	if want := (runscmd.LogsOptions{Run: "abc", Follow: true, Times: true, Tail: 5}); got != want {
		t.Errorf("got %+v", got)
	}
}
