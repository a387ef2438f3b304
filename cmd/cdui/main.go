// Command cdui queues, runs and watches trainings: control plane, shim and
// command line in one program.
package main

import (
	"os"

	"cdui/internal/cli"
	"cdui/internal/nvml"
	"cdui/internal/shim"
)

func main() {
	// These two must start in a few milliseconds and stay small, so they come
	// before the command tree is built.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.Main(os.Args[2:]))
		case "nvml":
			os.Exit(nvml.Main(os.Args[2:]))
		}
	}
	os.Exit(cli.Main(os.Args[1:]))
}
