// Package doctor is `cdui doctor`: it looks at the machine and says what holds,
// what doesn't, and how to mend it. It changes nothing but for files of its own
// in temporary folders.
package doctor

import (
	"context"

	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
)

// State is how a check came out.
type State string

// The states. Only Fail makes the command fail.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// Finding is what a check says. Mend is set where something can be mended.
type Finding struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"`
}

// Report is all findings. OK is false where something is broken.
type Report struct {
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
}

// Check looks at one thing.
type Check func(ctx context.Context) []Finding

// New makes the command.
func New(e *env.Env, checks []Check) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, and say how to mend what is wrong",
		Long: `Check Python and torch, the driver, isolation, the data folder, the clock, the
port, disks and ssh. Each finding says how to mend it. The exit code is 1 when
something is broken; warnings alone leave it 0.`,
		Example: `  cdui doctor
  cdui doctor --json | jq '.findings[] | select(.state != "ok")'`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), e, checks, asJSON) },
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print one JSON document", env.One(Report{}))
	return cmd
}

func run(ctx context.Context, e *env.Env, checks []Check, asJSON bool) error {
	findings := []Finding{}
	for _, check := range checks {
		findings = append(findings, check(ctx)...)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	bad := 0
	for _, f := range findings {
		if f.State == Fail {
			bad++
		}
	}
	if asJSON {
		if err := e.JSON(Report{OK: bad == 0, Findings: findings}); err != nil {
			return err
		}
	} else if err := table(findings, e.Style()).Write(e.Out, e.Style()); err != nil {
		return err
	}
	switch {
	case bad == 0:
		return nil
	case asJSON:
		return env.Failed("")
	}
	return env.Failed("%s to mend", text.Plural(bad, "thing"))
}

func table(findings []Finding, s text.Style) *text.Table {
	t := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {Flex: true, Wrap: true, Min: 16}}}
	for _, f := range findings {
		mark, colour := mark(f.State, s)
		t.Add(text.Cell{Text: mark, Colour: colour}, text.Cell{Text: f.Check}, text.Cell{Text: f.Text})
		if f.Mend != "" {
			t.Add(text.Cell{}, text.Cell{}, text.Cell{Text: f.Mend, Colour: text.Grey})
		}
	}
	return t
}

func mark(state State, s text.Style) (string, text.Colour) {
	switch state {
	case OK:
		if s.Unicode {
			return "✓", text.Green
		}
		return "+", text.Green
	case Warn:
		return "!", text.Yellow
	case Fail:
	}
	if s.Unicode {
		return "✗", text.Red
	}
	return "x", text.Red
}
