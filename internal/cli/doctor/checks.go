package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/config"
	"cdui/internal/fsinfo"
	"cdui/internal/nvml"
	"cdui/internal/portinfo"
	"cdui/internal/pyruntime"
	"cdui/internal/scope"
	"cdui/internal/version"
)

// Checks lists every check of the real machine, in the order that they are
// shown.
func Checks(e *env.Env) []Check {
	return []Check{
		func(context.Context) []Finding { return settings(e) },
		func(ctx context.Context) []Finding { return controlPlane(ctx, e) },
		func(ctx context.Context) []Finding { return python(ctx, e) },
		func(ctx context.Context) []Finding { return driver(ctx, e) },
		func(context.Context) []Finding { return isolation(e) },
		func(ctx context.Context) []Finding { return systemd(ctx, scope.New(scope.Config{Environ: e.Environ})) },
		func(context.Context) []Finding { return folder(e) },
		func(ctx context.Context) []Finding { return port(ctx, e) },
		func(context.Context) []Finding { return clock(e.Now()) },
		func(context.Context) []Finding { return ssh(exec.LookPath) },
	}
}

func settings(e *env.Env) []Finding {
	vs, err := e.Settings()
	if err != nil {
		return []Finding{{"settings", Fail, err.Error(), "correct that file"}}
	}
	var out []Finding
	for _, v := range vs.All() {
		if v.Err != nil {
			out = append(out, Finding{"settings", Warn, v.Err.Error(), fmt.Sprintf("until then the default holds: %q", v.Default)})
		}
	}
	_, warnings := config.ParseOverrides(vs.Text(config.MaxConcurrent))
	for _, w := range warnings {
		out = append(out, Finding{"settings", Warn, w, ""})
	}
	for _, name := range vs.File().Unknown {
		out = append(out, Finding{"settings", Warn, fmt.Sprintf("%s: %q is no setting", vs.File().Path, name), "cdui config explain lists them"})
	}
	if len(out) == 0 {
		return []Finding{{"settings", OK, "all right", ""}}
	}
	return out
}

func controlPlane(ctx context.Context, e *env.Env) []Finding {
	const name = "control plane"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := e.Client()
	defer c.Close()
	h, err := c.Health(ctx)
	var gone *client.Unreachable
	switch {
	case errors.As(err, &gone) && gone.Absent:
		return []Finding{{name, OK, gone.Text, ""}}
	case err != nil:
		return []Finding{{name, Fail, err.Error(), ""}}
	}
	place, err := c.Where()
	if err != nil {
		return []Finding{{name, Fail, err.Error(), ""}}
	}
	out := []Finding{{name, OK, fmt.Sprintf("answers at %s, version %s", place.URL, h.Version), ""}}
	if h.Version != version.String() {
		out = append(out, Finding{name, Warn, fmt.Sprintf("it is version %s, this program is %s", h.Version, version.String()), "cdui stop and cdui start; trainings go on"})
	}
	for _, p := range h.Problems {
		out = append(out, Finding{name, Fail, p.Text, ""})
	}
	return out
}

func python(ctx context.Context, e *env.Env) []Finding {
	vs, err := e.Settings()
	if err != nil {
		return nil // said already
	}
	path, err := pyruntime.Find(ctx, vs.Text(config.Python), e.Environ)
	if err != nil {
		return []Finding{{"python", Fail, err.Error(), ""}}
	}
	py, err := pyruntime.ProbeTorch(ctx, path)
	if err != nil {
		return []Finding{{"python", Fail, err.Error(), ""}}
	}
	out := []Finding{{"python", OK, fmt.Sprintf("%s at %s", py.Version, py.Executable), ""}}
	for _, f := range py.Faults {
		out = append(out, Finding{"python", Fail, f.Text, ""})
	}
	switch {
	case py.Torch == "":
		out = append(out, Finding{
			"torch", Warn, "is not installed for this Python",
			"activate an environment that has it, name one with --venv or --python, or: " + py.Executable + " -m pip install torch",
		})
	case py.CUDA != nil && *py.CUDA:
		n := 0
		if py.CUDADevices != nil {
			n = *py.CUDADevices
		}
		out = append(out, Finding{"torch", OK, fmt.Sprintf("%s with CUDA %s, sees %s", py.Torch, py.TorchCUDA, text.Plural(n, "card")), ""})
	default:
		f := Finding{"torch", OK, py.Torch + ", cpu", ""}
		if cards := nvml.Look(ctx, nvml.Config{Exe: e.Exe, Environ: e.Environ}).Cards; len(cards) > 0 {
			f.State, f.Text = Warn, fmt.Sprintf("%s does not see the %s of this machine", py.Torch, text.Plural(len(cards), "card"))
			f.Mend = "install a build of torch with CUDA, see https://pytorch.org/get-started"
		}
		out = append(out, f)
	}
	return out
}

