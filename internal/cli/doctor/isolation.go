package doctor

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"

	"cdui/internal/cli/env"
	"cdui/internal/config"
	"cdui/internal/shimhost"
)

// isolation tries what the control plane would use.
func isolation(e *env.Env) []Finding {
	const name = "isolation"
	vs, err := e.Settings()
	if err != nil {
		return nil // said already
	}
	dir, err := os.MkdirTemp("", "cdui-doctor-")
	if err != nil {
		return []Finding{{name, Fail, err.Error(), "make room in the temporary folder"}}
	}
	defer os.RemoveAll(dir)
	var said bytes.Buffer
	want := vs.Text(config.Isolate)
	host, err := shimhost.New(shimhost.Config{
		Dir: dir, Exe: e.Exe, Isolate: want, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	if err != nil {
		return []Finding{{name, Fail, err.Error(), ""}}
	}
	defer host.Close()
	f := Finding{name, OK, meaning(host.Isolation()), ""}
	switch got := host.Isolation(); {
	case got == "none":
		f.State = Warn
	case want != shimhost.Auto && want != got:
		f.State, f.Mend = Warn, fmt.Sprintf("%s was asked for and does not hold here", want)
	case got == "keeper" && os.Geteuid() == 0:
		f.Mend = "with CAP_SYS_ADMIN each run would get a PID namespace of its own"
	}
	return append([]Finding{f}, daemons(exec.LookPath)...)
}

// meaning says what a way of isolation gives.
func meaning(way string) string {
	switch way {
	case "pidns":
		return "pidns: each run has a PID namespace of its own, nothing outlives it"
	case "userns":
		return "userns: each run has a user and PID namespace of its own, nothing outlives it"
	case "keeper":
		return "keeper: two processes watch over each run; nothing outlives it unless both are killed at once"
	}
	return way + ": a run's process group is ended with it; processes that leave the group may stay"
}

// daemons names programs whose own daemons start processes, which are of no
// run's tree.
func daemons(look func(string) (string, error)) []Finding {
	var there []string
	for _, name := range []string{"docker", "podman", "systemd-run"} {
		if _, err := look(name); err == nil {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		return nil
	}
	return []Finding{{"isolation", OK, "what a run starts through " + strings.Join(there, ", ") + " is started by a daemon and is not ended with it", ""}}
}
