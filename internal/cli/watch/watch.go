// Package watch shows a list again and again, whenever it changed: a terminal
// is drawn in place, anything else gets one list after the other. It follows
// the control plane's feed and knows no list itself; it says when the line is
// lost and goes on when it is back.
package watch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/client/live"
)

const (
	// paceTTY and pace are the least time between two pictures.
	paceTTY = 200 * time.Millisecond
	pace    = time.Second
	// tick is how often ages are drawn anew on a terminal.
	tick = time.Second
)

// Draw writes the list as it is now.
type Draw func(w io.Writer, b *live.Board) error

// Dial connects to the feed of a client.
func Dial(c *client.Client) live.Dial {
	return func(ctx context.Context, boot string, cursor int64) (live.Conn, error) {
		return c.Live(ctx, boot, cursor)
	}
}

// Watch draws until ctx is over.
func Watch(ctx context.Context, e *env.Env, dial live.Dial, draw Draw) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	feed := live.New(dial)
	defer feed.Close()
	type next struct {
		update live.Update
		err    error
	}
	updates := make(chan next)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			u, err := feed.Next(ctx)
			select {
			case updates <- next{u, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() { <-done }()
	defer cancel(nil)

	w := &watcher{e: e, draw: draw, tty: e.OutTTY}
	defer w.end()
	beat := time.NewTicker(tick)
	defer beat.Stop()
	for {
		var err error
		select {
		case n := <-updates:
			if n.err != nil {
				return n.err
			}
			err = w.take(n.update)
		case <-w.due():
			err = w.show(true)
		case <-beat.C:
			err = w.show(w.tty)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

type watcher struct {
	e     *env.Env
	draw  Draw
	tty   bool
	board live.Board
	lost  error
	// timer is set while a picture is due.
	timer *time.Timer
	last  string
	rows  int
	at    time.Time
}

func (w *watcher) due() <-chan time.Time {
	if w.timer == nil {
		return nil
	}
	return w.timer.C
}

func (w *watcher) take(u live.Update) error {
	if u.Lost != nil {
		if w.lost == nil && !w.tty {
			w.e.Say("%v; trying again", u.Lost)
		}
		w.lost = u.Lost
		return w.show(w.tty)
	}
	w.lost = nil
	if !w.board.Apply(*u.Frame) || w.timer != nil {
		return nil
	}
	least := pace
	if w.tty {
		least = paceTTY
	}
	w.timer = time.NewTimer(least - min(least, time.Since(w.at)))
	return nil
}

// show draws, when there is something new to see and there is reason to look.
func (w *watcher) show(look bool) error {
	if !look || !w.board.Whole() && w.lost == nil {
		return nil
	}
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	w.at = time.Now()
	var b bytes.Buffer
	if w.board.Whole() {
		if err := w.draw(&b, &w.board); err != nil {
			return err
		}
	}
	if w.tty {
		return w.paint(b.String())
	}
	if b.String() == w.last {
		return nil
	}
	w.last = b.String()
	_, err := w.e.Out.Write(b.Bytes())
	return err
}

// paint replaces what is on the terminal, as much of it as fits.
func (w *watcher) paint(picture string) error {
	style := w.e.Style()
	lines := strings.Split(strings.TrimRight(picture, "\n"), "\n")
	if w.lost != nil {
		lines = append(lines, style.Crop(fmt.Sprintf("%v; trying again", w.lost), style.Width))
	}
	if room := w.e.Height() - 1; len(lines) > room {
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("and %s more", text.Plural(more, "line")))
	}
	picture = strings.Join(lines, "\n")
	if picture == w.last {
		return nil
	}
	var b strings.Builder
	b.WriteString("\r")
	if w.rows > 1 {
		fmt.Fprintf(&b, "\x1b[%dA", w.rows-1)
	}
	b.WriteString("\x1b[J" + picture)
	w.last, w.rows = picture, len(lines)
	_, err := io.WriteString(w.e.Out, b.String())
	return err
}

func (w *watcher) end() {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.tty && w.rows > 0 {
		fmt.Fprintln(w.e.Out)
	}
}
