package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
)

// torchTraining is a short one with torch.
const torchTraining = `import torch, cdui
w = torch.zeros(1, requires_grad=True)
for step in range(20):
    loss = (w - 3).pow(2).sum()
    loss.backward()
    with torch.no_grad(): w -= 0.1 * w.grad; w.grad.zero_()
    cdui.log({"loss": loss.item()}, step=step)
print("trained", round(w.item(), 1))
`

// watching looks at all processes of this world until it is told to stop, and
// gives those that hold a one-time token in their arguments or environment.
func (w *world) watching() (stop func() []string) {
	here := w.networks()
	token := regexp.MustCompile(`[a-km-z2-9]{6}\.[a-km-z2-9]{16}`)
	done, ended := make(chan struct{}), make(chan struct{})
	found := map[string]bool{}
	go func() {
		defer close(ended)
		for {
			dirs, _ := filepath.Glob("/proc/[0-9]*")
			for _, d := range dirs {
				if net, _ := os.Readlink(filepath.Join(d, "ns", "net")); !here[net] {
					continue // of a test beside this one
				}
				for _, file := range []string{"cmdline", "environ"} {
					raw, _ := os.ReadFile(filepath.Join(d, file))
					if m := token.Find(raw); m != nil {
						found[fmt.Sprintf("%s of %q", m, raw)] = true
					}
				}
			}
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() []string {
		close(done)
		<-ended
		var out []string
		for f := range found {
			out = append(out, f)
		}
		return out
	}
}

// H-01, H-02, H-03, H-05, P-03, TLS-03, CARD-03: from nothing to a training, over
// a host in between: with a key that has a passphrase, an ssh-agent, a password;
// then restarts of the control plane, and nothing is left in the end.
func TestSSHFromNothingToATraining(t *testing.T) {
	needTorch(t)
	inWorld(t, 6*time.Minute, func(t *testing.T, w *world) {
		s := newSite(t, w)
		s.account("hop", "/bin/sh", nil)
		phrase, agent, secret := s.account("phrase", "/bin/bash", nil), s.account("agent", "/bin/bash", nil), s.account("secret", "/bin/bash", nil)
		secret.password("pass w0rd!")
		locked := s.keygen("locked", "sesame open")
		public, err := os.ReadFile(locked + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		phrase.write(".ssh/authorized_keys", string(public))
		held := s.keygen("held")
		if public, err = os.ReadFile(held + ".pub"); err != nil {
			t.Fatal(err)
		}
		agent.write(".ssh/authorized_keys", string(public))
		s.up()
		s.writeConfig(fmt.Sprintf("Host locked\n  HostName %s\n  ProxyJump gate\n  IdentityFile %s\nHost held\n  HostName %s\n  ProxyJump gate\n  IdentityFile %s.pub\n", boxAddr, locked, boxAddr, held))
		s.start()
		socket := filepath.Join(s.dir, "agent.sock")
		keeper := exec.Command("ssh-agent", "-D", "-a", socket)
		if err := keeper.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = keeper.Process.Kill(); _ = keeper.Wait() })
		eventually(t, 10*time.Second, "the ssh-agent is up", func() bool {
			add := exec.Command("ssh-add", held)
			add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
			return add.Run() == nil
		})
		if err := os.Rename(held, held+".away"); err != nil { // the agent alone has it
			t.Fatal(err)
		}

		stop := s.watching()
		out, code := s.typing(s.agentSSH("--name", "phrase", "--python", python, "phrase@locked"),
			[2]string{"passphrase of " + locked, "wrong"}, [2]string{"passphrase of " + locked, "sesame open"})
		if code != 0 || !strings.Contains(out, "phrase is a worker") {
			t.Fatalf("with a passphrase: exit %d, %s", code, out)
		}
		cmd := s.agentSSH("--name", "agent", "--python", python, "agent@held")
		cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+socket)
		if raw, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("with an ssh-agent: %v, %s", err, raw)
		}
		out, code = s.typing(s.agentSSH("--name", "secret", "--python", python, "secret@far"), [2]string{"password of secret@", "pass w0rd!"})
		if code != 0 {
			t.Fatalf("with a password: exit %d, %s", code, out)
		}
		if seen := stop(); len(seen) > 0 {
			t.Errorf("one-time tokens were seen in %q", seen)
		}
		script := s.script("train.py", torchTraining)
		var ids []string
		for _, name := range []string{"phrase", "agent", "secret"} {
			ids = append(ids, s.runIn(filepath.Dir(script), "--worker", name, script))
		}
		for i, id := range ids {
			if r := s.succeeded(id); string(s.rawLog(id)) != "trained 3.0\n" {
				t.Errorf("run %d on %s: %s", i, r.WorkerID, s.rawLog(id))
			}
		}
		// The machine id is the control plane's own here, and it does not count.
		for _, name := range []string{"phrase", "agent", "secret"} {
			if row := s.worker(name); row.State != api.WorkerOnline || row.Via != "tunnel" {
				t.Errorf("%s: %s, %s", name, row.State, row.Via)
			}
			if tu := s.tunnel(name); tu.State != api.TunnelUp || !strings.HasSuffix(tu.End, ".sock") {
				t.Errorf("tunnel of %s: %+v", name, tu)
			}
		}
		if out := s.cdui("workers"); strings.Count(out, "tunnel") != 3 {
			t.Errorf("workers says %s", out)
		}
		if out := s.cdui("agent", "ssh", "--status"); strings.Count(out, "ends at") != 3 {
			t.Errorf("--status says %s", out)
		}

		s.secretsAreNowhere(t, []string{"sesame open", "pass w0rd!"}, phrase, agent, secret)

		// The same binary is not copied again, a half one is.
		s.writeConfigAgain(locked, held)
		if a := s.reconnect(t, "agent@held", "agent", "SSH_AUTH_SOCK="+socket); a.Copied != 0 {
			t.Errorf("%d bytes were copied again", a.Copied)
		}
		full, err := os.Stat(binary)
		if err != nil {
			t.Fatal(err)
		}
		exe := s.reconnect(t, "agent@held", "agent", "SSH_AUTH_SOCK="+socket).Binary
		if err := os.Remove(exe); err != nil {
			t.Fatal(err)
		}
		agent.write(strings.TrimPrefix(exe, agent.home+"/"), "\x7fELF half")
		if a := s.reconnect(t, "agent@held", "agent", "SSH_AUTH_SOCK="+socket); a.Copied != full.Size() {
			t.Errorf("in place of a half copy %d of %d bytes came", a.Copied, full.Size())
		}

		// What needs no typing comes back after a restart; what does says so.
		id := s.run("--worker", "agent", "--no-files", "--", "sh", "-c", "echo a; sleep 4; echo b")
		s.running(id)
		s.kill9()
		s.plane.start()
		eventually(t, time.Minute, "the tunnel that an ssh-agent opens is back", func() bool { return s.worker("agent").State == api.WorkerOnline })
		if r := s.succeeded(id); string(s.rawLog(id)) != "a\nb\n" || r.Attempt != 1 {
			t.Errorf("the run over the restart: %q, attempt %d", s.rawLog(id), r.Attempt)
		}
		for _, name := range []string{"phrase", "secret"} {
			eventually(t, time.Minute, name+" needs a login", func() bool { return s.tunnel(name).State == api.TunnelNeedsLogin })
		}
		tu := s.tunnel("secret")
		if !strings.Contains(tu.Command, "cdui agent ssh secret@far --name secret --ssh-config "+s.config) || !strings.Contains(tu.Problem, "password") {
			t.Errorf("%+v", tu)
		}
		if out, _ := s.try("agent", "ssh", "--status"); !strings.Contains(out, "needs_login") || !strings.Contains(out, tu.Command) {
			t.Errorf("--status says %s", out)
		}
		words := strings.Fields(tu.Command)[1:]
		if out, code := s.typing(s.command(append(words, "--install-key")...), [2]string{"password of secret@", "pass w0rd!"}); code != 0 {
			t.Errorf("logging in again: exit %d, %s", code, out)
		}
		// With a key of its own it needs nobody; that key opens the tunnel alone.
		key := filepath.Join(s.dir, "secret.key")
		s.kill9()
		s.plane.start()
		eventually(t, time.Minute, "the tunnel with its own key is back", func() bool { return s.worker("secret").State == api.WorkerOnline })
		raw, err := os.ReadFile(filepath.Join(s.plane.dir, "tunnels", "secret.key"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(key, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"cat", "/etc/hostname"}, {"-tt"}, {"-s", "sftp"}} {
			ssh := exec.Command("ssh", append([]string{"-F", s.config, "-i", key, "-o", "IdentityFile=" + key, "secret@far"}, args...)...) //nolint:gosec // a test's own
			out, _ := ssh.CombinedOutput()
			if name, _ := os.ReadFile("/etc/hostname"); bytes.Contains(out, bytes.TrimSpace(name)) && len(bytes.TrimSpace(name)) > 0 {
				t.Errorf("ssh %v with the tunnel's key: %s", args, out)
			}
		}

		s.removed(t, socket, phrase, agent, secret)
	})
}

