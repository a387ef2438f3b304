package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// reader follows a page as its reader would: in a home of their own, with cdui
// in PATH and box1, box2 and gpu-box in the ssh config.
type reader struct {
	t    *testing.T
	site *site
	// plane is the control plane that they start.
	plane *plane
	home  string
	// dir is where they are when they type.
	dir string
	env []string
}

// tried finds what a page has to be tried: blocks behind a mark, which are
// commands, lines of a crontab, or a file's text by its name.
var tried = regexp.MustCompile("(?s)<!-- tried(?:: ([^ ]+))? -->\n```[a-z]*\n(.*?)```\n")

// block is one of them; what is empty for commands.
type block struct{ what, text string }

func blocks(t *testing.T, page string) []block {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repo(t), page))
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	for _, m := range tried.FindAllStringSubmatch(string(raw), -1) {
		out = append(out, block{m[1], m[2]})
	}
	if len(out) == 0 {
		t.Fatalf("%s has nothing that is to be tried", page)
	}
	return out
}

// newReader gives a reader their home.
func newReader(t *testing.T, s *site, name string) *reader {
	t.Helper()
	home := filepath.Join(s.dir, "readers", name)
	r := &reader{t: t, site: s, home: home, dir: filepath.Join(home, "lab")}
	r.plane = &plane{t: t, dir: filepath.Join(home, ".local", "share", "cdui"), addr: freeAddr(t)}
	for _, dir := range []string{"lab", "bin"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(binary, filepath.Join(home, "bin", "cdui")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "bin") + ":" + filepath.Dir(interpreter()) + ":/usr/bin:/bin"
	r.env = []string{"HOME=" + home, "PATH=" + path, "LANG=C.UTF-8", "CDUI_LISTEN=" + r.plane.addr}
	t.Cleanup(func() {
		_, _ = r.sh("cdui stop --cancel-runs")
		_, _ = killMatching(home + "/")
	})
	return r
}

func (r *reader) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// sh runs commands where the reader is, without a terminal, until one fails.
func (r *reader) sh(commands string) (string, error) {
	cmd := exec.Command("bash", "-euc", commands) //nolint:gosec // what our own pages say
	cmd.Env, cmd.Dir = r.env, r.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// follow does what a page says and gives all that was shown.
func (r *reader) follow(page string) string {
	r.t.Helper()
	var shown strings.Builder
	for _, b := range blocks(r.t, page) {
		shown.WriteString(r.do(b))
	}
	return shown.String()
}

// do does what one block says.
func (r *reader) do(b block) string {
	r.t.Helper()
	commands := b.text
	switch b.what {
	case "":
	case "crontab":
		// As cron does: without the times, and % for \%.
		commands = ""
		for line := range strings.Lines(b.text) {
			commands += strings.ReplaceAll(strings.Join(strings.Fields(line)[5:], " "), `\%`, "%") + "\n"
		}
	default:
		r.write(b.what, b.text)
		return ""
	}
	began := time.Now()
	out, err := r.sh(commands)
	if err != nil {
		r.t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
	r.t.Logf("%s: %q", time.Since(began).Round(time.Millisecond), commands)
	return out
}

// runs are all runs of the reader's control plane.
func (r *reader) runs() []api.Run {
	r.t.Helper()
	var list api.RunList
	r.plane.get(api.PathRuns, &list)
	return list.Runs
}

// docsSite is a site with the machines that the pages speak of.
func docsSite(t *testing.T, w *world) *site {
	t.Helper()
	s := newSite(t, w)
	s.account("hop", "/bin/sh", nil)
	s.account("ada", "/bin/bash", nil)
	// The python3 that ada finds there has torch.
	path := "SetEnv PATH=" + filepath.Dir(interpreter()) + ":/usr/bin:/bin\n"
	s.extra = map[string]string{"gate": path, "far": path}
	s.up()
	s.writeConfig(fmt.Sprintf("Host box1\n  HostName %s\nHost box2 gpu-box\n  HostName %s\n  ProxyJump gate\n", gateAddr, boxAddr))
	// ssh takes the home of whoever it is from /etc/passwd, so it can't be theirs.
	if err := syscall.Mount(s.config, "/etc/ssh/ssh_config", "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("can't give ssh a config: %v", err)
	}
	return s
}

// From the README to a training on a second machine, in five commands or fewer.
// The first one, which installs the package, is make package-check's.
func TestREADMEToATrainingOnASecondMachine(t *testing.T) {
	needTorch(t)
	inWorld(t, 3*time.Minute, func(t *testing.T, w *world) {
		r := newReader(t, docsSite(t, w), "readme")
		r.write("train.py", torchTraining)
		list := blocks(t, "README.md")
		commands := strings.Split(strings.TrimSpace(list[0].text), "\n")
		if len(list) != 1 || len(commands) > 5 || !strings.HasPrefix(commands[0], "sudo apt install ./cdui_") {
			t.Fatalf("the README has %q", list)
		}
		var out string
		for _, command := range commands[1:] {
			said, err := r.sh(command)
			if err != nil {
				t.Fatalf("%s: %v, %s", command, err, said)
			}
			out += said
		}
		rows := r.runs()
		if len(rows) != 1 || rows[0].Status != run.Succeeded || rows[0].WorkerID != "gpu-box" || !strings.Contains(out, "trained 3.0") {
			t.Errorf("%+v\n%s", rows, out)
		}
	})
}

// What the quick starts say works, to the letter. It takes a minute.
func TestQuickStarts(t *testing.T) {
	if os.Getenv("CDUI_SOAK") == "" {
		t.Skip("make soak follows the quick starts")
	}
	needTorch(t)
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		s := docsSite(t, w)
		one := newReader(t, s, "one-box")
		if out := one.follow("docs/quickstart-one-box.md"); strings.Count(out, "w is") < 2 || !strings.Contains(out, "loss") {
			t.Errorf("it shows %s", out)
		}
		if rows := one.runs(); len(rows) != 4 {
			t.Errorf("%d runs", len(rows))
		}
		allSucceeded(t, one.runs())

		three := newReader(t, s, "three-boxes")
		out := three.follow("docs/quickstart-three-boxes.md")
		rows := three.runs()
		if len(rows) != 5 || rows[4].WorkerID != "box1" || !strings.Contains(out, "w.pt") {
			t.Errorf("%+v\n%s", rows, out)
		}
		allSucceeded(t, rows)

		cron := newReader(t, s, "cron")
		cron.dir = cron.home
		if out, err := cron.sh("cdui start"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cron.write("lab/train.py", torchTraining)
		cron.follow("docs/quickstart-cron.md")
		// Once more that night: no second run.
		for _, b := range blocks(t, "docs/quickstart-cron.md") {
			if b.what == "crontab" {
				cron.do(b)
			}
		}
		if out, err := cron.sh("cdui runs wait $(cdui ls -q)"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		rows = cron.runs()
		if len(rows) != 2 {
			t.Errorf("%d runs", len(rows))
		}
		allSucceeded(t, rows)
		if raw, _ := os.ReadFile(filepath.Join(cron.home, "lab", "losses.csv")); strings.Count(string(raw), "\n") < 20 {
			t.Errorf("losses.csv: %s", raw)
		}
	})
}

func allSucceeded(t *testing.T, rows []api.Run) {
	t.Helper()
	for _, row := range rows {
		if row.Status != run.Succeeded {
			t.Errorf("%s ended %s: %s", row.ID, row.Status, row.Error)
		}
	}
}
