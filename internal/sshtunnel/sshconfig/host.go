package sshconfig

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Host is the effective configuration of one host.
type Host struct {
	// Alias is the host as it was asked for.
	Alias, HostName, User string
	Port                  int
	// IdentityFiles are keys, tried in order; a missing one is no fault.
	IdentityFiles, CertificateFiles []string
	// IdentitiesOnly: of the agent's keys, only those that a file names.
	IdentitiesOnly bool
	// IdentityAgent is the agent's socket; empty leaves it to SSH_AUTH_SOCK,
	// none means none.
	IdentityAgent string
	// ProxyJump are the hosts on the way, the nearest first.
	ProxyJump    []string
	ProxyCommand string
	// UserKnownHosts are the user's own files, which new keys go to; Known-
	// Hosts are these and the machine's.
	UserKnownHosts, KnownHosts []string
	HostKeyAlias               string
	// StrictHostKey is ask, yes, accept-new or no.
	StrictHostKey           string
	HashKnownHosts          bool
	NoPubkey, NoPassword    bool
	NoKeyboardInteractively bool
}

// Address is where to dial.
func (h Host) Address() string { return net.JoinHostPort(h.HostName, strconv.Itoa(h.Port)) }

// KnownAs is the name that host keys are kept under: alone for the port 22, in
// brackets with any other.
func (h Host) KnownAs() string {
	switch {
	case h.HostKeyAlias != "":
		return strings.ToLower(h.HostKeyAlias)
	case h.Port == 22:
		return strings.ToLower(h.HostName)
	}
	return "[" + strings.ToLower(h.HostName) + "]:" + strconv.Itoa(h.Port)
}

// Login names the account, for questions and errors.
func (h Host) Login() string { return h.User + "@" + h.HostName }

// Parse reads what `ssh -G` prints. home stands for ~.
func Parse(alias, home, text string) (Host, error) {
	h := Host{Alias: alias, StrictHostKey: "ask"}
	expand := func(path string) string { return expandHome(path, home) }
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.TrimSpace(value)
		if value == "" {
			continue
		}
		switch strings.ToLower(key) {
		case "hostname":
			h.HostName = value
		case "user":
			h.User = value
		case "port":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil || n == 0 {
				return Host{}, fmt.Errorf("the ssh config gives %s the port %q", alias, value)
			}
			h.Port = int(n)
		case "identityfile":
			h.IdentityFiles = append(h.IdentityFiles, expand(unquote(value)))
		case "certificatefile":
			h.CertificateFiles = append(h.CertificateFiles, expand(unquote(value)))
		case "identitiesonly":
			h.IdentitiesOnly = yes(value)
		case "identityagent":
			h.IdentityAgent = expand(unquote(value))
		case "proxyjump":
			h.ProxyJump = jumps(value)
		case "proxycommand":
			if value != "none" {
				h.ProxyCommand = value
			}
		case "userknownhostsfile":
			h.UserKnownHosts = files(value, expand)
		case "globalknownhostsfile":
			h.KnownHosts = files(value, expand)
		case "hostkeyalias":
			h.HostKeyAlias = value
		case "stricthostkeychecking":
			h.StrictHostKey = strictness(value)
		case "hashknownhosts":
			h.HashKnownHosts = yes(value)
		case "pubkeyauthentication":
			h.NoPubkey = no(value)
		case "passwordauthentication":
			h.NoPassword = no(value)
		case "kbdinteractiveauthentication":
			h.NoKeyboardInteractively = no(value)
		}
	}
	if h.HostName == "" || h.User == "" || h.Port == 0 {
		return Host{}, fmt.Errorf("the ssh config says neither where %s is nor who logs in there", alias)
	}
	h.KnownHosts = append(append([]string{}, h.UserKnownHosts...), h.KnownHosts...)
	return h, nil
}

func yes(v string) bool { return v == "yes" || v == "true" }
func no(v string) bool  { return v == "no" || v == "false" }

// strictness maps the words of different releases of ssh.
func strictness(v string) string {
	switch v {
	case "true", "yes":
		return "yes"
	case "false", "no", "off":
		return "no"
	case "accept-new":
		return v
	}
	return "ask"
}

func jumps(v string) []string {
	if v == "none" {
		return nil
	}
	var out []string
	for j := range strings.SplitSeq(v, ",") {
		if j = strings.TrimSpace(j); j != "" {
			out = append(out, j)
		}
	}
	return out
}

// files splits a list of files; one with a space in its name is in quotes.
func files(v string, expand func(string) string) []string {
	var out []string
	add := func(name string) {
		if name != "" && name != "none" {
			out = append(out, expand(name))
		}
	}
	for v = strings.TrimSpace(v); v != ""; v = strings.TrimSpace(v) {
		if v[0] == '"' {
			name, rest, _ := strings.Cut(v[1:], `"`)
			add(name)
			v = rest
			continue
		}
		name, rest, _ := strings.Cut(v, " ")
		add(name)
		v = rest
	}
	return out
}

func unquote(v string) string {
	if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

func expandHome(path, home string) string {
	if path == "~" {
		return home
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	return path
}
