package env

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Args demands a number of arguments, max < 0 for any number. what names them
// as the usage line does.
func Args(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return Usagef("%s needs %s: see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		case high == 0 && len(args) > 0:
			return Usagef("%s takes no argument, but got %q", cmd.CommandPath(), args[0])
		case high > 0 && len(args) > high:
			return Usagef("%s takes %s, but got %q too", cmd.CommandPath(), what, args[high])
		}
		return nil
	}
}

// Group makes a command of its subcommands alone: without one it prints its
// help, with a wrong one it says what is near.
func Group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subs...)
	cmd.Args = UnknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// UnknownCommand refuses words that are no subcommand of cmd.
func UnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("no command is called %q", strings.Join([]string{cmd.CommandPath(), args[0]}, " "))
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("%s. Did you mean %s %s?", text, cmd.CommandPath(), near[0])
	}
	return Usagef("%s: see %s --help", text, cmd.CommandPath())
}

// JSON prints one document on Out.
func (e *Env) JSON(v any) error { return e.WriteJSON(e.Out, v) }

// WriteJSON prints one document on w, laid out as for Out.
func (e *Env) WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if e.OutTTY {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}

// JSONLine prints one line of a stream of documents on Out.
func (e *Env) JSONLine(v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	return nil
}
