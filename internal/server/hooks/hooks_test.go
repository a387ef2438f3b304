package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/server/hooks"
	"cdui/internal/store"
)

// shelf keeps hooks in memory.
type shelf struct{ all []store.Hook }

func (s *shelf) AddHook(_ context.Context, h store.Hook) error {
	s.all = append(s.all, h)
	return nil
}
func (s *shelf) RemoveHook(context.Context, string) error    { return nil }
func (s *shelf) Hooks(context.Context) ([]store.Hook, error) { return s.all, nil }

// carrier answers by what a hook's command is called.
type carrier struct {
	mu    sync.Mutex
	began time.Time
	// tries are "command body-event seconds".
	tries []string
	ids   []string
	do    map[string]func(ctx context.Context, try int) error
}

func (c *carrier) Carry(ctx context.Context, spec api.HookSpec, raw []byte) error {
	var body api.HookBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	c.mu.Lock()
	name := spec.Command[0]
	try := 0
	for _, t := range c.tries {
		if strings.HasPrefix(t, name+" ") {
			try++
		}
	}
	c.tries = append(c.tries, fmt.Sprintf("%s %s %g", name, body.Event, time.Since(c.began).Round(time.Millisecond).Seconds()))
	c.ids = append(c.ids, body.ID)
	do := c.do[name]
	c.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx, try)
}

func (c *carrier) said() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tries)
}

func keeper(t *testing.T, c *carrier, specs ...api.HookRequest) *hooks.Keeper {
	t.Helper()
	c.began = time.Now()
	k := hooks.New(hooks.Config{Store: &shelf{}, Carrier: c})
	for _, s := range specs {
		if _, err := k.Add(t.Context(), "ada", s); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func hook(name string, on ...api.HookEvent) api.HookRequest {
	return api.HookRequest{Name: name, HookSpec: api.HookSpec{On: on, Command: []string{name}}}
}

func ended(status run.Status) api.HookBody { return hooks.Ended(run.Row{Status: status}) }

// Proves M-01: a hook is called for its events, and again with growing pauses
// until it takes the call, under the same id.
func TestCallsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &carrier{do: map[string]func(context.Context, int) error{"a": func(_ context.Context, try int) error {
			if try < 2 {
				return errors.New("busy")
			}
			return nil
		}}}
		k := keeper(t, c, hook("a", api.HookFailed, api.HookStarted))
		k.Emit(ended(run.Failed))
		k.Emit(ended(run.Succeeded)) // not asked for
		k.Emit(hooks.Started(run.Row{}))
		time.Sleep(time.Minute)
		k.Close()
		if want := []string{"a failed 0", "a failed 1", "a failed 6", "a started 6"}; !slices.Equal(c.tries, want) {
			t.Errorf("%q", c.tries)
		}
		if c.ids[0] == "" || c.ids[0] != c.ids[2] || c.ids[0] == c.ids[3] {
			t.Errorf("ids %q", c.ids)
		}
		if h := k.List().Hooks[0]; h.Delivered != 2 || h.GivenUp != 0 || h.LastError != "" || h.CreatedBy != "ada" {
			t.Errorf("%+v", h)
		}
	})
}

// A hook that is down or refuses costs its own calls alone.
func TestCallsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &carrier{do: map[string]func(context.Context, int) error{
			"down":  func(context.Context, int) error { return errors.New("no route") },
			"wrong": func(context.Context, int) error { return fmt.Errorf("%w: 404", hooks.ErrFinal) },
			"hangs": func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
		}}
		k := keeper(t, c, hook("down", api.HookFailed), hook("good", api.HookFailed), hook("hangs", api.HookFailed), hook("wrong", api.HookFailed))
		k.Emit(ended(run.Failed))
		synctest.Wait()
		if !slices.Contains(c.said(), "good failed 0") {
			t.Errorf("a hook waits for others: %q", c.said())
		}
		time.Sleep(time.Hour)
		k.Close()
		count := map[string]int{}
		for _, try := range c.tries {
			name, _, _ := strings.Cut(try, " ")
			count[name]++
		}
		if count["down"] != 5 || count["good"] != 1 || count["hangs"] != 5 || count["wrong"] != 1 {
			t.Errorf("tries: %v", count)
		}
		for _, h := range k.List().Hooks {
			if (h.Name == "good") != (h.GivenUp == 0) {
				t.Errorf("%+v", h)
			}
			if h.Name == "hangs" && h.LastError != "it took longer than 20s" {
				t.Errorf("%+v", h)
			}
		}
	})
}

// Calls that come while too many wait are dropped and counted; nobody waits for
// a hook, not even the end of the control plane.
func TestWaitingCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &carrier{do: map[string]func(context.Context, int) error{
			"hangs": func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() },
		}}
		k := keeper(t, c, hook("hangs", api.HookFailed))
		k.Emit(ended(run.Failed))
		synctest.Wait()
		for range 300 {
			k.Emit(ended(run.Failed))
		}
		if h := k.List().Hooks[0]; h.Dropped != 300-256 {
			t.Errorf("%d dropped", h.Dropped)
		}
		began := time.Now()
		k.Close()
		if time.Since(began) > 0 {
			t.Errorf("Close waited for %s", time.Since(began))
		}
	})
}

func TestATestCallsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &carrier{do: map[string]func(context.Context, int) error{"a": func(context.Context, int) error { return errors.New("busy") }}}
		k := keeper(t, c, hook("a", api.HookFailed), hook("b", api.HookFailed))
		defer k.Close()
		if r, err := k.Test(t.Context(), "a"); err != nil || r.OK || r.Error != "busy" {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := k.Test(t.Context(), "b"); err != nil || !r.OK {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := k.Test(t.Context(), "c"); api.CodeOf(err) != api.NotFound {
			t.Errorf("%v", err)
		}
		if want := []string{"a test 0", "b test 0"}; !slices.Equal(c.tries, want) {
			t.Errorf("%q", c.tries)
		}
	})
}

