package dialog

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// The rows of the form.
const (
	rowWhat = iota
	rowOn
	rowDevices
	rowMemory
	rowButtons
)

// Submit queues something: a file that a person names, or a copy of a run.
type Submit struct {
	w *ui.World
	// from is the run that a copy is made of, nil for a new one.
	from *api.Run
	// sweep: the file is that of a sweep.
	sweep bool
	what  textinput.Model
	// memory is empty for whole cards.
	memory textinput.Model
	row    int

	places  []place
	on      int
	device  int
	devices map[string]bool
	queue   bool
	busy    bool
	err     error
}

// place is a machine that runs can go to. Worker is empty for the control
// plane's own.
type place struct {
	worker string
	// devices are those that can be chosen, with the runs that are on them.
	devices []api.WorkerDevice
	state   api.WorkerState
	drains  bool
	// asFile leaves it to a sweep's file.
	asFile bool
}

// any is the place that leaves the machine to the control plane.
const anyWorker = "any"

// NewSubmit makes the dialog; from is the run to queue again, nil for a new one.
func NewSubmit(w *ui.World, from *api.Run) *Submit {
	d := &Submit{w: w, from: from, what: NewInput(w, "", ""), memory: NewInput(w, "", ""), devices: map[string]bool{}, queue: true}
	d.look()
	want, devices := "", []string{}
	if from != nil {
		d.row = rowOn
		want, devices = from.WorkerID, from.Devices
		if target, _, ok := strings.Cut(from.QueueKey, "/"); ok && want == "" {
			want = target
		}
	}
	for i, p := range d.places {
		if p.worker == want {
			d.on = i
		}
	}
	for _, name := range devices {
		d.devices[name] = true
	}
	d.known()
	return d
}

// look takes the machines from the board.
func (d *Submit) look() {
	board := d.w.Board
	here := place{state: api.WorkerOnline}
	kinds := map[string]bool{}
	for _, dev := range board.Machine().Devices {
		here.devices = append(here.devices, api.WorkerDevice{Device: dev.Device, Slots: api.WorkerSlots{Slots: dev.Slots}, Runs: dev.Runs})
		kinds[dev.Kind] = true
	}
	d.places = []place{here}
	for _, worker := range board.Workers() {
		if worker.State == api.WorkerRejected {
			continue
		}
		d.places = append(d.places, place{worker: worker.Name, devices: worker.Devices, state: worker.State, drains: worker.Draining})
		for _, dev := range worker.Devices {
			kinds[dev.Kind] = true
		}
	}
	if len(d.places) == 1 {
		return
	}
	anywhere := place{worker: anyWorker, state: api.WorkerOnline}
	for _, kind := range []string{"cpu", "cuda", "mps"} {
		if kinds[kind] {
			dev := api.WorkerDevice{}
			dev.Device.Device = kind
			anywhere.devices = append(anywhere.devices, dev)
		}
	}
	d.places = append(d.places, anywhere)
}

// known keeps only devices that the chosen machine has, and one at least.
func (d *Submit) known() {
	p := d.places[d.on]
	for name := range d.devices {
		if !slices.ContainsFunc(p.devices, func(dev api.WorkerDevice) bool { return dev.Device.Device == name }) {
			delete(d.devices, name)
		}
	}
	if len(d.devices) == 0 && len(p.devices) > 0 {
		d.devices[p.devices[0].Device.Device] = true
	}
	d.device = max(0, min(d.device, len(p.devices)-1))
}

// chosen are the devices, in the machine's order.
func (d *Submit) chosen() []string {
	var out []string
	for _, dev := range d.places[d.on].devices {
		if d.devices[dev.Device.Device] {
			out = append(out, dev.Device.Device)
		}
	}
	return out
}

// Update implements ui.Dialog.
func (d *Submit) Update(msg tea.Msg) (tea.Cmd, bool) {
	switch msg := msg.(type) {
	case submitted:
		d.busy, d.err = false, msg.err
		if msg.err != nil {
			return nil, false
		}
		return ui.Send(ui.Done{Command: msg.command, Said: msg.said}), true
	case tea.KeyPressMsg:
		return d.key(msg)
	case tea.PasteMsg:
		switch d.row {
		case rowWhat:
			return typed(&d.what, msg), false
		case rowMemory:
			return typed(&d.memory, msg), false
		}
	}
	return nil, false
}

