package sshcmd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"cdui/internal/api"
	"cdui/internal/bootstrap"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/version"
)

// Installed is a worker that was made of a machine, with the binary there.
type Installed struct {
	Worker      string `json:"worker"`
	Target      string `json:"target"`
	End         string `json:"end"`
	Version     string `json:"version"`
	Binary      string `json:"binary"`
	CopiedBytes int64  `json:"copied_bytes"`
}

// Stopped is an agent that was stopped; Left is how many trainings go on.
type Stopped struct {
	Worker string `json:"worker"`
	Left   int    `json:"left"`
}

// Uninstalled is a worker that was removed from both machines.
type Uninstalled struct {
	Removed string `json:"removed"`
}

// keyTag is the comment of the key for a worker's tunnel.
func keyTag(worker string) string { return "cdui-tunnel-" + worker }

// installKey makes a key and lets it in there, for the tunnel alone.
func (j *job) installKey(ctx context.Context) (string, error) {
	dir := filepath.Join(j.dataDir, "tunnels")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep the tunnel's key: %w", err)
	}
	path := filepath.Join(dir, j.agent.Name+".key")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make the tunnel's key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, keyTag(j.agent.Name))
	if err != nil {
		return "", fmt.Errorf("make the tunnel's key: %w", err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return "", fmt.Errorf("make the tunnel's key: %w", err)
	}
	if err := bootstrap.InstallKey(ctx, j.line, j.agent.Dir, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), keyTag(j.agent.Name)); err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".tmp", pem.EncodeToMemory(block), 0o600); err != nil {
		return "", fmt.Errorf("keep the tunnel's key: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return "", fmt.Errorf("keep the tunnel's key: %w", err)
	}
	return path, nil
}

// there finds the agent that is to be stopped or removed.
func (j *job) there(ctx context.Context) error {
	var err error
	if j.facts, err = bootstrap.Probe(ctx, j.line, version.String(), 0); err != nil {
		return err
	}
	name, err := j.name()
	if err != nil {
		return err
	}
	j.agent = bootstrap.Agent{Name: name, Exe: j.facts.Base + "/" + version.String() + "/cdui", Dir: j.facts.Dir(name), Data: j.facts.Data}
	if j.tunnel != nil {
		// What was chosen when it was set up, however full the disk is now.
		j.agent.Dir, j.agent.Data = j.tunnel.Folder, j.tunnel.Data
		j.facts.Base = strings.TrimSuffix(j.tunnel.Folder, "/tunnel/"+name)
		j.agent.Exe = j.facts.Base + "/" + version.String() + "/cdui"
	}
	return nil
}

// stop ends the agent and closes the tunnel.
func (j *job) stop(ctx context.Context) error {
	if err := j.there(ctx); err != nil {
		return err
	}
	left, err := bootstrap.Stop(ctx, j.line, j.agent, j.o.CancelRuns)
	if err != nil {
		return err
	}
	if err := j.control.RemoveTunnel(ctx, j.agent.Name); err != nil && api.CodeOf(err) != api.NotFound {
		return err
	}
	if j.o.JSON {
		return j.e.JSON(Stopped{Worker: j.agent.Name, Left: left})
	}
	if left > 0 {
		j.e.Print("stopped %s; %s on it go on, and cdui agent ssh %s takes them up again", j.agent.Name, text.Plural(left, "training"), j.o.Target)
		return nil
	}
	j.e.Print("stopped %s", j.agent.Name)
	return nil
}

