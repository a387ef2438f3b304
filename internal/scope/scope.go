// Package scope gives processes a systemd scope of their own, so that what
// systemd does to the unit of whoever started them (a restart, a memory limit,
// an out-of-memory kill) is not done to them. It owns how systemd is asked for
// that; it knows nothing of runs.
//
// systemd is asked to take over processes that are there already, by pid.
// systemd-run could start them, but it names itself by what getpid tells it,
// and in a PID namespace that is the pid of the machine's init.
package scope

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cdui/internal/shim/proctree"
)

const (
	// patience is how long systemd may take over one scope.
	patience = 5 * time.Second
	// giveUp is how many failures in a row end the trying.
	giveUp = 3
	tool   = "busctl"
)

// Config is what a Manager is made of; its zero value is this machine.
type Config struct {
	// Environ is the environment to find systemd with; nil is this process's
	// own.
	Environ []string
	// Root is where /proc, /run and /var are; empty is the root folder. UID and
	// Name are who asks; nil and empty are this process's user.
	Root string
	UID  *int
	Name string
	// Patience bounds one answer; 0 is 5 s.
	Patience time.Duration
	Logger   *slog.Logger
}

// Manager asks systemd for scopes. It is safe for concurrent use.
type Manager struct {
	cfg Config
	uid int

	once   sync.Once
	absent error

	mu    sync.Mutex
	fails int
}

// New makes a Manager. Nothing is asked before the first use.
func New(c Config) *Manager {
	m := &Manager{cfg: c, uid: os.Geteuid()}
	if c.UID != nil {
		m.uid = *c.UID
	}
	if c.Environ == nil {
		m.cfg.Environ = os.Environ()
	}
	if c.Patience == 0 {
		m.cfg.Patience = patience
	}
	if c.Logger == nil {
		m.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return m
}

// User tells whether it is the user's own systemd that is asked.
func (m *Manager) User() bool { return m.uid != 0 }

// Booted tells whether systemd started this machine.
func (m *Manager) Booted() bool {
	_, err := os.Stat(m.at("run/systemd/system"))
	return err == nil
}

// Lingers tells whether the user's systemd outlives the user's sessions.
func (m *Manager) Lingers() bool {
	name := m.cfg.Name
	if name == "" {
		who, err := user.LookupId(strconv.Itoa(m.uid))
		if err != nil {
			return false
		}
		name = who.Username
	}
	_, err := os.Stat(m.at(filepath.Join("var/lib/systemd/linger", name)))
	return err == nil
}

// Works says why no scopes are to be had, nil when they are. It is found out
// once, with a process made for it.
func (m *Manager) Works(ctx context.Context) error {
	m.once.Do(func() { m.absent = m.probe(ctx) })
	return m.absent
}

// Adopt moves a process and what it has started by now into a scope of that
// name. Where no scopes are to be had it does nothing. A failure leaves the
// processes where they are.
func (m *Manager) Adopt(ctx context.Context, name string, pid int) {
	m.mu.Lock()
	over := m.fails >= giveUp
	m.mu.Unlock()
	if over || m.Works(ctx) != nil {
		return
	}
	err := m.adopt(ctx, name, pid)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.fails = 0
		return
	}
	m.fails++
	m.cfg.Logger.WarnContext(ctx, "systemd gives no scope; the process stays in the unit of this one", "scope", name, "pid", pid, "error", err)
	if m.fails == giveUp {
		m.cfg.Logger.WarnContext(ctx, "systemd is not asked for scopes any more until this process starts anew")
	}
}

