package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/cli/env"
)

// Exit codes of the real program, prefixes of ids, and what -q prints.
func TestExitCodesOfRealCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.WriteFile(filepath.Join(w.Dir, "bad.json"), []byte(`{"nodes":[{"id":"x","type":"Nonsense"}],"edges":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	try := func(want int, args string, more ...string) string {
		t.Helper()
		out, errs, code := w.do(t.Context(), args, more...)
		if code != want {
			t.Errorf("%s %q: code %d, want %d: %s%s", args, more, code, want, out, errs)
		}
		if want > 1 && want < 6 && (out != "" || strings.TrimSpace(errs) == "") {
			t.Errorf("%s: said %q on stdout and %q on stderr", args, out, errs)
		}
		return strings.TrimSpace(out)
	}
	try(3, "ls")
	try(0, "stop") // nothing to stop is fine
	w.say("start")

	good := try(0, "run -q", "--", "true")
	bad := try(1, "run -q", "--", "sh", "-c", "exit 7")
	long := try(0, "run -d -q", "--", "sleep", "600")
	waits := try(0, "run -d -q --hold", "--", "true")
	for _, c := range []struct {
		want int
		args string
	}{
		{0, "runs wait " + good},
		{0, "logs -f " + good},
		{0, "runs wait --any " + good + " " + long},
		{0, "doctor --help"},
		{1, "runs wait " + bad},
		{1, "logs -f " + bad},
		{1, "runs events -f " + bad},
		{1, "runs wait " + good + " " + bad},
		{1, "validate bad.json"},
		{1, "run bad.json"},
		{1, "runs rm " + long},
		{7, "runs wait --exit-code " + bad},
		{2, "ls --limit 0"},
		{2, "run none.py"},
		{2, "runs wait"},
		{2, "frobnicate"},
		{2, "ls --json -q"},
		{2, "runs wait --any --all " + good},
		{2, "tokens add ada"},
		{4, "runs show ffffffffffff"},
		{4, "runs wait ffffffffffff"},
		{4, "logs ffffffffffff"},
		{4, "cancel ffffffffffff"},
		{4, "runs hold ffffffffffff"},
		{4, "runs artifacts ffffffffffff"},
		{4, "runs facts ffffffffffff"},
		{4, "workers show nobody"},
		{4, "sweep show ffffffffffff"},
		{4, "study show ffffffffffff"},
		{4, "nodes Nonsense"},
		{4, "queue cuda:77"},
		{4, "tokens rm nobody"},
		{4, "hooks rm nobody"},
		{124, "runs wait --timeout 50ms " + long},
		{124, "runs wait --all --timeout 50ms " + good + " " + waits},
		{124, "runs wait --any --timeout 50ms " + long + " " + waits},
	} {
		try(c.want, c.args)
	}
	try(7, "run -q --exit-code", "--", "sh", "-c", "exit 7")
	try(124, "run -q --timeout 50ms", "--", "sleep", "600")

	// A prefix is enough wherever an id is taken, and one that could be several
	// runs is refused with those that it could be.
	for _, verb := range []string{"runs show", "runs events", "runs metrics", "runs artifacts", "runs facts", "runs wait", "logs", "runs pin", "runs unpin"} {
		try(0, verb+" "+good[:12])
	}
	if got := try(0, "runs hold -q "+waits[:12]); got != waits {
		t.Errorf("hold -q printed %q", got)
	}
	if got := try(0, "runs rerun -d -q "+good[:12]); len(got) != len(good) {
		t.Errorf("rerun -q printed %q", got)
	}
	try(0, "run -d -q --after "+good[:12]+":ok", "--", "true")

	// The interrupted watcher leaves the run alone.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&env.Interrupted{Signal: os.Interrupt})
	for _, args := range []string{"runs wait " + long, "logs -f " + long, "runs events -f " + long} {
		if _, errs, code := w.do(ctx, args); code != 130 {
			t.Errorf("%s: code %d, want 130: %s", args, code, errs)
		}
	}
	if got := w.say("ls -q --status running"); !strings.Contains(got, long) {
		t.Errorf("the run was taken along: %q", got)
	}

	// Whoever may look may not change.
	reader, submitter := w.say("tokens add eve --role read"), w.say("tokens add ada --role submit")
	own := w.Environ
	as := func(token string) { w.Environ = append(own, "CDUI_SERVER="+w.address, "CDUI_TOKEN="+token) }
	as(reader)
	try(0, "ls")
	try(5, "run -d", "--", "true")
	try(5, "cancel "+long)
	as("wrong")
	try(5, "cancel "+long)
	as(submitter)
	mine := try(0, "run -d -q", "--", "true")
	try(5, "workers add box1")
	w.Environ = own
	if got := try(0, "runs ls -q --user ada"); got != mine {
		t.Errorf("runs of ada are %q, not %q", got, mine)
	}
	if got := try(0, "runs ls -q --user nobody"); got != "" {
		t.Errorf("runs of nobody are %q", got)
	}
}
