package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/client/live"
	"cdui/internal/tui/lang"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
)

// Config is what the program is given.
type Config struct {
	// Dial connects to the feed.
	Dial   live.Dial
	Source ui.Source
	Sweeps ui.SweepSource
	Log    ui.ActionSource
	Act    ui.Actions
	// Theme is dark, light or none; auto asks the terminal.
	Theme   string
	Lang    string
	Unicode bool
	// Place is where the control plane is and Context what it is called, if it
	// is, for the head; Flags are what a command needs to go there, such as
	// --context lab.
	Place, Context, Flags string
	// Disk is this machine's, MachineID which one that is.
	Disk      ui.Disk
	MachineID string
	// In and Out are the terminal, Environ its environment.
	In      io.Reader
	Out     io.Writer
	Environ []string
	Now     func() time.Time
}

// Auto is the theme that the terminal's background decides.
const Auto = "auto"

// ErrCrashed is returned after a panic; the terminal is as it was.
var ErrCrashed = errors.New("the screen crashed; runs go on, and every command works as before")

// errGone ends the program when nobody can type any more.
var errGone = errors.New("the terminal is gone")

// Run shows the program until a person quits or ctx is over.
func Run(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := newModel(ctx, cfg)
	defer func() {
		cancel(nil)
		m.close()
	}()
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(whileThere(cfg.In, cancel)), tea.WithOutput(cfg.Out),
		tea.WithEnvironment(cfg.Environ), tea.WithoutSignalHandler(), tea.WithFPS(fps))
	_, err := p.Run()
	switch {
	case m.fatal != nil:
		return m.fatal
	case errors.Is(err, tea.ErrProgramPanic):
		return ErrCrashed // what happened was said
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// fps bounds how often a screen is sent.
const fps = 60

// newModel makes the root.
func newModel(ctx context.Context, cfg Config) *model {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	name := cfg.Theme
	if name == Auto || name == "" {
		name = "dark"
	}
	w := &ui.World{
		Board: &live.Board{}, Theme: theme.New(name, cfg.Unicode, false), Lang: lang.New(cfg.Lang), Now: cfg.Now, Context: ctx,
		Source: cfg.Source, Sweeps: cfg.Sweeps, Log: cfg.Log, Act: cfg.Act, Flags: cfg.Flags, Disk: cfg.Disk, MachineID: cfg.MachineID,
	}
	m := &model{cfg: cfg, world: w, feed: live.New(cfg.Dial), themeName: name}
	w.Shell = m
	m.reset()
	return m
}
