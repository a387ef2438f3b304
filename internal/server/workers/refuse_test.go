package workers_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/workers"
)

func TestRefusalsCompleteTheUpgradeAndCloseWithACode(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	for name, c := range map[string]struct {
		dialing
		code int
	}{
		"SEC-01: another host":   {dialing{token: secret, host: "evil.example"}, protocol.CloseForbidden},
		"SEC-01: an Origin":      {dialing{token: secret, origin: "http://127.0.0.1"}, protocol.CloseForbidden},
		"SEC-05: no credential":  {dialing{}, protocol.CloseUnauthorized},
		"SEC-05: a wrong one":    {dialing{token: "x" + secret}, protocol.CloseUnauthorized},
		"SEC-05: one-time token": {dialing{token: "abcdef.abcdefghijklmnop"}, protocol.CloseUnauthorized},
	} {
		a := p.dial(c.dialing)
		a.send(hello("box", nil)) // nobody reads it
		if code := a.ended(); code != c.code {
			t.Errorf("%s: closed with %d, want %d", name, code, c.code)
		}
	}
	if w := p.worker("box"); w.State != api.WorkerOffline || w.RejectReason != "" || w.LastSeen != nil {
		t.Errorf("a refusal left state: %+v", w)
	}
	for name, c := range map[string]struct {
		token  string
		status int
	}{"no credential": {"", 401}, "a worker's": {secret, http.StatusUpgradeRequired}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.web.URL+"/ws/worker", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("K-09: plain HTTP with %s: %d, want %d", name, resp.StatusCode, c.status)
		}
	}
}

func TestRejectsAreKeptPerName(t *testing.T) {
	p := newPlane(t, nil)
	box, other := p.enrolled("box"), p.enrolled("other")
	old := func(h *protocol.Hello) { h.Version = "0.9" }
	for name, c := range map[string]struct {
		token, name string
		change      func(*protocol.Hello)
		code        string
		shown       string
	}{
		"SEC-07: another version":           {box, "box", old, protocol.RejectVersionMismatch, "box"},
		"SEC-09: another worker's name":     {other, "box", nil, protocol.RejectWrongName, "other"},
		"SEC-07: a reserved name":           {sessionToken, "any", nil, protocol.RejectReservedName, ""},
		"SEC-07: an illegal name":           {sessionToken, "Über box", nil, protocol.RejectBadName, ""},
		"an enrolled name by session token": {sessionToken, "box", nil, protocol.RejectNameTaken, "box"},
		"a version by session token":        {sessionToken, "mine", old, protocol.RejectVersionMismatch, "mine"},
	} {
		a := p.dial(dialing{token: c.token})
		a.send(hello(c.name, c.change))
		if r := take[*protocol.Reject](a); r.Code != c.code {
			t.Errorf("%s: %+v", name, r)
		} else if c.shown != "" {
			if w := p.worker(c.shown); w.State != api.WorkerRejected || w.RejectReason != r.Reason {
				t.Errorf("%s: %s is shown as %s, %q", name, c.shown, w.State, w.RejectReason)
			}
		}
		if code := a.ended(); code != protocol.CloseRejected {
			t.Errorf("%s: closed with %d", name, code)
		}
	}
	a := p.connect(box, "box", nil)
	if w := p.worker("box"); w.State != api.WorkerOnline || w.RejectReason != "" {
		t.Errorf("let in, it is %s, %q", w.State, w.RejectReason)
	}
	a.cut()
}

// SEC-06: the first frame is hello.
func TestWhatIsNoHelloIsRejected(t *testing.T) {
	p := newPlane(t, nil)
	for name, raw := range map[string]string{
		"garbage": "\x00\xff", "no JSON": "{", "another frame": `{"type":"heartbeat","epoch":0}`, "an unknown frame": `{"type":"hi","epoch":0}`,
	} {
		a := p.dial(dialing{token: sessionToken})
		a.raw([]byte(raw))
		if r := take[*protocol.Reject](a); r.Code != protocol.RejectBadHello {
			t.Errorf("%s: %+v", name, r)
		}
		if code := a.ended(); code != protocol.CloseRejected {
			t.Errorf("%s: closed with %d", name, code)
		}
	}
	if list := p.reg.List(context.Background()); len(list) != 0 {
		t.Errorf("they left %+v", list)
	}
}

