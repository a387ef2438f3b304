package server

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestAnOpenListenerAnswersToItsMachine(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		ip   string
		open bool
	}{{"0.0.0.0", true}, {"::", true}, {"127.0.0.1", false}, {"10.1.2.3", false}} {
		got := answersTo([]string{"lab.example"}, &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 8000})
		if !slices.Contains(got, "lab.example") || slices.Contains(got, strings.ToLower(host)) != c.open || slices.Contains(got, "127.0.0.1") != c.open {
			t.Errorf("%s: %q", c.ip, got)
		}
	}
}
