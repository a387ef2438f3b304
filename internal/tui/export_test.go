package tui

import (
	"context"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/client"
	"cdui/internal/client/live"
	"cdui/internal/tui/screen"
)

// Model is the root, for tests that hand it messages themselves.
type Model = model

// NewModel makes a root.
func NewModel(ctx context.Context, cfg Config) *Model { return newModel(ctx, cfg) }

// Fed is a frame of the feed.
func Fed(f api.LiveFrame) tea.Msg { return fed{update: live.Update{Frame: &f}} }

// Lost says that the line is.
func Lost(err error) tea.Msg { return fed{update: live.Update{Lost: err}} }

// Lines are the whole screen.
func (m *model) Lines() []string { return m.lines() }

// Least is the least size of a screen.
const (
	LeastWidth  = leastWidth
	LeastHeight = leastHeight
)

// Output is a piece of output of the run that is open.
func Output(m *Model, c client.LogChunk) tea.Msg {
	return m.current().(*screen.Run).Output(c) //nolint:forcetypeassert // a run is open
}

// Shown names the types of the screen that is shown and of the dialog over it.
func (m *model) Shown() (shown, dialog string) {
	return fmt.Sprintf("%T", m.current()), fmt.Sprintf("%T", m.dialog)
}
