package workers_test

import (
	"slices"
	"testing"

	"cdui/internal/api"
	"cdui/internal/protocol"
)

// CARD-01, CARD-03, TLS-03: who comes through a tunnel looks as if it came from
// this machine, and says itself which machine it is; it is another one all the
// same, and the control plane's own token is no use to it.
func TestATunnelIsNoneOfThisMachine(t *testing.T) {
	for _, tunnel := range []bool{false, true} {
		p := newPlane(t, nil)
		secret := p.enrolled("box")
		a := p.dial(dialing{token: secret, tunnel: tunnel})
		a.send(hello("box", func(h *protocol.Hello) { h.MachineID = machineID }))
		eventually(t, "box is online", func() bool { return p.worker("box").State == api.WorkerOnline })
		w := p.worker("box")
		if via := map[bool]string{false: "direct", true: "tunnel"}[tunnel]; w.Via != via {
			t.Errorf("tunnel %t: via %s", tunnel, w.Via)
		}
		if same := slices.Contains(w.Devices[0].SameCard, "local"); same == tunnel {
			t.Errorf("tunnel %t: the cpu is also that of %v", tunnel, w.Devices[0].SameCard)
		}
		b := p.dial(dialing{token: sessionToken, tunnel: tunnel})
		b.send(hello("mine", nil))
		if tunnel {
			if code := b.ended(); code != protocol.CloseUnauthorized {
				t.Errorf("the session token through a tunnel: closed with %d", code)
			}
			continue
		}
		eventually(t, "mine is online", func() bool {
			w, err := p.reg.Worker(t.Context(), "mine")
			return err == nil && w.State == api.WorkerOnline
		})
	}
}
