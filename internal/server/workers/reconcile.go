package workers

import "cdui/internal/protocol"

// held is a run as the control plane holds it when a worker comes back.
type held struct {
	id      string
	attempt int
	// reported: a record of it has come, in this life of the control plane or
	// in an earlier one.
	reported bool
}

// reconciliation is what a run_alive means.
type reconciliation struct {
	// back are runs that the worker has, neverStarted those that it never got
	// to hear of, gone those that it had and has no more.
	back, neverStarted, gone []held
	// strays are runs that nobody here asks for any more.
	strays []protocol.AliveRun
}

// reconcile compares what is held as placed on a worker with what it has
// (W-05). Order is that of the arguments.
func reconcile(mine []held, alive []protocol.AliveRun) reconciliation {
	type key struct {
		id      string
		attempt int
	}
	there := map[key]bool{}
	for _, a := range alive {
		there[key{a.RunID, a.Attempt}] = true
	}
	var r reconciliation
	wanted := map[key]bool{}
	for _, h := range mine {
		k := key{h.id, h.attempt}
		wanted[k] = true
		switch {
		case there[k]:
			r.back = append(r.back, h)
		case h.reported:
			r.gone = append(r.gone, h)
		default:
			r.neverStarted = append(r.neverStarted, h)
		}
	}
	for _, a := range alive {
		if k := (key{a.RunID, a.Attempt}); !wanted[k] {
			wanted[k] = true
			r.strays = append(r.strays, a)
		}
	}
	return r
}
