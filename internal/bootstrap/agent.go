package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Agent is an agent as it is to run on a machine.
type Agent struct {
	Name string
	// Exe is the cdui there, Dir the folder of its tunnel.
	Exe, Dir string
	// Data is its data folder; empty leaves it to cdui.
	Data string
	// Pin is the key that the control plane shows at the tunnel's end.
	Pin string
	// OwnScope: what is left running outside of a scope of its own ends with
	// the account's last session.
	OwnScope bool
	// Flags are further ones of cdui agent start.
	Flags []string
}

// Dir is the folder of the tunnel of an agent.
func (f Facts) Dir(name string) string { return f.Base + "/tunnel/" + name }

// PointCommand is the command line that tells an agent where the end of its
// tunnel is now; it reads a mark, the place and the pin from standard input.
// Every login shell takes it to mean the same.
func PointCommand(dir string) string { return "exec /bin/sh '" + dir + "/point'" }

// pointFile is on the machine, so that a key may be restricted to it. The place
// is tried before the agent hears of it: what answers there must be the control
// plane.
const pointFile = `#!/bin/sh
# Tells the agent where its tunnel ends. Made by cdui agent ssh.
umask 077
IFS= read -r mark; IFS= read -r at; IFS= read -r pin
printf '\n%s begin\n' "$mark"
if e=$("$exe" agent reach --pin "$pin" -- "$at" 2>&1 </dev/null); then
  if e=$( { printf '%s\n' "$at" >"$dir/at.new" && mv -f "$dir/at.new" "$dir/at"; } 2>&1); then
    for s in "$dir"/*.sock; do [ "$s" = "$at" ] || rm -f "$s"; done
    printf 'ok\n'
    # It may have gone with its machine.
    [ ! -f "$dir/started" ] || /bin/sh "$dir/start" </dev/null >/dev/null 2>&1 &
  else
    printf 'fail place %s\n' "$(printf '%s' "$e" | tr '\n\r' '  ')"
  fi
else
  printf 'fail unreached %s\n' "$(printf '%s' "$e" | tr '\n\r' '  ')"
fi
printf '%s end\n' "$mark"
`

// startFile starts the agent, unless it runs.
const startFile = `#!/bin/sh
# Starts the agent. Made by cdui agent ssh.
`

// scope is put before the agent where logging out would end it.
const scope = `: "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"; export XDG_RUNTIME_DIR
command -v systemd-run >/dev/null 2>&1 && exec systemd-run --user --scope --quiet --collect `

const prepare = `
mkdir -p "$dir" && chmod 700 "$dir" || fail place "$dir can't be made"
e=$( { printf '%s' "$point" >"$dir/point" && printf '%s' "$start" >"$dir/start" && chmod 700 "$dir/point" "$dir/start"; } 2>&1) || fail place "$e"
tell ok
`

// Prepare writes down how the agent is started and told of its tunnel.
func Prepare(ctx context.Context, r Remote, a Agent) error {
	head := func(text string) string {
		first, rest, _ := strings.Cut(text, "\n")
		return first + "\nexe=" + quote(a.Exe) + "\ndir=" + quote(a.Dir) + "\n" + rest
	}
	words := append(a.words("start"), "-d", "--json", "--name", a.Name, "--tunnel", a.Dir+"/at", "--pin", a.Pin)
	words = append(words, a.Flags...)
	for i := range words {
		words[i] = quote(words[i])
	}
	command := `"$exe" ` + strings.Join(words, " ") + ` "$@"` + "\n"
	text := "exec " + command
	if a.OwnScope {
		text = scope + command + text
	}
	_, err := sh(ctx, r, prepare, map[string]string{
		"dir": a.Dir, "point": head(pointFile), "start": head(startFile) + text,
	}, nil)
	if _, text := asFailure(err); text != "" {
		return fmt.Errorf("the agent can't be set up there: %s", text)
	}
	return err
}

// words begins a command of the agent.
func (a Agent) words(what string) []string {
	w := []string{"agent", what}
	if a.Data != "" {
		w = append(w, "--data", a.Data)
	}
	return w
}