func driver(ctx context.Context, e *env.Env) []Finding {
	found := nvml.Look(ctx, nvml.Config{Exe: e.Exe, Environ: e.Environ})
	if found.Fault != nil {
		return []Finding{{"driver", Fail, found.Fault.Error(), "nvidia-smi itself must work first"}}
	}
	if len(found.Cards) == 0 {
		if found.Way == "" {
			return []Finding{{"driver", OK, "no NVIDIA driver here: runs use the cpu", ""}}
		}
		return []Finding{{"driver", Warn, "the NVIDIA driver sees no card", "look at nvidia-smi and dmesg"}}
	}
	var names []string
	var out []Finding
	for _, c := range found.Cards {
		names = append(names, c.Device+" "+c.Name)
		if !c.Health.OK() {
			out = append(out, Finding{"driver", Fail, c.Device + ": " + c.Health.Text, "docs/troubleshooting.md says more of cards that are ill"})
		}
	}
	return append([]Finding{{"driver", OK, strings.Join(names, ", "), ""}}, out...)
}

const (
	spaceFail = 100 << 20
	spaceWarn = 2 << 30
)

func folder(e *env.Env) []Finding {
	const name = "data folder"
	f, err := e.DataFolder()
	if err != nil {
		return []Finding{{name, Fail, err.Error(), ""}}
	}
	out := []Finding{}
	if f.Note != "" {
		out = append(out, Finding{name, Warn, f.Note, ""})
	} else if kind, yes := fsinfo.Network(f.Path); yes {
		out = append(out, Finding{name, Fail, fmt.Sprintf("%s lies on a network disk (%s), where a database is not safe", f.Path, kind), "choose a local folder with --data or CDUI_HOME"})
	}
	out = append(out, access(f.Path))
	if space, err := fsinfo.SpaceAt(f.Path); err == nil {
		free := int64(min(space.Free, 1<<62))
		x := Finding{"disk", OK, text.Bytes(free) + " free for " + f.Path, ""}
		switch {
		case free < spaceFail:
			x.State, x.Mend = Fail, "free some space: console output and metrics are lost on a full disk, runs are not"
		case free < spaceWarn:
			x.State, x.Mend = Warn, "free some space; "+config.BytesMaxTotal+" limits what ended runs keep"
		}
		out = append(out, x)
	}
	return out
}

// access tells whether the data folder is ours, closed to others and writable.
func access(path string) Finding {
	const name = "data folder"
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		parent, err := fsinfo.Existing(path)
		if err != nil || !writable(parent) {
			return Finding{name, Fail, fmt.Sprintf("%s can't be made", path), "choose another with --data or CDUI_HOME"}
		}
		return Finding{name, OK, path + " (made at the first start)", ""}
	}
	switch {
	case err != nil:
		return Finding{name, Fail, fmt.Sprintf("%s can't be looked at: %v", path, errors.Unwrap(err)), "choose another with --data or CDUI_HOME"}
	case !info.IsDir():
		return Finding{name, Fail, path + " is no folder", "choose another with --data or CDUI_HOME"}
	case !writable(path):
		return Finding{name, Fail, path + " can't be written to", "chown it to yourself, or choose another with --data or CDUI_HOME"}
	case info.Mode().Perm()&0o077 != 0:
		return Finding{name, Warn, fmt.Sprintf("%s is open to others (mode %o)", path, info.Mode().Perm()), "chmod 700 " + path}
	}
	if st, err := os.Stat(filepath.Join(path, "token")); err == nil && st.Mode().Perm()&0o077 != 0 {
		return Finding{name, Fail, "others may read the token in " + path, "chmod 600 " + filepath.Join(path, "token")}
	}
	return Finding{name, OK, path, ""}
}

func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".cdui-doctor-*")
	if err != nil {
		return false
	}
	f.Close()
	return os.Remove(f.Name()) == nil
}

func port(ctx context.Context, e *env.Env) []Finding {
	vs, err := e.Settings()
	if err != nil {
		return nil // said already
	}
	address := vs.Text(config.Listen)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err == nil {
		l.Close()
		return []Finding{{"port", OK, address + " is free", ""}}
	}
	who := portinfo.Holder(address)
	if search, serr := e.Search(); serr == nil {
		if info, ierr := client.LocalServer(search); ierr == nil && strings.HasSuffix(info.Address, address) {
			return []Finding{{"port", OK, fmt.Sprintf("%s is held by the control plane (pid %d)", address, info.PID), ""}}
		}
	}
	if who == "" {
		who = "another program"
	}
	return []Finding{{"port", Warn, fmt.Sprintf("%s is taken by %s", address, who), "choose another with --listen or " + "CDUI_" + config.Listen}}
}

func ssh(look func(string) (string, error)) []Finding {
	path, err := look("ssh")
	if err != nil {
		return []Finding{{"ssh", Warn, "no ssh client here: cdui agent ssh reads the ssh config without it, but for Match exec", "install openssh-client if yours has that"}}
	}
	return []Finding{{"ssh", OK, path, ""}}
}
