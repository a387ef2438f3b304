package cli

import (
	"bytes"
	"fmt"
	"os"
)

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name in parentheses may hold anything; the state follows the last one.
	at := bytes.LastIndexByte(b, ')')
	return at >= 0 && at+2 < len(b) && b[at+2] == 'Z'
}
