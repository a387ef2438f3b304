package sshconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	ssh_config "github.com/kevinburke/ssh_config"
)

// Source is where the configuration comes from.
type Source struct {
	// File stands in for the user's and the machine's files, as ssh -F.
	File string
	// Client is the ssh client to ask; empty looks in PATH, none asks none.
	Client string
}

const askTimeout = 20 * time.Second

// Resolve gives the effective configuration of a target.
func (s Source) Resolve(ctx context.Context, t Target) (Host, error) {
	if s.File != "" {
		if _, err := os.Stat(s.File); err != nil {
			return Host{}, fmt.Errorf("the ssh config %s can't be read: %w", s.File, cause(err))
		}
	}
	home, name, err := self()
	if err != nil {
		return Host{}, err
	}
	path := s.Client
	if path == "" {
		if path, err = exec.LookPath("ssh"); err != nil {
			path = "none"
		}
	}
	if path == "none" {
		return s.read(t, home, name)
	}
	var args []string
	if s.File != "" {
		args = append(args, "-F", s.File)
	}
	if t.User != "" {
		args = append(args, "-l", t.User)
	}
	if t.Port != 0 {
		args = append(args, "-p", strconv.Itoa(t.Port))
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout) // Match exec may hang
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append(args, "-G", "--", t.Host)...) //nolint:gosec // the user's own ssh
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, time.Second
	if err := cmd.Run(); err != nil {
		words := strings.Join(strings.Fields(said.String()), " ")
		if words == "" {
			words = err.Error()
		}
		return Host{}, fmt.Errorf("ssh can't make sense of its config for %s: %s", t.Host, words)
	}
	h, err := Parse(t.Host, home, out.String())
	if err != nil {
		return Host{}, err
	}
	h.expand(home, name)
	return h, nil
}

// self gives the home folder and the name of this user by the list of users, as
// ssh takes them.
func self() (home, name string, err error) {
	u, err := user.Current()
	if err != nil {
		return "", "", fmt.Errorf("find this user's home: %w", err)
	}
	return u.HomeDir, u.Username, nil
}

// expand fills in the tokens that a value may hold; ssh -G leaves those of
// files in.
func (h *Host) expand(home, name string) {
	r := strings.NewReplacer("%%", "%", "%h", h.HostName, "%n", h.Alias, "%r", h.User, "%p", strconv.Itoa(h.Port), "%d", home, "%u", name)
	for _, list := range [][]string{h.IdentityFiles, h.CertificateFiles, h.UserKnownHosts, h.KnownHosts} {
		for i := range list {
			list[i] = r.Replace(list[i])
		}
	}
	h.IdentityAgent = r.Replace(h.IdentityAgent)
}

// ProxyLine is the command in place of a connection, its tokens filled in.
func (h *Host) ProxyLine() string {
	return strings.NewReplacer("%%", "%", "%h", h.HostName, "%n", h.Alias, "%r", h.User, "%p", strconv.Itoa(h.Port)).Replace(h.ProxyCommand)
}

// read reads the files without an ssh client.
func (s Source) read(t Target, home, name string) (Host, error) {
	places := []string{filepath.Join(home, ".ssh", "config"), "/etc/ssh/ssh_config"}
	if s.File != "" {
		places = []string{s.File}
	}
	var configs []*ssh_config.Config
	for _, path := range places {
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Host{}, fmt.Errorf("the ssh config %s can't be read: %w", path, cause(err))
		}
		c, err := decode(raw)
		if err != nil {
			return Host{}, fmt.Errorf("the ssh config %s: %w", path, err)
		}
		configs = append(configs, c)
	}
	text, err := effective(configs, t, name)
	if err != nil {
		return Host{}, err
	}
	h, err := Parse(t.Host, home, text)
	if err != nil {
		return Host{}, err
	}
	h.expand(home, name)
	return h, nil
}

// decode reads one file. What the library would read wrongly is refused.
func decode(raw []byte) (c *ssh_config.Config, err error) {
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(strings.ToLower(strings.NewReplacer("=", " ", `"`, " ").Replace(line)))
		if len(words) > 1 && words[0] == "match" {
			for _, w := range words[1:] {
				if strings.TrimPrefix(w, "!") == "exec" {
					return nil, errors.New("Match exec needs the ssh client, which is not installed here")
				}
			}
		}
	}
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("it is not understood: %v", r)
		}
	}()
	return ssh_config.DecodeBytes(raw)
}

// effective writes the settings of a host as ssh -G does. The first file that
// says something wins; keys are gathered from all.
func effective(configs []*ssh_config.Config, t Target, name string) (string, error) {
	get := func(key string) ([]string, error) {
		var all []string
		for _, c := range configs {
			v, err := c.GetAll(t.Host, key)
			if err != nil {
				return nil, fmt.Errorf("the ssh config for %s: %w", t.Host, err)
			}
			all = append(all, v...)
		}
		return all, nil
	}
	var b strings.Builder
	for _, s := range []struct {
		key  string
		many bool
		def  []string
	}{
		{"HostName", false, []string{t.Host}},
		{"User", false, []string{name}},
		{"Port", false, []string{"22"}},
		{"IdentityFile", true, []string{"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519"}},
		{"CertificateFile", true, nil},
		{"IdentitiesOnly", false, nil},
		{"IdentityAgent", false, nil},
		{"ProxyJump", false, nil},
		{"ProxyCommand", false, nil},
		{"UserKnownHostsFile", false, []string{"~/.ssh/known_hosts ~/.ssh/known_hosts2"}},
		{"GlobalKnownHostsFile", false, []string{"/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"}},
		{"HostKeyAlias", false, nil},
		{"StrictHostKeyChecking", false, nil},
		{"HashKnownHosts", false, nil},
		{"PubkeyAuthentication", false, nil},
		{"PasswordAuthentication", false, nil},
		{"KbdInteractiveAuthentication", false, nil},
	} {
		values, err := get(s.key)
		if err != nil {
			return "", err
		}
		switch {
		case s.key == "User" && t.User != "":
			values = []string{t.User}
		case s.key == "Port" && t.Port != 0:
			values = []string{strconv.Itoa(t.Port)}
		case len(values) == 0:
			values = s.def
		case !s.many:
			values = values[:1]
		}
		for _, v := range values {
			if s.key == "HostName" {
				v = strings.NewReplacer("%%", "%", "%h", t.Host, "%n", t.Host).Replace(v)
			}
			fmt.Fprintf(&b, "%s %s\n", s.key, strings.Join(strings.Fields(v), " "))
		}
	}
	return b.String(), nil
}

func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
