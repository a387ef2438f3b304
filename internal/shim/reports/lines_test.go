package reports

import (
	"strings"
	"testing"
)

func TestLongLinesAreSkippedWhole(t *testing.T) {
	in := "one\n" + strings.Repeat("x", 200_000) + "\ntwo\n\n" + strings.Repeat("y", 100) + "\nlast"
	var got []string
	skipped := 0
	readLines(strings.NewReader(in), 100, func(b []byte) bool {
		got = append(got, string(b))
		return true
	}, func() { skipped++ })
	want := "one|two|" + strings.Repeat("y", 100) + "|last"
	if strings.Join(got, "|") != want || skipped != 1 {
		t.Errorf("skipped %d, got %.60q", skipped, got)
	}
}