func (d *Submit) key(msg tea.KeyPressMsg) (tea.Cmd, bool) {
	first := rowWhat
	if d.from != nil {
		first = rowOn
	}
	k := msg.String()
	switch k {
	case "esc":
		return nil, true
	case "up", "shift+tab":
		if d.row = max(first, d.row-1); d.sweep && d.row == rowMemory {
			d.row--
		}
		return nil, false
	case "down", "tab":
		if d.row = min(rowButtons, d.row+1); d.sweep && d.row == rowMemory {
			d.row++
		}
		return nil, false
	case "enter":
		if d.row == rowButtons && !d.queue {
			return nil, true
		}
		if d.sweep {
			return d.submitSweep(), false
		}
		return d.submit(), false
	}
	switch d.row {
	case rowWhat:
		return typed(&d.what, msg), false
	case rowMemory:
		return typed(&d.memory, msg), false
	}
	by := map[string]int{"left": -1, "h": -1, "right": 1, "l": 1}[k]
	switch d.row {
	case rowOn:
		if k == "space" {
			by = 1
		}
		if by != 0 {
			d.on = (d.on + by + len(d.places)) % len(d.places)
			d.known()
		}
	case rowDevices:
		n := len(d.places[d.on].devices)
		if n == 0 {
			break
		}
		d.device = (d.device + by + n) % n
		if k == "space" {
			name := d.places[d.on].devices[d.device].Device.Device
			if d.places[d.on].worker == anyWorker {
				clear(d.devices) // one kind
			}
			if d.devices[name] {
				delete(d.devices, name)
			} else {
				d.devices[name] = true
			}
			d.known()
		}
	case rowButtons:
		if by != 0 || k == "space" {
			d.queue = !d.queue
		}
	}
	return nil, false
}

type submitted struct {
	command, said string
	err           error
}

