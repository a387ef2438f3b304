package shimhost_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"cdui/internal/shim"
)

// TestMain lets the test binary stand in for `cdui shim` and for the programs
// that runs start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.Main(os.Args[2:]))
		case "child":
			os.Exit(childMain(os.Args[2:]))
		case "client":
			os.Exit(clientMain(os.Args[2:]))
		case "sparehost":
			spareHostMain(os.Args[2:])
		case "host":
			os.Exit(hostMain(os.Args[2:]))
		}
	}
	// The tests mostly wait for other processes.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	endAll(func(id string) bool { return strings.HasPrefix(id, runPrefix) })
	os.Exit(code)
}
