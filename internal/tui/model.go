package tui

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"cdui/internal/client/live"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/lang"
	"cdui/internal/tui/screen"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
)

// model is the root.
type model struct {
	cfg   Config
	world *ui.World
	feed  *live.Feed
	// commands are those under way.
	commands commands

	// lists are the screens that tab goes round, at the one that is shown. Over
	// it lies what was opened from it.
	lists  []ui.Screen
	at     int
	opened []ui.Screen
	dialog ui.Dialog

	// typing is what the line at the bottom is for; bad says what is wrong with
	// what was typed.
	typing typing
	line   textinput.Model
	bad    error

	w, h      int
	themeName string
	rich      bool

	lost      error
	lostSince time.Time
	fatal     error

	toast    ui.Done
	toastEnd time.Time
}

// typing is what a person types at the bottom.
type typing int

const (
	notTyping typing = iota
	typingFilter
	typingCommand
)

// toastStays is how long the result of an action is shown.
const toastStays = 8 * time.Second

// reset makes the screens.
func (m *model) reset() {
	m.lists = []ui.Screen{screen.NewRuns(m.world), screen.NewQueue(m.world), screen.NewWorkers(m.world), screen.NewSweeps(m.world), screen.NewActions(m.world)}
}

// close ends what screens have under way. The context is over.
func (m *model) close() {
	m.commands.close()
	for _, s := range append(m.opened, m.lists...) {
		s.Close()
	}
	m.feed.Close()
}

// current is the screen that is shown.
func (m *model) current() ui.Screen {
	if n := len(m.opened); n > 0 {
		return m.opened[n-1]
	}
	return m.lists[m.at]
}

type fed struct {
	update live.Update
	err    error
}

// next waits for the next update of the feed.
func (m *model) next() tea.Cmd {
	feed, ctx := m.feed, m.world.Context
	return func() tea.Msg {
		u, err := feed.Next(ctx)
		return fed{u, err}
	}
}

// tick passes a second.
func (m *model) tick() tea.Cmd {
	ctx := m.world.Context
	return func() tea.Msg {
		t := time.NewTimer(time.Second)
		defer t.Stop()
		select {
		case at := <-t.C:
			return ui.Tick{At: at}
		case <-ctx.Done():
			return nil
		}
	}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.next(), m.tick()}
	if m.cfg.Theme == Auto {
		cmds = append(cmds, tea.RequestBackgroundColor)
	}
	return m.commands.guard(tea.Batch(cmds...))
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	if r, ok := m.current().(ui.Reader); ok && m.world.Board.Whole() && m.lost == nil {
		if read := r.Read(); read != nil {
			cmd = tea.Batch(cmd, read)
		}
	}
	return m, m.commands.guard(cmd)
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
	case tea.ColorProfileMsg:
		m.rich = msg.Profile >= colorprofile.ANSI256
		m.paint(m.themeName)
	case tea.BackgroundColorMsg:
		if m.cfg.Theme == Auto && m.themeName != "none" {
			m.paint(map[bool]string{true: "dark", false: "light"}[msg.IsDark()])
		}
	case fed:
		return m.take(msg)
	case ui.Tick:
		return m.tick()
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.paste(msg)
	case tea.MouseMsg:
		return m.mouse(msg)
	case crashed:
		m.fatal = msg.err
		return tea.Quit
	case ui.Done:
		m.say(msg)
	case ui.Copy:
		m.say(ui.Done{Said: m.world.Lang.F("copied %s", m.world.Theme.Style.Crop(msg.Text, 40))})
		return tea.SetClipboard(msg.Text)
	default:
		return m.reply(msg)
	}
	return nil
}

func (m *model) say(d ui.Done) { m.toast, m.toastEnd = d, m.cfg.Now().Add(toastStays) }

// reply hands a message to whoever may have asked for it.
func (m *model) reply(msg tea.Msg) tea.Cmd {
	var cmds []tea.Cmd
	if m.dialog != nil {
		cmd, done := m.dialog.Update(msg)
		if done {
			m.dialog = nil
		}
		cmds = append(cmds, cmd)
	}
	for _, s := range append(m.readers(), m.opened...) {
		cmds = append(cmds, s.Update(msg))
	}
	return tea.Batch(cmds...)
}

// readers are the lists that read something themselves.
func (m *model) readers() []ui.Screen {
	var out []ui.Screen
	for _, s := range m.lists {
		if _, ok := s.(ui.Reader); ok {
			out = append(out, s)
		}
	}
	return out
}

// take takes an update of the feed.
func (m *model) take(f fed) tea.Cmd {
	if f.err != nil {
		if m.world.Context.Err() == nil {
			m.fatal = f.err
		}
		return tea.Quit
	}
	if f.update.Lost != nil {
		if m.lost == nil {
			m.lostSince = m.cfg.Now()
		}
		m.lost = f.update.Lost
		return m.next()
	}
	m.lost = nil
	for _, s := range append(m.readers(), m.opened...) {
		if r, ok := s.(ui.Reader); ok {
			r.Hear(*f.update.Frame)
		}
	}
	m.world.Board.Apply(*f.update.Frame)
	return m.next()
}

// paint changes the theme.
func (m *model) paint(name string) {
	m.themeName = name
	m.world.Theme = theme.New(name, m.cfg.Unicode, m.rich)
}

// Open implements ui.Shell.
func (m *model) Open(id, tab string) tea.Cmd {
	s := screen.NewRun(m.world, id, tab)
	m.opened = append(m.opened, s)
	return s.Init()
}

