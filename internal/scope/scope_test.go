package scope_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/scope"
)

// booted is a machine with a systemd that answers as the body of a shell script
// says. $* is what it was asked; moved PID UNIT puts a process into a unit.
type booted struct {
	root string
	log  bytes.Buffer
	*scope.Manager
}

const moves = `unit=$(echo "$*" | sed 's/.*[ ]\(cdui-[^ ]*\.scope\).*/\1/')
case "$*" in
*StartTransientUnit*) for p in $(echo "$*" | sed 's/.*PIDs au [0-9]* //; s/ 0$//'); do moved $p $unit; done ;;
*AttachProcessesToUnit*) for p in $(echo "$*" | sed 's/.*ssau [^ ]*  [0-9]* //'); do moved $p $unit; done ;;
esac`

func boot(t *testing.T, uid int, body string) *booted {
	t.Helper()
	b := &booted{root: t.TempDir()}
	for _, dir := range []string{"run/systemd/system", "var/lib/systemd/linger/ada", "proc/1", "bin"} {
		if err := os.MkdirAll(filepath.Join(b.root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.write(t, "proc/1/comm", "systemd\n")
	path := b.root + "/bin"
	if body != "" {
		path += ":/usr/bin:/bin"
		b.write(t, "bin/busctl", `#!/bin/sh
echo "$*" >>`+b.root+`/asked
moved() { mkdir -p `+b.root+`/proc/$1; echo "0::/system.slice/$2" >`+b.root+`/proc/$1/cgroup; }
`+body+"\n")
	}
	b.Manager = scope.New(scope.Config{
		Environ: []string{"PATH=" + path, "XDG_RUNTIME_DIR=/run/user/7"}, Root: b.root, UID: &uid, Name: "ada",
		Patience: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
	})
	return b
}

func (b *booted) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

func (b *booted) asked(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.root, "asked"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

// family starts a process with a child and gives the pids of both.
func family(t *testing.T) (parent, child int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 16)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	if child, err = strconv.Atoi(strings.TrimSpace(string(line[:n]))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("kill", strconv.Itoa(child)).Run()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid, child
}

// Proves K-06 for what systemd is asked: a scope with the process and what it
// has started. The trial before it is made once.
func TestAProcessIsTakenIntoAScopeWithItsChildren(t *testing.T) {
	t.Parallel()
	for uid, flag := range map[int]string{0: "--quiet call", 1000: "--quiet --user call"} {
		b := boot(t, uid, moves)
		parent, child := family(t)
		for i := range 2 {
			b.Adopt(t.Context(), fmt.Sprint("cdui-run-", i), parent)
		}
		asked := b.asked(t)
		if len(asked) != 3 || b.User() != (uid != 0) {
			t.Fatalf("asked %q; %s", asked, b.log.String())
		}
		const manager = " org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager StartTransientUnit ssa(sv)a(sa(sv)) "
		if !strings.HasPrefix(asked[0], flag+manager+"cdui-trial-") {
			t.Errorf("the trial: %s", asked[0])
		}
		want := flag + manager + "cdui-run-0.scope fail 4 Description s cdui run-0 Delegate b true CollectMode s inactive-or-failed PIDs au 2 " +
			fmt.Sprint(parent, " ", child) + " 0"
		if asked[1] != want {
			t.Errorf("asked\n%s, want\n%s", asked[1], want)
		}
		if b.log.Len() > 0 {
			t.Errorf("it complains: %s", b.log.String())
		}
	}
}

func TestAChildThatWasMissedIsBroughtAfter(t *testing.T) {
	t.Parallel()
	parent, child := family(t)
	b := boot(t, 0, `case "$*" in *StartTransientUnit*run-0*) moved `+strconv.Itoa(parent)+` cdui-run-0.scope; exit ;; esac
`+moves)
	b.write(t, fmt.Sprintf("proc/%d/cgroup", child), "0::/system.slice/agent.service\n")
	b.Adopt(t.Context(), "cdui-run-0", parent)
	asked := b.asked(t)
	if last := asked[len(asked)-1]; !strings.HasSuffix(last, fmt.Sprintf("AttachProcessesToUnit ssau cdui-run-0.scope  1 %d", child)) {
		t.Errorf("asked %q", asked)
	}
	if raw, err := os.ReadFile(filepath.Join(b.root, fmt.Sprintf("proc/%d/cgroup", child))); err != nil || !strings.Contains(string(raw), "cdui-run-0.scope") {
		t.Errorf("%s, %v", raw, err)
	}
}

// Proves K-06 for where there are no scopes: nothing is asked, or once, and
// nobody is kept waiting for long.
func TestWithoutScopesProcessesStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, says string
		spoil      func(t *testing.T, b *booted)
		asked      int
	}{
		"another init": {moves, "not started by systemd", func(t *testing.T, b *booted) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(b.root, "run")); err != nil {
				t.Fatal(err)
			}
		}, 0},
		"a container":     {moves, "outside of this container", func(t *testing.T, b *booted) { t.Helper(); b.write(t, "proc/1/comm", "tini\n") }, 0},
		"no tool":         {"", "there is no busctl here", nil, 0},
		"it fails":        {"echo 'Access denied' >&2; exit 1", "Access denied", nil, 1},
		"it hangs":        {"exec sleep 60", "did not answer within 2s", nil, 1},
		"it moves no-one": {`for p in $(echo "$*" | sed 's/.*PIDs au [0-9]* //; s/ 0$//'); do moved $p other.scope; done`, "not moved", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := boot(t, 0, c.body)
			if c.spoil != nil {
				c.spoil(t, b)
			}
			parent, _ := family(t)
			for range 3 {
				b.Adopt(t.Context(), "cdui-run-0", parent)
				if err := b.Works(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it works: %v", err)
				}
			}
			if raw, err := os.ReadFile(filepath.Join(b.root, "asked")); strings.Count(string(raw), "\n") != c.asked {
				t.Errorf("asked %q, %v", raw, err)
			}
		})
	}
}

func TestASystemdThatStopsAnsweringIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := boot(t, 0, moves)
	if err := b.Works(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.write(t, "bin/busctl", "#!/bin/sh\necho x >>"+b.root+"/asked\nexit 1\n")
	parent, _ := family(t)
	for range 5 {
		b.Adopt(t.Context(), "cdui-run-0", parent)
	}
	if asked := b.asked(t); len(asked) != 4 || strings.Count(b.log.String(), "not asked for scopes any more") != 1 {
		t.Errorf("asked %q; %s", asked, b.log.String())
	}
}

// A user's systemd that ends with the last session would take the runs along.
func TestScopesOfAUserNeedLinger(t *testing.T) {
	t.Parallel()
	b := boot(t, 1000, moves)
	if err := os.RemoveAll(filepath.Join(b.root, "var")); err != nil {
		t.Fatal(err)
	}
	if err := b.Works(t.Context()); err == nil || !strings.Contains(err.Error(), "loginctl enable-linger") || b.Lingers() {
		t.Errorf("it works: %v", err)
	}
	inUnit := boot(t, 1000, moves)
	if err := os.RemoveAll(filepath.Join(inUnit.root, "var")); err != nil {
		t.Fatal(err)
	}
	inUnit.write(t, fmt.Sprintf("proc/%d/cgroup", os.Getpid()), "0::/user.slice/user-1000.slice/user@1000.service/app.slice/cdui-agent.service\n")
	if err := inUnit.Works(t.Context()); err != nil {
		t.Errorf("a process that ends with it anyway: %v", err)
	}
}
