package live

import (
	"cmp"
	"slices"
	"strings"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/sorting"
)

// Board is the picture. The zero value is empty.
type Board struct {
	now picture
	// next is a snapshot that isn't whole yet.
	next *picture

	// rows is made when somebody asks, of which picture fresh says; order holds
	// the ids from the newest on, while none comes or goes.
	rows    []api.Run
	fresh   bool
	order   []string
	version int
}

type picture struct {
	boot    string
	cursor  int64
	runs    map[string]*api.LiveRun
	keys    map[string]api.LiveKey
	workers map[string]api.Worker
	machine api.LiveMachine
	counts  api.LiveCounts
}

func empty() *picture {
	return &picture{runs: map[string]*api.LiveRun{}, keys: map[string]api.LiveKey{}, workers: map[string]api.Worker{}}
}

// Apply takes a frame in and tells whether the picture shows it: one that is
// followed by more of the same doesn't yet.
func (b *Board) Apply(f api.LiveFrame) bool {
	if b.now.runs == nil {
		b.now = *empty()
	}
	if f.Type == api.LiveSnapshot {
		b.next = empty()
	}
	p := &b.now
	if b.next != nil {
		p = b.next
	}
	p.apply(f)
	if f.More {
		return false
	}
	if b.next != nil {
		b.now, b.next = *b.next, nil
		b.order = nil
	}
	b.now.trim()
	b.fresh = false
	b.version++
	return true
}

func (p *picture) apply(f api.LiveFrame) {
	p.boot, p.cursor = f.Boot, f.Cursor
	for i := range f.Runs {
		p.runs[f.Runs[i].ID] = &f.Runs[i]
	}
	for _, id := range f.GoneRuns {
		delete(p.runs, id)
	}
	if f.Complete {
		clear(p.keys)
		clear(p.workers)
	}
	for _, k := range f.Keys {
		p.keys[k.Key] = k
	}
	for _, k := range f.GoneKeys {
		delete(p.keys, k)
	}
	for _, w := range f.Workers {
		p.workers[w.Name] = w
	}
	for _, w := range f.GoneWorkers {
		delete(p.workers, w)
	}
	if f.Machine != nil {
		p.machine = *f.Machine
	}
	if f.Counts != nil {
		p.counts = *f.Counts
	}
}

// trim lets the oldest ended runs go, so that a picture that is looked at for
// weeks stays as large as a snapshot.
func (p *picture) trim() {
	const slack = api.MaxLiveRuns / 10
	if len(p.runs) <= api.MaxLiveRuns+slack {
		return
	}
	var ended []*api.LiveRun
	for _, r := range p.runs {
		if !r.Status.Active() {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *api.LiveRun) int { return cmp.Compare(a.Order, b.Order) })
	for _, r := range ended[:min(len(ended), len(p.runs)-api.MaxLiveRuns)] {
		delete(p.runs, r.ID)
	}
}

// Whole tells whether there has been a snapshot.
func (b *Board) Whole() bool { return b.now.boot != "" }

// Version grows with each frame that the picture shows.
func (b *Board) Version() int { return b.version }

// Machine is the control plane's own machine.
func (b *Board) Machine() api.LiveMachine { return b.now.machine }

// Counts counts runs, those beyond the picture too.
func (b *Board) Counts() api.LiveCounts { return b.now.counts }

// Keys lists the queue keys, by name.
func (b *Board) Keys() []api.LiveKey {
	out := make([]api.LiveKey, 0, len(b.now.keys))
	for _, k := range b.now.keys {
		out = append(out, k)
	}
	sorting.Sort(out, func(a, b api.LiveKey) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Workers lists the workers, by name.
func (b *Board) Workers() []api.Worker {
	out := make([]api.Worker, 0, len(b.now.workers))
	for _, w := range b.now.workers {
		out = append(out, w)
	}
	sorting.Sort(out, func(a, b api.Worker) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Progress gives the plain members of a run's last progress payload.
func (b *Board) Progress(id string) map[string]string {
	r := b.now.runs[id]
	if r == nil || len(r.Progress) == 0 {
		return nil
	}
	out := make(map[string]string, len(r.Progress))
	for name, value := range r.Progress {
		out[name] = string(value)
	}
	return out
}

// Run gives one run, with its place in the queue.
func (b *Board) Run(id string) (api.Run, bool) {
	if b.now.runs[id] == nil {
		return api.Run{}, false
	}
	rows := b.Runs()
	i, ok := slices.BinarySearchFunc(rows, b.now.runs[id].Order, func(r api.Run, order int64) int { return cmp.Compare(order, r.Seq) })
	if !ok {
		return api.Run{}, false
	}
	return rows[i], true
}

// Runs lists the runs, newest first, each with its place in its queue and why it
// waits. The slice is the board's own until the next frame.
func (b *Board) Runs() []api.Run {
	if b.fresh {
		return b.rows
	}
	rows := b.inOrder()
	b.places(rows)
	b.rows, b.fresh = rows, true
	return rows
}

// inOrder lays the runs out, the newest first.
func (b *Board) inOrder() []api.Run {
	rows := b.rows[:0]
	for _, id := range b.order {
		r := b.now.runs[id]
		if r == nil {
			break
		}
		rows = append(rows, r.Row())
	}
	if len(rows) == len(b.now.runs) {
		return rows
	}
	sorted := make([]*api.LiveRun, 0, len(b.now.runs))
	for _, r := range b.now.runs {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b *api.LiveRun) int { return cmp.Compare(b.Order, a.Order) })
	rows, b.order = rows[:0], b.order[:0]
	for _, r := range sorted {
		rows, b.order = append(rows, r.Row()), append(b.order, r.ID)
	}
	return rows
}

// places fills in where each run stands in its queue, and why it waits.
func (b *Board) places(rows []api.Run) {
	queues := map[string][]*api.Run{}
	for i := len(rows) - 1; i >= 0; i-- { // from the oldest on
		r := &rows[i]
		if r.Status == run.Queued && r.QueueReasonCode == "" {
			queues[r.QueueKey] = append(queues[r.QueueKey], r)
		}
	}
	for key, line := range queues {
		slices.SortStableFunc(line, func(x, y *api.Run) int { return cmp.Compare(y.Options.Priority, x.Options.Priority) })
		told := map[string]*run.Reason{}
		for _, w := range b.now.keys[key].Waiting {
			told[w.RunID] = w.Reason
		}
		for i, r := range line {
			position := i + 1
			r.QueuePosition = &position
			reason := told[r.ID]
			if reason == nil && i > 0 {
				behind := run.Behind(line[i-1].ID, position)
				reason = &behind
			}
			if reason != nil {
				r.QueueReason, r.QueueReasonCode, r.QueueReasonParams = reason.Text, reason.Code, reason.Params
			}
		}
	}
}