// Lay implements ui.Shell.
func (m *model) Lay(s ui.Screen) tea.Cmd {
	m.opened = append(m.opened, s)
	return nil
}

// Back implements ui.Shell.
func (m *model) Back() tea.Cmd {
	m.back()
	return nil
}

// Ask implements ui.Shell.
func (m *model) Ask(d ui.Dialog) tea.Cmd {
	m.dialog = d
	return nil
}

// back leaves what was opened last.
func (m *model) back() {
	n := len(m.opened)
	if n == 0 {
		return
	}
	m.opened[n-1].Close()
	m.opened = m.opened[:n-1]
}

func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	k := msg.String()
	switch {
	case k == "ctrl+c":
		return tea.Quit
	case keymap.Suspend.Is(k):
		return tea.Suspend
	case m.w < leastWidth || m.h < leastHeight:
		if keymap.Quit.Is(k) {
			return tea.Quit
		}
		return nil
	case m.dialog != nil:
		cmd, done := m.dialog.Update(msg)
		if done {
			m.dialog = nil
		}
		return cmd
	case m.typing != notTyping:
		return m.typed(msg)
	}
	m.toastEnd = time.Time{}
	switch {
	case keymap.Quit.Is(k):
		return tea.Quit
	case keymap.Help.Is(k):
		s := m.current()
		m.dialog = dialog.NewHelp(m.world, m.world.Lang.T(s.Title()), s.Keys())
		return nil
	case keymap.Palette.Is(k):
		m.typing, m.line, m.bad = typingCommand, dialog.NewInput(m.world, ":", ""), nil
		return nil
	case keymap.Filter.Is(k):
		if f, ok := m.current().(ui.Filtered); ok {
			m.typing, m.line, m.bad = typingFilter, dialog.NewInput(m.world, "/", f.FilterText()), nil
		}
		return nil
	case keymap.Back.Is(k):
		if f, ok := m.current().(ui.Filtered); ok && f.FilterText() != "" {
			_ = f.SetFilter("") // an empty pattern is always right
			return nil
		}
	case len(m.opened) == 0 && keymap.Next.Is(k):
		m.at = (m.at + 1) % len(m.lists)
		return nil
	case len(m.opened) == 0 && keymap.Previous.Is(k):
		m.at = (m.at + len(m.lists) - 1) % len(m.lists)
		return nil
	case len(m.opened) == 0 && keymap.Screens.Is(k):
		m.at = slices.Index(keymap.Screens.Keys(), k)
		return nil
	}
	return m.current().Update(msg)
}

func (m *model) paste(msg tea.PasteMsg) tea.Cmd {
	switch {
	case m.dialog != nil:
		cmd, done := m.dialog.Update(msg)
		if done {
			m.dialog = nil
		}
		return cmd
	case m.typing != notTyping:
		return m.typed(msg)
	}
	return nil
}

func (m *model) mouse(msg tea.MouseMsg) tea.Cmd {
	if m.w < leastWidth || m.h < leastHeight {
		return nil
	}
	if m.dialog != nil {
		cmd, done := m.dialog.Update(msg)
		if done {
			m.dialog = nil
		}
		return cmd
	}
	at := msg.Mouse()
	top, height := m.body()
	switch msg := msg.(type) {
	case tea.MouseClickMsg:
		switch {
		case at.Y == 0:
			m.clickHead(at.X)
		case at.Y >= top && at.Y < top+height:
			msg.Y -= top
			return m.current().Update(msg)
		}
	case tea.MouseWheelMsg:
		return m.current().Update(msg)
	}
	return nil
}

// typed takes a key of the line at the bottom.
func (m *model) typed(msg tea.Msg) tea.Cmd {
	if key, ok := msg.(tea.KeyPressMsg); ok {
		switch key.String() {
		case "esc":
			if m.typing == typingFilter {
				m.filter("")
			}
			m.typing = notTyping
			return nil
		case "enter":
			was, text := m.typing, m.line.Value()
			if was == typingFilter && m.bad != nil {
				return nil
			}
			m.typing = notTyping
			if was == typingCommand {
				return m.command(text)
			}
			return nil
		case "tab":
			if m.typing == typingCommand {
				if all := completions(m, m.line.Value()); len(all) > 0 {
					m.line.SetValue(all[0])
					m.line.CursorEnd()
				}
				return nil
			}
		}
	}
	next, cmd := m.line.Update(msg)
	m.line = next
	if m.typing == typingFilter {
		m.filter(m.line.Value())
	}
	return cmd
}

func (m *model) filter(pattern string) {
	if f, ok := m.current().(ui.Filtered); ok {
		m.bad = f.SetFilter(pattern)
	}
}

// show brings a list to the front.
func (m *model) show(at int) {
	for len(m.opened) > 0 {
		m.back()
	}
	m.at = at
}

// speak changes the language.
func (m *model) speak(name string) { m.world.Lang = lang.New(name) }

// clickHead chooses the list whose name stands at a cell.
func (m *model) clickHead(x int) {
	at := len(brand)
	for _, i := range m.named() {
		width := cells(m.world.Lang.T(m.lists[i].Title())) + 2
		if x >= at && x < at+width {
			m.show(i)
			return
		}
		at += width
	}
}

// words splits a command.
func words(s string) (verb string, rest string) {
	verb, rest, _ = strings.Cut(strings.TrimSpace(s), " ")
	return strings.ToLower(verb), strings.TrimSpace(rest)
}
