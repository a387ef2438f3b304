package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/client"
	"cdui/internal/tlspin"
)

func TestCallsOfWorkersAndTokens(t *testing.T) {
	t.Parallel()
	var asked []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "box/1", "token": "t"})
	}))
	defer srv.Close()
	c := client.New(client.Config{Place: func() (client.Place, error) { return client.Place{URL: srv.URL}, nil }})
	defer c.Close()
	ctx := t.Context()
	for _, call := range []func() error{
		func() error { _, err := c.Workers(ctx); return err },
		func() error { _, err := c.Worker(ctx, "box/1"); return err },
		func() error { _, err := c.AddWorker(ctx, "box1", 0); return err },
		func() error { _, err := c.AddWorker(ctx, "box1", time.Minute); return err },
		func() error { _, err := c.Drain(ctx, "box1"); return err },
		func() error { _, err := c.Undrain(ctx, "box1"); return err },
		func() error { _, err := c.RekeyWorker(ctx, "box1"); return err },
		func() error { return c.RemoveWorker(ctx, "box1") },
		func() error { _, err := c.Tokens(ctx); return err },
		func() error { _, err := c.AddToken(ctx, "ada", api.RoleRead); return err },
		func() error { return c.RemoveToken(ctx, "ada") },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	want := `GET /api/workers
GET /api/workers/box%2F1
POST /api/workers/enrollments {"name":"box1"}
POST /api/workers/enrollments {"name":"box1","ttl_s":60}
POST /api/workers/box1/drain
POST /api/workers/box1/undrain
POST /api/workers/box1/rekey
DELETE /api/workers/box1
GET /api/tokens
POST /api/tokens {"name":"ada","role":"read"}
DELETE /api/tokens/ada`
	if got := strings.Join(asked, "\n"); got != want {
		t.Errorf("asked\n%s", got)
	}
}

// TLS-01: a control plane with a certificate of its own is known by its pin,
// and one with another key gets no token.
func TestAPinnedControlPlane(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 10)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get(api.HeaderToken)
		_ = json.NewEncoder(w).Encode(api.Health{Status: "ok"})
	}))
	defer srv.Close()
	right := tlspin.Of(srv.Certificate())
	wrong := right
	wrong[0] ^= 1
	health := func(ctx context.Context, pin string) error {
		c := client.New(client.Config{Place: func() (client.Place, error) {
			return client.Place{URL: srv.URL, Token: "s3cret", Pin: pin}, nil
		}})
		defer c.Close()
		_, err := c.Health(ctx)
		return err
	}
	if err := health(t.Context(), right.String()); err != nil || <-tokens != "s3cret" {
		t.Errorf("the right pin: %v", err)
	}
	for pin, says := range map[string]string{wrong.String(): "is not the control plane that is pinned", "": "name its CA or its pin"} {
		var gone *client.Unreachable
		if err := health(t.Context(), pin); !errors.As(err, &gone) || !strings.Contains(err.Error(), says) {
			t.Errorf("pin %q: %v", pin, err)
		}
	}
	if len(tokens) > 0 {
		t.Error("a token went to whoever answered")
	}
	if err := health(t.Context(), "1234"); err == nil {
		t.Error("a pin that is none was taken")
	}
}