// Hooks outlive the control plane's process, without the counts.
func TestHooksAreLoaded(t *testing.T) {
	st, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "cdui.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	k := hooks.New(hooks.Config{Store: st, Carrier: &carrier{}})
	if _, err := k.Add(t.Context(), "ada", hook("a", api.HookLost)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Add(t.Context(), "ada", hook("a", api.HookLost)); api.CodeOf(err) != api.Conflict {
		t.Errorf("a name twice: %v", err)
	}
	k.Close()
	k = hooks.New(hooks.Config{Store: st, Carrier: &carrier{}})
	defer k.Close()
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := k.List().Hooks; len(l) != 1 || l[0].Name != "a" || !slices.Equal(l[0].On, []api.HookEvent{api.HookLost}) || l[0].Command[0] != "a" {
		t.Errorf("%+v", l)
	}
	if err := k.Remove(t.Context(), "a"); err != nil || len(k.List().Hooks) != 0 {
		t.Errorf("%v", err)
	}
	if err := k.Remove(t.Context(), "a"); api.CodeOf(err) != api.NotFound {
		t.Errorf("%v", err)
	}
}

func TestHooksAreRefused(t *testing.T) {
	k := hooks.New(hooks.Config{Store: &shelf{}, Carrier: &carrier{}})
	defer k.Close()
	failed := []api.HookEvent{api.HookFailed}
	for want, req := range map[string]api.HookRequest{
		"name":              {Name: "a b", HookSpec: api.HookSpec{On: failed, Command: []string{"x"}}},
		"on is empty":       {Name: "a", HookSpec: api.HookSpec{Command: []string{"x"}}},
		"no event":          {Name: "a", HookSpec: api.HookSpec{On: []api.HookEvent{"test"}, Command: []string{"x"}}},
		"either a command":  {Name: "a", HookSpec: api.HookSpec{On: failed}},
		"are for a url":     {Name: "a", HookSpec: api.HookSpec{On: failed, Command: []string{"x"}, TokenEnv: "T"}},
		"not both":          {Name: "a", HookSpec: api.HookSpec{On: failed, URL: "http://x", TokenEnv: "T", TokenFile: "/t"}},
		"absolute":          {Name: "a", HookSpec: api.HookSpec{On: failed, URL: "http://x", TokenFile: "t"}},
		"http or https":     {Name: "a", HookSpec: api.HookSpec{On: failed, URL: "file:///etc/passwd"}},
		"holds a password":  {Name: "a", HookSpec: api.HookSpec{On: failed, URL: "http://ada:hush@x/"}},
		"begins with an em": {Name: "a", HookSpec: api.HookSpec{On: failed, Command: []string{""}}},
	} {
		_, err := k.Add(t.Context(), "ada", req)
		if api.CodeOf(err) != api.Invalid || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if n := len(k.List().Hooks); n != 0 {
		t.Errorf("%d hooks were kept", n)
	}
}

// A run's end is one event.
func TestEndsAreOneEvent(t *testing.T) {
	for _, c := range []struct {
		status run.Status
		class  run.EndClass
		want   api.HookEvent
	}{
		{run.Succeeded, "", api.HookFinished},
		{run.Cancelled, run.EndCancel, api.HookFinished},
		{run.Failed, run.EndUserCode, api.HookFailed},
		{run.Failed, run.EndWorkerLost, api.HookLost},
		{run.Interrupted, run.EndServer, api.HookLost},
	} {
		body := hooks.Ended(run.Row{ID: "x", Status: c.status, EndClass: c.class, Error: strings.Repeat("e", 10000)})
		if body.Event != c.want || body.Run.RunID != "x" || body.Run.Status != c.status || len(body.Run.Error) > 4096 {
			t.Errorf("%s %s: %s", c.status, c.class, body.Event)
		}
	}
}

func TestWhatGoesWrongIsToldOnce(t *testing.T) {
	card := hooks.Place{Worker: "box", Device: "cuda:0"}
	at := func(online bool, ails string) hooks.Condition {
		return hooks.Condition{Online: map[string]bool{"box": online}, Ails: map[hooks.Place]string{card: ails}}
	}
	for _, c := range []struct {
		name        string
		before, now hooks.Condition
		want        string
	}{
		{"nothing", at(true, ""), at(true, ""), ""},
		{"it goes", at(true, ""), at(false, ""), "worker_down box "},
		{"it is still away", at(false, ""), at(false, ""), ""},
		{"it comes back", at(false, ""), at(true, ""), ""},
		{"it was never seen", hooks.Condition{}, at(false, ""), ""},
		{"it was removed", at(true, ""), hooks.Condition{}, ""},
		{"a card falls ill", at(true, ""), at(true, "xid"), "card_unhealthy box cuda:0"},
		{"it is still ill", at(true, "xid"), at(true, "ecc"), ""},
		{"it is ill at the start", hooks.Condition{}, at(true, "xid"), "card_unhealthy box cuda:0"},
		{"it recovers", at(true, "xid"), at(true, ""), ""},
	} {
		var said []string
		for _, b := range hooks.Changes(c.before, c.now) {
			said = append(said, fmt.Sprintf("%s %s %s", b.Event, b.Worker, b.Device))
		}
		if got := strings.Join(said, ";"); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
