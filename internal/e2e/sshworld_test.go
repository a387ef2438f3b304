package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"cdui/internal/api"
)

// site is a world with an sshd on a gateway, and one on a machine behind it that
// the control plane has no way to but through the gateway's sshd.
type site struct {
	*world
	t    *testing.T
	dir  string
	uids int
	// config is the user's ssh config, known their known_hosts.
	config, known string
	sshds         map[string]*exec.Cmd
	logs          map[string]string
	matches       map[string][]string
	homes         []string
	// extra are more lines of a machine's sshd_config.
	extra map[string]string
}

const (
	gateAddr = "10.78.0.2"
	boxAddr  = "10.78.1.2"
)

// account is a login on the machines of a site.
type account struct {
	s     *site
	name  string
	uid   int
	home  string
	shell string
}

// newSite makes the machines. Accounts come before up.
func newSite(t *testing.T, w *world) *site {
	t.Helper()
	for _, program := range []string{"/usr/sbin/sshd", "/usr/bin/ssh-keygen", "/usr/bin/ssh"} {
		if _, err := os.Stat(program); err != nil {
			t.Skipf("%s is not installed; run scripts/deps.sh test", program)
		}
	}
	s := &site{
		world: w, t: t, dir: shortTemp(t), uids: 64100, sshds: map[string]*exec.Cmd{}, logs: map[string]string{}, matches: map[string][]string{},
	}
	if err := os.Chmod(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.config, s.known = filepath.Join(s.dir, "ssh_config"), filepath.Join(s.dir, "known_hosts")
	// Accounts of this test are nobody else's.
	for _, file := range []string{"/etc/passwd", "/etc/shadow", "/etc/group"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Skipf("can't make accounts: %v", err)
		}
		own := filepath.Join(s.dir, filepath.Base(file))
		if err := os.WriteFile(own, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount(own, file, "", syscall.MS_BIND, ""); err != nil {
			t.Skipf("can't make accounts: %v", err)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	// The world's own machines have veth ends in our namespace; these two hang
	// one behind the other.
	for _, args := range [][]string{
		{"netns", "add", "gate"},
		{"netns", "add", "far"},
		{"link", "add", "to-gate", "type", "veth", "peer", "name", "line", "netns", "gate"},
		{"addr", "add", "10.78.0.1/30", "dev", "to-gate"},
		{"link", "set", "to-gate", "up"},
		{"-n", "gate", "addr", "add", gateAddr + "/30", "dev", "line"},
		{"-n", "gate", "link", "set", "line", "up"},
		{"-n", "gate", "link", "set", "lo", "up"},
		{"-n", "gate", "link", "add", "to-far", "type", "veth", "peer", "name", "line", "netns", "far"},
		{"-n", "gate", "addr", "add", "10.78.1.1/30", "dev", "to-far"},
		{"-n", "gate", "link", "set", "to-far", "up"},
		{"-n", "far", "addr", "add", boxAddr + "/30", "dev", "line"},
		{"-n", "far", "link", "set", "line", "up"},
		{"-n", "far", "link", "set", "lo", "up"},
		{"-n", "far", "route", "add", "default", "via", "10.78.1.1"},
		{"route", "add", "10.78.1.0/30", "via", gateAddr},
	} {
		sh(t, "ip", args...)
	}
	s.keygen("id")
	for _, box := range []string{"gate", "far"} {
		s.keygen(box + "_ed25519")
		sh(t, "ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", filepath.Join(s.dir, box+"_ecdsa"))
	}
	t.Cleanup(s.down)
	return s
}

// keygen makes a key without a passphrase, or with one.
func (s *site) keygen(name string, passphrase ...string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	sh(s.t, "ssh-keygen", "-q", "-t", "ed25519", "-N", strings.Join(passphrase, ""), "-C", "test", "-f", path)
	return path
}

// account makes a login that the key id opens. files are written into its home.
func (s *site) account(name, shell string, files map[string]string) *account {
	s.t.Helper()
	s.uids++
	a := &account{s: s, name: name, uid: s.uids, home: filepath.Join(s.dir, "home", name), shell: shell}
	if err := os.MkdirAll(filepath.Join(a.home, ".ssh"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join(s.dir, "id.pub"))
	if err != nil {
		s.t.Fatal(err)
	}
	a.write(".ssh/authorized_keys", string(public))
	for name, text := range files {
		a.write(name, text)
	}
	sh(s.t, "chown", "-R", fmt.Sprintf("%d:%d", a.uid, a.uid), a.home)
	for _, dir := range []string{a.home, filepath.Join(a.home, ".ssh")} {
		if err := os.Chmod(dir, 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	s.appendTo("/etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:%s\n", name, a.uid, a.uid, a.home, shell))
	s.appendTo("/etc/group", fmt.Sprintf("%s:x:%d:\n", name, a.uid))
	s.appendTo("/etc/shadow", name+":*:19000:0:99999:7:::\n")
	s.homes = append(s.homes, a.home)
	return a
}

func (s *site) appendTo(path, text string) {
	s.t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// write puts a file into the account's home.
func (a *account) write(name, text string) {
	a.s.t.Helper()
	path := filepath.Join(a.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		a.s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		a.s.t.Fatal(err)
	}
	for p := path; p != a.home; p = filepath.Dir(p) {
		if err := os.Chown(p, a.uid, a.uid); err != nil {
			a.s.t.Fatal(err)
		}
	}
}

// password lets a password in, and no key that there is yet.
func (a *account) password(text string) *account {
	hash := strings.TrimSpace(sh(a.s.t, "openssl", "passwd", "-6", text))
	raw, err := os.ReadFile("/etc/shadow")
	if err != nil {
		a.s.t.Fatal(err)
	}
	raw = bytes.Replace(raw, []byte("\n"+a.name+":*:"), []byte("\n"+a.name+":"+hash+":"), 1)
	if err := os.WriteFile("/etc/shadow", raw, 0o644); err != nil {
		a.s.t.Fatal(err)
	}
	a.write(".ssh/authorized_keys", "")
	return a.with("PasswordAuthentication yes")
}

// with sets options of the sshd for this account alone.
func (a *account) with(options ...string) *account {
	a.s.matches[a.name] = append(a.s.matches[a.name], options...)
	return a
}

// up starts the sshds and writes the user's ssh config.
func (s *site) up() {
	s.t.Helper()
	for _, box := range []string{"gate", "far"} {
		s.sshd(box)
	}
	s.writeConfig("")
	for box, addr := range map[string]string{"gate": gateAddr, "far": boxAddr} {
		raw, err := os.ReadFile(filepath.Join(s.dir, box+"_ed25519.pub"))
		if err != nil {
			s.t.Fatal(err)
		}
		s.knows(addr + " " + string(raw))
	}
}

// writeConfig writes the ssh config, more options of the far machine first.
func (s *site) writeConfig(more string) {
	s.t.Helper()
	text := more + fmt.Sprintf(`
Host gate
  HostName %s
  User hop
Host far
  HostName %s
  ProxyJump gate
Host *
  IdentityFile %s/id
  IdentitiesOnly yes
  UserKnownHostsFile %s
  GlobalKnownHostsFile none
`, gateAddr, boxAddr, s.dir, s.known)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// knows adds a line to known_hosts.
func (s *site) knows(line string) {
	s.t.Helper()
	f, err := os.OpenFile(s.known, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.TrimSpace(line) + "\n"); err != nil {
		s.t.Fatal(err)
	}
}

// sshd starts the sshd of a machine.
func (s *site) sshd(box string) {
	s.t.Helper()
	path := filepath.Join(s.dir, box+".sshd_config")
	text := s.extra[box] + fmt.Sprintf(`Port 22
HostKey %[1]s/%[2]s_ed25519
HostKey %[1]s/%[2]s_ecdsa
PidFile none
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AuthorizedKeysFile .ssh/authorized_keys
UsePAM no
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
MaxStartups 200
LogLevel VERBOSE
`, s.dir, box)
	for name, options := range s.matches {
		text += "Match User " + name + "\n  " + strings.Join(options, "\n  ") + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	// What it starts keeps its output open.
	s.logs[box] = path + fmt.Sprintf(".%d.log", time.Now().UnixNano())
	cmd := exec.Command("ip", "netns", "exec", box, "/usr/sbin/sshd", "-D", "-E", s.logs[box], "-f", path)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.sshds[box] = cmd
	eventually(s.t, 10*time.Second, "the sshd of "+box+" listens", func() bool {
		raw, _ := os.ReadFile(s.logs[box])
		return bytes.Contains(raw, []byte("Server listening on 0.0.0.0"))
	})
}

// stopSSHD ends the sshd of a machine; connections that there are go on, unless
// they are to go too.
func (s *site) stopSSHD(box string, connections bool) {
	s.t.Helper()
	cmd := s.sshds[box]
	if connections {
		for _, pid := range children(cmd.Process.Pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	delete(s.sshds, box)
}

// children lists the processes below one.
func children(pid int) []int {
	var out []int
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(raw)) {
		var child int
		if _, err := fmt.Sscan(field, &child); err == nil {
			out = append(out, child)
			out = append(out, children(child)...)
		}
	}
	return out
}

// down ends all, the control plane first: without the tunnels it could not stop
// what runs at their ends.
func (s *site) down() {
	s.plane.sweep()
	for _, home := range s.homes {
		_, _ = killMatching(home)
	}
	for box := range s.sshds {
		s.stopSSHD(box, true)
		if s.t.Failed() {
			raw, _ := os.ReadFile(s.logs[box])
			s.t.Logf("sshd of %s:\n%s", box, tail(string(raw), 3000))
		}
	}
}

// agentSSH prepares cdui agent ssh with the user's config. It has no terminal.
func (s *site) agentSSH(args ...string) *exec.Cmd {
	cmd := s.command(append([]string{"agent", "ssh", "--ssh-config", s.config}, args...)...)
	// Whoever runs the tests may have a terminal and an agent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// trySSH runs it and gives its combined output and exit code.
func (s *site) trySSH(args ...string) (string, int) {
	out, err := s.agentSSH(args...).CombinedOutput()
	return string(out), exitCode(s.t, err)
}

// added is what cdui agent ssh --json prints.
type added struct {
	Worker string `json:"worker"`
	End    string `json:"end"`
	Binary string `json:"binary"`
	Copied int64  `json:"copied_bytes"`
}

// add makes a worker of an account's machine.
func (s *site) add(target, name string) {
	s.t.Helper()
	cmd := s.agentSSH("--json", "--name", name, "--python", interpreter(), target)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var a added
	if err != nil || json.Unmarshal(out, &a) != nil {
		s.t.Fatalf("agent ssh %s: %v: %s%s", target, err, out, stderr.String())
	}
}

// interpreter is one that every account may use.
func interpreter() string {
	if python != "" {
		return python
	}
	return "/usr/bin/python3"
}

// typing runs a command on a terminal and answers what it asks: each pair is
// what it says and what is typed then.
func (s *site) typing(cmd *exec.Cmd, script ...[2]string) (string, int) {
	s.t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	terminal, err := pty.Start(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	defer terminal.Close()
	log := &safeBuffer{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := terminal.Read(buffer)
			_, _ = log.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	seen := 0
	for _, step := range script {
		eventually(s.t, time.Minute, "it says "+step[0], func() bool {
			select {
			case <-read:
				s.t.Fatalf("it ended before it said %q: %s", step[0], log.String())
			default:
			}
			return strings.Contains(log.String()[seen:], step[0])
		})
		seen = len(log.String())
		if _, err := terminal.WriteString(step[1] + "\n"); err != nil {
			s.t.Fatal(err)
		}
	}
	err = cmd.Wait()
	<-read
	return log.String(), exitCode(s.t, err)
}

// worker is a worker as the control plane sees it, zero when it doesn't.
func (s *site) worker(name string) api.Worker {
	s.t.Helper()
	for _, w := range s.workers() {
		if w.Name == name {
			return w
		}
	}
	return api.Worker{}
}

// tunnel is the tunnel to a worker, zero when there is none.
func (s *site) tunnel(name string) api.Tunnel {
	s.t.Helper()
	var list api.TunnelList
	s.get(api.PathTunnels, &list)
	for _, t := range list.Tunnels {
		if t.Worker == name {
			return t
		}
	}
	return api.Tunnel{}
}

// as prepares a command on the far machine as an account.
func (a *account) as(name string, args ...string) *exec.Cmd {
	all := append([]string{"netns", "exec", "far", "setpriv", fmt.Sprintf("--reuid=%d", a.uid), fmt.Sprintf("--regid=%d", a.uid), "--clear-groups", name}, args...)
	cmd := exec.Command("ip", all...) //nolint:gosec // a test's own command
	cmd.Env, cmd.Dir = []string{"HOME=" + a.home, "PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, a.home
	return cmd
}

// wide lists the files below a folder that others may read or write.
func wide(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeSocket != 0) && info.Mode().Perm()&0o077 != 0 {
			out = append(out, fmt.Sprintf("%s %v", path, info.Mode()))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// delayed is a port of this machine that leads to another address, with a delay
// each way.
func delayed(t *testing.T, to string, by time.Duration) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	carry := func(to, from net.Conn) {
		type piece struct {
			at   time.Time
			data []byte
		}
		queue := make(chan piece, 4096)
		go func() {
			defer close(queue)
			for {
				buffer := make([]byte, 32<<10)
				n, err := from.Read(buffer)
				if n > 0 {
					queue <- piece{time.Now().Add(by), buffer[:n]}
				}
				if err != nil {
					return
				}
			}
		}()
		for p := range queue {
			<-time.After(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				break
			}
		}
		to.Close()
		from.Close()
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			go carry(far, near)
			go carry(near, far)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}