// TestHostileFramesEndTheSessionAndNothingElse: what a worker sends can't end a
// run or another worker's session.
func TestHostileFramesEndTheSessionAndNothingElse(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	quiet := p.connect(p.enrolled("quiet"), "quiet", nil)
	as := quiet.assigned(p.submit(on("quiet")))
	theirs := p.submit(on("box"))
	for name, raw := range map[string]string{
		"garbage":           "\x00\x01",
		"a list":            `[]`,
		"no type":           `{"epoch":1}`,
		"a bad run id":      `{"type":"run_alive","epoch":E,"runs":[{"run_id":"../../etc","attempt":1}]}`,
		"no record":         `{"type":"frames","epoch":E,"runs":[{"run_id":"a","attempt":1,"records":[7]}]}`,
		"a part alone":      `{"type":"part","epoch":E,"id":1,"n":2,"of":2,"data":"eA=="}`,
		"a part in a part":  `{"type":"part","epoch":E,"id":1,"n":1,"of":1,"data":"eyJ0eXBlIjoicGFydCIsImVwb2NoIjowLCJpZCI6MiwibiI6MSwib2YiOjEsImRhdGEiOiJlQT09In0="}`,
		"beyond the credit": `{"type":"frames","epoch":E,"runs":[{"run_id":"a","attempt":1,"records":[` + strings.Repeat(`{},`, 1024) + `{}]}]}`,
		"a second hello":    `{"type":"hello","epoch":0,"name":"box","protocol_version":3}`,
		"too long":          strings.Repeat("x", protocol.MaxFrameBytes+1),
	} {
		a := p.connect(secret, "box", nil)
		a.mu.Lock()
		epoch := a.epoch
		a.mu.Unlock()
		a.raw([]byte(strings.Replace(raw, "E,", itoa(epoch)+",", 1)))
		if code := a.ended(); code == 1000 || code == 1001 {
			t.Errorf("%s: closed with %d", name, code)
		}
		eventually(t, "away after "+name, func() bool { return p.worker("box").State != api.WorkerOnline })
	}
	// A record with another worker's run id is nobody's.
	a := p.connect(secret, "box", nil)
	mine := a.assigned(theirs)
	a.report(&protocol.Assign{RunID: as.RunID, Attempt: as.Attempt}, 1, started(), note("forged"), finished(run.Failed))
	if c := take[*protocol.Cancel](a); c.RunID != as.RunID {
		t.Errorf("told %+v", c)
	}
	a.report(mine, 1, started(), finished(run.Succeeded))
	p.until(theirs, run.Succeeded)
	quiet.report(as, 1, started(), finished(run.Succeeded))
	quiet.ackedTo(as, 2)
	p.until(as.RunID, run.Succeeded)
	if got := p.log(as.RunID); len(got) != 2 {
		t.Errorf("the quiet run's log is %v", got)
	}
}

