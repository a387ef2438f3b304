package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// counted runs counting on a worker, undisturbed.
func (s *site) counted(name, script string, a *account) calm {
	s.t.Helper()
	r := s.succeeded(s.runIn(filepath.Dir(script), "--worker", name, script, "--", filepath.Join(a.home, "starts-calm"), "0"))
	types, points := telling(s.events(r.ID))
	return calm{quiet(types), points, string(s.rawLog(r.ID))}
}

// agents lists the pids of an account's agents.
func (a *account) agents() []int {
	var out []int
	for _, pid := range withArgs(a.home + "/.cache") {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Contains(raw, []byte("\x00agent\x00start\x00")) {
			out = append(out, pid)
		}
	}
	return out
}

// H3, H-03: the line is cut, the control plane frozen, the far sshd killed with
// its connections: each time another end, one agent, and nothing lost. Who takes
// the old port over is recognised before anything is sent.
func TestH3_ACutTunnelIsNeverMistaken(t *testing.T) {
	needTorch(t)
	inWorld(t, 40*time.Minute, func(t *testing.T, w *world) {
		s := newSite(t, w)
		s.account("hop", "/bin/sh", nil)
		port := s.account("port", "/bin/bash", nil).with("AllowStreamLocalForwarding no")
		socket := s.account("socket", "/bin/bash", nil)
		stranger := s.account("stranger", "/bin/sh", nil)
		s.up()
		s.start()
		s.add("port@far", "port")
		s.add("socket@far", "socket")
		if end := s.tunnel("port").End; !strings.HasPrefix(end, "127.0.0.1:") {
			t.Errorf("the tunnel without sockets ends at %s", end)
		}
		script := s.script("count.py", strings.ReplaceAll(counting, "time.sleep(0.02)", "time.sleep(float(sys.argv[2]))"))
		want := s.counted("port", script, port)
		var c tally
		hold := func(d time.Duration) { <-time.NewTimer(d).C }
		// Packets are dropped until the control plane gives the line up, at which
		// time the far sshd still holds the old end.
		dropped := func(d time.Duration) func() {
			return func() {
				sh(t, "ip", "link", "set", "to-gate", "down")
				hold(d)
				sh(t, "ip", "link", "set", "to-gate", "up")
				sh(t, "ip", "route", "replace", "10.78.1.0/30", "via", gateAddr)
			}
		}
		type fault struct {
			what   string
			strike func()
			moves  bool
			pace   string
		}
		faults := []fault{
			{"packets dropped for 10 s", dropped(10 * time.Second), false, "0.2"},
			{"control plane killed while packets are dropped", func() {
				sh(t, "ip", "link", "set", "to-gate", "down")
				s.kill9()
				s.plane.start()
				dropped(time.Second)()
			}, true, "0.1"},
			{"the far sshd and its connections killed", func() {
				s.stopSSHD("far", true)
				hold(time.Second)
				s.sshd("far")
			}, true, "0.1"},
		}
		if os.Getenv("CDUI_FAULTS") != "" {
			faults = append(faults, fault{"control plane frozen", func() {
				_ = s.cmd.Process.Signal(syscall.SIGSTOP)
				hold(10 * time.Second)
				_ = s.cmd.Process.Signal(syscall.SIGCONT)
			}, false, "0.2"}, fault{"packets dropped until the line is given up", dropped(30 * time.Second), true, "0.5"},
				fault{"packets dropped for 10 min", dropped(10 * time.Minute), true, "11"})
		}
		for _, f := range faults {
			before := map[string]string{"port": s.tunnel("port").End, "socket": s.tunnel("socket").End}
			ids := map[string]string{}
			for name, a := range map[string]*account{"port": port, "socket": socket} {
				ids[name] = s.runIn(filepath.Dir(script), "--worker", name, script, "--", filepath.Join(a.home, "starts-"+strings.ReplaceAll(f.what, " ", "-")), f.pace)
				s.running(ids[name])
			}
			f.strike()
			c.struck++
			for name, a := range map[string]*account{"port": port, "socket": socket} {
				eventually(t, 2*time.Minute, name+" is back after "+f.what, func() bool {
					return s.worker(name).State == api.WorkerOnline && s.tunnel(name).State == api.TunnelUp
				})
				if now := s.tunnel(name).End; f.moves == (now == before[name]) {
					t.Errorf("%s, %s: the end was %s and is %s", f.what, name, before[name], now)
				}
				if n := len(a.agents()); n != 1 {
					t.Errorf("%s: %d agents of %s", f.what, n, name)
				}
				eventually(t, 20*time.Minute, "the run ends", func() bool { return !s.show(ids[name]).Active })
				s.compare(f.what+", "+name, ids[name], filepath.Join(a.home, "starts-"+strings.ReplaceAll(f.what, " ", "-")), want, &c)
			}
		}
		s.strangerAtTheOldPort(t, port, stranger)
		fmt.Println(c)
	})
}

