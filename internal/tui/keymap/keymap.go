// Package keymap says which key does what on which screen. Help and hints are
// made from it, so that they can't say anything else. It does nothing itself.
package keymap

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
)

// Binding is one thing that keys do. Does is its name in English; the hints'
// language translates it.
type Binding struct {
	key.Binding
	// Hint puts it into the line at the bottom.
	Hint bool
}

func bind(keys, shown, does string, hint bool) Binding {
	return Binding{Binding: key.NewBinding(key.WithKeys(strings.Fields(keys)...), key.WithHelp(shown, does)), Hint: hint}
}

// Shown and Does are its key and its name.
func (b Binding) Shown() string { return b.Help().Key }

// Does is what it does, in English.
func (b Binding) Does() string { return b.Help().Desc }

// Is tells whether a key is one of the binding's.
func (b Binding) Is(pressed string) bool { return slices.Contains(b.Keys(), pressed) }

// The bindings of all screens.
//
//nolint:gochecknoglobals // values that nobody changes
var (
	Up       = bind("up k", "↑ k", "up", false)
	Down     = bind("down j", "↓ j", "down", false)
	PageUp   = bind("pgup ctrl+b", "pgup", "page up", false)
	PageDown = bind("pgdown ctrl+f", "pgdn", "page down", false)
	Home     = bind("home g", "g", "first", false)
	End      = bind("end G", "G", "last", false)
	Open     = bind("enter", "enter", "open", true)
	OpenRun  = bind("enter", "enter", "open its run", true)
	Back     = bind("esc", "esc", "back", false)
	Filter   = bind("/", "/", "filter", true)
	Palette  = bind(":", ":", "command", true)
	Help     = bind("?", "?", "keys", true)
	Quit     = bind("q ctrl+c", "q", "quit", false)
	Suspend  = bind("ctrl+z", "ctrl-z", "to the shell", false)
	Next     = bind("tab", "tab", "next screen", false)
	Previous = bind("shift+tab", "shift-tab", "screen before", false)
	Screens  = bind("1 2 3 4 5", "1-5", "screens", false)

	Mark     = bind("space", "space", "mark", false)
	Logs     = bind("l", "l", "logs", true)
	Describe = bind("d", "d", "describe", false)
	Yank     = bind("y", "y", "copy id", false)
	Delete   = bind("ctrl+d", "ctrl-d", "delete", false)
	QueueOn  = bind("s", "s", "queue on…", true)
	New      = bind("n", "n", "new run", false)
	Cancel   = bind("c", "c", "cancel", true)
	Hold     = bind("h", "h", "hold or release", false)

	SortRun    = bind("R", "R", "sort by run", false)
	SortName   = bind("N", "N", "sort by name", false)
	SortWhere  = bind("W", "W", "sort by place", false)
	SortStatus = bind("P", "P", "sort by progress", false)
	SortLoss   = bind("L", "L", "sort by loss", false)
	SortAge    = bind("A", "A", "sort by age", false)

	SortStanding = bind("P", "P", "sort by state", false)
	SortUser     = bind("U", "U", "sort by user", false)
	SortVerb     = bind("D", "D", "sort by what was done", false)
	SortObject   = bind("O", "O", "sort by object", false)
	SortFrom     = bind("F", "F", "sort by address", false)
	SortNumber   = bind("N", "N", "sort by number", false)

	NewSweep    = bind("S", "S", "new sweep", true)
	NewStudy    = bind("T", "T", "new study", true)
	Rerun       = bind("r", "r", "run the failed again", true)
	Curves      = bind("v", "v", "curves", true)
	YankCommand = bind("y", "y", "copy command", false)

	AddWorker = bind("a", "a", "add worker", true)
	Drain     = bind("D", "D", "(un)drain", true)
	Cordon    = bind("x", "x", "(un)cordon", true)
	Share     = bind("m", "m", "share by memory or not", false)
	Remove    = bind("ctrl+d", "ctrl-d", "remove", false)

	NewHere  = bind("s n", "s", "queue a run here", false)
	YankName = bind("y", "y", "copy name", false)
	OpenFile = bind("enter", "enter", "look into it", false)
	YankPath = bind("y", "y", "copy path", false)

	Tab    = bind("1 2 3 4 5 6 7", "1-7", "tabs", true)
	Follow = bind("f", "f", "follow", true)
	Wrap   = bind("w", "w", "wrap lines", false)
	Left   = bind("left", "←", "tab before", false)
	Right  = bind("right", "→", "next tab", false)
)

// Group is bindings under a title.
type Group struct {
	Title    string
	Bindings []Binding
}

// Moving is what every list has.
func Moving() Group {
	return Group{"Move", []Binding{Up, Down, PageUp, PageDown, Home, End, Next, Previous, Screens}}
}

// General is what every screen has.
func General() Group {
	return Group{"Everywhere", []Binding{Filter, Palette, Help, Back, Suspend, Quit}}
}
