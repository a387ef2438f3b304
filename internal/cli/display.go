package cli

import (
	"cdui/internal/cli/follow"
	"cdui/internal/console"
)

// newDisplay makes what turns console bytes into text that is safe to print.
func newDisplay(colour, live bool) follow.Display {
	return console.NewDisplay(console.DisplayOptions{Colour: colour, Live: live})
}
