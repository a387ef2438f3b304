// Package portinfo tells which program listens on a TCP port of this machine,
// as far as the system lets the caller see it.
package portinfo

import (
	"fmt"
	"net"
	"strconv"
)

// Holder describes the program that listens on address, such as
// "python3 (pid 2214)"; empty when nothing is known.
func Holder(address string) string {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return ""
	}
	pid, name, ok := listener(uint16(port))
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s (pid %d)", name, pid)
}