// Point tells the agent where its tunnel ends, once that has been seen to end
// there.
func Point(ctx context.Context, r Remote, command, at, pin string) error {
	mark := newMark()
	out, said, code, err := r.Run(ctx, command, strings.NewReader(mark+"\n"+at+"\n"+pin+"\n"))
	if err != nil {
		return err
	}
	f, err := answer(mark, out, said, code)
	switch code, text := asFailure(err); code {
	case "unreached":
		return fmt.Errorf("the tunnel is open, but doesn't lead here: %s", text)
	case "place":
		return fmt.Errorf("the agent can't be told where its tunnel ends: %s", text)
	}
	if err != nil {
		return err
	}
	if len(f) == 0 || f[0].name != "ok" {
		return errors.New("the agent was not told where its tunnel ends: run cdui agent ssh again")
	}
	return nil
}

// Running is an agent that runs on a machine.
type Running struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
	Control string `json:"control"`
	Problem string `json:"problem"`
	// Connected is how it stands with its control plane.
	Connected bool `json:"connected"`
	Refused   bool `json:"refused"`
	Runs      []struct {
		RunID string `json:"run_id"`
	} `json:"runs"`
}

const start = `
set --
[ "$token" = yes ] && set -- --token-stdin
o=$(/bin/sh "$dir/start" "$@" 2>"$dir/start.err") || { c=$?; e=$(tail -n 3 "$dir/start.err"); rm -f "$dir/start.err"; fail start "$e"; }
rm -f "$dir/start.err"
: >"$dir/started"
tell agent "$o"
`

// NotEnrolledError says that an agent has no token of its own yet.
type NotEnrolledError struct{ text string }

func (e *NotEnrolledError) Error() string { return e.text }

// Start starts the agent so that it outlives the connection, and waits until it
// is up. A one-time token goes to it by standard input.
func Start(ctx context.Context, r Remote, a Agent, token string) (Running, error) {
	vars := map[string]string{"dir": a.Dir, "token": "no"}
	var in io.Reader
	if token != "" {
		vars["token"], in = "yes", strings.NewReader(token)
	}
	f, err := sh(ctx, r, start, vars, in)
	if _, text := asFailure(err); text != "" {
		text = strings.TrimPrefix(text, "cdui: ")
		if strings.Contains(text, "is not enrolled") {
			return Running{}, &NotEnrolledError{text}
		}
		return Running{}, fmt.Errorf("on the machine: %s", text)
	}
	if err != nil {
		return Running{}, err
	}
	return running(f.get("agent"))
}

func running(text string) (Running, error) {
	var run Running
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		return run, fmt.Errorf("the agent there says %.200q", text)
	}
	return run, nil
}

const look = `
[ -x "$exe" ] || for e in "${exe%/*/*}"/*/cdui; do [ ! -x "$e" ] || exe=$e; done
[ -x "$exe" ] || fail none "no cdui is there"
o=$("$exe" "$@" </dev/null 2>&1) && tell agent "$o" || tell away "$o"
`

// Status asks an agent how it stands; false when it doesn't run.
func Status(ctx context.Context, r Remote, a Agent) (Running, bool, error) {
	f, err := a.call(ctx, r, append(a.words("status"), a.Name, "--json"))
	if err != nil || f.get("agent") == "" {
		return Running{}, false, err
	}
	var list struct {
		Agents []Running `json:"agents"`
	}
	if err := json.Unmarshal([]byte(f.get("agent")), &list); err != nil || len(list.Agents) != 1 {
		return Running{}, false, fmt.Errorf("the agent there says %.200q", f.get("agent"))
	}
	return list.Agents[0], true, nil
}

// call runs a command of the cdui there.
func (a Agent) call(ctx context.Context, r Remote, words []string) (fields, error) {
	for i := range words {
		words[i] = quote(words[i])
	}
	f, err := sh(ctx, r, "set -- "+strings.Join(words, " ")+look, map[string]string{"exe": a.Exe}, nil)
	if _, text := asFailure(err); text != "" {
		return nil, errors.New(text)
	}
	return f, err
}

