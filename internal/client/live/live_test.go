package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"cdui/internal/api"
	"cdui/internal/client/live"
	"cdui/internal/run"
)

// line is a connection that gives some frames and then breaks.
type line struct {
	frames []api.LiveFrame
	closed *int
}

var errBroken = errors.New("broken")

func (l *line) Next() (api.LiveFrame, error) {
	if len(l.frames) == 0 {
		return api.LiveFrame{}, errBroken
	}
	f := l.frames[0]
	l.frames = l.frames[1:]
	return f, nil
}

func (l *line) Close() { *l.closed++ }

func TestAFeedConnectsAgainFromWhereItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		closed, dials := 0, 0
		feed := live.New(func(_ context.Context, boot string, cursor int64) (live.Conn, error) {
			asked = append(asked, fmt.Sprint(boot, cursor))
			dials++
			switch dials {
			case 1:
				return &line{closed: &closed, frames: []api.LiveFrame{
					{Type: api.LiveSnapshot, Boot: "b", Cursor: 3, More: true},
					{Type: api.LiveDelta, Boot: "b", Cursor: 3},
					{Type: api.LiveDelta, Boot: "b", Cursor: 9, More: true},
				}}, nil
			case 2, 3, 4:
				return nil, errBroken
			}
			return &line{closed: &closed, frames: []api.LiveFrame{{Type: api.LiveDelta, Boot: "b", Cursor: 10}}}, nil
		})
		defer feed.Close()
		start := time.Now()
		var lost int
		for range 8 {
			u, err := feed.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if u.Lost != nil {
				lost++
			}
		}
		// A frame that more belongs to is no place to go on from.
		if !slices.Equal(asked, []string{"0", "b3", "b3", "b3", "b3"}) || lost != 4 || closed != 1 {
			t.Errorf("asked %v, lost %d times, closed %d", asked, lost, closed)
		}
		if took := time.Since(start); took < 3*time.Second || took > 5*time.Second {
			t.Errorf("the tries took %s", took)
		}
	})
}

func TestAFeedGivesUpWhereTryingWontHelp(t *testing.T) {
	t.Parallel()
	refused := api.Errorf(api.Unauthorized, "no")
	feed := live.New(func(context.Context, string, int64) (live.Conn, error) { return nil, refused })
	if _, err := feed.Next(t.Context()); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("ctrl-c")
	cancel(why)
	feed = live.New(func(context.Context, string, int64) (live.Conn, error) { return nil, errBroken })
	if _, err := feed.Next(ctx); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

func queued(id string, order int64) api.LiveRun {
	return api.LiveRun{ID: id, Order: order, Status: run.Queued, QueueKey: "cuda:0"}
}

func TestPlacesInTheQueueFollowFromTheOrder(t *testing.T) {
	t.Parallel()
	var b live.Board
	busy, held := run.SlotBusy("cuda:0", []string{"aaaa"}), run.Held()
	stands := queued("ffff", 3)
	stands.Aside, stands.Held = &held, true
	b.Apply(api.LiveFrame{
		Type: api.LiveSnapshot, Boot: "b",
		Runs: []api.LiveRun{queued("bbbb", 2), queued("dddd", 5), stands, queued("cccc", 4)},
		Keys: []api.LiveKey{{QueueKey: api.QueueKey{Key: "cuda:0", Waiting: []api.QueueEntry{{RunID: "bbbb", Position: 1, Reason: &busy}}}, WaitingTotal: 4}},
	})
	var got []string
	for _, r := range b.Runs() {
		at := 0
		if r.QueuePosition != nil {
			at = *r.QueuePosition
		}
		got = append(got, fmt.Sprint(r.ID, " ", at, " ", r.QueueReason))
	}
	want := []string{"dddd 3 behind cccc", "cccc 2 behind bbbb", "ffff 0 held; release it to let it queue", "bbbb 1 cuda:0 is busy with aaaa"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// One of a higher priority goes first, whatever came before it.
	urgent := queued("eeee", 9)
	urgent.Priority = 5
	b.Apply(api.LiveFrame{Type: api.LiveDelta, Boot: "b", Runs: []api.LiveRun{urgent}})
	if r, _ := b.Run("eeee"); r.QueuePosition == nil || *r.QueuePosition != 1 {
		t.Errorf("%+v", r)
	}
	b.Apply(api.LiveFrame{Type: api.LiveDelta, Boot: "b", GoneRuns: []string{"eeee"}})
	if r, ok := b.Run("cccc"); !ok || r.QueuePosition == nil || *r.QueuePosition != 2 {
		t.Errorf("%+v", r)
	}
}

func TestASnapshotShowsOnlyWhenItIsWhole(t *testing.T) {
	t.Parallel()
	var b live.Board
	b.Apply(api.LiveFrame{Type: api.LiveSnapshot, Boot: "a", Runs: []api.LiveRun{queued("old", 1)}})
	if b.Apply(api.LiveFrame{Type: api.LiveSnapshot, Boot: "b", More: true, Runs: []api.LiveRun{queued("new", 1)}}) {
		t.Error("half a snapshot is shown")
	}
	if r := b.Runs(); len(r) != 1 || r[0].ID != "old" {
		t.Errorf("%v", r)
	}
	if !b.Apply(api.LiveFrame{Type: api.LiveDelta, Boot: "b", Runs: []api.LiveRun{queued("newer", 2)}}) || len(b.Runs()) != 2 {
		t.Errorf("%v", b.Runs())
	}
	if _, ok := b.Run("old"); ok {
		t.Error("a ghost")
	}
}

func TestABoardStaysAsLargeAsASnapshot(t *testing.T) {
	t.Parallel()
	var b live.Board
	b.Apply(api.LiveFrame{Type: api.LiveSnapshot, Boot: "a", Runs: []api.LiveRun{queued("waits", 0)}})
	for i := range 3 * api.MaxLiveRuns / 100 {
		f := api.LiveFrame{Type: api.LiveDelta, Boot: "a"}
		for k := range 100 {
			n := int64(i*100 + k + 1)
			f.Runs = append(f.Runs, api.LiveRun{ID: fmt.Sprint(n), Order: n, Status: run.Succeeded})
		}
		b.Apply(f)
	}
	rows := b.Runs()
	if len(rows) > api.MaxLiveRuns*11/10 || rows[len(rows)-1].ID != "waits" {
		t.Errorf("%d runs, last %s", len(rows), rows[len(rows)-1].ID)
	}
}

// However frames come, a board shows what the last word on each thing said.
func TestFramesInAnyPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b live.Board
		want := map[string]int{}
		for i := range rapid.IntRange(1, 30).Draw(t, "frames") {
			f := api.LiveFrame{Type: api.LiveDelta, Boot: "a"}
			if i == 0 || rapid.IntRange(0, 9).Draw(t, "snapshot") == 0 {
				f.Type = api.LiveSnapshot
				clear(want)
			}
			for range rapid.IntRange(0, 4).Draw(t, "runs") {
				id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
				r := queued(id, int64(id[0]))
				r.Attempt = rapid.IntRange(0, 99).Draw(t, "attempt")
				f.Runs = append(f.Runs, r)
				want[id] = r.Attempt
			}
			if rapid.Bool().Draw(t, "gone") {
				f.GoneRuns = []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "which")}
				delete(want, f.GoneRuns[0])
			}
			b.Apply(f)
			got := map[string]int{}
			for _, r := range b.Runs() {
				got[r.ID] = r.Attempt
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	})
}
