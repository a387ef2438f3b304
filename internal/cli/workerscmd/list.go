package workerscmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/meter"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client/live"
	"cdui/internal/run"
)

func list(e *env.Env, d Deps) *noun.List {
	page := func(l api.WorkerList) noun.Page {
		p := noun.Page{Document: l, Draw: func(w io.Writer) error { return write(e, w, l.Workers) }}
		for _, w := range l.Workers {
			p.Add(w.Name)
		}
		return p
	}
	return &noun.List{
		Documents: []env.Document{env.One(api.WorkerList{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			l, err := d.Client().Workers(ctx)
			return page(l), err
		},
		Live:   func(b *live.Board) noun.Page { return page(api.WorkerList{Workers: b.Workers()}) },
		Client: d.Client,
		IDs:    "names",
		Empty:  "no workers yet; add one with: cdui workers add NAME",
	}
}

// write prints a line for each worker and, under it, one for each device. The
// devices of all workers share their columns.
func write(e *env.Env, out io.Writer, list []api.Worker) error {
	style, now := e.Style(), e.Now()
	widest := 0
	t := &text.Table{NoTitles: true, Columns: deviceColumns()}
	for _, w := range list {
		widest = max(widest, text.Cells(title(w)))
		for _, d := range w.Devices {
			t.Add(deviceRow(d, style)...)
		}
	}
	var devices bytes.Buffer
	if err := t.Write(&devices, style); err != nil {
		return err
	}
	lines := strings.SplitAfter(devices.String(), "\n")
	at := 0
	for _, w := range list {
		for i, line := range head(w, style, now, widest) {
			name := ""
			if i == 0 {
				name = title(w)
			}
			fmt.Fprintln(out, strings.TrimRight(text.Pad(name, widest, false)+"  "+line, " "))
		}
		for range w.Devices {
			fmt.Fprint(out, lines[at])
			at++
		}
	}
	return nil
}

func title(w api.Worker) string { return phrase.Clean(w.Name) }

// head is what is said of a worker in the line of its name; what doesn't fit
// goes into further ones.
func head(w api.Worker, style text.Style, now time.Time, indent int) []string {
	is := stateOf(w, now)
	sign := is.mark(style)
	parts := append([]string{is.words}, about(w, now)...)
	room := 0
	if style.Width > 0 {
		room = max(20, style.Width-indent-2)
	}
	lines := fill(parts, max(0, room-text.Cells(sign)-1))
	for i := range lines {
		if i == 0 {
			lines[i] = style.Paint(is.colour, sign) + " " + lines[i]
		} else {
			lines[i] = strings.Repeat(" ", text.Cells(sign)+1) + lines[i]
		}
	}
	if w.Degraded && w.State == api.WorkerOnline {
		for _, line := range text.Wrap(lacks(w), max(0, room-2)) {
			lines = append(lines, "  "+line)
		}
	}
	return lines
}

// fill puts parts into lines of at most room cells; 0 is no limit.
func fill(parts []string, room int) []string {
	const between = "   "
	var lines []string
	for _, p := range parts {
		last := len(lines) - 1
		switch {
		case p == "":
		case last >= 0 && (room == 0 || text.Cells(lines[last])+len(between)+text.Cells(p) <= room):
			lines[last] += between + p
		case room > 0 && text.Cells(p) > room:
			lines = append(lines, text.Wrap(p, room)...)
		default:
			lines = append(lines, p)
		}
	}
	return lines
}

func deviceColumns() []text.Column {
	return []text.Column{
		{},
		{},
		{Flex: true, Min: 8, Drop: 3},
		{Drop: 4},
		{Drop: 2},
		{Right: true, Drop: 5},
		{Right: true, Drop: 6},
		{Right: true},
		{Flex: true, Min: 8},
		{Flex: true, Min: 8, Drop: 1},
	}
}

func deviceRow(d api.WorkerDevice, style text.Style) []text.Cell {
	util, memory := meter.Util(d.Device, style), meter.Memory(d.Device, style)
	if util != "" {
		util = "util " + util
	}
	if memory != "" {
		memory = "mem " + memory
	}
	ill := text.Cell{}
	switch {
	case d.Cordon != nil && d.Cordon.Code == run.ReasonCordoned && d.Cordon.Text == "":
		ill = text.Cell{Text: standing{unicode: "‖", ascii: "="}.mark(style) + " cordoned", Colour: text.Yellow}
	case d.Cordon != nil && d.Cordon.Code == run.ReasonCardInUse:
		ill = text.Cell{Text: standing{unicode: "‖", ascii: "="}.mark(style) + " in use by " + phrase.Clean(d.Cordon.Text), Colour: text.Yellow}
	case d.Cordon != nil && d.Cordon.Code == run.ReasonCordoned:
		ill = text.Cell{Text: standing{unicode: "‖", ascii: "="}.mark(style) + " cordoned: " + phrase.Clean(d.Cordon.Text), Colour: text.Yellow}
	case !d.Health.OK():
		ill = text.Cell{Text: "! " + phrase.Clean(d.Health.Text), Colour: text.Red}
	}
	return append(text.Text("", d.Device.Device, phrase.Clean(d.Name), util, memory, meter.Temperature(d.Device, style), meter.Power(d.Device),
		meter.Slots(d.Slots.Used, d.Slots.Cap), meter.Users(d.Device, d.Runs)), ill)
}
