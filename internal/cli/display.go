package cli

import "cdui/internal/cli/follow"

// newDisplay makes what turns console bytes into text that is safe to print.
func newDisplay(colour, live bool) follow.Display {
	return nil
}
