package hooks_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/server/hooks"
)

// A webhook gets the body and its token, which is read where it is; nothing of
// the token or the address' path is in an error.
func TestWebhooksAreSentTheirToken(t *testing.T) {
	var got http.Header
	var body string
	status := http.StatusNoContent
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, body = r.Header, string(raw)
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	calls := hooks.NewCalls([]string{"T=quiet"})
	spec := api.HookSpec{URL: srv.URL + "/secret-path", TokenFile: file}
	if err := calls.Carry(t.Context(), spec, []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if got.Get("Authorization") != "Bearer hush" || got.Get("Content-Type") != "application/json" || body != `{"a":1}` {
		t.Errorf("%v %s", got, body)
	}
	env := api.HookSpec{URL: srv.URL, TokenEnv: "T"}
	if err := calls.Carry(t.Context(), env, nil); err != nil || got.Get("Authorization") != "Bearer quiet" {
		t.Errorf("%v, %v", err, got)
	}
	for code, final := range map[int]bool{302: true, 404: true, 401: true, 500: false, 503: false, 429: false} {
		status = code
		err := calls.Carry(t.Context(), spec, nil)
		if err == nil || errors.Is(err, hooks.ErrFinal) != final {
			t.Errorf("%d: %v", code, err)
		}
	}
	srv.Close()
	if err := calls.Carry(t.Context(), spec, nil); err == nil || errors.Is(err, hooks.ErrFinal) || strings.Contains(err.Error(), "secret-path") || strings.Contains(err.Error(), "hush") {
		t.Errorf("nobody there: %v", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := calls.Carry(t.Context(), spec, nil); !errors.Is(err, hooks.ErrFinal) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a token that others may read: %v", err)
	}
	if err := calls.Carry(t.Context(), api.HookSpec{URL: srv.URL, TokenEnv: "NONE"}, nil); !errors.Is(err, hooks.ErrFinal) || !strings.Contains(err.Error(), "NONE") {
		t.Errorf("no such variable: %v", err)
	}
}

// A command reads the body from its standard input.
func TestCommandsReadTheBody(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	calls := hooks.NewCalls([]string{"PATH=" + os.Getenv("PATH"), "OUT=" + out})
	if err := calls.Carry(t.Context(), api.HookSpec{Command: []string{"sh", "-c", `cat >"$OUT"`}}, []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(out); err != nil || string(raw) != `{"a":1}` {
		t.Errorf("%q, %v", raw, err)
	}
	for _, argv := range [][]string{{"sh", "-c", "exit 3"}, {"/no/such/program"}} {
		if err := calls.Carry(t.Context(), api.HookSpec{Command: argv}, nil); err == nil || !strings.Contains(err.Error(), argv[0]) {
			t.Errorf("%q: %v", argv, err)
		}
	}
}

// A command whose time is over goes with all that it started.
func TestCommandsGoAsAWhole(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	path := filepath.Join(t.TempDir(), "pid")
	calls := hooks.NewCalls([]string{"PATH=" + os.Getenv("PATH"), "P=" + path})
	go func() {
		done <- calls.Carry(ctx, api.HookSpec{Command: []string{"sh", "-c", `sleep 600 & echo $! >"$P.new"; mv "$P.new" "$P"; wait`}}, nil)
	}()
	deadline := time.Now().Add(time.Minute)
	var pid string
	for pid == "" {
		raw, _ := os.ReadFile(path)
		if pid = strings.TrimSpace(string(raw)); pid == "" && time.Now().After(deadline) {
			t.Fatal("the command did not start")
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("it counts as done")
	}
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %s is left", pid)
		}
	}
}

// alive tells whether a process runs; a zombie that waits for its parent
// doesn't.
func alive(pid string) bool {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}
