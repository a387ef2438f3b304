package feed_test

import (
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
