package run_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"cdui/internal/run"
)

var update = flag.Bool("update", false, "rewrite docs/states.md")

// The whole transition matrix is printed into docs/states.md and compared, so
// that a change of the machine shows up as a change of the document.
// Proves D.3.
func TestTransitionMatrixIsTheDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The status machine of a run\n\n")
	b.WriteString("Generated from `run.Next` by `make gen`; a cell that is empty means that the signal changes nothing.\n\n")
	b.WriteString("| signal |")
	for _, s := range run.Statuses() {
		fmt.Fprintf(&b, " %s |", s)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(run.Statuses())) + "\n")
	for _, sig := range run.Signals() {
		fmt.Fprintf(&b, "| `%s` |", sig)
		for _, s := range run.Statuses() {
			next, ok := run.Next(s, sig)
			switch {
			case ok:
				fmt.Fprintf(&b, " %s |", next)
			case next != s:
				t.Errorf("Next(%s, %s) refuses but gives %s", s, sig, next)
			default:
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
	const path = "../../docs/states.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("docs/states.md is out of date; run make gen\n%s", b.String())
	}
}

// Proves D.3.
func TestTerminalStatusesNeverChange(t *testing.T) {
	for _, s := range run.Statuses() {
		for _, sig := range run.Signals() {
			next, ok := run.Next(s, sig)
			if s.Terminal() && ok {
				t.Errorf("%s changes to %s on %s", s, next, sig)
			}
			if ok && s == run.Queued && (next == run.Succeeded || next == run.Disconnected) {
				t.Errorf("a waiting run became %s", next)
			}
		}
		if s.Terminal() == s.Active() {
			t.Errorf("%s is both active and terminal, or neither", s)
		}
	}
}