func itoa(n uint64) string {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

// TestP3TwoAgentsWithOneIdentity: while the first answers, the second one is
// turned away with a clear message, and runs never move between them.
func TestP3TwoAgentsWithOneIdentity(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	first := p.connect(secret, "box", nil)
	as := first.assigned(p.submit(on("box")))
	copied := func(h *protocol.Hello) { h.Nonce = "a copy of its folder" }
	second := p.dial(dialing{token: secret})
	second.send(hello("box", copied))
	if r := take[*protocol.Reject](second); r.Code != protocol.RejectDuplicateAgent || !strings.Contains(r.Reason, "name of its own") {
		t.Errorf("the second one is told %+v", r)
	}
	first.report(as, 1, started())
	first.ackedTo(as, 1)

	// The same process again takes over at once, and its run doesn't flap.
	again := p.connect(secret, "box", nil, alive(as))
	if code := first.ended(); code != protocol.CloseReplaced {
		t.Errorf("the old connection is closed with %d", code)
	}
	again.report(as, 2, finished(run.Succeeded))
	again.ackedTo(as, 2)
	if got := p.log(as.RunID); len(got) != 2 {
		t.Errorf("log %v", got)
	}

	// One that is silent is replaced by another process after a while.
	stopped := make(chan struct{})
	again.conn.SetPingHandler(func(string) error { <-stopped; return nil })
	third := p.dial(dialing{token: secret})
	third.send(hello("box", copied))
	take[*protocol.Welcome](third)
	close(stopped)
	if code := again.ended(); code != protocol.CloseReplaced {
		t.Errorf("the silent one is closed with %d", code)
	}
}

func TestAnotherReleaseWithRunsIsLetInForThoseAlone(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	as := a.assigned(p.submit(on("box")))
	a.report(as, 1, started())
	a.ackedTo(as, 1)
	a.cut()
	p.until(as.RunID, run.Disconnected)
	old := func(h *protocol.Hello) { h.Version = "0.9" }
	b := p.connect(secret, "box", old, alive(as))
	if d := take[*protocol.Drain](b); !d.On {
		t.Error("told to take runs")
	}
	p.until(as.RunID, run.Running)
	if w := p.worker("box"); !w.DrainOnly || !w.Draining || w.State != api.WorkerOnline {
		t.Errorf("the worker is %+v", w)
	}
	waits := p.submit(on("box"))
	if v := p.view(waits); v.QueueReasonCode != run.ReasonWorkerDraining {
		t.Errorf("a new run waits for %q", v.QueueReason)
	}
	b.report(as, 2, finished(run.Succeeded))
	b.ackedTo(as, 2)
	p.until(as.RunID, run.Succeeded)
	b.cut()
	eventually(t, "away", func() bool { return p.worker("box").State != api.WorkerOnline })
	c := p.dial(dialing{token: secret})
	c.send(hello("box", old))
	if r := take[*protocol.Reject](c); r.Params["worker"] != "0.9" || r.Params["server"] != release {
		t.Errorf("without runs it is told %+v", r)
	}
}

// DRN-01, DRN-02, DRN-03, W-09.
func TestDrainIsKeptAndToldAgain(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	as := a.assigned(p.submit(on("box")))
	if w, err := p.reg.Drain(t.Context(), "box", true); err != nil || !w.Draining {
		t.Fatalf("%+v, %v", w, err)
	}
	if d := take[*protocol.Drain](a); !d.On {
		t.Error("told to take runs")
	}
	waits := p.submit(on("box"))
	if v := p.view(waits); v.QueueReason != "worker box is draining" {
		t.Errorf("waits for %q", v.QueueReason)
	}
	p.restart()
	if w := p.worker("box"); !w.Draining {
		t.Error("a restart undoes the drain")
	}
	b := p.connect(secret, "box", nil, alive(as))
	take[*protocol.Drain](b)
	if _, err := p.reg.Drain(t.Context(), "box", false); err != nil {
		t.Fatal(err)
	}
	if d := take[*protocol.Drain](b); d.On {
		t.Error("told to drain")
	}
	b.assigned(waits)
	if _, err := p.reg.Drain(t.Context(), "nobody", true); api.CodeOf(err) != api.NotFound {
		t.Errorf("drain of nobody: %v", err)
	}
}

func TestEnrollment(t *testing.T) {
	p := newPlane(t, nil)
	e, err := p.reg.NewEnrollment(t.Context(), "ada", api.EnrollmentRequest{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	if head, tail, ok := strings.Cut(e.Token, "."); !ok || len(head) != 6 || len(tail) != 16 {
		t.Errorf("ENR-01: the token is %q", e.Token)
	}
	if left := time.Until(e.ExpiresAt); left < 23*time.Hour || left > 25*time.Hour {
		t.Errorf("ENR-01: good for %v", left)
	}
	if want := "cdui agent start --control http://lab:8000 --token " + e.Token + " --name box"; e.Command != want {
		t.Errorf("command %q, want %q", e.Command, want)
	}
	ask := api.EnrollRequest{Token: e.Token, Name: "box", MachineID: "m", Version: release}
	status, secret := p.post("/enroll", ask)
	if status != http.StatusOK {
		t.Fatal(status, secret)
	}
	for name, c := range map[string]struct {
		req    api.EnrollRequest
		status int
		says   string
	}{
		"ENR-01: used":     {ask, 403, "used for box"},
		"a mistyped one":   {api.EnrollRequest{Token: "nope", Name: "box2"}, 403, "unknown"},
		"a reserved name":  {api.EnrollRequest{Token: "nope", Name: "local"}, 400, "reserved"},
		"an illegal name":  {api.EnrollRequest{Token: "nope", Name: "a/b"}, 400, "bad worker name"},
		"a name too long":  {api.EnrollRequest{Token: "nope", Name: strings.Repeat("a", 64)}, 400, "bad worker name"},
		"ENR-05: is taken": {api.EnrollRequest{Token: another(t, p), Name: "box"}, 409, "rekey"},
	} {
		if status, said := p.post("/enroll", c.req); status != c.status || !strings.Contains(said, c.says) {
			t.Errorf("%s: %d %q, want %d %q", name, status, said, c.status, c.says)
		}
	}
	for range 20 {
		if status, said := p.post("/enroll", api.EnrollRequest{Token: "guess", Name: "x"}); status == http.StatusTooManyRequests {
			if !strings.Contains(said, "wait") {
				t.Errorf("ENR-02: told %q", said)
			}
			return
		}
	}
	t.Error("ENR-02: tries are not limited")
}

func another(t *testing.T, p *plane) string {
	t.Helper()
	e, err := p.reg.NewEnrollment(t.Context(), "", api.EnrollmentRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return e.Token
}

// K-08, ENR-05, ERR-08.
func TestRekey(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	as := a.assigned(p.submit(on("box")))
	a.report(as, 1, started())
	a.ackedTo(as, 1)
	e, err := p.reg.Rekey(t.Context(), "ada", "box")
	if err != nil {
		t.Fatal(err)
	}
	if code := a.ended(); code != protocol.CloseUnauthorized {
		t.Errorf("closed with %d", code)
	}
	p.until(as.RunID, run.Disconnected)
	replay := p.dial(dialing{token: secret})
	if code := replay.ended(); code != protocol.CloseUnauthorized {
		t.Errorf("the old token: closed with %d", code)
	}
	if status, said := p.post("/enroll", api.EnrollRequest{Token: e.Token, Name: "other"}); status != 403 {
		t.Errorf("it enrolls another worker: %d %s", status, said)
	}
	status, fresh := p.post("/enroll", api.EnrollRequest{Token: e.Token, Name: "box"})
	if status != http.StatusOK {
		t.Fatal(status, fresh)
	}
	b := p.connect(fresh, "box", nil, alive(as))
	p.until(as.RunID, run.Running)
	b.report(as, 2, finished(run.Succeeded))
	b.ackedTo(as, 2)
	p.until(as.RunID, run.Succeeded)
}

// K-08, ENR-06, ERR-02, ERR-06, ERR-08.
func TestK08RemoveAWorker(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	as := a.assigned(p.submit(map[string]any{"target": map[string]any{"worker": "box", "devices": []string{"cuda:0"}}}))
	waits := p.submit(map[string]any{"target": map[string]any{"worker": "box", "devices": []string{"cuda:0"}}})
	a.report(as, 1, started())
	a.ackedTo(as, 1)
	if err := p.reg.Remove(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	if code := a.ended(); code != protocol.CloseUnauthorized {
		t.Errorf("closed with %d", code)
	}
	v := p.until(as.RunID, run.Interrupted)
	if !strings.Contains(string(v.Facts), protocol.CodeWorkerRemoved) {
		t.Errorf("facts %s", v.Facts)
	}
	p.until(waits, run.Failed)
	if _, err := p.reg.Worker(t.Context(), "box"); api.CodeOf(err) != api.NotFound {
		t.Errorf("it is still there: %v", err)
	}
	if code := p.dial(dialing{token: secret}).ended(); code != protocol.CloseUnauthorized {
		t.Errorf("its token: closed with %d", code)
	}
	p.restart()
	if list := p.reg.List(t.Context()); len(list) != 0 {
		t.Errorf("after a restart %+v", list)
	}
}

// TestNoSecretIsLogged runs workers through their life and looks for every
// secret in the log.
func TestNoSecretIsLogged(t *testing.T) {
	var log lockedBuffer
	p := newPlane(t, func(c *workers.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	e, err := p.reg.NewEnrollment(t.Context(), "", api.EnrollmentRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, secret := p.post("/enroll", api.EnrollRequest{Token: e.Token, Name: "box"})
	p.post("/enroll", api.EnrollRequest{Token: e.Token, Name: "box"})
	a := p.connect(secret, "box", nil)
	as := a.assigned(p.submit(on("box")))
	a.report(as, 1, started(), finished(run.Succeeded))
	a.ackedTo(as, 2)
	a.cut()
	p.dial(dialing{token: "x" + secret}).ended()
	again, err := p.reg.Rekey(t.Context(), "", "box")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{e.Token, secret, again.Token, sessionToken} {
		if strings.Contains(log.String(), s) {
			t.Errorf("the log holds %s", s)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
