package e2e_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// oneSentence fails unless out holds every part and no trace of our insides.
func oneSentence(t *testing.T, what, out string, code, want int, parts ...string) {
	t.Helper()
	if code != want {
		t.Errorf("%s: exit %d, want %d: %s", what, code, want, out)
	}
	for _, p := range parts {
		if !strings.Contains(out, p) {
			t.Errorf("%s: %q does not name %q", what, out, p)
		}
	}
	for _, inside := range []string{"goroutine ", "panic:", ".go:", "Traceback"} {
		if strings.Contains(out, inside) {
			t.Errorf("%s: a trace instead of a sentence: %s", what, out)
		}
	}
}

func TestBadInputGetsASentenceThatNamesIt(t *testing.T) {
	p := newPlane(t)
	dir := filepath.Dir(p.dir)
	binaryFile := p.file("blob.py", "\x00\x01\x02\x00\xff")
	notJSON := p.file("broken.json", "{nodes: [")
	for name, c := range map[string]struct {
		args  []string
		code  int
		parts []string
	}{
		"no such file":        {[]string{"run", "nothing.py"}, 2, []string{"nothing.py"}},
		"a folder":            {[]string{"run", dir}, 2, []string{dir}},
		"not Python":          {[]string{"run", binaryFile}, 2, []string{"blob.py"}},
		"not JSON":            {[]string{"run", notJSON}, 2, []string{"broken.json"}},
		"no such program":     {[]string{"run", "--", "no-such-program-here"}, 2, []string{"no-such-program-here"}},
		"not executable":      {[]string{"run", "--", "/etc/passwd"}, 2, []string{"/etc/passwd", "chmod"}},
		"no command":          {[]string{"run", "--"}, 2, nil},
		"unknown flag":        {[]string{"run", "--devise", "cpu", "x.py"}, 2, []string{"devise"}},
		"unknown command":     {[]string{"rnu"}, 2, []string{"rnu", "run"}},
		"unknown run":         {[]string{"runs", "show", "ffffffff"}, 4, []string{"ffffffff"}},
		"no such card":        {[]string{"run", "--device", "cuda:9", "--", "true"}, 1, []string{"cuda:9", "cpu"}},
		"no device":           {[]string{"run", "--device", "gpu", "--", "true"}, 2, []string{"gpu", "cuda:N"}},
		"no worker":           {[]string{"run", "--worker", "gpu-bx", "--cwd", shortTemp(t), "--", "true"}, 1, []string{"gpu-bx"}},
		"missing interpreter": {[]string{"run", "--python", "/no/python", p.file("ok.py", "pass\n")}, 2, []string{"/no/python"}},
		"secret in --env":     {[]string{"run", "--env", "API_TOKEN=x", "--", "true"}, 2, []string{"API_TOKEN"}},
		"bad time limit":      {[]string{"run", "--time-limit", "soon", "--", "true"}, 2, []string{"time-limit"}},
		"bad after":           {[]string{"run", "--after", "zzzz", "--", "true"}, 4, []string{"zzzz"}},
		"seed out of range":   {[]string{"run", "--seed", "-1", "--", "true"}, 2, []string{"seed"}},
	} {
		out, code := p.try(c.args...)
		oneSentence(t, name, out, code, c.code, c.parts...)
	}
	if out := p.cdui("ls", "--json"); !strings.Contains(out, `"total":0`) && !strings.Contains(out, `"total": 0`) {
		t.Errorf("rows are left: %s", out)
	}

	code, raw, err := p.post(api.PathRuns, `{"name":"`+strings.Repeat("x", 65<<20)+`"}`)
	if err == nil && (code != 413 || !strings.Contains(string(raw), "larger than")) {
		t.Errorf("65 MB: %d %.200s", code, raw)
	}
	code, raw, err = p.post(api.PathRuns, `{"options":{"divice":"cpu","command":{"argv":["true"],"cwd":"/"}}}`)
	if err != nil || code != 400 || !strings.Contains(string(raw), "divice") || !strings.Contains(string(raw), "max_run_seconds") {
		t.Errorf("wrong option: %d %s %v", code, raw, err)
	}
}

