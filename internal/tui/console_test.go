package tui_test

import (
	"strings"
	"testing"

	"cdui/internal/client"
	"cdui/internal/tui"
	"cdui/internal/tui/lang"
)

// What of an output was never read is counted to the byte and said where it is
// missing; a line whose begin is missing isn't joined to the one before.
func TestWhatWasSkippedOfAnOutputIsCounted(t *testing.T) {
	read := func(s *screen, from int64, text string) {
		s.m.Update(tui.Output(s.m, client.LogChunk{Bytes: []byte(text), Offset: from, Next: from + int64(len(text)), Size: from + int64(len(text))}))
	}
	s := newScreen(t, 120, 20, small())
	s.m.Open(idSweep, "console")
	read(s, 0, "first\nhalf a li")
	read(s, 15, "ne\nthird, hal")
	s.shows("half a line", "third, hal")
	s.hides("skipped")
	read(s, 1028, "f a line\nwhole\n") // 1000 bytes are missing, and nine of a line's end
	s.shows("third, hal", "… 1,009 bytes skipped", "whole", "1,009 bytes skipped ─")
	s.hides("half a line\nf", "f a line\nwhole")
	if strings.Contains(s.text(), "third, half a line") {
		t.Errorf("two lines are joined:\n%s", s.text())
	}
	read(s, 2043, "no end of a line")
	s.shows("2,009 bytes skipped ─", "no end of a line")

	// A long output is read from near its end.
	s = newScreen(t, 120, 20, small(), speaking(lang.Chinese))
	s.m.Open(idSweep, "console")
	read(s, 5_000_000, "of a line\nwhole\n")
	s.shows("略過 5,000,010 位元組", "whole")

	// Of one that goes on, the lines that are let go are counted.
	s = newScreen(t, 120, 20, small())
	s.m.Open(idSweep, "console")
	read(s, 0, strings.Repeat("a line\n", 6251))
	s.shows("1,250 lines let go")
}