// words are what was typed: a file, then its arguments.
func (d *Submit) words() (file string, args []string) {
	words := strings.Fields(d.what.Value())
	if len(words) == 0 {
		return "", nil
	}
	file, args = words[0], words[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return file, args
}

// submit queues what the form says.
func (d *Submit) submit() tea.Cmd {
	file, args := d.words()
	if d.busy || d.from == nil && file == "" {
		return nil
	}
	d.busy, d.err = true, nil
	w, command := d.w, d.command()
	sub := ui.Submission{File: file, Args: args, Worker: d.places[d.on].worker, Devices: d.chosen(), Memory: strings.TrimSpace(d.memory.Value())}
	if d.from != nil {
		sub.From = d.from.ID
		if sub.Worker == "" {
			sub.Worker = "local" // or it would stay where the first one was
		}
	}
	return func() tea.Msg {
		reply, err := w.Act.Submit(w.Context, sub)
		said := ""
		if err == nil {
			said = w.Lang.F("queued as %s", run.Short(reply.RunID))
		}
		return submitted{command, said, err}
	}
}

// command is the command line that does the same.
func (d *Submit) command() string {
	if d.sweep {
		return d.sweepCommand()
	}
	words := []string{"run"}
	file, args := d.words()
	if d.from != nil {
		words = []string{"runs", "rerun", run.Short(d.from.ID)}
	}
	worker, devices := d.places[d.on].worker, d.chosen()
	if worker == "" && d.from != nil {
		words = append(words, "--worker", "local")
	}
	if worker != "" {
		words = append(words, "--worker", worker)
	}
	switch {
	case worker == anyWorker || worker == "" && len(devices) == 1:
		if len(devices) > 0 && (d.from != nil || devices[0] != "cpu") {
			words = append(words, "--device", devices[0])
		}
	case len(devices) > 0:
		words = append(words, "--devices", strings.Join(devices, ","))
	}
	if memory := strings.TrimSpace(d.memory.Value()); memory != "" {
		words = append(words, "--memory", memory)
	}
	if file != "" {
		words = append(words, file)
	}
	if len(args) > 0 {
		words = append(append(words, "--"), args...)
	}
	return d.w.Command(strings.Join(words, " "))
}

// would says whether it would start at once, and what it would wait for.
func (d *Submit) would() string {
	l, p := d.w.Lang, d.places[d.on]
	switch {
	case p.asFile:
		return l.T("go where the file says")
	case p.worker == anyWorker:
		return l.T("start on the first machine that has room")
	case p.state != api.WorkerOnline:
		return l.F("wait until %s is back", p.worker)
	case p.drains:
		return l.F("wait: %s takes no new runs", p.worker)
	}
	var busy []string
	for _, dev := range p.devices {
		if !d.devices[dev.Device.Device] || dev.Slots.Used < dev.Slots.Cap {
			continue
		}
		var runs []string
		for _, id := range dev.Runs {
			runs = append(runs, run.Short(id))
		}
		busy = append(busy, l.F("%s busy until %s ends", dev.Device.Device, strings.Join(runs, ", ")))
	}
	key := strings.Join(d.chosen(), ",")
	if p.worker != "" {
		key = p.worker + "/" + key
	}
	for _, k := range d.w.Board.Keys() {
		if k.Key == key && k.WaitingTotal > 0 {
			busy = append(busy, l.N(k.WaitingTotal, "1 waits there already", "%d wait there already", countArg(k.WaitingTotal)...))
		}
	}
	if len(busy) > 0 {
		return l.F("wait: %s", strings.Join(busy, "; "))
	}
	return l.T("start at once")
}

func countArg(n int) []any {
	if n == 1 {
		return nil
	}
	return []any{n}
}

// View implements ui.Dialog.
func (d *Submit) View(w, h int) []string {
	l, th := d.w.Lang, d.w.Theme
	room := min(w-4, 92)
	label := func(row int, words string) string {
		role := theme.Dim
		if d.row == row {
			role = theme.Accent
		}
		return th.Paint(role, text.Pad(l.T(words), 9, false))
	}
	var lines []string
	title := l.T("Queue a new run")
	if d.from != nil {
		title = l.F("Queue %s again", widget.Plain(d.from.Name))
	} else {
		if d.sweep {
			title = l.T("Queue a sweep")
		}
		lines = append(lines, label(rowWhat, "what")+InputView(d.w, d.what, room-9, d.row == rowWhat))
	}
	var places, devices []string
	for i, p := range d.places {
		name := p.worker
		switch {
		case p.asFile:
			name = l.T("as the file says")
		case name == "":
			name = l.T("this machine")
		case name == anyWorker:
			name = l.T("any")
		}
		places = append(places, d.choice(i == d.on, i == d.on && d.row == rowOn, "(•)", "(*)", "( )", name))
	}
	for i, dev := range d.places[d.on].devices {
		name := dev.Device.Device
		devices = append(devices, d.choice(d.devices[name], i == d.device && d.row == rowDevices, "[x]", "[x]", "[ ]", name))
	}
	lines = append(lines, flow(label(rowOn, "on"), places, room)...)
	if len(devices) > 0 {
		lines = append(lines, flow(label(rowDevices, "devices"), devices, room)...)
	}
	memory := InputView(d.w, d.memory, room-9, d.row == rowMemory)
	if d.memory.Value() == "" {
		memory = strings.TrimSuffix(memory, " ") + th.Paint(theme.Dim, l.T("whole card; a size such as 12GiB, or auto"))
	}
	if !d.sweep {
		lines = append(lines, label(rowMemory, "memory")+memory)
	}
	for i, line := range wrapped(d.would(), room-9) {
		head := ""
		if i == 0 {
			head = l.T("would")
		}
		lines = append(lines, th.Paint(theme.Dim, text.Pad(head, 9, false))+line)
	}
	for i, line := range wrapped(d.command(), room-9) {
		head := ""
		if i == 0 {
			head = l.T("command")
		}
		lines = append(lines, th.Paint(theme.Dim, text.Pad(head, 9, false))+line)
	}
	if d.err != nil {
		for _, line := range wrapped(widget.Plain(l.Error(d.err)), room) {
			lines = append(lines, th.Paint(theme.Bad, line))
		}
	}
	buttons := button(d.w, l.T("cancel"), d.row == rowButtons && !d.queue) + "   " + button(d.w, l.T("queue"), d.row != rowButtons || d.queue)
	if d.busy {
		buttons = th.Paint(theme.Dim, l.T("queueing…"))
	}
	if len(lines) > h-4 {
		lines = lines[:max(0, h-4)]
	}
	return frame(d.w, title, "", append(lines, "", buttons), 66, w, h)
}

func (d *Submit) choice(chosen, under bool, on, ascii, off, name string) string {
	mark := off
	if chosen {
		mark = d.w.Theme.Glyph(on, ascii)
	}
	if under {
		return d.w.Theme.PaintOn(true, theme.Accent, mark+" "+name)
	}
	return mark + " " + name
}

// flow lays words out after a label, in as many lines as they need.
func flow(label string, words []string, room int) []string {
	lines := []string{label}
	for _, word := range words {
		last := len(lines) - 1
		if cellsOf(lines[last])+cellsOf(word)+2 > room && cellsOf(lines[last]) > 9 {
			lines = append(lines, strings.Repeat(" ", 9))
			last++
		}
		lines[last] += word + "  "
	}
	return lines
}

// NewSubmitFile makes the dialog for a file that was named already.
func NewSubmitFile(w *ui.World, what string) *Submit {
	d := NewSubmit(w, nil)
	d.what.SetValue(what)
	d.what.CursorEnd()
	return d
}