// strangerAtTheOldPort lets another user take the port over that a tunnel ended
// at, before a new one is there.
func (s *site) strangerAtTheOldPort(t *testing.T, port, stranger *account) {
	t.Helper()
	end := s.tunnel("port").End
	_, number, _ := strings.Cut(end, ":")
	token, err := os.ReadFile(filepath.Join(port.home, ".local", "share", "cdui", "agent", "port", "token"))
	if err != nil {
		t.Fatal(err)
	}
	s.stopSSHD("far", true)
	heard := filepath.Join(stranger.home, "heard")
	// Once it only listens, once it answers with a key of its own.
	stranger.write("listen.py", `import socket, ssl, sys
l = socket.create_server(("127.0.0.1", int(sys.argv[1])))
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); tls.load_cert_chain("cert.pem", "key.pem")
out = open("heard", "ab", buffering=0)
for n in range(100):
    c, _ = l.accept(); c.settimeout(5)
    try:
        if n % 2 == 0:
            c = tls.wrap_socket(c, server_side=True)
            out.write(b"HANDSHAKE DONE\n")
        out.write(b"GOT " + repr(c.recv(65536)).encode() + b"\n")
    except Exception as e: out.write(b"REFUSED " + repr(e).encode() + b"\n")
    c.close()
`)
	sh(t, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost", "-days", "1",
		"-keyout", filepath.Join(stranger.home, "key.pem"), "-out", filepath.Join(stranger.home, "cert.pem"))
	for _, f := range []string{"key.pem", "cert.pem"} {
		if err := os.Chown(filepath.Join(stranger.home, f), stranger.uid, stranger.uid); err != nil {
			t.Fatal(err)
		}
	}
	listener := stranger.as("/usr/bin/python3", "listen.py", number)
	said := &safeBuffer{}
	listener.Stderr = said
	if err := listener.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Process.Kill(); _ = listener.Wait() })
	eventually(t, time.Minute, "the agent has come to the stranger's port", func() bool {
		raw, _ := os.ReadFile(heard)
		return bytes.Count(raw, []byte("\n")) >= 2
	})
	exe := filepath.Join(port.home, ".cache", "cdui")
	status := port.as("/bin/sh", "-c", exe+"/*/cdui agent status port --json")
	eventually(t, time.Minute, "the agent says that it is a stranger", func() bool {
		out, _ := status.Output()
		status = port.as("/bin/sh", "-c", exe+"/*/cdui agent status port --json")
		return bytes.Contains(out, []byte("another key"))
	})
	s.sshd("far")
	eventually(t, 2*time.Minute, "the worker is back beside the stranger", func() bool { return s.worker("port").State == api.WorkerOnline })
	if now := s.tunnel("port").End; now == end {
		t.Errorf("the tunnel ends at the stranger's port %s", now)
	}
	raw, err := os.ReadFile(heard)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{strings.TrimSpace(string(token)), "Codefy", "HTTP", "GET", "HANDSHAKE DONE\nGOT b'GET"} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the stranger heard %q: %s", secret, raw)
		}
	}
	s.succeeded(s.run("--worker", "port", "--no-files", "--", "true"))
}

