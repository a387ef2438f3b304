package screen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// Workers is the control plane's own machine and the workers, with their cards.
type Workers struct {
	w      *ui.World
	filter filter

	rows  []workerRow
	seen  int
	stale bool
	// cursor is the row that the keys act on, top the first line in sight, lines
	// the row of each line that is drawn.
	cursor, top, page int
	lines             []int
	at                string
}

// workerRow is a machine, or a card of the machine above it.
type workerRow struct {
	// worker is nil for the control plane's own machine.
	worker *api.Worker
	device *api.WorkerDevice
}

func (r workerRow) name() string {
	if r.worker == nil {
		return ""
	}
	return r.worker.Name
}

func (r workerRow) id() string {
	if r.device != nil {
		return r.name() + "/" + r.device.Device.Device
	}
	return r.name()
}

// NewWorkers makes the screen.
func NewWorkers(w *ui.World) *Workers { return &Workers{w: w, seen: -1} }

// Title implements ui.Screen.
func (*Workers) Title() string { return "Workers" }

// Close implements ui.Screen.
func (*Workers) Close() {}

// Keys implements ui.Screen.
func (*Workers) Keys() []keymap.Group {
	return []keymap.Group{
		{Title: "Workers", Bindings: []keymap.Binding{
			keymap.Open, keymap.AddWorker, keymap.Drain, keymap.Cordon, keymap.Share, keymap.Logs, keymap.NewHere, keymap.Describe, keymap.YankName, keymap.Remove,
		}},
		keymap.Moving(), keymap.General(),
	}
}

// SetFilter implements ui.Filtered.
func (s *Workers) SetFilter(pattern string) error {
	f, err := newFilter(pattern)
	if err != nil {
		return err
	}
	s.filter, s.stale = f, true
	return nil
}

// FilterText implements ui.Filtered.
func (s *Workers) FilterText() string { return s.filter.pattern }

// Note implements ui.Screen.
func (s *Workers) Note() string {
	n, cards := 0, 0
	for _, r := range s.rows {
		if r.device == nil {
			n++
		} else if r.device.Kind != "cpu" {
			cards++
		}
	}
	note := s.w.Lang.N(n, "1 machine", "%d machines", counted(n)...)
	if cards > 0 {
		note += ", " + s.w.Lang.N(cards, "1 card", "%d cards", counted(cards)...)
	}
	if s.filter.re != nil {
		note += "  /" + s.filter.pattern
	}
	return note
}

func (s *Workers) refresh() {
	if s.seen == s.w.Board.Version() && !s.stale {
		return
	}
	s.seen, s.stale = s.w.Board.Version(), false
	s.rows = s.rows[:0]
	if here := s.w.Board.Machine(); here.Server.Address != "" || len(here.Devices) > 0 {
		var list []api.WorkerDevice
		for _, d := range here.Devices {
			list = append(list, api.WorkerDevice{Device: d.Device, Slots: api.WorkerSlots{Slots: d.Slots}, Runs: d.Runs, Cordon: d.Cordon})
		}
		s.add(nil, list)
	}
	for _, w := range s.w.Board.Workers() {
		s.add(&w, w.Devices)
	}
	for i, r := range s.rows {
		if r.id() == s.at {
			s.cursor = i
		}
	}
	s.cursor = max(0, min(s.cursor, len(s.rows)-1))
}

func (s *Workers) add(w *api.Worker, devices []api.WorkerDevice) {
	words := []string{"local"}
	if w != nil {
		words = []string{w.Name, string(w.State), w.Version}
	}
	for _, d := range devices {
		words = append(words, d.Device.Device, d.Name)
	}
	if !s.filter.lets(strings.Join(words, " ")) {
		return
	}
	s.rows = append(s.rows, workerRow{worker: w})
	for i := range devices {
		s.rows = append(s.rows, workerRow{w, &devices[i]})
	}
}

func (s *Workers) move(by int) {
	s.cursor = max(0, min(s.cursor+by, len(s.rows)-1))
	if s.cursor < len(s.rows) {
		s.at = s.rows[s.cursor].id()
	}
}

