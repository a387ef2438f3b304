package screen

import (
	"fmt"
	"strings"

	"cdui/internal/api"
	"cdui/internal/cli/meter"
	"cdui/internal/cli/text"
	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/widget"
)

// shape says which parts of a card's line there is room for.
type shape struct {
	name, bar, mem     int
	util, heat, memory bool
}

func (s *Workers) shape(w int) shape {
	sh := shape{bar: 10}
	for _, r := range s.rows {
		d := r.device
		if d == nil {
			continue
		}
		// What no card tells has no column.
		sh.name = max(sh.name, text.Cells(cardName(*d)))
		sh.util = sh.util || d.UtilizationPct != nil && w >= 76
		sh.memory = sh.memory || d.MemoryTotalMiB != nil && w >= 50
		sh.mem = max(sh.mem, text.Cells(s.memory(*d, w)))
		sh.heat = sh.heat || (d.TemperatureC != nil || d.PowerW != nil) && w >= 110
	}
	if w < 100 {
		sh.bar = 8
	}
	room := w - 30
	for _, part := range []struct {
		there bool
		cells int
	}{{sh.util, 12 + sh.bar}, {sh.memory, 7 + sh.bar + sh.mem}, {sh.heat, 12}} {
		if part.there {
			room -= part.cells
		}
	}
	if sh.name = min(sh.name, max(0, room), 28); sh.name < 6 {
		sh.name = 0
	}
	if w < 64 {
		sh.bar = 6
	}
	if w >= 150 {
		sh.bar = 16
	}
	return sh
}

// machineLines is how a machine stands, and what is wrong with it.
func (s *Workers) machineLines(worker *api.Worker, w int, on bool) []string {
	th, l := s.w.Theme, s.w.Lang
	paint := func(r theme.Role, t string) string { return th.PaintOn(on, r, t) }
	gap := paint(theme.Plain, "  ")
	fill := func(line string) string {
		line = widget.Fit(line, w, th.Style)
		if pad := len(line) - len(strings.TrimRight(line, " ")); on && pad > 0 {
			line = line[:len(line)-pad] + paint(theme.Plain, strings.Repeat(" ", pad))
		}
		return line
	}
	if worker == nil {
		here := s.w.Board.Machine()
		line := paint(theme.Plain, " ") + paint(theme.Good, th.Glyph("●", "*")) + paint(theme.Plain, " ") + paint(theme.Strong, l.T("this machine")) + gap +
			paint(theme.Dim, l.T("control plane")+"  v"+widget.Plain(here.Server.Version))
		out := []string{fill(line)}
		for _, p := range here.Problems {
			out = append(out, "    "+th.Paint(theme.Warn, th.Glyph("⚠ ", "! "))+widget.Plain(p.Text))
		}
		return out
	}
	mark, role, words := s.standing(*worker)
	line := paint(theme.Plain, " ") + paint(role, mark) + paint(theme.Plain, " ") + paint(theme.Strong, widget.Plain(worker.Name)) + gap + paint(theme.Plain, words)
	for _, part := range s.about(*worker) {
		if text.Cells(widget.Bare(line))+text.Cells(part)+2 <= w {
			line += gap + paint(theme.Dim, part)
		}
	}
	out := []string{fill(line)}
	more := ""
	switch {
	case worker.State == api.WorkerRejected:
		more = widget.Plain(worker.RejectReason)
	case worker.Degraded && worker.Catalog != nil && len(worker.Catalog.MissingThere) > 0:
		more = l.F("lacks %d node types: %s", len(worker.Catalog.MissingThere), strings.Join(worker.Catalog.MissingThere, ", "))
	}
	if more != "" {
		for _, line := range text.Wrap(widget.Plain(more), max(10, w-5)) {
			out = append(out, "    "+th.Paint(theme.Dim, line))
		}
	}
	return out
}

