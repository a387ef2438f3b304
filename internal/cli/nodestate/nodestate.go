// Package nodestate folds the events of a graph run into what its nodes are
// doing: which run, how far a training is, which have ended and how. It is
// pure; whoever shows it decides how.
package nodestate

import (
	"encoding/json"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// The statuses of a node.
const (
	Running     = "running"
	Progressing = "progress"
	Completed   = "completed"
	Cached      = "cached"
	Skipped     = "skipped"
	Failed      = "error"
	Interrupted = "interrupted"
)

// Node is one node of a run.
type Node struct {
	ID     string
	Status string
	// Started and Ended are in the control plane's time; Ended is zero while
	// the node runs.
	Started, Ended time.Time
	Error          string
	ErrorType      string
	Progress       Progress
}

// Over tells whether a node has ended.
func (n Node) Over() bool { return !n.Ended.IsZero() }

// Progress is how far a training is.
type Progress struct {
	// Epoch counts from 1 and is the one that runs, or the last one that is
	// whole; Epochs is 0 when nobody said how many there are.
	Epoch, Epochs int
	// Begin is the number of epochs that were done before.
	Begin int
	// Batch counts within the epoch, Batches is 0 when unknown.
	Batch, Batches int
	// Validating says that the batches are those of a validation.
	Validating bool
	// Whole says that the epoch has ended.
	Whole bool
	// Loss and LR are JSON numbers, nil before the first.
	Loss, LR, ValLoss json.RawMessage
	// Since is when the training itself began, At when it last told.
	Since, At time.Time
}

// Known says that there is progress to show.
func (p Progress) Known() bool { return p.Epoch > 0 }

// Fraction is how much is done, 0 to 1; false when that isn't known.
func (p Progress) Fraction() (float64, bool) {
	total := float64(p.Epochs - p.Begin)
	if p.Epoch == 0 || total <= 0 {
		return 0, false
	}
	done := float64(p.Epoch - p.Begin)
	if !p.Whole {
		done--
		switch {
		case p.Validating:
			done++ // all of its training batches are done
		case p.Batches > 0:
			done += float64(p.Batch) / float64(p.Batches)
		}
	}
	return min(max(done/total, 0), 1), true
}

// Left estimates how long the training still takes, as of At; false when there
// is nothing to estimate from.
func (p Progress) Left() (time.Duration, bool) {
	f, ok := p.Fraction()
	if elapsed := p.At.Sub(p.Since); ok && f > 0 && elapsed > 0 {
		if left := float64(elapsed) * (1 - f) / f; left < float64(longest) {
			return time.Duration(left), true
		}
	}
	return 0, false
}

// longest is more than anybody waits: what is estimated to take longer is not
// estimated at all.
const longest = 10 * 365 * 24 * time.Hour

// Board is all nodes that have told of themselves.
type Board struct {
	nodes []*Node
	byID  map[string]*Node
}

// Change is what an event changed.
type Change struct {
	// Node is as it is now.
	Node Node
	// Text is what the node printed for people.
	Text []string
	// Epoch says that an epoch has ended.
	Epoch bool
	// Ended says that the node has.
	Ended bool
}

// Apply takes an event in. Those that tell nothing of nodes give false.
func (b *Board) Apply(e api.Event) (Change, bool) {
	if e.Type != run.EventNodeStatus {
		return Change{}, false
	}
	var p struct {
		NodeID    string `json:"node_id"`
		Status    string `json:"status"`
		Error     string `json:"error"`
		ErrorType string `json:"error_type"`
		Outputs   []struct {
			Kind     string          `json:"output_kind"`
			Text     string          `json:"text"`
			Progress json.RawMessage `json:"progress"`
		} `json:"outputs"`
	}
	if json.Unmarshal(e.Payload, &p) != nil || p.NodeID == "" {
		return Change{}, false
	}
	n := b.node(p.NodeID)
	c := Change{}
	for _, o := range p.Outputs {
		if o.Kind == "text" && o.Text != "" {
			c.Text = append(c.Text, o.Text)
		}
		if o.Kind == "progress" {
			c.Epoch = n.Progress.apply(o.Progress, e.TS) || c.Epoch
		}
	}
	switch p.Status {
	case Progressing:
	case Running:
		// A block runs again when one of its nodes is tried again.
		n.Status, n.Started, n.Ended, n.Error, n.ErrorType = Running, e.TS, time.Time{}, "", ""
	default:
		n.Status, n.Ended, n.Error, n.ErrorType = p.Status, e.TS, p.Error, p.ErrorType
		if n.Started.IsZero() {
			n.Started = e.TS
		}
		c.Ended = true
	}
	c.Node = *n
	return c, true
}

// apply takes a payload of a progress callback in and says whether it told of
// the end of an epoch.
func (p *Progress) apply(raw json.RawMessage, at time.Time) bool {
	var told struct {
		Event   string          `json:"event"`
		Epoch   *int            `json:"epoch"`
		Epochs  *int            `json:"total_epochs"`
		Begin   *int            `json:"start_epoch"`
		Batch   *int            `json:"batch"`
		Batches *int            `json:"total_batches"`
		Phase   string          `json:"phase"`
		Loss    json.RawMessage `json:"loss"`
		ValLoss json.RawMessage `json:"val_loss"`
		LR      json.RawMessage `json:"lr"`
		Config  struct {
			Epochs *int            `json:"epochs"`
			Begin  *int            `json:"start_epoch"`
			LR     json.RawMessage `json:"lr"`
		} `json:"config"`
	}
	if json.Unmarshal(raw, &told) != nil {
		return false
	}
	if p.Since.IsZero() {
		p.Since = at
	}
	p.At = at
	take := func(to *int, from *int) {
		if from != nil {
			*to = *from
		}
	}
	number := func(to *json.RawMessage, from json.RawMessage) {
		if len(from) > 0 {
			*to = from
		}
	}
	take(&p.Epochs, told.Config.Epochs)
	take(&p.Begin, told.Config.Begin)
	number(&p.LR, told.Config.LR)
	take(&p.Epoch, told.Epoch)
	take(&p.Epochs, told.Epochs)
	take(&p.Begin, told.Begin)
	number(&p.LR, told.LR)
	number(&p.ValLoss, told.ValLoss)
	p.Whole = told.Event != "batch" && told.Epoch != nil
	if p.Whole {
		p.Batch, p.Batches, p.Validating = 0, 0, false
	}
	take(&p.Batch, told.Batch)
	take(&p.Batches, told.Batches)
	if told.Event == "batch" {
		p.Validating = told.Phase == "val"
	}
	if !p.Validating {
		number(&p.Loss, told.Loss)
	}
	return p.Whole
}

func (b *Board) node(id string) *Node {
	if n := b.byID[id]; n != nil {
		return n
	}
	if b.byID == nil {
		b.byID = map[string]*Node{}
	}
	n := &Node{ID: id}
	b.nodes = append(b.nodes, n)
	b.byID[id] = n
	return n
}

// Nodes lists the nodes in the order in which they began.
func (b *Board) Nodes() []Node {
	out := make([]Node, len(b.nodes))
	for i, n := range b.nodes {
		out[i] = *n
	}
	return out
}

// Running lists the nodes that run, in the order in which they began.
func (b *Board) Running() []Node {
	var out []Node
	for _, n := range b.nodes {
		if n.Status == Running {
			out = append(out, *n)
		}
	}
	return out
}

// Over counts the nodes that have ended.
func (b *Board) Over() int {
	total := 0
	for _, n := range b.nodes {
		if n.Over() {
			total++
		}
	}
	return total
}
