package server

import (
	"net"
	"os"
	"slices"
	"strings"
)

// answersTo lists the names that requests may be addressed to: those of the
// settings and, where the listener is open to other machines, this machine's
// own name and addresses. Nobody else can serve a web page under those, which
// is what names are checked for.
func answersTo(allowed []string, a net.Addr) []string {
	out := slices.Clone(allowed)
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return out
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		out = append(out, strings.ToLower(host))
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return out // then the settings have to name them
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			out = append(out, n.IP.String())
		}
	}
	return out
}
