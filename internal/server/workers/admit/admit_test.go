package admit_test

import (
	"strings"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/server/workers/admit"
)

func TestDecide(t *testing.T) {
	hello := func(change func(*protocol.Hello)) *protocol.Hello {
		h := &protocol.Hello{Name: "box", Version: "1.0", Protocol: protocol.Version, Nonce: "n1"}
		if change != nil {
			change(h)
		}
		return h
	}
	worker, session := admit.Identity{Way: admit.Worker, Name: "box"}, admit.Identity{Way: admit.Session}
	enrolled, unknown := admit.Standing{Version: "1.0", Enrolled: true}, admit.Standing{Version: "1.0"}
	live := func(s admit.Standing, nonce string, way admit.Way) admit.Standing {
		s.Live = &admit.Live{Epoch: 7, Nonce: nonce, Way: way}
		return s
	}
	with := func(s admit.Standing, runs int) admit.Standing { s.Runs = runs; return s }
	old := func(h *protocol.Hello) { h.Version = "0.9" }
	for _, c := range []struct {
		name      string
		hello     *protocol.Hello
		id        admit.Identity
		standing  admit.Standing
		pinged    *admit.Pinged
		action    admit.Action
		code      string
		says      []string
		drainOnly bool
	}{
		{name: "enrolled", hello: hello(nil), id: worker, standing: enrolled, action: admit.Welcome},
		{name: "SEC-03: the session token", hello: hello(nil), id: session, standing: unknown, action: admit.Welcome},
		{name: "SEC-07: another release", hello: hello(old), id: worker, standing: enrolled, action: admit.Reject, code: "version_mismatch", says: []string{"0.9", "1.0"}},
		{name: "W-08: another release with runs held here", hello: hello(old), id: worker, standing: with(enrolled, 1), action: admit.Welcome, drainOnly: true},
		{name: "W-08: another release with runs held there", hello: hello(func(h *protocol.Hello) { old(h); h.HeldRuns = 1 }), id: worker, standing: enrolled, action: admit.Welcome, drainOnly: true},
		{name: "another protocol", hello: hello(func(h *protocol.Hello) { h.Protocol = 4; h.HeldRuns = 1 }), id: worker, standing: enrolled, action: admit.Reject, code: "protocol_mismatch"},
		{name: "SEC-09: another worker's name", hello: hello(func(h *protocol.Hello) { h.Name = "box2" }), id: worker, standing: enrolled, action: admit.Reject, code: "wrong_name", says: []string{"box", "box2"}},
		{name: "the session token under an enrolled name", hello: hello(nil), id: session, standing: enrolled, action: admit.Reject, code: "name_taken"},
		{name: "a reserved name", hello: hello(func(h *protocol.Hello) { h.Name = "any" }), id: session, standing: unknown, action: admit.Reject, code: "reserved_name"},
		{name: "an illegal name", hello: hello(func(h *protocol.Hello) { h.Name = "Box/../x" }), id: session, standing: unknown, action: admit.Reject, code: "bad_name"},
		{name: "no name", hello: hello(func(h *protocol.Hello) { h.Name = "" }), id: session, standing: unknown, action: admit.Reject, code: "bad_name"},
		{name: "a one-shot agent", hello: hello(func(h *protocol.Hello) { h.OneShot = true }), id: session, standing: unknown, action: admit.Reject, code: "one_shot_refused"},
		{name: "W-06: the same process again", hello: hello(nil), id: worker, standing: live(enrolled, "n1", admit.Worker), action: admit.Welcome},
		{name: "W-06: another process", hello: hello(nil), id: worker, standing: live(enrolled, "n0", admit.Worker), action: admit.Ping},
		{name: "W-06: the old one answers", hello: hello(nil), id: worker, standing: live(enrolled, "n0", admit.Worker), pinged: &admit.Pinged{Epoch: 7, Answered: true}, action: admit.Reject, code: "duplicate_agent"},
		{name: "W-06: the old one is silent", hello: hello(nil), id: worker, standing: live(enrolled, "n0", admit.Worker), pinged: &admit.Pinged{Epoch: 7}, action: admit.Welcome},
		{name: "W-06: a third one came meanwhile", hello: hello(nil), id: worker, standing: live(enrolled, "n0", admit.Worker), pinged: &admit.Pinged{Epoch: 6}, action: admit.Ping},
		{name: "SEC-10: authenticated otherwise", hello: hello(nil), id: session, standing: live(unknown, "n1", admit.Worker), action: admit.Reject, code: "name_taken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := admit.Decide(c.hello, c.id, c.standing, c.pinged)
			if v.Action != c.action || v.DrainOnly != c.drainOnly || (v.Reject != nil) != (c.action == admit.Reject) {
				t.Fatalf("got %+v", v)
			}
			if v.Reject == nil {
				return
			}
			if v.Reject.Code != c.code {
				t.Errorf("code %s, want %s", v.Reject.Code, c.code)
			}
			for _, part := range c.says {
				if !strings.Contains(v.Reject.Reason, part) {
					t.Errorf("%q doesn't name %s", v.Reject.Reason, part)
				}
			}
		})
	}
}