// standing is the mark of a worker, its look and its words.
func (s *Workers) standing(w api.Worker) (string, theme.Role, string) {
	th, l := s.w.Theme, s.w.Lang
	switch w.State {
	case api.WorkerOnline:
		switch {
		case w.Draining:
			return th.Glyph("‖", "="), theme.Warn, l.T("draining")
		case w.DrainOnly:
			return th.Glyph("‖", "="), theme.Warn, l.T("another version: finishes its runs")
		case w.Degraded:
			return th.Glyph("⚠", "!"), theme.Warn, l.T("degraded")
		}
		return th.Glyph("●", "*"), theme.Good, l.T("online")
	case api.WorkerDisconnected:
		words := l.T("link lost")
		if w.LastSeen != nil {
			words = l.F("link lost %s", text.Age(s.w.Now().Sub(*w.LastSeen)))
		}
		if len(w.Runs) > 0 {
			words += " " + l.N(len(w.Runs), "(1 run held)", "(%d runs held)", counted(len(w.Runs))...)
			if w.ResumeUntil != nil {
				words += " " + l.F("resumes until %s", w.ResumeUntil.Local().Format("15:04"))
			}
		}
		return th.Glyph("◐", "~"), theme.Warn, words
	case api.WorkerRejected:
		return th.Glyph("✗", "x"), theme.Bad, l.T("rejected")
	case api.WorkerOffline:
	}
	words := l.T("offline")
	if w.LastSeen == nil {
		words += ", " + l.T("never seen")
	} else {
		words += ", " + l.F("last seen %s ago", text.Age(s.w.Now().Sub(*w.LastSeen)))
	}
	return th.Glyph("○", "o"), theme.Dim, words
}

func (s *Workers) about(w api.Worker) []string {
	l := s.w.Lang
	var out []string
	if w.State != api.WorkerOnline {
		return out
	}
	if w.Via != "" {
		out = append(out, l.T(w.Via))
	}
	if w.Version != "" {
		out = append(out, "v"+widget.Plain(w.Version))
	}
	switch {
	case w.Python == nil:
		out = append(out, l.T("no python"))
	case w.Python.Torch == nil || *w.Python.Torch == "":
		out = append(out, l.T("no torch"))
	default:
		out = append(out, "torch "+widget.Plain(*w.Python.Torch))
	}
	if w.Platform != nil && w.Platform.Cores > 0 {
		out = append(out, l.F("%d cores", w.Platform.Cores))
	}
	if w.ConnectedAt != nil {
		out = append(out, l.F("up %s", text.Age(s.w.Now().Sub(*w.ConnectedAt))))
	}
	return out
}

