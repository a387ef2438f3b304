package dialog

import (
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
	rowTimes
	rowButtons
)

// form is what is queued.
type form int

const (
	formRun form = iota
	formSweep
	formStudy
)

// Submit queues something: a file that a person names, or a copy of a run.
type Submit struct {
	w *ui.World
	// from is the run that a copy is made of, nil for a new one.
	from *api.Run
	form form
	what textinput.Model
	// memory is empty for whole cards, times how often a study repeats.
	memory, times textinput.Model
	row           int

	places  []place
	on      int
	device  int
	devices map[string]bool
	queue   bool
	busy    bool
	err     error
}

// NewSubmit makes the dialog; from is the run to queue again, nil for a new one.
func NewSubmit(w *ui.World, from *api.Run) *Submit {
	d := &Submit{w: w, from: from, what: NewInput(w, "", ""), memory: NewInput(w, "", ""), times: NewInput(w, "", "5"), devices: map[string]bool{}, queue: true}
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
		case rowTimes:
			return typed(&d.times, msg), false
		}
	}
	return nil, false
}

// has tells whether a row is part of the form.
func (d *Submit) has(row int) bool {
	switch row {
	case rowWhat:
		return d.from == nil
	case rowMemory:
		return d.form == formRun
	case rowTimes:
		return d.form == formStudy
	}
	return true
}

// step goes to the next row up or down.
func (d *Submit) step(by int) {
	for row := d.row + by; row >= rowWhat && row <= rowButtons; row += by {
		if d.has(row) {
			d.row = row
			return
		}
	}
}

func (d *Submit) key(msg tea.KeyPressMsg) (tea.Cmd, bool) {
	k := msg.String()
	switch k {
	case "esc":
		return nil, true
	case "up", "shift+tab":
		d.step(-1)
		return nil, false
	case "down", "tab":
		d.step(1)
		return nil, false
	case "enter":
		if d.row == rowButtons && !d.queue {
			return nil, true
		}
		switch d.form {
		case formSweep:
			return d.submitSweep(), false
		case formStudy:
			return d.submitStudy(), false
		case formRun:
		}
		return d.submit(), false
	}
	switch d.row {
	case rowWhat:
		return typed(&d.what, msg), false
	case rowMemory:
		return typed(&d.memory, msg), false
	case rowTimes:
		return typed(&d.times, msg), false
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
	words := []string{"run"}
	file, args := d.words()
	switch {
	case d.form == formSweep:
		return d.sweepCommand()
	case d.form == formStudy:
		words = []string{"study", "run", "-n", d.repetitions()}
	case d.from != nil:
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
	if memory := strings.TrimSpace(d.memory.Value()); memory != "" && d.has(rowMemory) {
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
	switch {
	case d.from != nil:
		title = l.F("Queue %s again", widget.Plain(d.from.Name))
	case d.form == formSweep:
		title = l.T("Queue a sweep")
	case d.form == formStudy:
		title = l.T("Queue a study")
	}
	if d.has(rowWhat) {
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
	if d.has(rowMemory) {
		lines = append(lines, label(rowMemory, "memory")+memory)
	}
	if d.has(rowTimes) {
		lines = append(lines, label(rowTimes, "times")+InputView(d.w, d.times, room-9, d.row == rowTimes))
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

// Naming fills in the file and what comes after it.
func (d *Submit) Naming(what string) *Submit {
	d.what.SetValue(what)
	d.what.CursorEnd()
	return d
}