// Stop ends the agent; its trainings go on unless they are cancelled. It tells
// how many do.
func Stop(ctx context.Context, r Remote, a Agent, cancelRuns bool) (left int, err error) {
	words := append(a.words("stop"), a.Name, "--json")
	if cancelRuns {
		words = append(words, "--cancel-runs")
	}
	if _, err := sh(ctx, r, `rm -f "$dir/started"`, map[string]string{"dir": a.Dir}, nil); err != nil {
		return 0, err
	}
	f, err := a.call(ctx, r, words)
	if err != nil {
		return 0, err
	}
	if away := f.get("away"); away != "" {
		return 0, fmt.Errorf("the agent there can't be stopped: %s", away)
	}
	var reply struct {
		Left int `json:"left"`
	}
	if err := json.Unmarshal([]byte(f.get("agent")), &reply); err != nil {
		return 0, fmt.Errorf("the agent there says %.200q", f.get("agent"))
	}
	return reply.Left, nil
}

const remove = `
[ -x "$exe" ] || for e in "$base"/*/cdui; do [ ! -x "$e" ] || exe=$e; done
if [ -x "$exe" ]; then
  set -- agent forget "$name" --json
  [ -z "$data" ] || set -- "$@" --data "$data"
  o=$("$exe" "$@" </dev/null 2>&1) || fail agent "$o"
fi
case $dir in "$base"/tunnel/?*) rm -rf "$dir";; esac
rmdir "$base/tunnel" 2>/dev/null
if [ ! -d "$base/tunnel" ]; then
  case $base in */cdui|*/cdui-*) rm -rf "$base";; esac
  case $base in */.cache/cdui) rmdir "${base%/*}" 2>/dev/null;; esac
fi
rmdir "$HOME/.local/share" "$HOME/.local" 2>/dev/null
if [ -f "$HOME/.ssh/authorized_keys" ] && grep -qF " $tag" "$HOME/.ssh/authorized_keys"; then
  k=$HOME/.ssh/authorized_keys
  grep -vF " $tag" "$k" >"$k.cdui" || :
  cat "$k.cdui" >"$k"; rm -f "$k.cdui"
  [ -s "$k" ] || rm -f "$k"
fi
tell ok
`

// Uninstall takes all of an agent away that is there: its folder, its tunnel,
// the key that was installed for it, and, when it was the last one, the
// binaries. tag is the comment of the key.
func Uninstall(ctx context.Context, r Remote, a Agent, base, tag string) error {
	_, err := sh(ctx, r, remove, map[string]string{
		"exe": a.Exe, "name": a.Name, "data": a.Data, "dir": a.Dir, "base": base, "tag": tag,
	}, nil)
	if _, text := asFailure(err); text != "" {
		return fmt.Errorf("on the machine: %s", text)
	}
	return err
}

const addKey = `
d=$HOME/.ssh; k=$d/authorized_keys
mkdir -p "$d" || fail place "$d can't be made"
[ -f "$k" ] || : >"$k" || fail place "$k can't be written"
grep -vF " $tag" "$k" >"$k.cdui" || :
[ -z "$(tail -c 1 "$k.cdui")" ] || echo >>"$k.cdui"
printf '%s\n' "$key" >>"$k.cdui" || fail place "$k can't be written"
cat "$k.cdui" >"$k" && rm -f "$k.cdui" || fail place "$k can't be written"
tell ok
`

// InstallKey lets a key in that can open the agent's tunnel and run its one
// command, and nothing else. public is the key as ssh-keygen prints it, tag its
// comment, which replaces an older one of the same.
func InstallKey(ctx context.Context, r Remote, dir, public, tag string) error {
	// Connections out of the machine would come with forwarding; they lead
	// nowhere.
	key := `restrict,port-forwarding,permitopen="127.0.0.1:1",command="` + PointCommand(dir) + `" ` + strings.TrimSpace(public) + " " + tag
	_, err := sh(ctx, r, addKey, map[string]string{"key": key, "tag": tag}, nil)
	if _, text := asFailure(err); text != "" {
		return fmt.Errorf("the key can't be installed there: %s", text)
	}
	return err
}
