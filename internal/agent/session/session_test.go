package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/agent/session"
	"cdui/internal/protocol"
)

// books is a Worker that notes what it is told.
type books struct {
	mu     sync.Mutex
	orders []protocol.Frame
	links  []session.Link
	news   chan struct{}
}

func newBooks() *books { return &books{news: make(chan struct{}, 1000)} }

func (b *books) Hello() *protocol.Hello {
	return &protocol.Hello{
		Name: "box", Protocol: protocol.Version,
		Capabilities: protocol.Capabilities{protocol.CapAck, protocol.CapFrames, protocol.CapParts, protocol.CapRunFacts},
	}
}
func (b *books) Heartbeat() *protocol.Heartbeat { return &protocol.Heartbeat{} }

func (b *books) Alive() []protocol.AliveRun { return nil }

func (b *books) Log(string) (session.Log, error) { return nil, errors.New("no such run") }

func (b *books) Order(f protocol.Frame) { b.note(func() { b.orders = append(b.orders, f) }) }

func (b *books) Link(l session.Link) { b.note(func() { b.links = append(b.links, l) }) }

func (b *books) note(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	b.news <- struct{}{}
}

func (b *books) look(cond func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cond()
}

func (b *books) await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !b.look(cond) {
		select {
		case <-b.news:
		case <-deadline:
			t.Fatalf("%s did not come about", what)
		}
	}
}

// shelf is a Source of records in memory.
type shelf struct {
	records []protocol.Record
	after   uint64
}

func (s *shelf) From(seq uint64) { s.after = seq }

func (s *shelf) Next(context.Context) ([]protocol.Record, error) {
	i := slices.IndexFunc(s.records, func(r protocol.Record) bool { return r.Seq > s.after })
	if i < 0 {
		return nil, io.EOF
	}
	rest := s.records[i:]
	s.after = rest[len(rest)-1].Seq
	return rest, nil
}

