package follow

import (
	"context"

	"cdui/internal/api"
	"cdui/internal/cli/env"
)

// Events hands every event after cursor to emit until the run has ended. Its
// error says how the run ended, as that of Follow does.
func Events(ctx context.Context, e *env.Env, src Source, id string, cursor int64, emit func(api.Event) error) error {
	f := &follower{env: e, o: Options{ID: id, Voice: Silent, Patience: DefaultPatience}}
	f.scr = screen{out: e.Out, err: e.Err, style: e.ErrStyle}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	updates := open(within, src, id, DefaultPatience, want{events: true, row: true, cursor: cursor})
	var err error
	for u := range updates {
		if err == nil {
			err = eachEvent(f, u, emit)
		}
		if err != nil {
			cancel() // and read on until the feeds have ended
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return f.left(ctx, err)
	}
	return Outcome(f.state.row, false)
}

func eachEvent(f *follower, u update, emit func(api.Event) error) error {
	if u.err != nil {
		return u.err
	}
	if u.row != nil {
		f.state.row = *u.row
	}
	for _, ev := range u.events {
		if err := emit(ev); err != nil {
			return err
		}
	}
	return nil
}
