package admit

import "cdui/internal/protocol"

// Held is a run as the control plane holds it when a worker comes back.
type Held struct {
	RunID   string
	Attempt int
	// Reported: a record of it has come, in this life of the control plane or
	// in an earlier one.
	Reported bool
}

// Reconciliation is what a run_alive means.
type Reconciliation struct {
	// Back are runs that the worker has, NeverStarted those that it never got
	// to hear of, Gone those that it had and has no more.
	Back, NeverStarted, Gone []Held
	// Strays are runs that nobody here asks for any more.
	Strays []protocol.AliveRun
}

// Reconcile compares what is held as placed on a worker with what it has
// (W-05). Order is that of the arguments.
func Reconcile(mine []Held, alive []protocol.AliveRun) Reconciliation {
	type key struct {
		id      string
		attempt int
	}
	there := map[key]bool{}
	for _, a := range alive {
		there[key{a.RunID, a.Attempt}] = true
	}
	var r Reconciliation
	wanted := map[key]bool{}
	for _, h := range mine {
		k := key{h.RunID, h.Attempt}
		wanted[k] = true
		switch {
		case there[k]:
			r.Back = append(r.Back, h)
		case h.Reported:
			r.Gone = append(r.Gone, h)
		default:
			r.NeverStarted = append(r.NeverStarted, h)
		}
	}
	for _, a := range alive {
		if k := (key{a.RunID, a.Attempt}); !wanted[k] {
			wanted[k] = true
			r.Strays = append(r.Strays, a)
		}
	}
	return r
}
