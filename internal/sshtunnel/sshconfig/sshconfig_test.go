package sshconfig_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"cdui/internal/sshtunnel/sshconfig"
)

func TestTargets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]sshconfig.Target{
		"box": {Host: "box"}, "ada@box": {User: "ada", Host: "box"}, "ada@box:2222": {User: "ada", Host: "box", Port: 2222},
		"ssh://ada@box:22": {User: "ada", Host: "box", Port: 22}, "ssh://box": {Host: "box"}, "a@b@box": {User: "a@b", Host: "box"},
		"ada@[::1]:22": {User: "ada", Host: "::1", Port: 22}, "fe80::1": {Host: "fe80::1"},
	} {
		got, err := sshconfig.ParseTarget(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if again, err := sshconfig.ParseTarget(got.String()); err != nil && !strings.Contains(text, "::") || err == nil && again != got {
			t.Errorf("%s again: %+v, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "@box", "ada@", "-oProxyCommand=x", "-l@box", "ada@-box", "box:", "box:0", "box:99999", "a b", "box;id", "$(id)@box", "ssh://box/x", "ada@[::1"} {
		if got, err := sshconfig.ParseTarget(text); err == nil {
			t.Errorf("%q is taken as %+v", text, got)
		}
	}
}

const config = `Include more.conf
Host box*
  HostName %h.lab.example
  Port 2022
  IdentityFile ~/.ssh/box_key
  IdentityFile %d/keys/%r-%h
  UserKnownHostsFile ~/.ssh/known_lab /etc/other
  StrictHostKeyChecking accept-new
  HostKeyAlias lab-box
Host jumped
  ProxyJump gate,ada@second:2200
Host quoted
  IdentityAgent "~/agent socket"
  ProxyCommand nc %h %p
Host *
  User ada
  IdentitiesOnly yes
  HashKnownHosts yes
`

// H-01: Host, HostName, User, Port, IdentityFile, IdentitiesOnly, ProxyJump,
// Include, known_hosts files, IdentityAgent; with an ssh client and without one.
func TestTheEffectiveConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	more := filepath.Join(dir, "more.conf")
	for path, text := range map[string]string{
		file: strings.Replace(config, "more.conf", more, 1), more: "Host included\n  HostName 10.1.2.3\n  Port 22\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	clients := []string{"none"}
	if path, err := exec.LookPath("ssh"); err == nil {
		clients = append(clients, path)
	}
	for _, client := range clients {
		src := sshconfig.Source{File: file, Client: client}
		resolve := func(text string) sshconfig.Host {
			t.Helper()
			target, err := sshconfig.ParseTarget(text)
			if err != nil {
				t.Fatal(err)
			}
			h, err := src.Resolve(t.Context(), target)
			if err != nil {
				t.Fatalf("%s, %s: %v", client, text, err)
			}
			return h
		}
		h := resolve("box1")
		if h.HostName != "box1.lab.example" || h.User != "ada" || h.Port != 2022 || !h.IdentitiesOnly || h.StrictHostKey != "accept-new" || h.KnownAs() != "lab-box" ||
			!h.HashKnownHosts || h.Address() != "box1.lab.example:2022" || h.Login() != "ada@box1.lab.example" ||
			!reflect.DeepEqual(h.UserKnownHosts, []string{home + "/.ssh/known_lab", "/etc/other"}) ||
			!reflect.DeepEqual(h.IdentityFiles, []string{home + "/.ssh/box_key", home + "/keys/ada-box1.lab.example"}) {
			t.Errorf("%s: box1 is %+v", client, h)
		}
		if h := resolve("bob@box1:22"); h.User != "bob" || h.Port != 22 {
			t.Errorf("%s: what was typed doesn't win: %+v", client, h)
		}
		if h := resolve("jumped"); !reflect.DeepEqual(h.ProxyJump, []string{"gate", "ada@second:2200"}) || h.KnownAs() != "jumped" || h.Port != 22 {
			t.Errorf("%s: jumped is %+v", client, h)
		}
		if h := resolve("included"); h.HostName != "10.1.2.3" {
			t.Errorf("%s: included is %+v", client, h)
		}
		if h := resolve("quoted"); h.ProxyLine() != "nc quoted 22" || h.IdentityAgent != home+"/agent socket" && client != "none" {
			t.Errorf("%s: quoted is %+v", client, h)
		}
		if h := resolve("jumped:2200"); h.KnownAs() != "[jumped]:2200" {
			t.Errorf("%s: known as %s", client, h.KnownAs())
		}
	}
}

func TestWhatCanNotBeReadIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := sshconfig.Target{Host: "box"}
	if _, err := (sshconfig.Source{File: filepath.Join(dir, "gone")}).Resolve(t.Context(), target); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("no such file: %v", err)
	}
	file := filepath.Join(dir, "config")
	for text, says := range map[string]string{"Match exec \"false\"\n  User bob\n": "Match exec", "Host box\n  Port many\n": "many"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (sshconfig.Source{File: file, Client: "none"}).Resolve(t.Context(), target); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q without a client: %v", text, err)
		}
	}
	if _, err := exec.LookPath("ssh"); err == nil {
		if err := os.WriteFile(file, []byte("Nonsense yes\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (sshconfig.Source{File: file}).Resolve(t.Context(), target); err == nil || !strings.Contains(strings.ToLower(err.Error()), "nonsense") {
			t.Errorf("ssh's own word on it: %v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("hostname box\nuser ada\nport 22\nidentityfile ~/.ssh/id\nuserknownhostsfile \"a b\" c\nproxyjump a,b\n")
	f.Add("hostname x\nuser y\nport 0\n")
	f.Add("userknownhostsfile \"\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := sshconfig.Parse("box", "/home/ada", text)
		if err == nil && (h.HostName == "" || h.User == "" || h.Port < 1 || h.Port > 65535) {
			t.Errorf("%q is taken as %+v", text, h)
		}
	})
}

func FuzzParseTarget(f *testing.F) {
	f.Add("ada@box:22")
	f.Add("ssh://[::1]:22")
	f.Fuzz(func(t *testing.T, text string) {
		target, err := sshconfig.ParseTarget(text)
		if err == nil && (target.Host == "" || target.Host[0] == '-' || strings.ContainsAny(target.Host+target.User, " '\"`$;\n")) {
			t.Errorf("%q is taken as %+v", text, target)
		}
	})
}
