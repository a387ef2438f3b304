package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/client"
)

// The exit codes. Others come from children (--exit-code) and signals.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitNotFound    = 4
	exitNotAllowed  = 5
)

// exitCode maps an error to an exit code.
func exitCode(err error) int {
	var (
		exit    *env.Exit
		usage   *env.Usage
		gone    *client.Unreachable
		refused *api.Error
		stopped *env.Interrupted
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &gone):
		return exitUnreachable
	case errors.As(err, &stopped):
		return stopped.ExitCode()
	case errors.As(err, &refused):
		switch refused.Code {
		case api.NotFound:
			return exitNotFound
		case api.Unauthorized, api.Misdirected:
			return exitNotAllowed
		case api.Unavailable:
			return exitUnreachable
		}
	}
	return exitFailed
}

// report prints what a person should know of an error.
func report(w io.Writer, err error) {
	var refused *api.Error
	text := err.Error()
	if text != "" {
		fmt.Fprintln(w, text)
	}
	if !errors.As(err, &refused) {
		return
	}
	if refused.Code == api.Unauthorized {
		fmt.Fprintln(w, "  the token lies in the data folder of the control plane; hand it over in CDUI_TOKEN, or keep it in a context: cdui context add --help")
	}
	for _, f := range findings(refused) {
		fmt.Fprintln(w, "  "+f)
	}
}

// findings lists what a refusal says in its params beside its sentence: the
// runs that a short id could mean.
func findings(e *api.Error) []string {
	list, _ := e.Params["candidates"].([]any)
	var out []string
	for _, c := range list {
		if s, ok := c.(string); ok {
			out = append(out, phrase.Clean(strings.TrimSpace(s)))
		}
	}
	return out
}
