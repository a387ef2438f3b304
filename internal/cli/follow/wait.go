package follow

import (
	"context"

	"cdui/internal/api"
	"cdui/internal/cli/phrase"
)

// End waits for the end of a run, or of the last one that repeats it, and gives
// its row. A control plane that goes away meanwhile is waited for.
func End(ctx context.Context, src Source, id string) (api.Run, error) {
	for {
		row, err := endOfOne(ctx, src, id)
		if id = phrase.RetriedAs(row.Row); err != nil || id == "" {
			return row, err
		}
	}
}

func endOfOne(ctx context.Context, src Source, id string) (api.Run, error) {
	f := &feeds{src: src, id: id, patience: DefaultPatience}
	var row api.Run
	for {
		err := f.try(ctx, func() (err error) {
			row, err = src.Run(ctx, id)
			return err
		})
		if err != nil || row.Status.Terminal() {
			return row, err
		}
		cursor := int64(0)
		if row.LastCursor != nil {
			cursor = *row.LastCursor
		}
		// The next event, or the end of the long poll, is the time to look again.
		err = f.try(ctx, func() (err error) {
			_, err = src.Events(ctx, id, cursor, longPoll, 1)
			return err
		})
		if err != nil {
			return row, err
		}
		if !pause(ctx, idlePause) {
			return row, context.Cause(ctx)
		}
	}
}
