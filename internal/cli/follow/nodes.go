package follow

import (
	"fmt"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/nodestate"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

const (
	// epochPause is the least time between two lines about epochs of a node,
	// where lines stay: a small training has a thousand of them in a second.
	epochPause = time.Second
	// shownNodes is how many running nodes the block shows.
	shownNodes = 4
	barCells   = 10
	nameCells  = 24
)

// applyNode takes what a node tells in.
func (s *state) applyNode(e api.Event, now time.Time) told {
	c, ok := s.board.Apply(e)
	if !ok {
		return told{}
	}
	t := told{output: c.Text}
	n := c.Node
	if !n.Progress.At.IsZero() && n.Progress.At.Equal(e.TS) {
		s.heard = now
	}
	if c.Epoch && s.epochDue(n, e.TS) {
		t.steps = append(t.steps, nodeLine(text.Style{}, n.ID, training(n.Progress, text.Style{}, 0)))
	}
	if c.Ended {
		t.lines = append(t.lines, s.nodeEnd(n)...)
	}
	return t
}

// epochDue keeps lines about epochs apart. The last epoch is always said.
func (s *state) epochDue(n nodestate.Node, at time.Time) bool {
	p := n.Progress
	if last, said := s.epochs[n.ID]; said && at.Sub(last) < epochPause && p.Epoch != p.Epochs {
		return false
	}
	if s.epochs == nil {
		s.epochs = map[string]time.Time{}
	}
	s.epochs[n.ID] = at
	return true
}

// nodeEnd says what went wrong with a node. Where the first error ends the
// run, the run's own end says it.
func (s *state) nodeEnd(n nodestate.Node) []string {
	if s.known && s.row.Options.ErrorMode == "fail_fast" {
		return nil
	}
	switch n.Status {
	case nodestate.Failed:
		why := phrase.Clean(n.Error)
		if why == "" {
			why = phrase.Clean(n.ErrorType)
		}
		return []string{word("error") + fmt.Sprintf(" node %q: %s", phrase.Clean(n.ID), why)}
	case nodestate.Skipped:
		return []string{word("skipped") + fmt.Sprintf(" node %q: it needs one that failed", phrase.Clean(n.ID))}
	}
	return nil
}

// nodeLines is a line for each node that runs, and whether any node trains or
// has trained.
func (s *state) nodeLines(st text.Style, now time.Time) (lines []string, trains bool) {
	for _, n := range s.board.Nodes() {
		trains = trains || n.Progress.Known()
	}
	running := s.board.Running()
	for i, n := range running {
		if i == shownNodes {
			lines = append(lines, fmt.Sprintf("  and %d more", len(running)-i))
			break
		}
		var parts []string
		if n.Progress.Known() {
			parts = training(n.Progress, st, barCells)
			if left, ok := n.Progress.Left(); ok && left > 0 {
				parts = append(parts, phrase.Left(left-now.Sub(s.heard)))
			}
		} else if took := now.Sub(n.Started).Truncate(time.Second); took > 0 {
			parts = []string{text.Duration(took)}
		}
		lines = append(lines, "  "+nodeLine(st, n.ID, parts))
	}
	return lines, trains
}

func nodeLine(st text.Style, id string, parts []string) string {
	name := st.Crop(phrase.Clean(id), nameCells)
	return strings.TrimRight(word(name)+" "+strings.Join(parts, "  "), " ")
}

// training says how far a training is, with a bar of some cells.
func training(p nodestate.Progress, st text.Style, cells int) []string {
	epoch := fmt.Sprintf("epoch %d", p.Epoch)
	if p.Epochs > 0 {
		all := fmt.Sprintf("/%d", p.Epochs)
		epoch = text.Pad(fmt.Sprintf("epoch %d", p.Epoch)+all, len("epoch ")+2*len(all)-1, false)
	}
	parts := []string{epoch}
	if f, ok := p.Fraction(); ok && cells > 0 {
		parts = append(parts, st.Bar(f, cells))
	}
	if len(p.Loss) > 0 {
		parts = append(parts, "loss "+text.Number(p.Loss))
	}
	if len(p.ValLoss) > 0 {
		parts = append(parts, "val_loss "+text.Number(p.ValLoss))
	}
	if len(p.LR) > 0 {
		parts = append(parts, "lr "+text.Number(p.LR))
	}
	return parts
}
