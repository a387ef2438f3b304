package screen

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// barCells is how long a bar of progress is.
const barCells = 12

// markCell is a status mark, the only thing in a row that has a colour.
func markCell(w *ui.World, status run.Status, held bool) widget.Cell {
	return widget.Cell{Text: w.Theme.Style.Mark(status, held), Role: theme.Of(text.MarkColour(status, held))}
}

// progress is how far a training is, as its last payload tells.
type progress struct {
	epoch, epochs, begin, batch, batches float64
	whole                                bool
	phase                                string
}

func progressOf(members map[string]string) (progress, bool) {
	number := func(name string) float64 {
		f, err := strconv.ParseFloat(members[name], 64)
		if err != nil || f < 0 || math.IsInf(f, 0) || math.IsNaN(f) {
			return 0
		}
		return f
	}
	p := progress{
		epoch: number("epoch"), epochs: number("total_epochs"), begin: number("start_epoch"),
		batch: number("batch"), batches: number("total_batches"),
	}
	if p.epochs == 0 {
		p.epochs = number("epochs")
	}
	_ = json.Unmarshal([]byte(members["phase"]), &p.phase)
	var event string
	_ = json.Unmarshal([]byte(members["event"]), &event)
	p.whole = event != "batch"
	return p, p.epoch > 0
}

// fraction is how much is done, 0 to 1.
func (p progress) fraction() (float64, bool) {
	total := p.epochs - p.begin
	if total <= 0 {
		return 0, false
	}
	done := p.epoch - p.begin
	if !p.whole {
		done--
		switch {
		case p.phase == "val":
			done++
		case p.batches > 0:
			done += p.batch / p.batches
		}
	}
	return min(max(done/total, 0), 1), true
}

func (p progress) count() string {
	if p.epochs == 0 {
		return strconv.Itoa(int(p.epoch))
	}
	return fmt.Sprintf("%d/%d", int(p.epoch), int(p.epochs))
}

// left estimates how long it still takes.
func left(r api.Run, f float64, now time.Time) string {
	took := phrase.Took(r.Row, now)
	if f <= 0.01 || f >= 1 || took < time.Second {
		return ""
	}
	d := time.Duration(float64(took) * (1 - f) / f)
	if d > 365*24*time.Hour {
		return ""
	}
	return text.Age(max(d, time.Second))
}

// progressCell says what a run does, or how it ended.
func progressCell(w *ui.World, r api.Run, width int) widget.Cell {
	now, l := w.Now(), w.Lang
	switch {
	case r.Status == run.Queued:
		return waitingCell(w, r)
	case r.Status.Active() && r.CancelRequestedAt != nil:
		return widget.Cell{Text: stopping(w, r)}
	case r.Status.Active():
		var spans []widget.Span
		if p, ok := progressOf(w.Board.Progress(r.ID)); ok {
			f, known := p.fraction()
			if bars := min(barCells, width-15); known && bars >= 5 && (r.Status == run.Running || width >= 30) {
				bar := w.Theme.Style.Bar(f, bars)
				full := strings.TrimRight(bar, "▁.")
				spans = append(spans, widget.Span{Text: full, Role: theme.Bar}, widget.Span{Text: bar[len(full):] + " ", Role: theme.Dim})
			}
			spans = append(spans, widget.Span{Text: text.Pad(p.count(), 6, false)})
			if t := left(r, f, now); t != "" && known && r.Status == run.Running {
				spans = append(spans, widget.Span{Text: " " + l.F("%s left", t), Role: theme.Dim})
			}
		} else if r.Status == run.Running {
			spans = append(spans, widget.Span{Text: l.F("running %s", text.Age(phrase.Took(r.Row, now))), Role: theme.Dim})
		}
		if r.Status == run.Disconnected {
			spans = append(spans, widget.Span{Text: " " + lost(w, r), Role: theme.Dim})
		}
		return widget.Cell{Spans: spans}
	case r.Status == run.Succeeded:
		var rest []string
		for _, m := range phrase.FinalMetrics(r.FinalMetrics) {
			if !strings.Contains(strings.ToLower(m), "loss") {
				rest = append(rest, m)
			}
		}
		if len(rest) > 2 {
			rest = rest[:2]
		}
		if len(rest) == 0 {
			return widget.Cell{Text: l.F("done in %s", text.Duration(phrase.Took(r.Row, now))), Role: theme.Dim}
		}
		return widget.Cell{Text: strings.Join(rest, "  ")}
	}
	return widget.Cell{Text: failure(w, r)}
}