func record(t *testing.T, seq uint64, kind protocol.RecordType, payload string) protocol.Record {
	t.Helper()
	p, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	r := protocol.Record{Seq: seq, Type: kind, TS: time.Unix(1, 0).UTC(), Payload: p}
	if _, err := protocol.EncodeRecord(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// longest makes a record that fits into no frame with its envelope.
func longest(t *testing.T, seq uint64) protocol.Record {
	t.Helper()
	return record(t, seq, protocol.Event, strings.Repeat("x", protocol.MaxRecordBytes-len(record(t, seq, protocol.Event, "").Raw)))
}

// door is the control plane's end, which a script plays.
type door struct {
	t    *testing.T
	conn *websocket.Conn
}

func (d *door) send(epoch uint64, f protocol.Frame) {
	d.t.Helper()
	b, err := protocol.Encode(epoch, f)
	if err != nil {
		d.t.Error(err)
		return
	}
	d.raw(b)
}

func (d *door) raw(b []byte) {
	d.t.Helper()
	if err := d.conn.WriteMessage(websocket.TextMessage, b); err != nil {
		d.t.Error(err)
	}
}

// next gives the next message as it came.
func (d *door) next() (protocol.Envelope, []byte, error) {
	_ = d.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, raw, err := d.conn.ReadMessage()
	if err != nil {
		return protocol.Envelope{}, nil, err
	}
	env, err := protocol.DecodeFromAgent(raw)
	return env, raw, err
}

// open serves one script to each connection in turn and runs a client against
// it until the test ends.
func open(t *testing.T, b *books, scripts ...func(d *door)) *session.Client {
	t.Helper()
	var mu sync.Mutex
	turn := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		mu.Lock()
		play := scripts[min(turn, len(scripts)-1)]
		turn++
		mu.Unlock()
		play(&door{t, conn})
	}))
	t.Cleanup(srv.Close)
	c, err := session.New(session.Config{
		URL: srv.URL, Token: func() (string, error) { return "t", nil }, Worker: b, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return c
}

// greet takes hello and answers with a welcome that has caps.
func (d *door) greet(caps ...protocol.Capability) {
	d.t.Helper()
	if env, _, err := d.next(); err != nil || env.Frame.FrameType() != protocol.TypeHello {
		d.t.Errorf("the first frame is %v, %v", env, err)
	}
	d.send(5, &protocol.Welcome{WorkerID: "box", Protocol: protocol.Version, HeartbeatS: 60, GraceS: 1, Capabilities: caps})
}

// TestALongRecordComesInParts: W-03.
func TestALongRecordComesInParts(t *testing.T) {
	t.Parallel()
	long := longest(t, 2)
	src := &shelf{records: []protocol.Record{record(t, 1, protocol.Event, "a"), long, record(t, 3, protocol.Event, "b")}}
	got := make(chan []json.RawMessage, 1)
	c := open(t, newBooks(), func(d *door) {
		d.greet(protocol.CapAck, protocol.CapFrames, protocol.CapParts)
		var joiner protocol.Joiner
		var all []json.RawMessage
		for len(all) < 3 {
			env, raw, err := d.next()
			if err != nil {
				t.Error(err)
				break
			}
			if len(raw) > protocol.MaxFrameBytes || env.Epoch != 5 {
				t.Errorf("a message of %d bytes, session %d", len(raw), env.Epoch)
			}
			if p, ok := env.Frame.(*protocol.Part); ok {
				whole, err := joiner.Add(p)
				if err != nil {
					t.Error(err)
				}
				if whole == nil {
					continue
				}
				if env, err = protocol.DecodeFromAgent(whole); err != nil {
					t.Error(err)
					break
				}
			}
			if f, ok := env.Frame.(*protocol.Frames); ok {
				for _, r := range f.Runs {
					all = append(all, r.Records...)
					d.send(5, &protocol.Ack{RunID: r.RunID, Attempt: r.Attempt, Seq: uint64(len(all))})
				}
			}
		}
		got <- all
	})
	c.Follow(session.Key{RunID: "r", Attempt: 1}, src)
	all := <-got
	if len(all) != 3 || !bytes.Equal(all[1], long.Raw) {
		t.Errorf("%d records came, the long one whole: %v", len(all), len(all) == 3 && bytes.Equal(all[1], long.Raw))
	}
}

// TestWhatAPeerCantTakeIsLeftOut: W-03, FRM-06, PRO-02.
func TestWhatAPeerCantTakeIsLeftOut(t *testing.T) {
	t.Parallel()
	bad := record(t, 3, protocol.Event, "x")
	bad.Raw = json.RawMessage("{\"seq\":3,\"type\":\"event\",\"x\":\"\xff\"}")
	src := &shelf{records: []protocol.Record{
		record(t, 1, protocol.RunFacts, "facts"),
		longest(t, 2),
		bad, record(t, 4, protocol.Event, "good"),
	}}
	got := make(chan uint64, 1)
	c := open(t, newBooks(), func(d *door) {
		d.greet(protocol.CapAck)
		for {
			env, _, err := d.next()
			if err != nil {
				t.Error(err)
				break
			}
			if s, ok := env.Frame.(*protocol.SingleRecord); ok {
				got <- s.Seq
				break
			}
		}
	}, func(d *door) { _, _, _ = d.next() })
	c.Follow(session.Key{RunID: "r", Attempt: 1}, src)
	if seq := <-got; seq != 4 {
		t.Errorf("record %d came first", seq)
	}
}

// TestWhatTheAgentIgnores: PRO-01, W-01.
func TestWhatTheAgentIgnores(t *testing.T) {
	t.Parallel()
	b := newBooks()
	open(t, b, func(d *door) {
		d.greet(protocol.CapAck)
		d.raw([]byte(`{"type":"from_the_future","epoch":5,"x":1}`))
		d.send(4, &protocol.Drain{On: true})
		d.raw([]byte(`{"type":"drain","epoch":5,"new_field":[1]}`))
		for {
			if _, _, err := d.next(); err != nil {
				return
			}
		}
	})
	b.await(t, "the drain of this session", func() bool { return len(b.orders) == 2 })
	if d, ok := b.orders[1].(*protocol.Drain); !ok || !d.On {
		t.Errorf("got %+v", b.orders)
	}
}

// TestGarbageEndsTheSession: W-01.
func TestGarbageEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"no JSON": "hello", "no run": `{"type":"cancel","epoch":5}`, "a part without its beginning": `{"type":"part","epoch":5,"id":1,"n":2,"of":3,"data":"eA=="}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code := make(chan int, 1)
			b := newBooks()
			open(t, b, func(d *door) {
				d.greet(protocol.CapAck)
				d.raw([]byte(raw))
				for {
					_, _, err := d.next()
					var closed *websocket.CloseError
					if errors.As(err, &closed) {
						code <- closed.Code
					}
					if err != nil {
						return
					}
				}
			}, func(d *door) { d.greet(protocol.CapAck); _, _, _ = d.next(); _, _, _ = d.next(); _, _, _ = d.next() })
			if got := <-code; got != protocol.CloseBadFrame {
				t.Errorf("closed with %d", got)
			}
			b.await(t, "the end of the session", func() bool {
				return slices.ContainsFunc(b.links, func(l session.Link) bool { return errors.Is(l.Err, protocol.ErrBadFrame) })
			})
		})
	}
}

// TestRefusals: SEC-05, SEC-07, K-09.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		play    func(d *door)
		code    int
		reject  string
		lasting bool
	}{
		{"no such token", func(d *door) { d.bye(protocol.CloseUnauthorized) }, protocol.CloseUnauthorized, "", true},
		{"a wrong host", func(d *door) { d.bye(protocol.CloseForbidden) }, protocol.CloseForbidden, "", true},
		{"another version", func(d *door) {
			_, _, _ = d.next()
			d.send(0, &protocol.Reject{Code: protocol.RejectVersionMismatch, Reason: "1 and 2"})
		}, protocol.CloseRejected, protocol.RejectVersionMismatch, false},
		{"a second agent", func(d *door) {
			_, _, _ = d.next()
			d.send(0, &protocol.Reject{Code: protocol.RejectDuplicateAgent, Reason: "another one answers"})
		}, protocol.CloseRejected, protocol.RejectDuplicateAgent, true},
		{"removed amid a session", func(d *door) {
			d.greet(protocol.CapAck)
			d.bye(protocol.CloseUnauthorized)
		}, protocol.CloseUnauthorized, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBooks()
			open(t, b, c.play)
			b.await(t, "a refusal", func() bool { return len(b.links) > 0 && b.links[len(b.links)-1].Refusal != nil })
			r := b.links[len(b.links)-1].Refusal
			if r.CloseCode != c.code || r.Code != c.reject || r.Lasting() != c.lasting || r.Error() == "" {
				t.Errorf("got %+v, lasting %v: %v", r, r.Lasting(), r)
			}
		})
	}
}

// bye closes with a code and waits until the other side has heard it.
func (d *door) bye(code int) {
	_ = d.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "no"), time.Now().Add(time.Second))
	for {
		if _, _, err := d.next(); err != nil {
			return
		}
	}
}

// TestADoorOfPlainHTTP: K-09.
func TestADoorOfPlainHTTP(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]int{
		http.StatusUnauthorized: protocol.CloseUnauthorized, http.StatusForbidden: protocol.CloseForbidden,
		http.StatusMisdirectedRequest: protocol.CloseForbidden, http.StatusNotFound: 0, http.StatusBadGateway: 0,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, "not here")
		}))
		b := newBooks()
		c, err := session.New(session.Config{
			URL: srv.URL, Token: func() (string, error) { return "t", nil }, Worker: b, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		b.await(t, "an answer", func() bool { return len(b.links) > 0 })
		l := b.links[0]
		if got := 0; l.Refusal != nil {
			got = l.Refusal.CloseCode
			if got != code {
				t.Errorf("%d: refused with %d", status, got)
			}
		} else if code != 0 || !strings.Contains(l.Err.Error(), "not here") {
			t.Errorf("%d: %v", status, l.Err)
		}
		stop()
		<-done
		srv.Close()
	}
}

func TestNoAddress(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "ftp://host", "http://", "http://[::1"} {
		if _, err := session.New(session.Config{URL: url}); err == nil || !strings.Contains(err.Error(), "address of a control plane") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