// uninstall removes the worker from both machines.
func (j *job) uninstall(ctx context.Context) error {
	if err := j.there(ctx); err != nil {
		return err
	}
	running, is, err := bootstrap.Status(ctx, j.line, j.agent)
	if err != nil {
		j.say("%s", err) // then there is nothing to stop
	}
	if is && len(running.Runs) > 0 && !j.o.CancelRuns {
		return env.Failed("%s on %s; wait for them, or stop them with --cancel-runs", holds(len(running.Runs)), j.agent.Name)
	}
	if is {
		if _, err := bootstrap.Stop(ctx, j.line, j.agent, j.o.CancelRuns); err != nil {
			return err
		}
	}
	if j.tunnel != nil {
		err := j.control.RemoveWorker(ctx, j.agent.Name)
		if api.CodeOf(err) == api.NotFound {
			err = j.control.RemoveTunnel(ctx, j.agent.Name)
		}
		if err != nil && api.CodeOf(err) != api.NotFound {
			return err
		}
	}
	if err := bootstrap.Uninstall(ctx, j.line, j.agent, j.facts.Base, keyTag(j.agent.Name)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(j.dataDir, "tunnels", j.agent.Name+".key")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the tunnel's key: %w", err)
	}
	if j.o.JSON {
		return j.e.JSON(Uninstalled{j.agent.Name})
	}
	j.e.Print("removed %s; nothing of cdui is left on %s", j.agent.Name, j.o.Target)
	return nil
}

func holds(n int) string {
	if n == 1 {
		return "1 training runs"
	}
	return text.Count(n) + " trainings run"
}

// report says what has become of the machine.
func (j *job) report(t api.Tunnel, w api.Worker, installed bootstrap.Installed) error {
	if j.o.JSON {
		return j.e.JSON(Installed{
			Worker: w.Name, Target: t.Target, End: t.End, Version: w.Version, Binary: installed.Path, CopiedBytes: installed.Copied,
		})
	}
	for _, p := range installed.Passed {
		j.e.Say("%s did not start there", phrase.Clean(p))
	}
	var devices []string
	for _, d := range w.Devices {
		devices = append(devices, d.Device.Device)
	}
	j.e.Print("%s is a worker: %s, through a tunnel", w.Name, strings.Join(devices, ", "))
	switch {
	case w.Python == nil:
		j.e.Say("no python3 is there, so only commands are taken: install Python with torch there, or name an interpreter with --python")
	case w.Python.Torch == nil || *w.Python.Torch == "":
		j.e.Say("%s there has no torch, so runs that need it are not taken: %s -m pip install torch, or name another interpreter with --python", phrase.Clean(w.Python.Path), phrase.Clean(w.Python.Path))
	}
	return nil
}

// status shows the tunnels.
func (j *job) status(list []api.Tunnel) error {
	chosen := []api.Tunnel{}
	for _, t := range list {
		if (j.o.Target == "" || t.Target == j.o.Target) && (j.o.Name == "" || t.Worker == j.o.Name) {
			chosen = append(chosen, t)
		}
	}
	if j.o.JSON {
		return j.e.JSON(api.TunnelList{Tunnels: chosen})
	}
	if len(chosen) == 0 {
		if j.o.Target != "" || j.o.Name != "" {
			return &env.Exit{Code: 4, Text: "no such tunnel; cdui agent ssh --status lists those that there are"}
		}
		j.e.Say("no tunnels; open one with: cdui agent ssh USER@HOST")
		return nil
	}
	table := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {}, {Flex: true, Wrap: true, Min: 16}}}
	for _, t := range chosen {
		colour := map[api.TunnelState]text.Colour{api.TunnelUp: text.Green, api.TunnelNeedsLogin: text.Red}[t.State]
		if colour == "" {
			colour = text.Yellow
		}
		stands := string(t.State)
		if age := text.Age(j.e.Now().Sub(t.Since)); age != "now" {
			stands += " for " + age
		}
		words := phrase.Clean(t.Problem)
		if t.State == api.TunnelUp {
			words = "ends at " + phrase.Clean(t.End)
		}
		table.Add(text.Cell{Text: t.Worker}, text.Cell{Text: phrase.Clean(t.Target)},
			text.Cell{Text: stands, Colour: colour}, text.Cell{Text: words})
	}
	if err := table.Write(j.e.Out, j.e.Style()); err != nil {
		return err
	}
	for _, t := range chosen {
		if t.State == api.TunnelNeedsLogin {
			j.e.Say("log in to %s with: %s", t.Worker, phrase.Clean(t.Command))
		}
	}
	return nil
}