// failure is why a run did not succeed.
func failure(w *ui.World, r api.Run) string {
	switch {
	case r.Status == run.Cancelled && r.Error == "" && r.StartedAt == nil:
		return w.Lang.T("cancelled before it started")
	case r.Error == "" && r.Status == run.Cancelled:
		return w.Lang.T("cancelled")
	case r.Error == "":
		return w.Lang.T(strings.ReplaceAll(string(r.EndClass), "_", " "))
	}
	return widget.Plain(r.Error)
}

func stopping(w *ui.World, r api.Run) string {
	if r.StoppingDeadline == nil {
		return w.Lang.T("stopping")
	}
	return w.Lang.F("stopping, %d s left", max(0, int(r.StoppingDeadline.Sub(w.Now()).Round(time.Second).Seconds())))
}

// lost says since when the link to a run's worker is gone.
func lost(w *ui.World, r api.Run) string {
	for _, worker := range w.Board.Workers() {
		if worker.Name == r.WorkerID && worker.LastSeen != nil {
			return w.Lang.F("link lost %s", text.Age(w.Now().Sub(*worker.LastSeen)))
		}
	}
	return w.Lang.T("link lost")
}

// waitingCell says where in its queue a run stands and why it waits.
func waitingCell(w *ui.World, r api.Run) widget.Cell {
	why := waits(w, r)
	if r.QueuePosition == nil {
		return widget.Cell{Text: why}
	}
	at := w.Lang.Ordinal(*r.QueuePosition, text.Ordinal(*r.QueuePosition))
	return widget.Cell{Spans: []widget.Span{{Text: text.Pad(at, 4, false) + " "}, {Text: why, Role: theme.Dim}}}
}

// waits is why a run waits, in words.
func waits(w *ui.World, r api.Run) string {
	if r.QueueReasonCode == "" {
		return ""
	}
	return widget.Plain(w.Lang.Reason(run.Reason{Code: r.QueueReasonCode, Text: r.QueueReason, Params: r.QueueReasonParams}))
}

// frees says of a waiting run what would let it start: the runs that are in its
// way, and for how long they have been.
func frees(w *ui.World, r api.Run) string {
	var parts []string
	for _, id := range idsOf(r.QueueReasonParams) {
		other, ok := w.Board.Run(id)
		if !ok {
			continue
		}
		words := run.Short(id) + " " + widget.Plain(other.Name)
		switch {
		case !other.Status.Active() || other.Status == run.Queued:
			continue
		default:
			words = w.Lang.F("%s has run for %s", words, text.Age(phrase.Took(other.Row, w.Now())))
			if p, ok := progressOf(w.Board.Progress(id)); ok {
				if f, known := p.fraction(); known {
					if t := left(other, f, w.Now()); t != "" {
						words += ", " + w.Lang.F("%s left", t)
					}
				}
			}
		}
		parts = append(parts, words)
	}
	return strings.Join(parts, "; ")
}

// idsOf gives the runs that a reason names.
func idsOf(params map[string]any) []string {
	var ids []string
	for _, name := range []string{"runs", "run"} {
		switch v := params[name].(type) {
		case string:
			ids = append(ids, v)
		case []string:
			ids = append(ids, v...)
		case []any:
			for _, id := range v {
				if s, ok := id.(string); ok {
					ids = append(ids, s)
				}
			}
		}
	}
	return ids[:min(len(ids), 3)]
}

// lossOf is the last value of the series that people compare runs by.
func lossOf(r api.Run) (string, float64) {
	name := ""
	for n := range r.FinalMetrics {
		if strings.Contains(strings.ToLower(n), "loss") && (name == "" || rankLoss(n) < rankLoss(name) || rankLoss(n) == rankLoss(name) && n < name) {
			name = n
		}
	}
	if name == "" {
		return "", math.Inf(1)
	}
	f, err := strconv.ParseFloat(string(r.FinalMetrics[name]), 64)
	if err != nil {
		f = math.Inf(1)
	}
	return text.Number(r.FinalMetrics[name]), f
}

// rankLoss puts the plain loss first and that of a training before others.
func rankLoss(name string) int {
	switch name = strings.ToLower(name); {
	case name == "loss":
		return 0
	case strings.Contains(name, "train"):
		return 1
	}
	return 2
}

// age is how old a run is.
func age(w *ui.World, r api.Run) string { return text.Age(w.Now().Sub(r.CreatedAt)) }
