package fifo

import (
	"maps"
	"slices"

	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// Lines is the queues of all keys and what the last plan said of them. The zero
// value is not ready; see NewLines.
type Lines struct {
	queues map[string]*Queue
	// reasons says for each key why its first run waits.
	reasons map[string]scheduler.Why
	// held are the keys that people keep from starting.
	held map[string]run.Reason
}

// NewLines makes lines without runs.
func NewLines() *Lines {
	return &Lines{queues: map[string]*Queue{}, reasons: map[string]scheduler.Why{}, held: map[string]run.Reason{}}
}

// Join puts a run into the line of its key.
func (l *Lines) Join(key string, w scheduler.Waiting) {
	q := l.queues[key]
	if q == nil {
		q = &Queue{}
		l.queues[key] = q
	}
	q.Insert(w)
}

// Leave takes a run out of the line of its key.
func (l *Lines) Leave(key string, w scheduler.Waiting) {
	q := l.queues[key]
	if q == nil {
		return
	}
	q.Remove(w)
	if q.Len() == 0 {
		delete(l.queues, key)
		delete(l.reasons, key)
	}
}

// Rejoin puts the runs that were set aside back in line.
func (l *Lines) Rejoin() {
	for _, q := range l.queues {
		q.Rejoin()
	}
}

// Hold keeps a key's runs from starting, for a reason.
func (l *Lines) Hold(key string, why run.Reason) { l.held[key] = why }

// Release lets a key's runs go.
func (l *Lines) Release(key string) { delete(l.held, key) }

// Held gives the keys that are held, and why.
func (l *Lines) Held() map[string]run.Reason { return maps.Clone(l.held) }

// Empty tells whether nobody waits.
func (l *Lines) Empty() bool { return len(l.queues) == 0 }

// Queues is what the scheduler needs. It shares memory with the lines: use it
// before they change.
func (l *Lines) Queues() []scheduler.Queue {
	out := make([]scheduler.Queue, 0, len(l.queues))
	for key, q := range l.queues {
		queue := scheduler.Queue{Key: key, Waiting: q.Waiting}
		if why, held := l.held[key]; held {
			queue.Held = &why
		}
		out = append(out, queue)
	}
	return out
}

// Explain takes in what a plan says of those that wait; line finds a run by id.
func (l *Lines) Explain(p scheduler.Plan, line func(id string) (key string, w scheduler.Waiting)) {
	l.reasons = p.Reasons
	for id, why := range p.Aside {
		key, w := line(id)
		l.queues[key].SetAside(w, why)
	}
}

// Why gives a run's 1-based position among those of its key and the reason for
// its waiting, as the last plan knew it; nothing for a run that isn't there.
func (l *Lines) Why(key string, w scheduler.Waiting) (*int, *run.Reason) {
	q := l.queues[key]
	if q == nil {
		return nil, nil
	}
	position, ahead, there := q.Position(w)
	if !there {
		return nil, nil
	}
	reason, ok := q.Reasons[w.RunID]
	switch {
	case ok:
	case ahead != "":
		reason, ok = run.Behind(ahead, position), true
	default:
		var why scheduler.Why
		why, ok = l.reasons[key]
		reason = why.Reason()
	}
	if !ok {
		return &position, nil
	}
	return &position, &reason
}

// Each goes through the keys that have runs, each with its line in order.
func (l *Lines) Each(do func(key string, line []scheduler.Waiting)) {
	for key, q := range l.queues {
		line := slices.Concat(q.Waiting, q.Aside)
		slices.SortFunc(line, scheduler.CompareWaiting)
		do(key, line)
	}
}