// H-03, CARD-03: another user of the machine gets nothing through a tunnel, by no
// route and with no token, not even the control plane's own.
func TestSSHAnotherUserGetsNothingThroughATunnel(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		s := newSite(t, w)
		s.account("hop", "/bin/sh", nil)
		s.account("port", "/bin/bash", nil).with("AllowStreamLocalForwarding no")
		socket := s.account("socket", "/bin/bash", nil)
		thief := s.account("thief", "/bin/sh", nil)
		s.up()
		s.start()
		for _, name := range []string{"port", "socket"} {
			cmd := s.agentSSH("--json", "--name", name, "--python", "/nowhere", name+"@far")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		id := s.run("--worker", "socket", "--no-files", "--", "sleep", "1000")
		s.running(id)
		session, err := os.ReadFile(filepath.Join(s.plane.dir, "token"))
		if err != nil {
			t.Fatal(err)
		}
		var admin api.TokenReply
		if err := json.Unmarshal([]byte(s.cdui("tokens", "add", "ada", "--role", "admin", "--json")), &admin); err != nil {
			t.Fatal(err)
		}
		tokens := map[string]string{
			"none": "", "garbage": "abc", "the session token": strings.TrimSpace(string(session)), "an administrator's token": admin.Token,
		}
		var doc struct {
			Paths map[string]map[string]json.RawMessage `json:"paths"`
		}
		s.get(api.PathOpenAPI, &doc)
		if len(doc.Paths) < 20 {
			t.Fatalf("%d paths", len(doc.Paths))
		}
		var script strings.Builder
		tries := 0
		end := s.tunnel("port").End
		request := func(what, token, method, path, header string) {
			if tries++; tries > 1 {
				script.WriteString("next\n")
			}
			fmt.Fprintf(&script, "url = \"https://%s%s\"\nrequest = %s\nheader = \"X-CodefyUI-Token: %s\"\ninsecure\nsilent\npath-as-is\nmax-time = 5\noutput = /dev/null\nwrite-out = \"%s %s %s: %%{http_code}\\n\"\n",
				end, path, method, token, what, method, path)
			if header != "" {
				fmt.Fprintf(&script, "header = \"%s\"\n", header)
			}
			if method != "GET" {
				script.WriteString("data = \"{}\"\n")
			}
		}
		for what, token := range tokens {
			for path, methods := range doc.Paths {
				path = strings.NewReplacer("{id}", id, "{name}", "x", "{sha256}", strings.Repeat("0", 64)).Replace(path)
				for method := range methods {
					request(what, token, strings.ToUpper(method), path, "Host: 127.0.0.1")
				}
			}
			for _, path := range []string{"/ws/worker", "/ws/execution", "/", "/api/health/../status"} {
				request(what, token, "GET", path, "X-Forwarded-For: 127.0.0.1")
			}
		}
		thief.write("attack", script.String())
		out, err := thief.as("curl", "-Z", "--parallel-max", "20", "-K", "attack").Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil || len(lines) != tries {
			t.Fatalf("%v: %d of %d lines: %s", err, len(lines), tries, tail(string(out), 2000))
		}
		for _, line := range lines {
			_, code, _ := strings.Cut(line, ": ")
			// An enrollment with a body that makes no sense is refused as such.
			if code == "404" || code == "403" || code == "401" || strings.Contains(line, api.PathWorkerEnroll) && code == "400" ||
				strings.Contains(line, "/api/health/..") && (code == "301" || code == "307") || code == "405" {
				continue
			}
			t.Errorf("through the tunnel: %s", line)
		}
		// A socket lets nobody else in at all.
		other := s.tunnel("socket").End
		out, err = thief.as("curl", "-sk", "-m", "5", "--unix-socket", other, "https://localhost"+api.PathHealth).CombinedOutput()
		if err == nil {
			t.Errorf("another user connects to %s: %s", other, out)
		}
		if out, err := socket.as("curl", "-sk", "-m", "5", "--unix-socket", other, "https://localhost"+api.PathStatus).CombinedOutput(); err != nil || !strings.Contains(string(out), "not_found") {
			t.Errorf("its own user is answered %v, %s", err, out)
		}
		if r := s.show(id); r.Status != run.Running {
			t.Errorf("the run is %s", r.Status)
		}
		t.Logf("%d tries through a tunnel, none of use", tries)
		if res, err := http.Get("http://" + s.addr + api.PathWorkers); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("the control plane itself: %v", err)
		} else {
			res.Body.Close()
		}
	})
}