func (m *Manager) adopt(ctx context.Context, name string, pid int) error {
	unit := name + ".scope"
	pids := tree(pid)
	args := []string{
		"StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", "4",
		"Description", "s", "cdui " + strings.TrimPrefix(name, "cdui-"),
		"Delegate", "b", "true",
		"CollectMode", "s", "inactive-or-failed",
		"PIDs", "au", strconv.Itoa(len(pids)),
	}
	args = append(args, words(pids)...)
	if err := m.call(ctx, append(args, "0")...); err != nil {
		return err
	}
	// The job is under way. Who was started before it is done is outside.
	return m.wait(ctx, func() error {
		outside := slices.DeleteFunc(tree(pid), func(p int) bool { return m.inside(p, unit) })
		switch {
		case len(outside) == 0:
			return nil
		case slices.Contains(outside, pid):
			return errors.New("the process is not moved")
		}
		args := append([]string{"AttachProcessesToUnit", "ssau", unit, "", strconv.Itoa(len(outside))}, words(outside)...)
		if err := m.call(ctx, args...); err != nil {
			return err
		}
		return errors.New("its children are not moved")
	})
}

// wait tries until do is content, no longer than patience.
func (m *Manager) wait(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// call asks the manager of units.
func (m *Manager) call(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Patience)
	defer cancel()
	path, err := m.find()
	if err != nil {
		return err
	}
	all := []string{"--quiet"}
	if m.User() {
		all = append(all, "--user")
	}
	all = append(all, "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
	cmd := exec.CommandContext(ctx, path, append(all, args...)...) //nolint:gosec // systemd's own program
	var said bytes.Buffer
	cmd.Env, cmd.Stderr, cmd.WaitDelay = m.cfg.Environ, &said, time.Second
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("systemd did not answer within %s", m.cfg.Patience)
	case err != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%s: %w: %s", tool, err, line)
	}
	return nil
}

// find looks for the tool in the PATH of the environment that was given.
func (m *Manager) find() (string, error) {
	for _, entry := range slices.Backward(m.cfg.Environ) {
		list, found := strings.CutPrefix(entry, "PATH=")
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, tool)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
		break
	}
	return "", fmt.Errorf("there is no %s here", tool)
}

// probe takes a process of its own into a scope.
func (m *Manager) probe(ctx context.Context) error {
	if !m.Booted() {
		return errors.New("this machine was not started by systemd")
	}
	// In a container with a systemd outside, pids mean others to it.
	if comm, err := os.ReadFile(m.at("proc/1/comm")); err != nil || strings.TrimSpace(string(comm)) != "systemd" {
		return errors.New("systemd is outside of this container")
	}
	if _, err := m.find(); err != nil {
		return err
	}
	if m.User() && !m.Lingers() && !m.under(os.Getpid(), fmt.Sprintf("user@%d.service", m.uid)) {
		return errors.New("the user's systemd ends with the last session, and its scopes with it: loginctl enable-linger")
	}
	idle := exec.CommandContext(ctx, "cat")
	in, err := idle.StdinPipe()
	if err != nil {
		return fmt.Errorf("try a scope: %w", err)
	}
	if err := idle.Start(); err != nil {
		return fmt.Errorf("try a scope: %w", err)
	}
	defer func() {
		in.Close()
		_ = idle.Wait() // it was ours alone
	}()
	return m.adopt(ctx, fmt.Sprintf("cdui-trial-%d", idle.Process.Pid), idle.Process.Pid)
}

func (m *Manager) at(path string) string { return filepath.Join("/", m.cfg.Root, path) }

// tree lists a process and what it has started.
func tree(pid int) []int {
	all := []int{pid}
	for _, p := range proctree.Descendants(pid) {
		all = append(all, p.PID)
	}
	return all
}

// inside tells whether a process is in a unit. One that is gone needs none.
func (m *Manager) inside(pid int, unit string) bool {
	_, err := os.Stat(m.at(fmt.Sprintf("proc/%d/cgroup", pid)))
	return err != nil || m.under(pid, unit)
}

// under tells whether a process is in a unit or below it.
func (m *Manager) under(pid int, unit string) bool {
	raw, err := os.ReadFile(m.at(fmt.Sprintf("proc/%d/cgroup", pid)))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		if slices.Contains(strings.Split(strings.TrimSpace(line), "/"), unit) {
			return true
		}
	}
	return false
}

func words(pids []int) []string {
	out := make([]string, len(pids))
	for i, p := range pids {
		out[i] = strconv.Itoa(p)
	}
	return out
}
