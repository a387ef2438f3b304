package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/client"
)

func at(url string) *client.Client {
	return client.New(client.Config{Place: func() (client.Place, error) {
		return client.Place{URL: url, Token: "t0ken"}, nil
	}})
}

func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c := at(srv.URL)
	t.Cleanup(c.Close)
	return c
}

func TestRepliesAreTyped(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(api.HeaderToken) != "t0ken" {
			t.Error("the token is missing")
		}
		if got := r.URL.String(); got != "/api/runs/3f%2F1c/events?cursor=7&limit=10&wait=30" {
			t.Errorf("asked for %s", got)
		}
		_, _ = w.Write([]byte(`{"run_id":"3f1c","status":"running","active":true,"events":[{"cursor":8,"type":"metric","payload":{"a":1},"ts":"2026-01-02T03:04:05Z"}],"cursor":8}`))
	})
	got, err := c.Events(t.Context(), "3f/1c", 7, 30e9, 10)
	if err != nil || got.Cursor != 8 || string(got.Events[0].Payload) != `{"a":1}` {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRefusalsAreAPIErrors(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(api.ErrorBody{Error: api.Errorf(api.Conflict, "3 is not unique").With("candidates", []string{"31", "32"})})
	})
	_, err := c.Run(t.Context(), "3")
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Code != api.Conflict || refused.Params["candidates"] == nil {
		t.Errorf("%v", err)
	}
}

func TestSomethingElseThatAnswersIsUnreachable(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"html page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"not found": http.NotFound,
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere/", http.StatusFound)
		},
	} {
		c := serve(t, h)
		_, err := c.Health(t.Context())
		var gone *client.Unreachable
		if !errors.As(err, &gone) || !strings.Contains(err.Error(), "no control plane of cdui") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	url := srv.URL
	srv.Close()
	_, err := at(url).Health(t.Context())
	var gone *client.Unreachable
	if !errors.As(err, &gone) || !strings.Contains(err.Error(), "cdui start") || !strings.Contains(err.Error(), strings.TrimPrefix(url, "http://")) {
		t.Errorf("%v", err)
	}
}

func TestAControlPlaneThatCameBackElsewhereIsFound(t *testing.T) {
	t.Parallel()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"ok"}`)) }
	first, second := httptest.NewServer(http.HandlerFunc(ok)), httptest.NewServer(http.HandlerFunc(ok))
	defer second.Close()
	url := first.URL
	c := client.New(client.Config{Place: func() (client.Place, error) { return client.Place{URL: url}, nil }})
	if _, err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.Close()
	url = second.URL
	if _, err := c.Health(t.Context()); err == nil {
		t.Fatal("a closed server answered")
	}
	if _, err := c.Health(t.Context()); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestACancelledCallGivesItsCause(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("ctrl-c")
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(why)
		<-r.Context().Done()
	})
	if _, err := c.Health(ctx); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

func TestLogChunk(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.RawQuery; got != "limit=4&offset=10&wait=1.5" {
			t.Errorf("asked for %s", got)
		}
		w.Header().Set(api.HeaderLogOffset, "12")
		w.Header().Set(api.HeaderLogNext, "16")
		w.Header().Set(api.HeaderLogSize, "20")
		w.Header().Set(api.HeaderLogCut, "2")
		w.Header().Set(api.HeaderLogEnded, "true")
		_, _ = w.Write([]byte{0, 1, 2, 3})
	})
	got, err := c.Log(t.Context(), "a", 10, 4, 1500e6)
	if err != nil || got.Offset != 12 || got.Next != 16 || got.Size != 20 || got.Cut != 2 || !got.Ended || len(got.Bytes) != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Proves S-04.
func TestDiscover(t *testing.T) {
	t.Parallel()
	alive := func(pid int) bool { return pid == 42 }
	const running = `{"pid":42,"address":"http://127.0.0.1:8123","boot_id":"b","machine_id":"here","version":"1"}`
	for _, c := range []struct {
		name       string
		serverJSON string
		search     client.Search
		url, token string
		says       string
	}{
		{name: "named", search: client.Search{Server: "lab:8000/", Token: "x"}, url: "http://lab:8000", token: "x"},
		{name: "named beyond this machine gets no local token", search: client.Search{Server: "https://lab"}, url: "https://lab"},
		{name: "named on loopback gets the local token", search: client.Search{Server: "localhost:1"}, url: "http://localhost:1", token: "local"},
		{name: "nonsense", search: client.Search{Server: "ftp://x"}, says: "no address of a control plane"},
		{name: "context", search: client.Search{Context: &client.Context{Name: "lab", URL: "http://lab"}}, url: "http://lab"},
		{name: "context without its token", search: client.Search{Context: &client.Context{Name: "lab", URL: "http://lab", TokenFile: "/no/such"}}, says: `context "lab"`},
		{name: "local", serverJSON: running, url: "http://127.0.0.1:8123", token: "local"},
		{name: "nothing here", says: "cdui start"},
		{name: "another machine's", serverJSON: strings.Replace(running, "here", "there", 1), says: "another machine"},
		{name: "dead", serverJSON: strings.Replace(running, "42", "43", 1), says: "not running any more"},
		{name: "damaged", serverJSON: `{"pid":`, says: "damaged"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "token"), []byte("local\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.serverJSON != "" {
			if err := os.WriteFile(filepath.Join(dir, "server.json"), []byte(c.serverJSON), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := c.search
		s.DataDir, s.MachineID, s.Alive = dir, "here", alive
		place, err := client.Discover(s)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || place.URL != c.url || place.Token != c.token {
			t.Errorf("%s: %+v, %v", c.name, place, err)
		}
	}
}