// H-01: who the host is. The command goes no further than to look for an agent.
func TestSSHHostKeys(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		s := newSite(t, w)
		s.account("hop", "/bin/sh", nil)
		s.account("ada", "/bin/bash", nil)
		s.up()
		s.start()
		public := func(name string) string {
			raw, err := os.ReadFile(filepath.Join(s.dir, name+".pub"))
			if err != nil {
				t.Fatal(err)
			}
			fields := strings.Fields(string(raw))
			return fields[0] + " " + fields[1]
		}
		finger := func(name string) string {
			return strings.Fields(sh(t, "ssh-keygen", "-lf", filepath.Join(s.dir, name+".pub")))[1]
		}
		ca := s.keygen("ca")
		s.keygen("other")
		gate := gateAddr + " " + public("gate_ed25519")
		in := func(out string) bool { return strings.Contains(out, "no cdui is there") }
		try := func(known []string, args ...string) string {
			t.Helper()
			if err := os.WriteFile(s.known, []byte(strings.Join(append([]string{gate}, known...), "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, code := s.trySSH(append([]string{"--stop", "ada@far"}, args...)...)
			if code != 1 {
				t.Errorf("exit %d: %s", code, out)
			}
			return out
		}
		ed := finger("far_ed25519")
		if out := try(nil); in(out) || !strings.Contains(out, "not known") || !strings.Contains(out, ed) || !strings.Contains(out, "--accept-new") {
			t.Errorf("an unknown host without a terminal: %s", out)
		}
		if out := try(nil, "--accept-new"); !in(out) {
			t.Errorf("an unknown host with --accept-new: %s", out)
		}
		if raw, _ := os.ReadFile(s.known); !strings.Contains(string(raw), boxAddr+" "+public("far_ed25519")) {
			t.Errorf("what was accepted is not written down: %s", raw)
		}
		if out := try([]string{boxAddr + " " + public("other")}, "--accept-new"); in(out) || !strings.Contains(out, "has changed") || !strings.Contains(out, ed) || !strings.Contains(out, finger("other")) {
			t.Errorf("a changed host: %s", out)
		}
		if out := try([]string{boxAddr + " " + public("far_ecdsa")}); !in(out) {
			t.Errorf("only the ecdsa key is known: %s", out)
		}
		for what, line := range map[string]string{
			"revoked":                "@revoked * " + public("far_ed25519"),
			"another key by pattern": "10.78.*.? " + public("other"),
		} {
			if out := try([]string{line}, "--accept-new"); in(out) || !strings.Contains(out, ed) {
				t.Errorf("%s: %s", what, out)
			}
		}
		if err := os.WriteFile(s.known, []byte(gate+"\n"+boxAddr+" "+public("far_ed25519")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		sh(t, "ssh-keygen", "-q", "-H", "-f", s.known)
		if out, _ := s.trySSH("--stop", "ada@far"); !in(out) {
			t.Errorf("hashed names: %s", out)
		}
		// On a terminal a person decides.
		for answer, goes := range map[string]bool{"yes": true, "no": false} {
			if err := os.WriteFile(s.known, []byte(gate+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, _ := s.typing(s.agentSSH("--stop", "ada@far"), [2]string{ed, answer})
			if in(out) != goes {
				t.Errorf("the answer %s: %s", answer, out)
			}
		}
		// A certificate of an authority, on another port.
		sh(t, "ssh-keygen", "-q", "-s", ca, "-I", "far", "-h", "-n", boxAddr, filepath.Join(s.dir, "far_ed25519.pub"))
		s.stopSSHD("far", true)
		s.extra = map[string]string{"far": fmt.Sprintf("HostCertificate %s/far_ed25519-cert.pub\nPort 2222\n", s.dir)}
		s.sshd("far")
		if out := try([]string{"@cert-authority 10.78.* " + public("ca")}); !in(out) {
			t.Errorf("a certificate: %s", out)
		}
		if out := try([]string{"@cert-authority 10.78.* " + public("other")}); in(out) || !strings.Contains(out, "not known") && !strings.Contains(out, "no authorities") {
			t.Errorf("a certificate of nobody: %s", out)
		}
		s.writeConfig("Host far\n  Port 2222\n")
		if out := try([]string{"[" + boxAddr + "]:2222 " + public("far_ed25519"), boxAddr + " " + public("other")}); !in(out) {
			t.Errorf("a port in brackets: %s", out)
		}
	})
}

// H-01, H-02, H-03: each fault is a sentence that names the mend, or does no harm.
func TestSSHWhatIsWrongIsSaid(t *testing.T) {
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		s := newSite(t, w)
		s.account("hop", "/bin/sh", nil)
		shut := s.account("shut", "/bin/bash", nil).with("DisableForwarding yes")
		s.account("notcp", "/bin/bash", nil).with("AllowTcpForwarding no")
		s.account("single", "/bin/bash", nil).with("MaxSessions 1")
		noexec, full := s.account("noexec", "/bin/bash", nil), s.account("full", "/bin/bash", nil)
		s.account("arch", "/bin/bash", map[string]string{
			".bashrc": "PATH=$HOME/bin:$PATH\n", "bin/uname": "#!/bin/sh\n[ \"$1\" = -m ] && echo aarch64 || exec /usr/bin/uname \"$@\"\n",
		})
		killed := s.account("killed", "/bin/bash", map[string]string{
			".bashrc": "PATH=$HOME/bin:$PATH\n", "bin/loginctl": "#!/bin/sh\n[ \"$1\" = show-user ] && echo Linger=no\n", "bin/busctl": "#!/bin/sh\necho b true\n",
			"bin/systemd-run": "#!/bin/sh\necho \"$@\" >$HOME/scope\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n",
		})
		s.account("latency", "/bin/bash", nil)
		// ip netns exec has mounts of its own, those that were there before.
		for _, m := range []struct{ target, options string }{
			{noexec.home, "size=60m,mode=700,uid=" + strconv.Itoa(noexec.uid)}, {full.home, "size=12m,mode=700,uid=" + strconv.Itoa(full.uid)}, {"/var/tmp", "size=100m,mode=1777"},
		} {
			keep, err := os.ReadFile(filepath.Join(m.target, ".ssh", "authorized_keys"))
			flags := uintptr(0)
			if m.target == noexec.home {
				flags = syscall.MS_NOEXEC
			}
			if err := syscall.Mount("none", m.target, "tmpfs", flags, m.options); err != nil {
				t.Skipf("can't mount: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(m.target, syscall.MNT_DETACH) })
			if err == nil {
				for _, a := range []*account{noexec, full} {
					if a.home == m.target {
						a.write(".ssh/authorized_keys", string(keep))
					}
				}
			}
		}
		s.up()
		relay := delayed(t, gateAddr+":22", 150*time.Millisecond)
		s.writeConfig(fmt.Sprintf("Host slow\n  HostName 127.0.0.1\n  Port %d\n  HostKeyAlias %s\n", relay, gateAddr))
		s.start()
		add := func(name, host string) (string, int) {
			return s.trySSH("--name", name, "--python", "/nowhere", name+"@"+host)
		}
		// 300 ms there and back take their time, beside the others.
		far := make(chan string, 1)
		go func() {
			out, err := s.agentSSH("--name", "latency", "--python", "/nowhere", "latency@slow").CombinedOutput()
			far <- fmt.Sprint(string(out), err)
		}()
		if out, code := add("shut", "far"); code != 1 || !strings.Contains(out, "AllowTcpForwarding yes or remote, and no DisableForwarding") {
			t.Errorf("no forwarding: exit %d, %s", code, out)
		}
		if out, code := add("notcp", "far"); code != 1 || !strings.Contains(out, "AllowTcpForwarding yes") {
			t.Errorf("no TCP forwarding: exit %d, %s", code, out)
		}
		if left := s.tunnel("shut"); left.Worker != "" || s.worker("shut").Name != "" {
			t.Errorf("a tunnel that can't be is kept: %+v", left)
		}
		for _, c := range []struct{ name, host, says string }{
			{"single", "far", "is a worker"},
			{"noexec", "far", "starts no programs (mounted noexec?); using /var/tmp/cdui-"},
			{"full", "far", "are needed; using /var/tmp/cdui-"},
			{"killed", "far", "loginctl enable-linger killed"},
		} {
			out, code := add(c.name, c.host)
			if code != 0 || !strings.Contains(out, c.says) {
				t.Errorf("%s: exit %d, %s", c.name, code, out)
				continue
			}
			s.succeeded(s.run("--worker", c.name, "--no-files", "--", "true"))
		}
		if raw, _ := os.ReadFile(filepath.Join(killed.home, "scope")); !strings.Contains(string(raw), "--user --scope") {
			t.Errorf("the agent has no scope of its own: %s", raw)
		}
		if out, code := add("arch", "far"); code != 1 || !strings.Contains(out, "linux/arm64") || !strings.Contains(out, "binaries/cdui-linux-arm64-") || !strings.Contains(out, "--binary") || !strings.Contains(out, "Nothing can be downloaded") {
			t.Errorf("another architecture: exit %d, %s", code, out)
		}
		if out, code := s.trySSH("--binary", "/bin/true", "arch@far"); code != 1 || !strings.Contains(out, "/bin/true is made for linux/amd64") {
			t.Errorf("the wrong --binary: exit %d, %s", code, out)
		}
		if out := <-far; !strings.Contains(out, "latency is a worker") {
			t.Errorf("over a slow line: %s", out)
		} else {
			s.succeeded(s.run("--worker", "latency", "--no-files", "--", "true"))
		}
		// No place at all.
		if err := os.MkdirAll(fmt.Sprintf("/tmp/cdui-%d", shut.uid), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(fmt.Sprintf("/tmp/cdui-%d", shut.uid)) })
		if err := syscall.Mount("none", "/var/tmp", "tmpfs", syscall.MS_NOEXEC, "size=1m,mode=1777"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount("/var/tmp", syscall.MNT_DETACH) })
		if err := os.RemoveAll(filepath.Join(shut.home, ".cache")); err != nil {
			t.Fatal(err)
		}
		shut.write(".cache", "a file in the way")
		s.stopSSHD("far", false)
		s.sshd("far")
		if out, code := add("shut", "far"); code != 1 || !strings.Contains(out, "no place there will do") || !strings.Contains(out, "belongs to somebody else") || !strings.Contains(out, "remount,exec") {
			t.Errorf("no place: exit %d, %s", code, out)
		}
	})
}

// H-05, P-03, P-07: an upgrade, a restart of sshd and the end of the session that
// started it leave a training alone.
func TestSSHUpgradeLeavesTrainingsAlone(t *testing.T) {
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		newer := filepath.Join(t.TempDir(), "cdui")
		build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X cdui/internal/version.Version=99.0.0", "-o", newer, "cdui/cmd/cdui")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build another version: %v: %s", err, out)
		}
		s := newSite(t, w)
		s.account("hop", "/bin/sh", nil)
		ada := s.account("ada", "/bin/bash", nil)
		s.up()
		s.start()
		if out, code := s.trySSH("--name", "box", "--python", "/nowhere", "--pass-env", "LANG", "ada@far"); code != 0 {
			t.Fatalf("exit %d, %s", code, out)
		}
		gate := filepath.Join(ada.home, "gate")
		id := s.run("--worker", "box", "--no-files", "--", "sh", "-c", "echo before; while [ ! -e "+gate+" ]; do sleep 0.1; done; echo after; exit 7")
		pid := s.running(id)
		was := ada.agents()
		// The account that started it logs out for good: nothing of its sessions
		// is left.
		s.stopSSHD("far", true)
		if len(was) != 1 || !alive(was[0]) || !alive(pid) {
			t.Fatalf("agents %v, child alive %t", was, alive(pid))
		}
		s.sshd("far")
		eventually(t, time.Minute, "the worker is back", func() bool { return s.worker("box").State == api.WorkerOnline })

		s.signal(syscall.SIGTERM)
		older := binary
		binary = newer
		t.Cleanup(func() { binary = older })
		s.plane.start()
		if out, code := s.trySSH("--upgrade", "ada@far"); code != 0 {
			t.Fatalf("--upgrade: exit %d, %s", code, out)
		}
		if row := s.worker("box"); row.Version != "99.0.0" || row.DrainOnly || !alive(pid) || row.Python != nil {
			t.Errorf("version %s, drain only %t, child alive %t, python %v", row.Version, row.DrainOnly, alive(pid), row.Python)
		}
		if now := ada.agents(); len(now) != 1 || now[0] == was[0] {
			t.Errorf("agents %v, before %v", now, was)
		}
		if got := s.running(id); got != pid {
			t.Errorf("pid %d became %d", pid, got)
		}
		if err := os.WriteFile(gate, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if r := s.ended(id); r.Status != run.Failed || *s.facts(id).Exit.Code != 7 || string(s.rawLog(id)) != "before\nafter\n" {
			t.Errorf("%s %q, console %q", r.Status, r.Error, s.rawLog(id))
		}
		// Its machine starts anew: the agent is started when the tunnel is back.
		for _, pid := range ada.agents() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		s.stopSSHD("far", true)
		s.sshd("far")
		eventually(t, 90*time.Second, "the agent was started again", func() bool { return s.worker("box").State == api.WorkerOnline })

		// Stopped, the trainings go on; started again, they are taken up.
		id = s.run("--worker", "box", "--no-files", "--", "sh", "-c", "sleep 4; echo done")
		s.running(id)
		if out, code := s.trySSH("--stop", "ada@far"); code != 0 || !strings.Contains(out, "1 training on it go") && !strings.Contains(out, "1 training") {
			t.Errorf("--stop: exit %d, %s", code, out)
		}
		if s.tunnel("box").Worker != "" || len(ada.agents()) != 0 {
			t.Errorf("after --stop: %+v, agents %v", s.tunnel("box"), ada.agents())
		}
		if out, code := s.trySSH("--name", "box", "ada@far"); code != 0 {
			t.Errorf("after --stop: exit %d, %s", code, out)
		}
		if r := s.succeeded(id); string(s.rawLog(id)) != "done\n" {
			t.Errorf("%s: %q", r.Status, s.rawLog(id))
		}
		// Removing the worker closes its tunnel.
		s.cdui("workers", "rm", "box")
		if s.tunnel("box").Worker != "" {
			t.Errorf("the tunnel of a removed worker: %+v", s.tunnel("box"))
		}
	})
}