// Update implements ui.Screen.
func (s *Workers) Update(msg tea.Msg) tea.Cmd {
	s.refresh()
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return s.key(msg.String())
	case tea.MouseWheelMsg:
		s.move(wheel(msg))
	case tea.MouseClickMsg:
		if y := s.top + msg.Y; y >= 0 && y < len(s.lines) {
			s.move(s.lines[y] - s.cursor)
		}
	}
	return nil
}

func (s *Workers) key(k string) tea.Cmd {
	if by, ok := moves(k, max(1, s.page-1), len(s.rows)); ok {
		s.move(by)
		return nil
	}
	if keymap.AddWorker.Is(k) {
		return s.w.Shell.Ask(dialog.NewAddWorker(s.w))
	}
	if s.cursor >= len(s.rows) {
		return nil
	}
	r := s.rows[s.cursor]
	switch {
	case keymap.Open.Is(k):
		if r.device != nil && len(r.device.Runs) > 0 {
			return s.w.Shell.Open(r.device.Runs[0], "")
		}
		return s.describe(r)
	case keymap.Describe.Is(k):
		return s.describe(r)
	case keymap.Yank.Is(k):
		return ui.Send(ui.Copy{Text: strings.TrimPrefix(r.id(), "/")})
	case keymap.Drain.Is(k):
		return s.drain(r.worker)
	case keymap.Cordon.Is(k):
		return s.cordon(r)
	case keymap.Share.Is(k):
		return s.share(r)
	case keymap.NewHere.Is(k):
		return s.onto(r)
	case keymap.Logs.Is(k):
		return s.logs(r)
	case keymap.Remove.Is(k):
		return s.remove(r.worker)
	}
	return nil
}

func (s *Workers) drain(worker *api.Worker) tea.Cmd {
	w := s.w
	if worker == nil {
		return said(w.Lang.T("this machine can't be drained; hold its runs, or stop the control plane"))
	}
	name, on := worker.Name, !worker.Draining
	verb, do := "drain", w.Act.Workers.Drain
	if !on {
		verb, do = "undrain", w.Act.Workers.Undrain
	}
	command := w.Command("workers " + verb + " " + name)
	return func() tea.Msg {
		after, err := do(w.Context, name)
		words := w.Lang.F("%s takes runs again", name)
		if on {
			words = w.Lang.F("%s takes no new runs; %d go on there", name, len(after.Runs))
		}
		return ui.Done{Command: command, Said: words, Err: err}
	}
}

func (s *Workers) remove(worker *api.Worker) tea.Cmd {
	w := s.w
	if worker == nil {
		return said(w.Lang.T("this machine is the control plane's own"))
	}
	name := worker.Name
	command := w.Command("workers rm " + name)
	lines := []string{w.Lang.N(len(worker.Runs), "1 run is there and would be interrupted.", "%d runs are there and would be interrupted.", counted(len(worker.Runs))...)}
	if len(worker.Runs) == 0 {
		lines = []string{w.Lang.T("Nothing runs there. Its agent has to be enrolled again to come back.")}
	}
	do := func() tea.Msg {
		return ui.Done{Command: command, Said: w.Lang.F("%s is forgotten", name), Err: w.Act.Workers.RemoveWorker(w.Context, name)}
	}
	return w.Shell.Ask(dialog.NewConfirm(w, w.Lang.F("Remove worker %s?", name), lines, w.Lang.T("remove"), do))
}

func counted(n int) []any {
	if n == 1 {
		return nil
	}
	return []any{n}
}

