package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

// Proves S-01.
func TestEachSourceBeatsTheNext(t *testing.T) {
	t.Parallel()
	file := File{Path: "/c.toml", Settings: map[string]string{"listen": "file"}}
	for _, c := range []struct {
		name, text string
		origin     Origin
		src        Sources
	}{
		{"flag", "flag", "flag", Sources{Flags: map[string]string{Listen: "flag"}, Getenv: env(map[string]string{"CDUI_LISTEN": "a"})}},
		{"own variable", "a", "CDUI_LISTEN", Sources{Getenv: env(map[string]string{"CDUI_LISTEN": "a", "CODEFYUI_LISTEN": "b"}), File: file}},
		{"seed's variable", "b", "CODEFYUI_LISTEN", Sources{Getenv: env(map[string]string{"CODEFYUI_LISTEN": "b"}), File: file}},
		{"file", "file", "/c.toml", Sources{Getenv: env(nil), File: file}},
		{"default", "127.0.0.1:8000", FromDefault, Sources{Getenv: env(nil)}},
	} {
		v := Load(c.src).Get(Listen)
		if v.Text != c.text || v.Origin != c.origin {
			t.Errorf("%s: got %q from %q", c.name, v.Text, v.Origin)
		}
	}
}

func TestDefaultsAreRight(t *testing.T) {
	t.Parallel()
	vs := Load(Sources{Getenv: env(nil)})
	if err := vs.Err(); err != nil {
		t.Fatal(err)
	}
	if got := vs.Int(BodyCap); got != 64<<20 {
		t.Errorf("body cap = %d", got)
	}
	if got := vs.Duration(CancelGrace); got != 30*time.Second {
		t.Errorf("grace = %s", got)
	}
	if got := vs.Int(KeepRuns); got != -1 {
		t.Errorf("kept rows = %d", got)
	}
	for _, v := range vs.All() {
		if v.Doc == "" {
			t.Errorf("%s has no doc", v.Name)
		}
	}
}

func TestFaultsNameTheSettingAndTheMend(t *testing.T) {
	t.Parallel()
	vs := Load(Sources{Getenv: env(map[string]string{
		"CDUI_CANCEL_GRACE_S": "soon", "CDUI_ISOLATE": "jail", "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU": "x",
		"CDUI_MAX_RUN_BODY_BYTES": "0",
	})})
	text := vs.Err().Error()
	for _, want := range []string{
		`CANCEL_GRACE_S is "soon" (CDUI_CANCEL_GRACE_S): give a number of seconds`,
		`ISOLATE is "jail" (CDUI_ISOLATE): use auto, pidns, userns, keeper, none`,
		`RUN_QUEUE_MAX_CONCURRENT_CPU is "x"`,
		`give 1 bytes or more`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q in\n%s", want, text)
		}
	}
	if vs.Duration(CancelGrace) != 30*time.Second || vs.Text(Isolate) != "auto" {
		t.Error("a faulty setting doesn't fall back to its default")
	}
}

func TestParseBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"4096": 4096, "64MiB": 64 << 20, "64 mib": 64 << 20, "1.5GB": 1500000000, "20g": 20 << 30, "-1": -1, "7b": 7,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "1e400", "12 parsecs", "9e18g", "nan"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

// Proves SCHED-10, E.
func TestParseOverrides(t *testing.T) {
	t.Parallel()
	caps, warnings := ParseOverrides(" CUDA:0=2, cpu = 8 ,gpu-box-1/cuda:0=3,a=b=4,,nonsense,cpu2=0,=3,x=y")
	want := map[string]int{"cuda:0": 2, "cpu": 8, "gpu-box-1/cuda:0": 3, "a=b": 4}
	if len(caps) != len(want) {
		t.Errorf("caps = %v", caps)
	}
	for k, n := range want {
		if caps[k] != n {
			t.Errorf("%s = %d, want %d", k, caps[k], n)
		}
	}
	if len(warnings) != 4 {
		t.Errorf("warnings = %q", warnings)
	}
	if caps, warnings := ParseOverrides(""); len(caps) != 0 || len(warnings) != 0 {
		t.Errorf("nothing gives %v, %v", caps, warnings)
	}
}

func FuzzParseOverrides(f *testing.F) {
	f.Add("cuda:0=2,cpu=8")
	f.Fuzz(func(t *testing.T, text string) {
		caps, _ := ParseOverrides(text)
		for k, n := range caps {
			if k == "" || n < 1 || k != strings.ToLower(k) {
				t.Errorf("%q gives %q=%d", text, k, n)
			}
		}
	})
}

func TestReadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	if f, err := ReadFile(path); err != nil || f.Path != path {
		t.Fatalf("a file that isn't there: %+v, %v", f, err)
	}
	write(t, path, "listen = '1.2.3.4:1'\nrun_queue_max_concurrent_gpu = 3\ncurrent_context = 'lab'\ncolour = 'red'\n[contexts.lab]\nurl = 'https://lab'\ntoken_file = '/t'\n")
	f, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Settings["run_queue_max_concurrent_gpu"] != "3" || f.Contexts[f.Current].URL != "https://lab" {
		t.Errorf("got %+v", f)
	}
	if len(f.Unknown) != 1 || f.Unknown[0] != "colour" {
		t.Errorf("unknown = %v", f.Unknown)
	}
	write(t, path, "listen = [")
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file: %v", err)
	}
}

// Proves S-02.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	local := func(string) (string, bool) { return "", false }
	nfs := func(string) (string, bool) { return "nfs", true }
	for _, c := range []struct {
		name    string
		flag    string
		env     map[string]string
		network func(string) (string, bool)
		path    string
		noted   bool
	}{
		{"flag", "/d", map[string]string{"CDUI_HOME": "/e"}, nfs, "/d", false},
		{"variable", "", map[string]string{"CDUI_HOME": "/e"}, nfs, "/e", false},
		{"xdg", "", map[string]string{"XDG_DATA_HOME": "/x"}, local, "/x/cdui", false},
		{"home", "", map[string]string{"HOME": "/h", "XDG_DATA_HOME": "rel"}, local, "/h/.local/share/cdui", false},
		{"home on a network disk", "", map[string]string{"HOME": "/h"}, nfs, "/var/tmp/cdui-7", true},
	} {
		vs := Load(Sources{Flags: map[string]string{Home: c.flag}, Getenv: env(c.env)})
		f, err := DataFolder(vs, env(c.env), 7, c.network)
		if err != nil || f.Path != c.path || (f.Note != "") != c.noted {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
	}
}

func TestMakeFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := MakeFolder(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the point of the test
		t.Fatal(err)
	}
	if err := MakeFolder(dir); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("mode = %v", info.Mode())
	}
	file := filepath.Join(dir, "file")
	write(t, file, "")
	if err := MakeFolder(filepath.Join(file, "x")); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("a folder below a file: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if err := MakeFolder(dir); err == nil || !strings.Contains(err.Error(), "65534") {
			t.Errorf("somebody else's folder: %v", err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
