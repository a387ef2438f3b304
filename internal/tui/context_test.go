package tui_test

import (
	"strings"
	"testing"

	"cdui/internal/tui"
)

func TestTheHeadBeginsWithTheContext(t *testing.T) {
	t.Parallel()
	for _, w := range []int{60, 80, 120} {
		s := newScreen(t, w, 24, small(), func(c *tui.Config) { c.Context, c.Flags = "gpulab", "--context gpulab" })
		head, _, _ := strings.Cut(s.text(), "\n")
		if !strings.Contains(head, "gpulab") {
			t.Errorf("at %d: %q", w, head)
		}
		s.press("c")
		if !strings.Contains(s.text(), "cdui --context gpulab") {
			t.Errorf("at %d the commands that are shown don't go there:\n%s", w, s.text())
		}
	}
}