// reconnect runs the command again for a machine that is a worker already.
func (s *site) reconnect(t *testing.T, target, name string, env ...string) added {
	t.Helper()
	cmd := s.agentSSH("--json", "--name", name, target)
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var a added
	if err != nil || json.Unmarshal(out, &a) != nil {
		t.Fatalf("again: %v, %s%s", err, out, stderr.String())
	}
	return a
}

func (s *site) writeConfigAgain(locked, held string) {
	s.writeConfig(fmt.Sprintf("Host locked\n  HostName %s\n  ProxyJump gate\n  IdentityFile %s\nHost held\n  HostName %s\n  ProxyJump gate\n  IdentityFile %s.pub\n", boxAddr, locked, boxAddr, held))
}

// secretsAreNowhere looks for what was typed, and for tokens, in arguments,
// environments and files, and for files that others may read.
func (s *site) secretsAreNowhere(t *testing.T, typed []string, accounts ...*account) {
	t.Helper()
	secrets := map[string]string{}
	for _, text := range typed {
		secrets["what was typed"] = text
	}
	raw, err := os.ReadFile(filepath.Join(s.plane.dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	secrets["session token"] = strings.TrimSpace(string(raw))
	for _, a := range accounts {
		own := filepath.Join(a.home, ".local", "share", "cdui", "agent", a.name, "token")
		raw, err := os.ReadFile(own)
		if err != nil {
			t.Fatal(err)
		}
		secrets["token of "+a.name] = strings.TrimSpace(string(raw))
	}
	for what, secret := range secrets {
		if pids := append(withEnv(secret), withArgs(secret)...); len(pids) > 0 {
			t.Errorf("the %s is in arguments or environments of %v", what, pids)
		}
		found := leaks(t, s.plane.dir, secret, filepath.Join(s.plane.dir, "token"))
		for _, a := range accounts {
			found = append(found, leaks(t, a.home, secret, filepath.Join(a.home, ".local", "share", "cdui", "agent", a.name, "token"))...)
		}
		if strings.Contains(s.log.String(), secret) {
			found = append(found, "the control plane's log")
		}
		if len(found) > 0 {
			t.Errorf("the %s lies in %q", what, found)
		}
	}
	for _, a := range accounts {
		for _, dir := range []string{".cache", ".local/share/cdui"} {
			for _, f := range wide(t, filepath.Join(a.home, dir)) {
				if !strings.Contains(f, "/runtime/") { // the package that runs import
					t.Errorf("open to others: %s", f)
				}
			}
		}
	}
}

// removed uninstalls the three workers, which leaves nothing.
func (s *site) removed(t *testing.T, socket string, phrase, agent, secret *account) {
	t.Helper()
	id := s.run("--worker", "secret", "--no-files", "--", "sleep", "1000")
	s.running(id)
	login := [2]string{"password of secret@", "pass w0rd!"}
	if out, code := s.typing(s.agentSSH("--uninstall", "secret@far"), login); code != 1 || !strings.Contains(out, "1 training runs on secret") {
		t.Errorf("--uninstall under a training: exit %d, %s", code, out)
	}
	if out, code := s.typing(s.agentSSH("--uninstall", "--cancel-runs", "secret@far"), login); code != 0 {
		t.Errorf("--uninstall: exit %d, %s", code, out)
	}
	if out, code := s.typing(s.agentSSH("--uninstall", "phrase@locked"), [2]string{"passphrase", "sesame open"}); code != 0 {
		t.Errorf("--uninstall: exit %d, %s", code, out)
	}
	cmd := s.agentSSH("--uninstall", "agent@held")
	cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+socket)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("--uninstall: %v, %s", err, out)
	}
	if list := s.workers(); len(list) != 0 {
		t.Errorf("workers are left: %+v", list)
	}
	for _, a := range []*account{phrase, agent, secret} {
		left := strings.Fields(sh(t, "find", a.home, "-type", "f", "-o", "-type", "s"))
		keys := filepath.Join(a.home, ".ssh", "authorized_keys")
		if a == secret && len(left) > 0 || a != secret && !slices.Equal(left, []string{keys}) {
			t.Errorf("left of %s: %q", a.name, left)
		}
		if raw, _ := os.ReadFile(keys); strings.Contains(string(raw), "cdui") || strings.Contains(string(raw), "restrict") {
			t.Errorf("keys of %s: %s", a.name, raw)
		}
		eventually(t, 10*time.Second, "nothing of "+a.name+" runs", func() bool { return len(withArgs(a.home)) == 0 })
	}
	if left := leaks(t, filepath.Join(s.plane.dir, "tunnels"), "PRIVATE KEY"); len(left) > 0 {
		t.Errorf("keys are left: %q", left)
	}
}

