package portinfo_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"cdui/internal/portinfo"
)

func TestHolderNamesThisProgram(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if got := portinfo.Holder(address); !strings.Contains(got, fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("Holder(%s) = %q", address, got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := portinfo.Holder(address); got != "" {
		t.Errorf("after closing: %q", got)
	}
	if got := portinfo.Holder("nonsense"); got != "" {
		t.Errorf("no address: %q", got)
	}
}
