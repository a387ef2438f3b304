package sshconfig

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Target is a place as people type it. User and Port are empty and 0 where they
// were left to the configuration.
type Target struct {
	User, Host string
	Port       int
}

// ParseTarget reads [user@]host[:port] and ssh://[user@]host[:port].
func ParseTarget(s string) (Target, error) {
	bad := fmt.Errorf("%q is no place that ssh goes to; write it as user@host, or as it is called in the ssh config", s)
	if rest, ok := strings.CutPrefix(s, "ssh://"); ok {
		u, err := url.Parse("ssh://" + rest)
		if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
			return Target{}, bad
		}
		return complete(u.User.Username(), u.Hostname(), u.Port(), bad)
	}
	user, host := "", s
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		user, host = s[:at], s[at+1:]
		if user == "" {
			return Target{}, bad
		}
	}
	port := ""
	switch {
	case strings.HasPrefix(host, "["):
		h, p, ok := strings.Cut(host[1:], "]")
		if !ok || p != "" && p[0] != ':' {
			return Target{}, bad
		}
		host, port = h, strings.TrimPrefix(p, ":")
	case strings.Count(host, ":") == 1:
		host, port, _ = strings.Cut(host, ":")
		if port == "" {
			return Target{}, bad
		}
	}
	return complete(user, host, port, bad)
}

func complete(user, host, port string, bad error) (Target, error) {
	t := Target{User: user, Host: host}
	// A leading hyphen would be an option of whatever is called with it.
	if host == "" || host[0] == '-' || strings.HasPrefix(user, "-") {
		return Target{}, bad
	}
	for _, c := range user + host {
		if c <= ' ' || c == 0x7f || strings.ContainsRune("'\"`$\\;&<>|(){}*?!", c) {
			return Target{}, bad
		}
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Target{}, bad
		}
		t.Port = int(n)
	}
	return t, nil
}

// String is the place as ParseTarget reads it.
func (t Target) String() string {
	s := t.Host
	if t.Port != 0 {
		s = net.JoinHostPort(s, strconv.Itoa(t.Port))
	}
	if t.User != "" {
		s = t.User + "@" + s
	}
	return s
}
