package live

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"cdui/internal/api"
)

// Conn is one connection of the feed.
type Conn interface {
	Next() (api.LiveFrame, error)
	Close()
}

// Dial connects. boot and cursor say where an earlier connection ended, boot is
// empty for the first one.
type Dial func(ctx context.Context, boot string, cursor int64) (Conn, error)

// Update is what Next gives: a frame, or that the line is lost.
type Update struct {
	Frame *api.LiveFrame
	// Lost is why there is no connection; the next call tries again after Retry.
	Lost  error
	Retry time.Duration
}

// The back-off between two tries.
const (
	retryFirst = 250 * time.Millisecond
	retryMost  = 5 * time.Second
)

// Feed gives updates. It isn't safe for concurrent use.
type Feed struct {
	dial Dial
	conn Conn

	boot   string
	cursor int64
	// retry is how long to wait before the next try, 0 when there is no need.
	retry, next time.Duration
}

// New makes a feed; nothing is dialled before the first Next.
func New(dial Dial) *Feed { return &Feed{dial: dial, next: retryFirst} }

// Next waits for the next update. Its error is that of the context, or one that
// trying again won't mend: then the feed is over.
func (f *Feed) Next(ctx context.Context) (Update, error) {
	if f.conn == nil {
		if err := f.wait(ctx); err != nil {
			return Update{}, err
		}
		conn, err := f.dial(ctx, f.boot, f.cursor)
		if err != nil {
			return f.lost(ctx, err)
		}
		f.conn = conn
	}
	frame, err := f.conn.Next()
	if err != nil {
		f.Close()
		return f.lost(ctx, err)
	}
	f.next = retryFirst
	if !frame.More {
		f.boot, f.cursor = frame.Boot, frame.Cursor
	}
	return Update{Frame: &frame}, nil
}

// lasting is an error that may say of itself that trying again won't mend it:
// that a certificate is another's, or that nobody was named rightly.
type lasting interface {
	error
	Lasting() bool
}

// lost decides when to try again.
func (f *Feed) lost(ctx context.Context, err error) (Update, error) {
	if ctx.Err() != nil {
		return Update{}, context.Cause(ctx)
	}
	var last lasting
	if errors.As(err, &last) && last.Lasting() {
		return Update{}, err
	}
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code != api.Unavailable && refused.Code != api.TooMany {
		return Update{}, err
	}
	f.retry = f.next + time.Duration(rand.Int64N(int64(f.next/4)))
	f.next = min(2*f.next, retryMost)
	return Update{Lost: err, Retry: f.retry}, nil
}

func (f *Feed) wait(ctx context.Context) error {
	if f.retry == 0 {
		return nil
	}
	t := time.NewTimer(f.retry)
	defer t.Stop()
	f.retry = 0
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the connection, if there is one.
func (f *Feed) Close() {
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}