// H2, H-04: whatever the login shell is and says, and a place that starts no
// programs.
func TestH2_AnyLoginShell(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		s := newSite(t, w)
		s.account("hop", "/bin/sh", nil)
		noise := "printf 'Welcome!\\nDisk quota 10%%: no newline at the end'\necho oops >&2\n"
		slow := "sleep 5\n"
		if os.Getenv("CDUI_FAULTS") == "" {
			slow = "sleep 2\n"
		}
		works := []*account{
			s.account("bash", "/bin/bash", nil), s.account("zsh", "/usr/bin/zsh", nil), s.account("fish", "/usr/bin/fish", nil),
			s.account("tcsh", "/usr/bin/tcsh", map[string]string{".tcshrc": "echo hello from tcsh\nset prompt='x'\n"}), s.account("dash", "/bin/dash", nil),
			s.account("banner", "/bin/bash", map[string]string{".bashrc": noise}), s.account("sleepy", "/bin/bash", map[string]string{".bashrc": slow}),
		}
		leaves := s.account("leaves", "/bin/bash", map[string]string{".bashrc": "echo this rc file leaves\nexit 3\n"})
		fishy := s.account("fishy", "/bin/bash", map[string]string{".bashrc": "exec fish\n"})
		nologin := s.account("nologin", "/usr/sbin/nologin", nil)
		s.up()
		s.start()
		// Python is asked for in vain, which is said, and takes no time.
		type outcome struct {
			out  string
			code int
		}
		got := make([]outcome, len(works))
		limit := make(chan struct{}, 4)
		var wg sync.WaitGroup
		for i, a := range works {
			wg.Go(func() {
				limit <- struct{}{}
				defer func() { <-limit }()
				raw, err := s.agentSSH("--python", "/nowhere/python3", a.name+"@far", "--name", a.name).CombinedOutput()
				got[i] = outcome{string(raw), -1}
				if err == nil {
					got[i].code = 0
				}
			})
		}
		wg.Wait()
		var ids []string
		for i, a := range works {
			if got[i].code != 0 || !strings.Contains(got[i].out, a.name+" is a worker") || !strings.Contains(got[i].out, "no python3 is there") {
				t.Fatalf("%s: %s", a.name, got[i].out)
			}
			ids = append(ids, s.run("--worker", a.name, "--no-files", "--", "id", "-un"))
		}
		for i, a := range works {
			s.succeeded(ids[i])
			if log := string(s.rawLog(ids[i])); log != a.name+"\n" {
				t.Errorf("on %s: %q", a.name, log)
			}
		}
		for _, c := range []struct {
			a    *account
			says string
		}{{leaves, "this rc file leaves"}, {fishy, "did not start /bin/sh"}, {nologin, "not available"}} {
			out, code := s.trySSH(c.a.name + "@far")
			if code != 1 || !strings.Contains(out, c.says) || !strings.Contains(out, "startup files") && c.a != nologin {
				t.Errorf("%s: exit %d, %s", c.a.name, code, out)
			}
		}
	})
}
