package e2e_test

import (
	"bytes"
	"os"
	"testing"
)

// With text/template in the program, which calls methods by names that come at
// run time, the linker keeps every method of every type: a tenth of its size.
// docs/adr/0019 tells how to find what brought it.
func TestTheLinkerDropsWhatNobodyCalls(t *testing.T) {
	raw, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	// A stripped program has the names of its functions, for tracebacks.
	if !bytes.Contains(raw, []byte("cdui/internal/cli.Main\x00")) {
		t.Fatal("the names of functions are not found in the program")
	}
	for _, name := range []string{"text/template.(*Template).Execute", "html/template.(*Template).Execute"} {
		if bytes.Contains(raw, append([]byte(name), 0)) {
			t.Errorf("%s is in the program", name)
		}
	}
}