func TestC6_AnEnvironmentThatIsTooLarge(t *testing.T) {
	p := newPlane(t)
	cmd := p.command("run", "--env", "FOO", "--", "true")
	cmd.Env = append(cmd.Env, "FOO="+strings.Repeat("x", 100_000))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("100 KB: %v %s", err, tail(string(out), 300))
	}
	body, err := json.Marshal(map[string]any{"options": map[string]any{"command": map[string]any{
		"argv": []string{"true"}, "cwd": "/", "env": map[string]string{"FOO": strings.Repeat("x", 200<<10)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	code, raw, err := p.post(api.PathRuns, string(body))
	if err != nil || code != 400 || !strings.Contains(string(raw), "environment too large: FOO") {
		t.Errorf("%d %.300s %v", code, raw, err)
	}
	if r := p.ended(p.run("--", "true")); r.Status != run.Succeeded {
		t.Errorf("the queue does not move on: %s", r.Status)
	}
}

func TestRunsThatCannotStartSaySo(t *testing.T) {
	p := newPlane(t)
	noTorch := p.file("t.py", "import torch\n")
	syntax := p.file("s.py", "def f(:\n")
	gone := p.file("gone.py", "pass\n")
	vanishing := p.file("vanishing", "#!/no/such/interpreter\n")
	venv := filepath.Join(filepath.Dir(p.dir), "venv")
	if out, err := exec.Command("/usr/bin/python3", "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Skipf("no venv can be made: %s", out)
	}
	for name, c := range map[string]struct {
		args  []string
		parts []string
	}{
		"no such program": {[]string{"--", vanishing}, []string{vanishing}},
		"no torch":        {[]string{"--venv", venv, noTorch}, []string{"torch", venv}},
		"syntax error":    {[]string{"--python", "/usr/bin/python3", syntax}, []string{"SyntaxError"}},
	} {
		r := p.ended(p.run(c.args...))
		if r.Status != run.Failed || r.EndClass != run.EndUserCode {
			t.Errorf("%s: %s %s", name, r.Status, r.EndClass)
		}
		oneSentence(t, name, r.Error, 0, 0, c.parts...)
	}
	id := p.run("--hold", "--python", "/usr/bin/python3", gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	p.cdui("runs", "release", id)
	r := p.ended(id)
	oneSentence(t, "the script is gone", r.Error, 0, 0, "gone.py")
}

// S-02: a folder has one control plane.
func TestStartRefusesWhatCannotWork(t *testing.T) {
	p := newPlane(t)
	other := filepath.Join(shortTemp(t), "other")
	start := func(args ...string) (string, int) {
		out, err := p.command(append([]string{"start"}, args...)...).CombinedOutput()
		return string(out), exitCode(t, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, code := start("--data", other, "--listen", l.Addr().String())
	oneSentence(t, "a taken port", out, code, 1, l.Addr().String(), "taken", "--listen")

	out, code = start("-f", "--listen", "127.0.0.1:0")
	oneSentence(t, "a second one on the folder", out, code, 1, p.dir, "another control plane")

	file := p.file("file", "x")
	out, code = start("--data", file, "--listen", "127.0.0.1:0")
	oneSentence(t, "a data folder that is a file", out, code, 1, file)

	out, code = start("--data", other, "--listen", "nonsense")
	oneSentence(t, "no address", out, code, 2, "nonsense", "HOST:PORT")
	if os.Getuid() == 0 {
		ro := filepath.Join(shortTemp(t), "ro")
		if err := os.MkdirAll(ro, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := p.command("start", "--data", filepath.Join(ro, "d"), "--listen", "127.0.0.1:0")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		raw, err := cmd.CombinedOutput()
		oneSentence(t, "a read-only folder", string(raw), exitCode(t, err), 1, ro, "--data")
	}
	if left := withEnv("CDUI_HOME=" + p.dir); len(left) > 1 {
		t.Errorf("%d processes are left", len(left)-1)
	}
	unreachable := p.command("ls")
	unreachable.Env = append(unreachable.Env, "CDUI_HOME="+other, "CDUI_SERVER=")
	raw, err := unreachable.CombinedOutput()
	oneSentence(t, "no control plane", string(raw), exitCode(t, err), 3, "cdui start")
}

func TestAFolderWithALongPathWorks(t *testing.T) {
	p := preparePlane(t)
	p.dir = filepath.Join(p.dir, strings.Repeat("long-", 30), strings.Repeat("path-", 30))
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.start()
	script := p.file("log.py", "import subprocess, sys, cdui\ncdui.log({'a': 1}, step=0)\nsubprocess.run([sys.executable, '-c', 'import cdui; cdui.log({\"b\": 2}, step=0)'], check=True)\n")
	id := p.run("--python", "/usr/bin/python3", script)
	if r := p.ended(id); r.Status != run.Succeeded {
		t.Errorf("%s %q %s", r.Status, r.Error, p.rawLog(id))
	}
	if _, points := telling(p.events(id)); len(points) != 2 {
		t.Errorf("points %v", points)
	}
}

func TestStartInTheBackgroundAndStop(t *testing.T) {
	p := preparePlane(t)
	out := p.cdui("start")
	if !strings.Contains(out, p.addr) {
		t.Errorf("start says %q", out)
	}
	if out := p.cdui("start"); !strings.Contains(out, p.addr) {
		t.Errorf("a second start says %q", out)
	}
	id := p.run("--", "sleep", "1000")
	pid := p.running(id)
	if out := p.cdui("stop", "--cancel-runs"); out == "" {
		t.Error("stop says nothing")
	}
	if alive(pid) {
		t.Error("stop --cancel-runs left the run")
	}
	eventually(t, 10*time.Second, "nothing is left", func() bool { return len(withEnv("CDUI_HOME="+p.dir)) == 0 })
	if _, code := p.try("status"); code != 3 {
		t.Errorf("status after stop: exit %d", code)
	}
}
