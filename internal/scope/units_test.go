package scope_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// units are the files that packaging/systemd holds, by their folder.
func units(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, kind := range []string{"system", "user"} {
		for _, name := range []string{"cdui.service", "cdui-agent.service"} {
			path := filepath.Join("..", "..", "packaging", "systemd", kind, name)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			out[kind+"/"+name] = string(raw)
		}
	}
	return out
}

// parse gives the settings of a unit file by section; of several lines of one
// name, which add up, all values.
func parse(t *testing.T, unit string) map[string][]string {
	t.Helper()
	out, section := map[string][]string{}, ""
	for line := range strings.Lines(unit) {
		line = strings.TrimSpace(line)
		name, value, isSetting := strings.Cut(line, "=")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
		case !isSetting || section == "" || strings.TrimSpace(name) != name:
			t.Fatalf("no line of a unit: %q", line)
		default:
			out[section+"."+name] = append(out[section+"."+name], value)
		}
	}
	return out
}

// Proves K-06: a restart of the unit leaves its children alone, and so does an
// out-of-memory kill among them. Nothing narrows what children may do.
func TestUnitsLeaveTrainingsAlone(t *testing.T) {
	t.Parallel()
	// Each of these is passed on to children, and would break some: cards and
	// folders out of sight, modprobe and sudo without effect, no namespaces, no
	// just-in-time compilers.
	narrow := []string{
		"NoNewPrivileges", "PrivateDevices", "PrivateTmp", "PrivateUsers", "PrivateNetwork", "PrivateMounts", "ProtectSystem", "ProtectHome",
		"ProtectProc", "ProcSubset", "ProtectClock", "ProtectKernelModules", "ProtectKernelTunables", "ProtectControlGroups", "DevicePolicy",
		"RestrictNamespaces", "RestrictSUIDSGID", "RestrictRealtime", "RestrictAddressFamilies", "MemoryDenyWriteExecute", "SystemCallFilter",
		"SystemCallArchitectures", "LockPersonality", "CapabilityBoundingSet", "MemoryMax", "DynamicUser", "UMask", "OOMScoreAdjust",
	}
	for name, text := range units(t) {
		u := parse(t, text)
		want := map[string]string{
			"Service.Type": "exec", "Service.KillMode": "process", "Service.OOMPolicy": "continue", "Service.Delegate": "yes",
			"Service.Restart": "on-failure", "Service.TasksMax": "infinity",
			"Service.ExecStart": "/usr/bin/cdui start -f", "Install.WantedBy": "multi-user.target",
		}
		if strings.Contains(name, "agent") {
			want["Service.ExecStart"] = "/usr/bin/cdui agent start $CDUI_AGENT_ARGS"
		}
		if strings.HasPrefix(name, "user/") {
			want["Install.WantedBy"] = "default.target"
		} else {
			want["Service.User"] = "cdui"
		}
		for setting, value := range want {
			if got := u[setting]; len(got) != 1 || got[0] != value {
				t.Errorf("%s: %s is %q, want %q", name, setting, got, value)
			}
		}
		for _, setting := range narrow {
			if got := u["Service."+setting]; got != nil {
				t.Errorf("%s: %s=%s reaches children", name, setting, got)
			}
		}
	}
}

// Proves K-06: systemd itself takes the units, where there is one to ask.
func TestSystemdTakesTheUnits(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here")
	}
	verify := func(kind, path string) (string, error) {
		args := []string{"--man=no", "verify", path}
		if kind == "user" {
			args = append([]string{"--user"}, args...)
		}
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range units(t) {
		kind, file := filepath.Split(name)
		write := func(text string) string {
			path := filepath.Join(t.TempDir(), file)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		// The program is looked for.
		text = strings.ReplaceAll(text, "/usr/bin/cdui", exe)
		said, err := verify(filepath.Clean(kind), write(text))
		if err != nil || strings.Contains(said, file+":") {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
		// It does look.
		said, _ = verify(filepath.Clean(kind), write(strings.Replace(text, "KillMode=process", "KillMode=nobody", 1)))
		if !strings.Contains(said, "kill mode") {
			t.Errorf("%s: a mistake passes: %s", name, said)
		}
	}
}