// cardLines is a card: how busy, how full, who is on it.
func (s *Workers) cardLines(d api.WorkerDevice, sh shape, w int, on bool) []string {
	th, l := s.w.Theme, s.w.Lang
	var b strings.Builder
	used := 0
	put := func(r theme.Role, t string, cells int, right bool) {
		t = text.Pad(th.Style.Crop(t, cells), cells, right)
		b.WriteString(th.PaintOn(on, r, t))
		used += cells
	}
	gap := func(n int) { put(theme.Plain, "", n, false) }
	gap(4)
	put(theme.Plain, d.Device.Device, 8, false)
	if sh.name > 0 {
		gap(1)
		put(theme.Dim, cardName(d), sh.name, false)
	}
	bar := func(label string, f, promised float64, known bool, after string, cells int) {
		gap(2)
		if !known {
			put(theme.Dim, "", len(label)+sh.bar+1+cells, false)
			return
		}
		put(theme.Dim, label, len(label), false)
		b.WriteString(widget.PromisedBar(f, promised, sh.bar, on, th))
		used += sh.bar
		gap(1)
		put(theme.Plain, after, cells, false)
	}
	if sh.util {
		f, words := 0.0, ""
		if d.UtilizationPct != nil {
			f, words = float64(*d.UtilizationPct)/100, fmt.Sprintf("%3d%%", *d.UtilizationPct)
		}
		bar("util ", f, 0, d.UtilizationPct != nil, words, 4)
	}
	if sh.memory {
		f, promised, words := 0.0, 0.0, s.memory(d, w)
		if words != "" {
			total := float64(*d.MemoryTotalMiB)
			promised = float64(d.PromisedMiB) / total
			if d.MemoryFreeMiB != nil {
				f = (total - float64(*d.MemoryFreeMiB)) / total
			}
		}
		bar("mem ", f, promised, words != "", words, sh.mem)
	}
	if sh.heat {
		gap(1)
		put(theme.Dim, meter.Temperature(d.Device, th.Style), 5, true)
		gap(1)
		put(theme.Dim, meter.Power(d.Device), 5, true)
	}
	gap(2)
	put(theme.Dim, meter.Slots(d.Slots.Used, d.Slots.Cap), 4, true)
	gap(2)
	var ids []string
	for _, id := range d.Runs {
		ids = append(ids, run.Short(id))
	}
	mine := strings.Join(ids, " ")
	if left := w - used; left > 0 && mine != "" {
		n := min(left, text.Cells(mine))
		put(theme.Plain, mine, n, false)
		gap(min(1, max(0, w-used)))
	}
	if others := meter.Users(d.Device, nil); others != "" && w > used {
		put(theme.Dim, others, min(w-used, text.Cells(others)), false)
	}
	if w > used {
		gap(w - used)
	}
	out := []string{widget.Fit(b.String(), w, th.Style)}
	closed := func(words string) {
		out = append(out, "      "+th.Paint(theme.Warn, th.Glyph("‖ ", "= "))+words)
	}
	switch c := d.Cordon; {
	case c != nil && c.Code == run.ReasonCardInUse:
		closed(l.F("in use by %s", widget.Plain(c.Text)))
	case c != nil && c.Code == run.ReasonCordoned && c.Text == "":
		closed(l.T("cordoned"))
	case c != nil && c.Code == run.ReasonCordoned:
		closed(l.F("cordoned: %s", widget.Plain(c.Text)))
	case c != nil && d.Health.OK():
		closed(widget.Plain(c.Text))
	case !d.Health.OK():
		out = append(out, "      "+th.Paint(theme.Bad, th.Glyph("✗ ", "x "))+widget.Plain(d.Health.Text))
	}
	return out
}

// cardName is what a card is called, without its maker: all are of one.
func cardName(d api.WorkerDevice) string { return strings.TrimPrefix(widget.Plain(d.Name), "NVIDIA ") }

// memory says how full a card is, and what of a shared one is promised.
func (s *Workers) memory(d api.WorkerDevice, w int) string {
	if !d.Shared || d.MemoryTotalMiB == nil || d.MemoryFreeMiB == nil || w < 100 {
		return memoryOf(d.Device)
	}
	total := text.MiB(*d.MemoryTotalMiB)
	number, unit, _ := strings.Cut(total, " ")
	if unit != "GiB" {
		return memoryOf(d.Device)
	}
	dot := s.w.Theme.Glyph("·", "-")
	return s.w.Lang.F("%.0f used %s %.0f promised / %s GiB", float64(*d.MemoryTotalMiB-*d.MemoryFreeMiB)/1024, dot, float64(d.PromisedMiB)/1024, number)
}

// memoryOf says how full a card is, both sizes in the unit of the larger one.
func memoryOf(d device.Device) string {
	if d.MemoryTotalMiB == nil || *d.MemoryTotalMiB <= 0 {
		return ""
	}
	whole := text.MiB(*d.MemoryTotalMiB)
	if d.MemoryFreeMiB == nil {
		return whole
	}
	held := *d.MemoryTotalMiB - *d.MemoryFreeMiB
	number, unit, _ := strings.Cut(whole, " ")
	if unit == "GiB" {
		return fmt.Sprintf("%.0f / %s GiB", float64(held)/1024, number)
	}
	return text.MiB(held) + " / " + whole
}
