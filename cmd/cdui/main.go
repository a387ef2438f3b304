// Command cdui queues, runs and watches trainings: control plane, shim and
// command line in one program.
package main

import (
	"os"

	"cdui/internal/cli"
	"cdui/internal/shim"
)

func main() {
	// A shim must start in a few milliseconds and stay small, so it comes
	// before the command tree is built.
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:]))
	}
	os.Exit(cli.Main(os.Args[1:]))
}
