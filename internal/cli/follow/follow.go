package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/run"
)

// Display makes console bytes safe to print.
type Display interface {
	// Write takes bytes in and gives the text that is whole.
	Write(p []byte) []byte
	// Flush gives what is left at the end.
	Flush() []byte
	// Line is the line that has not ended yet.
	Line() string
}

// Placed is a Display that wants to know where in the output it is.
type Placed interface {
	At(offset int64)
}

// Options say how a run is followed.
type Options struct {
	// ID is the whole run id.
	ID string
	// Console shows the run's output from Offset on.
	Console bool
	Offset  int64
	// Texts shows what the nodes of a graph print, among the output.
	Texts bool
	// JSON prints events, one a line, and nothing else.
	JSON bool
	// Voice says how much of cdui's own is shown.
	Voice Voice
	// Timeout ends the waiting, not the run; 0 waits for ever.
	Timeout time.Duration
	// ExitCode passes the child's own exit code on.
	ExitCode bool
	// Patience is how long a control plane may be away.
	Patience time.Duration
	// Ephemeral says that the run ends with us, so that nobody is told to
	// follow it later.
	Ephemeral bool
	// Display makes a display; nil shows bytes as they are.
	Display func(colour, live bool) Display
	// Artifacts lists what a run produced, nil to leave that out.
	Artifacts func(ctx context.Context, id string) (api.Artifacts, error)
}

// Voice is how much a follower says beside the run's own output.
type Voice int

// The voices: all of it, the end alone, nothing.
const (
	Full Voice = iota
	EndOnly
	Silent
)

// DefaultPatience is longer than a restart of the control plane takes.
const DefaultPatience = 2 * time.Minute

const frame = 100 * time.Millisecond

// follower owns the output while it follows.
type follower struct {
	env   *env.Env
	o     Options
	state state
	scr   screen
	disp  Display

	said    string
	started bool
	dirty   bool
}

// Follow shows the run, and whatever repeats it, until the last has ended. Its
// error says how that was: nil for a success.
func Follow(ctx context.Context, e *env.Env, src Source, o Options) error {
	began := e.Now()
	for timeout := o.Timeout; ; {
		next, err := followOne(ctx, e, src, o)
		if next == "" || ctx.Err() != nil {
			return err
		}
		if timeout > 0 {
			if o.Timeout = timeout - e.Now().Sub(began); o.Timeout <= 0 {
				o.Timeout = time.Nanosecond
			}
		}
		o.ID, o.Offset = next, 0
	}
}

// followOne shows one run. After its end it names the run that repeats it, if
// one does.
func followOne(ctx context.Context, e *env.Env, src Source, o Options) (next string, err error) {
	f := &follower{env: e, o: o}
	live := e.ErrTTY && !o.JSON && o.Voice == Full
	f.scr = screen{out: e.Out, err: e.Err, live: live, together: live && e.OutTTY, style: e.ErrStyle}
	if o.Display != nil && o.Console {
		f.disp = o.Display(e.Style().Colour, f.scr.together)
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	updates := open(within, src, o.ID, o.Patience, want{
		events: true, console: o.Console && !o.JSON, row: true, offset: o.Offset,
	})
	err = f.loop(ctx, updates)
	cancel()
	for range updates { // the feeds end once what they sent is read
	}
	f.scr.clear()
	if err != nil {
		return "", f.left(ctx, err)
	}
	err = f.end(ctx)
	if next = phrase.RetriedAs(f.state.row.Row); next != "" {
		f.say("repeated as " + run.Short(next))
	}
	return next, err
}

// errTimeout is the end of the waiting.
var errTimeout = errors.New("the time to wait is over")

func (f *follower) loop(ctx context.Context, updates <-chan update) error {
	var over <-chan time.Time
	if f.o.Timeout > 0 {
		t := time.NewTimer(f.o.Timeout)
		defer t.Stop()
		over = t.C
	}
	ticker := time.NewTicker(frame)
	defer ticker.Stop()
	second := 0
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return ctx.Err()
			}
			if err := f.take(u); err != nil {
				return err
			}
			f.dirty = true
		case <-ticker.C:
			second++
			if f.dirty || second%10 == 0 {
				f.paint()
			}
		case <-over:
			return errTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *follower) take(u update) error {
	switch {
	case u.err != nil:
		return u.err
	case u.lost != nil:
		if !f.state.lost {
			f.state.lost, f.state.lostFor = true, f.env.Now()
			f.plain("the control plane does not answer; the run goes on, waiting for it to come back")
		}
	case u.back:
		if f.state.lost {
			f.state.lost = false
			f.plain("the control plane answers again")
		}
	case u.row != nil:
		f.state.row, f.state.known = *u.row, true
		f.milestones()
	case u.chunk != nil:
		return f.console(u.chunk)
	}
	for _, e := range u.events {
		if f.o.JSON {
			if err := f.env.JSONLine(e); err != nil {
				return err
			}
			continue
		}
		t := f.state.apply(e, f.env.Now())
		for _, line := range t.lines {
			f.say(line)
		}
		for _, line := range t.steps {
			f.plain(line)
		}
		if err := f.texts(t.output); err != nil {
			return err
		}
	}
	return nil
}

