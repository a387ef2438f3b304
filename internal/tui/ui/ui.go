// Package ui is what screens and dialogs are given, and what they ask of the
// program around them. It holds no state of its own and draws nothing.
package ui

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/client"
	"cdui/internal/client/live"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/lang"
	"cdui/internal/tui/theme"
)

// World is what every screen sees. Only the root changes it.
type World struct {
	Board *live.Board
	Theme *theme.Theme
	Lang  *lang.Lang
	Now   func() time.Time
	// Context ends with the program.
	Context context.Context //nolint:containedctx // commands that bubbletea starts take none
	Source  Source
	Sweeps  SweepSource
	Log     ActionSource
	Act     Actions
	// Flags are what the commands that are shown need to lead here, such as
	// --context lab; empty where they need none.
	Flags string
	// Disk is this machine's, MachineID which machine that is: files of a control
	// plane on the same one can be looked into.
	Disk      Disk
	MachineID string
	// Shell is the program around the screens.
	Shell Shell
}

// Shell does what a screen asks for at once, so that the keys that come after
// one find what it opened.
type Shell interface {
	// Open shows a run; tab is which part of it, empty for the first.
	Open(id, tab string) tea.Cmd
	// Lay puts a screen over this one.
	Lay(s Screen) tea.Cmd
	// Back leaves the screen.
	Back() tea.Cmd
	// Ask shows a dialog.
	Ask(d Dialog) tea.Cmd
}

// Command is a line of the command line that does what a key did.
func (w *World) Command(words string) string {
	if w.Flags != "" {
		return "cdui " + w.Flags + " " + words
	}
	return "cdui " + words
}

// Quote makes one word of a text for a shell.
func Quote(text string) string {
	if text == "" || strings.ContainsAny(text, " \t\n'\"$`\\&;|<>()*?[]#!{}") {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// Source reads one run.
type Source interface {
	Run(ctx context.Context, id string) (api.Run, error)
	Events(ctx context.Context, id string, cursor int64, wait time.Duration, limit int) (api.Events, error)
	Metrics(ctx context.Context, id, name string) (api.Metrics, error)
	Log(ctx context.Context, id string, offset int64, limit int, wait time.Duration) (client.LogChunk, error)
	Artifacts(ctx context.Context, id, kind string) (api.Artifacts, error)
}

// Disk reads files of this machine.
type Disk interface {
	Size(path string) (int64, error)
	// Head gives the beginning of a regular file.
	Head(path string, limit int) ([]byte, error)
}

// SweepSource reads sweeps and studies, which the feed doesn't carry.
type SweepSource interface {
	Sweeps(ctx context.Context, limit, offset int) (api.SweepList, error)
	Sweep(ctx context.Context, id string) (api.Sweep, error)
	Studies(ctx context.Context, limit, offset int) (api.StudyList, error)
	Study(ctx context.Context, id string) (api.Study, error)
}

// ActionSource reads the log of actions, of which the feed tells only that it
// has grown.
type ActionSource interface {
	Actions(ctx context.Context, before int64, limit int) (api.ActionList, error)
}

// Actions change something.
type Actions struct {
	Runs    RunActions
	Workers WorkerActions
	Queue   QueueActions
	Sweeps  SweepActions
	// Submit queues what a person asked for.
	Submit func(ctx context.Context, s Submission) (api.SubmitReply, error)
	// SubmitSweep queues the sweep of a file.
	SubmitSweep func(ctx context.Context, s Submission) (api.SweepReply, error)
	// SubmitStudy queues a study of a file.
	SubmitStudy func(ctx context.Context, s Submission) (api.StudyReply, error)
}

// RunActions change runs.
type RunActions interface {
	Cancel(ctx context.Context, id string, body api.CancelRequest) (api.CancelReply, error)
	Hold(ctx context.Context, id string) (api.RunState, error)
	Release(ctx context.Context, id string) (api.RunState, error)
	Delete(ctx context.Context, id string) error
}

// QueueActions change a whole queue key.
type QueueActions interface {
	HoldQueue(ctx context.Context, key, note string) (api.QueueHold, error)
	ReleaseQueue(ctx context.Context, key string) (api.QueueHold, error)
}

// SweepActions change sweeps and studies.
type SweepActions interface {
	CancelSweep(ctx context.Context, id string) (api.SweepCancelReply, error)
	RerunSweep(ctx context.Context, id string) (api.SweepRerunReply, error)
	CancelStudy(ctx context.Context, id string) (api.Study, error)
	ResumeStudy(ctx context.Context, id string, body api.StudyResumeRequest) (api.Study, error)
}

// WorkerActions change workers.
type WorkerActions interface {
	AddWorker(ctx context.Context, name string, ttl time.Duration) (api.EnrollmentReply, error)
	Drain(ctx context.Context, name string) (api.Worker, error)
	Undrain(ctx context.Context, name string) (api.Worker, error)
	RemoveWorker(ctx context.Context, name string) error
	SetDevice(ctx context.Context, worker, device string, change api.DevicePolicyChange) (api.DevicePolicy, error)
}

// Submission is what cdui run is given, or cdui runs rerun.
type Submission struct {
	// From is the run to queue again; without one File is what is run.
	From string
	File string
	Args []string
	// Worker is local, any or a worker's name.
	Worker  string
	Devices []string
	// Memory is a size, auto, or empty for whole cards.
	Memory string
	// Repetitions are those of a study.
	Repetitions int
}

// Screen is one screen. It is told its size and owns what it shows beside the
// world.
type Screen interface {
	// Title is its name in English.
	Title() string
	// Update takes what the root passes on: keys that it has no use for itself,
	// the mouse, and replies.
	Update(msg tea.Msg) tea.Cmd
	// View draws w by h cells.
	View(w, h int) []string
	// Note is what stands at the right of the bottom line.
	Note() string
	Keys() []keymap.Group
	// Close ends what the screen has under way.
	Close()
}

// Reader is a screen that shows what the feed doesn't carry.
type Reader interface {
	// Hear is told of each frame before the world takes it in.
	Hear(f api.LiveFrame)
	// Read gives the command that reads what may have changed; nil where nothing
	// is due. The screen that is shown is asked after each message.
	Read() tea.Cmd
}

// Filtered is a screen whose lines can be filtered.
type Filtered interface {
	// SetFilter takes a pattern; an error says what is wrong with it.
	SetFilter(pattern string) error
	FilterText() string
}

// Dialog is a box above a screen that takes all keys.
type Dialog interface {
	Update(msg tea.Msg) (cmd tea.Cmd, done bool)
	// View draws the dialog in a screen of w by h.
	View(w, h int) []string
}

// Messages to the root.
type (
	// Done tells what an action did, and the command that does the same.
	Done struct {
		Command string
		Said    string
		Err     error
	}
	// Copy puts a text into the terminal's clipboard.
	Copy struct{ Text string }
	// Tick passes once a second, so that ages grow.
	Tick struct{ At time.Time }
)

// Send makes a command of a message.
func Send(msg tea.Msg) tea.Cmd { return func() tea.Msg { return msg } }
