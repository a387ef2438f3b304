package workers_test

import (
	"slices"
	"testing"

	"cdui/internal/protocol"
)

// Proves CARD-01, CARD-02, CARD-03, CARD-04: a worker is on the server's machine
// only if it both comes from there and has its machine id. Neither alone will
// do: a tunnel comes from there too, and anybody can claim an id.
func TestWhoIsOnTheServersMachine(t *testing.T) {
	p := newPlane(t, nil)
	for _, c := range []struct {
		name, peer, id string
		same           bool
	}{
		{"here", "", machineID, true},
		{"tunnel", "", "another", false},
		{"liar", "192.0.2.7:4711", machineID, false},
		{"far", "192.0.2.8:4711", "another", false},
		{"silent", "", "", false},
	} {
		a := p.dial(dialing{token: p.enrolled(c.name), peer: c.peer})
		a.send(hello(c.name, func(h *protocol.Hello) { h.MachineID = c.id }))
		take[*protocol.Welcome](a)
		a.send(&protocol.RunAlive{Runs: []protocol.AliveRun{}})
		eventually(t, "it is listed", func() bool { return len(p.worker(c.name).Devices) > 0 })
		if got := slices.Contains(p.worker(c.name).Devices[0].SameCard, "local"); got != c.same {
			t.Errorf("%s, from %q with id %q: its cpu is the server's: %v", c.name, c.peer, c.id, got)
		}
		a.cut()
	}
}
