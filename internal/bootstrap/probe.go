package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Facts is what is known of a machine.
type Facts struct {
	// OS and Arch are in the words of Go.
	OS, Arch, Libc string
	// Home is the account's folder.
	Host, User, Home string
	UID              int
	// Python is the interpreter in PATH, empty without one.
	Python string
	// Base is the folder for what belongs to cdui there; Passed are the ones
	// before it that won't do, and why.
	Base   string
	Passed []string
	// Data is the agent's data folder where the usual one won't do.
	Data string
	// KillsAtLogout: what an account leaves running ends with its last session.
	KillsAtLogout bool
	Lingers       bool
}

// probe looks at a machine. Each place is tried as it will be used: made,
// written, and a program started from it.
const probe = `
tell os "$(uname -s)"
tell arch "$(uname -m)"
tell host "$(uname -n)"
uid=$(id -u)
tell uid "$uid"
tell home "$HOME"
tell user "$(id -un 2>/dev/null)"
tell libc "$(getconf GNU_LIBC_VERSION 2>/dev/null || ls /lib/ld-musl-*.so.1 2>/dev/null || :)"
tell python "$(command -v python3 2>/dev/null || :)"
if [ "$uid" != 0 ] && command -v loginctl >/dev/null 2>&1; then
  case $(busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager KillUserProcesses 2>/dev/null </dev/null) in *true*)
    tell kills yes
    case $(loginctl enable-linger 2>/dev/null </dev/null; loginctl show-user "$uid" -p Linger 2>/dev/null </dev/null) in *yes*) tell lingers yes;; esac;;
  esac
fi
try() {
  case $1 in /*) ;; *) return 1;; esac
  e=$(mkdir -p "$1" 2>&1) || { tell passed "$1|can't be made: ${e##*: }"; return 1; }
  [ -O "$1" ] && [ ! -L "$1" ] || { tell passed "$1|belongs to somebody else"; return 1; }
  chmod 700 "$1" 2>/dev/null
  free=$(df -Pk "$1" 2>/dev/null | awk 'NR==2 {print $4}')
  case $free in ''|*[!0-9]*) free=;; esac
  if [ -n "$free" ] && [ "$free" -lt "$need" ] && [ ! -e "$1/$version/cdui" ]; then
    tell passed "$1|has $((free / 1024)) MiB free, and $((need / 1024)) are needed"; return 1
  fi
  t=$1/.try$$
  e=$( { printf '#!/bin/sh\nexit 0\n' >"$t" && chmod 700 "$t"; } 2>&1) || { rm -f "$t"; tell passed "$1|can't be written: ${e##*: }"; return 1; }
  if "$t" </dev/null >/dev/null 2>&1; then rm -f "$t"; else rm -f "$t"; tell passed "$1|starts no programs (mounted noexec?)"; return 1; fi
  tell base "$1"
}
try "$HOME/.cache/cdui" || try "/var/tmp/cdui-$uid" || try "/tmp/cdui-$uid" || :
`

// Probe looks at a machine. need is how many bytes a copy of cdui takes, for a
// version that may be there already.
func Probe(ctx context.Context, r Remote, version string, need int64) (Facts, error) {
	const spare = 8 << 20 // for what an agent keeps
	f, err := sh(ctx, r, probe, map[string]string{"version": version, "need": strconv.FormatInt((need+spare)/1024, 10)}, nil)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{
		OS: goOS(f.get("os")), Arch: goArch(f.get("arch")), Libc: f.get("libc"), Host: f.get("host"), User: f.get("user"), Home: f.get("home"),
		Python: f.get("python"), Base: f.get("base"), KillsAtLogout: f.get("kills") != "", Lingers: f.get("lingers") != "",
	}
	facts.UID, _ = strconv.Atoi(f.get("uid"))
	for _, p := range f.all("passed") {
		place, why, _ := strings.Cut(p, "|")
		facts.Passed = append(facts.Passed, place+" "+why)
	}
	if facts.OS == "" || facts.Arch == "" {
		return facts, fmt.Errorf("no cdui is made for what runs there: %s on %s", f.get("os"), f.get("arch"))
	}
	if facts.Base == "" {
		return facts, fmt.Errorf("no place there will do for cdui: %s. Free some space, or let one of them start programs (mount -o remount,exec)", strings.Join(facts.Passed, "; "))
	}
	if !plainPath(facts.Base) {
		return facts, fmt.Errorf("the folder %q there has a name that not every shell takes for what it is", facts.Base)
	}
	if len(facts.Passed) > 0 {
		facts.Data = facts.Base + "/data"
	}
	return facts, nil
}

func goOS(name string) string {
	return map[string]string{"Linux": "linux", "Darwin": "darwin"}[name]
}

func goArch(name string) string {
	return map[string]string{"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[name]
}

// Fits lists which of the binaries are made for a machine, in their order.
func (f Facts) Fits(all []Binary) []Binary {
	return slices.DeleteFunc(slices.Clone(all), func(b Binary) bool { return b.OS != f.OS || b.Arch != f.Arch })
}

// asFailure gives what a script said, and "" for any other error.
func asFailure(err error) (code, text string) {
	var f *failure
	if errors.As(err, &f) {
		return f.code, f.text
	}
	return "", ""
}
