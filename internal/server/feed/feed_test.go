package feed_test

import (
	"fmt"
	"slices"
	"testing"

	"cdui/internal/server/feed"
)

func nudged(s *feed.Subscription) bool {
	select {
	case <-s.C():
		return true
	default:
		return false
	}
}

func TestNudgesFallTogetherAndStayWithTheirRun(t *testing.T) {
	var h feed.Hub
	a, b := h.Subscribe("a"), h.Subscribe("b")
	for range 5 {
		h.Notify("a")
	}
	if !nudged(a) || nudged(a) {
		t.Error("five changes must give one nudge")
	}
	if nudged(b) {
		t.Error("b was nudged for a")
	}
	a.Close()
	h.Notify("a")
	if nudged(a) {
		t.Error("a closed subscription was nudged")
	}
	b.Close()
}

func TestChangesSinceACursor(t *testing.T) {
	t.Parallel()
	var h feed.Hub
	everything := h.SubscribeAll()
	defer everything.Close()
	if ids, now, known := h.Since(0); len(ids) != 0 || now != 0 || !known {
		t.Errorf("nothing yet: %v %d %v", ids, now, known)
	}
	for _, id := range []string{"a", "b", "a", "c"} {
		h.Notify(id)
	}
	if !nudged(everything) || nudged(everything) {
		t.Error("whoever follows all gets one nudge")
	}
	ids, now, known := h.Since(0)
	if !slices.Equal(ids, []string{"b", "a", "c"}) || now != 4 || !known {
		t.Errorf("each once, by its last change: %v %d %v", ids, now, known)
	}
	if ids, _, _ := h.Since(3); !slices.Equal(ids, []string{"c"}) {
		t.Errorf("after 3: %v", ids)
	}
	if _, _, known := h.Since(5); known {
		t.Error("a cursor of another life is taken")
	}
}

func TestAReaderTooFarBehindStartsOver(t *testing.T) {
	t.Parallel()
	var h feed.Hub
	for i := range feed.Remembered + 10 {
		h.Notify(fmt.Sprint(i))
		h.Notify("busy") // one run that changes all the time pushes nobody out
	}
	if _, _, known := h.Since(3); known {
		t.Error("what was forgotten is taken as known")
	}
	now := h.Now()
	ids, _, known := h.Since(now - 200)
	if !known || len(ids) != 101 || ids[len(ids)-1] != "busy" {
		t.Errorf("%d runs, %v", len(ids), known)
	}
}