// texts prints what nodes say as if it were output of the run.
func (f *follower) texts(list []string) error {
	if !f.o.Texts {
		return nil
	}
	for _, s := range list {
		p := []byte(s + "\n")
		if f.o.Display != nil {
			d := f.o.Display(f.env.Style().Colour, false)
			p = append(d.Write(p), d.Flush()...)
		}
		if err := f.scr.console(p); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) console(c *client.LogChunk) error {
	if s, ok := f.disp.(Placed); ok {
		s.At(c.Offset)
	}
	if c.Cut > 0 {
		if err := f.scr.finish(f.flush(), true); err != nil {
			return err
		}
		f.say(CutMark(c.Cut))
	}
	if f.disp == nil {
		return f.scr.console(c.Bytes)
	}
	return f.scr.console(f.disp.Write(c.Bytes))
}

// CutMark says that a part of the output is not there any more.
func CutMark(n int64) string {
	return fmt.Sprintf("[%s of output are not kept here: the log is over its limit]", text.Bytes(n))
}

func (f *follower) flush() []byte {
	if f.disp == nil {
		return nil
	}
	return f.disp.Flush()
}

// milestones says what a pipe is told of: that the run waits and why, that it
// runs.
func (f *follower) milestones() {
	r := f.state.row
	switch {
	case r.Status == run.Queued:
		// A run that could start at once is queued for a moment only.
		if r.QueuePosition != nil || r.QueueReason != "" {
			f.once(queuedLine(r))
		}
	case r.Status.Active() && r.PID != nil && !f.started:
		f.started = true
		mark := f.scr.style().PaintedMark(r.Status, false) + " "
		if !f.env.ErrTTY {
			mark = ""
		}
		f.say(mark + runningLine(r))
	case r.Status.Active() && r.CancelRequestedAt != nil && r.StoppingDeadline != nil:
		if f.scr.live {
			return
		}
		f.onceOf("stopping", phrase.Stopping(r, f.env.Now()))
	}
}

// once prints a plain line when it isn't the last one.
func (f *follower) once(line string) { f.onceOf(line, line) }

func (f *follower) onceOf(key, line string) {
	if f.said != key {
		f.said = key
		f.plain(line)
	}
}

// plain prints a line where no block shows the same.
func (f *follower) plain(line string) {
	if !f.scr.live {
		f.say(line)
	}
}

func (f *follower) say(line string) {
	if !f.o.JSON && f.o.Voice == Full {
		f.scr.say(line)
	}
}

func (f *follower) paint() {
	f.dirty = false
	if !f.scr.live {
		return
	}
	unfinished := ""
	if f.disp != nil && f.scr.together {
		unfinished = f.disp.Line()
	}
	f.scr.draw(unfinished, f.state.live(f.scr.style(), f.env.Now()))
}

// left tells why the following ended before the run.
func (f *follower) left(ctx context.Context, err error) error {
	short := run.Short(f.o.ID)
	var stopped *env.Interrupted
	switch {
	case errors.As(context.Cause(ctx), &stopped):
		if !f.o.JSON && !f.o.Ephemeral {
			f.env.Say("run %s goes on. Follow it: cdui logs -f %s   stop it: cdui cancel %s", short, short, short)
		}
		return &env.Exit{Code: stopped.ExitCode()}
	case errors.Is(err, errTimeout):
		return &env.Exit{Code: 124, Text: fmt.Sprintf("run %s has not ended after %s; it goes on. Follow it: cdui logs -f %s", short, f.o.Timeout, short)}
	case away(err):
		return &client.Unreachable{Text: fmt.Sprintf("%s\nrun %s goes on without it; follow it once it is back: cdui logs -f %s", err, short, short), Err: err}
	}
	return err
}

// end prints how the run ended, and makes that the exit code.
func (f *follower) end(ctx context.Context) error {
	if f.o.Console && !f.o.JSON {
		if err := f.scr.finish(f.flush(), f.env.OutTTY); err != nil {
			return err
		}
	}
	r := f.state.row
	mark := f.scr.style().PaintedMark(r.Status, false) + " "
	if !f.env.ErrTTY {
		mark = ""
	}
	if !f.o.JSON && f.o.Voice != Silent {
		f.scr.say(mark + endLine(r, f.env.Now()))
		f.saved(ctx)
	}
	return Outcome(r, f.o.ExitCode)
}

// saved names the first files that the run produced. That they can't be listed
// is no failure of the run, which has ended.
func (f *follower) saved(ctx context.Context) {
	if f.o.Artifacts == nil || f.o.Voice != Full {
		return
	}
	list, err := f.o.Artifacts(ctx, f.o.ID)
	if err != nil {
		return
	}
	const shown = 10
	indent := ""
	if f.env.ErrTTY {
		indent = "  "
	}
	for i, a := range list.Artifacts {
		if i == shown {
			f.scr.say(indent + word("") + fmt.Sprintf(" and %d more: cdui runs artifacts %s", len(list.Artifacts)-i, run.Short(f.o.ID)))
			return
		}
		f.scr.say(indent + savedLine(a))
	}
}

// Outcome makes the end of a run the end of a command.
func Outcome(r api.Run, childsOwn bool) error {
	if r.Status == run.Succeeded {
		return nil
	}
	if childsOwn {
		if code, ok := phrase.ExitCode(r.Row); ok && code != 0 {
			return &env.Exit{Code: code}
		}
	}
	return env.Failed("")
}