// View implements ui.Screen.
func (s *Workers) View(w, h int) []string {
	s.refresh()
	if len(s.rows) == 0 {
		words := []string{"", "  " + s.w.Theme.Paint(theme.Dim, s.w.Lang.T("Connecting…"))}
		if s.filter.re != nil {
			words = empty(s.w, s.filter, w)
		}
		return widget.Block(words, w, h, s.w.Theme.Style)
	}
	s.at = s.rows[s.cursor].id()
	var lines []string
	s.lines = s.lines[:0]
	first, last := 0, 0
	shape := s.shape(w)
	for i, r := range s.rows {
		if i == s.cursor {
			first = len(lines)
		}
		on := i == s.cursor
		var some []string
		if r.device != nil {
			some = s.cardLines(*r.device, shape, w, on)
		} else {
			if len(lines) > 0 && h > 16 {
				lines, s.lines = append(lines, ""), append(s.lines, i)
				if on {
					first++
				}
			}
			some = s.machineLines(r.worker, w, on)
		}
		for _, l := range some {
			lines, s.lines = append(lines, l), append(s.lines, i)
		}
		if on {
			last = len(lines)
		}
	}
	if s.cursor == 0 {
		first = 0
	}
	s.page = h
	if last > s.top+h {
		s.top = last - h
	}
	s.top = max(0, min(s.top, first, len(lines)-h))
	return widget.Block(lines[s.top:], w, h, s.w.Theme.Style)
}

// describe shows all that is known of a machine or a card.
func (s *Workers) describe(r workerRow) tea.Cmd {
	w := s.w
	title := r.name()
	if title == "" {
		title = w.Lang.T("this machine")
	}
	list := s.machineFacts(r)
	return w.Shell.Ask(dialog.NewReader(w, widget.Plain(title), func(width int) []string { return factLines(w, list, width) }))
}

// factLines lays facts out for a text to read.
func factLines(w *ui.World, list []fact, width int) []string {
	var out []string
	for _, f := range list {
		for i, line := range text.Wrap(widget.Plain(f.text), max(10, min(width, 90)-16)) {
			name := f.name
			if i > 0 {
				name = ""
			}
			out = append(out, w.Theme.Paint(theme.Dim, text.Pad(name, 15, false))+" "+line)
		}
	}
	return out
}

func (s *Workers) machineFacts(r workerRow) []fact {
	l := s.w.Lang
	var list []fact
	add := func(name, value string) {
		if value != "" {
			list = append(list, fact{l.T(name), value})
		}
	}
	if r.worker == nil {
		here := s.w.Board.Machine()
		add("address", here.Server.Address)
		add("version", here.Server.Version)
		for _, p := range here.Problems {
			add("problem", p.Text)
		}
	} else {
		w := r.worker
		add("state", l.T(string(w.State)))
		add("version", w.Version)
		if p := w.Platform; p != nil {
			add("platform", strings.TrimSpace(p.OS+"/"+p.Arch+" "+p.Release+" "+p.Hostname))
			if p.Cores > 0 {
				add("cores", fmt.Sprint(p.Cores))
			}
			if p.MemoryMiB > 0 {
				add("memory", text.MiB(p.MemoryMiB))
			}
		}
		if p := w.Python; p != nil {
			add("python", p.Path+" "+p.Version)
			if p.Torch != nil {
				add("torch", *p.Torch)
			}
		}
		add("via", w.Via)
		add("why refused", w.RejectReason)
		for _, label := range slices.Sorted(maps.Keys(w.Mounts)) {
			add("mount "+label, w.Mounts[label])
		}
		if w.Catalog != nil {
			add("lacks", strings.Join(w.Catalog.MissingThere, ", "))
		}
		var ids []string
		for _, id := range w.Runs {
			ids = append(ids, run.Short(id))
		}
		add("runs", strings.Join(ids, ", "))
		add("command", s.w.Command("workers show "+w.Name))
	}
	if d := r.device; d != nil {
		add("device", d.Device.Device+"  "+d.Name)
		if d.Shared {
			add("shared", l.T("by memory"))
		}
		if d.UUID != nil {
			add("uuid", *d.UUID)
		}
		if d.PCIBusID != nil {
			add("pci", *d.PCIBusID)
		}
		for _, p := range d.Processes {
			words := fmt.Sprintf("pid %d", p.PID)
			if p.Name != nil {
				words += " " + *p.Name
			}
			if p.User != nil {
				words += " (" + *p.User + ")"
			}
			if p.MemoryMiB != nil {
				words += " " + text.MiB(*p.MemoryMiB)
			}
			add("process", words)
		}
	}
	return list
}
