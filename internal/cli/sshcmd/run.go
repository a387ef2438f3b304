package sshcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/bootstrap"
	"cdui/internal/cli/env"
	"cdui/internal/client"
	"cdui/internal/config"
	"cdui/internal/protocol"
	"cdui/internal/release"
	"cdui/internal/sshtunnel"
	"cdui/internal/sshtunnel/sshconfig"
	"cdui/internal/version"
)

// job is one call of the command.
type job struct {
	e       *env.Env
	o       *Options
	control *client.Client
	dataDir string
	// tunnel is the one that the control plane has to this machine, nil for
	// none; pin is what it shows at its end.
	tunnel *api.Tunnel
	pin    string
	tty    *terminal
	line   *sshtunnel.Client
	facts  bootstrap.Facts
	agent  bootstrap.Agent
}

// Run does what is asked.
func Run(ctx context.Context, e *env.Env, d Deps, o *Options) error {
	j := &job{e: e, o: o, control: d.Client()}
	defer j.control.Close()
	list, err := j.control.Tunnels(ctx)
	if err != nil {
		return err
	}
	if o.Status {
		return j.status(list.Tunnels)
	}
	place, err := j.control.Where()
	if err != nil {
		return err
	}
	if place.Local == nil && !client.Loopback(place.URL) {
		return env.Failed("the tunnel begins at the control plane, %s: run this command there", place.URL)
	}
	h, err := j.control.Health(ctx)
	if err != nil {
		return err
	}
	if h.Version != version.String() && !o.Stop && !o.Uninstall {
		return env.Failed("the control plane is cdui %s and this is %s, and a worker has to be of its version: cdui stop and cdui start; trainings go on", h.Version, version.String())
	}
	data, err := e.DataFolder()
	if err != nil {
		return err
	}
	j.dataDir, j.pin = data.Path, list.Pin
	if err := j.find(list.Tunnels); err != nil {
		return err
	}
	j.tty = openTerminal()
	defer j.tty.close()
	if err := j.dial(ctx); err != nil {
		return env.Failed("%s", err)
	}
	defer j.line.Close()
	switch {
	case o.Stop:
		err = j.stop(ctx)
	case o.Uninstall:
		err = j.uninstall(ctx)
	default:
		err = j.connect(ctx)
	}
	return j.failed(ctx, err)
}

// failed words an error of a step.
func (j *job) failed(ctx context.Context, err error) error {
	var said *env.Exit
	var usage *env.Usage
	var reply *api.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &said), errors.As(err, &usage), errors.As(err, &reply):
		return err
	}
	return env.Failed("%s: %s", j.o.Target, err)
}

// find looks for the tunnel that is meant.
func (j *job) find(list []api.Tunnel) error {
	var names []string
	for i, t := range list {
		if t.Target == j.o.Target && (j.o.Name == "" || t.Worker == j.o.Name) {
			j.tunnel = &list[i]
			names = append(names, t.Worker)
		}
	}
	if len(names) > 1 {
		return env.Usagef("%s is the way to several workers: %s; name one with --name", j.o.Target, strings.Join(names, ", "))
	}
	if j.tunnel == nil && j.o.Upgrade {
		return env.Failed("no tunnel leads to %s; cdui agent ssh --status lists those that there are", j.o.Target)
	}
	if j.tunnel != nil && j.o.SSHConfig == "" {
		j.o.SSHConfig = j.tunnel.ConfigFile
	}
	return nil
}

func (j *job) dial(ctx context.Context) error {
	target, err := sshconfig.ParseTarget(j.o.Target)
	if err != nil {
		return err
	}
	d := sshtunnel.Dialer{
		Config: sshconfig.Source{File: j.o.SSHConfig}, AcceptNew: j.o.AcceptNew, AgentSocket: j.e.Getenv("SSH_AUTH_SOCK"),
	}
	if j.tty != nil {
		d.Ask = j.tty
	}
	j.say("connecting to %s", j.o.Target)
	j.line, err = d.Dial(ctx, target)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// say tells a person how far it is.
func (j *job) say(format string, args ...any) {
	if j.e.ErrTTY {
		j.e.Say(format, args...)
	}
}

// connect makes a worker of the machine, or brings one back, or to this version.
func (j *job) connect(ctx context.Context) error {
	all, err := binaries(j.e, j.o.Binary, j.dataDir)
	if err != nil {
		return err
	}
	if j.facts, err = bootstrap.Probe(ctx, j.line, version.String(), bootstrap.Size(all)); err != nil {
		return err
	}
	name, err := j.name()
	if err != nil {
		return err
	}
	if j.tunnel != nil && j.tunnel.Folder != j.facts.Dir(name) {
		// Its token and its trainings are where it was set up.
		return env.Failed("the agent on %s was set up in %s, which will not do any more (%s): free some space there, or start over with --uninstall",
			j.o.Target, strings.TrimSuffix(j.tunnel.Folder, "/tunnel/"+name), strings.Join(j.facts.Passed, "; "))
	}
	j.notes()
	settings, err := j.e.Settings()
	if err != nil {
		return err
	}
	installed, err := supply{
		remote: j.line, facts: j.facts, dataDir: j.dataDir, say: j.say, progress: j.progress(),
		release: release.Source{Base: settings.Text(config.Releases), Version: version.String()},
	}.install(ctx, all)
	if err != nil {
		return err
	}
	j.agent = bootstrap.Agent{
		Name: name, Exe: installed.Path, Dir: j.facts.Dir(name), Data: j.facts.Data, Pin: j.pin,
		OwnScope: j.facts.KillsAtLogout, Flags: j.o.Agent.flags(j.facts.Home),
	}
	changed := true
	if j.tunnel != nil && len(j.agent.Flags) == 0 {
		j.agent.Flags, changed = j.tunnel.Flags, false
	}
	if err := bootstrap.Prepare(ctx, j.line, j.agent); err != nil {
		return err
	}
	began := time.Now()
	t, err := j.open(ctx)
	if err != nil {
		return err
	}
	if err := j.start(ctx, changed && len(j.agent.Flags) > 0); err != nil {
		j.undo(ctx)
		return err
	}
	w, err := j.online(ctx, began)
	if err != nil {
		return err
	}
	return j.report(t, w, installed)
}

// undo closes a tunnel that leads to no worker.
func (j *job) undo(ctx context.Context) {
	if j.tunnel == nil {
		_ = j.control.RemoveTunnel(context.WithoutCancel(ctx), j.agent.Name) // the error before it is the one that counts
	}
}

// name decides what the worker is called.
func (j *job) name() (string, error) {
	switch {
	case j.o.Name != "":
		return j.o.Name, nil
	case j.tunnel != nil:
		return j.tunnel.Worker, nil
	}
	target, err := sshconfig.ParseTarget(j.o.Target)
	if err != nil {
		return "", err
	}
	if name := nameFrom(target.Host); name != "" {
		return name, nil
	}
	if name := nameFrom(j.facts.Host); name != "" {
		return name, nil
	}
	return "", env.Usagef("no name for a worker can be made of %s; give one with --name", j.o.Target)
}

// notes says what is worth knowing before it goes on.
func (j *job) notes() {
	if j.facts.Data != "" {
		j.e.Say("%s: %s; using %s", j.o.Target, strings.Join(j.facts.Passed, "; "), j.facts.Base)
	}
	if j.facts.KillsAtLogout && !j.facts.Lingers {
		j.e.Say("%s: what an account leaves running there ends with its last session; an administrator can change that with loginctl enable-linger %s", j.o.Target, j.facts.User)
	}
}

// progress shows how far a copy is on a terminal.
func (j *job) progress() func(sent, all int64) {
	if !j.e.ErrTTY {
		return nil
	}
	last := int64(-1)
	return func(sent, all int64) {
		if percent := sent * 100 / max(1, all); percent != last && all > 0 {
			last = percent
			fmt.Fprintf(j.e.Err, "\rcopying cdui, %d MiB: %d %%", all>>20, percent)
			if percent == 100 {
				fmt.Fprintln(j.e.Err)
			}
		}
	}
}

// open has the control plane open the tunnel, with what was typed here.
func (j *job) open(ctx context.Context) (api.Tunnel, error) {
	req := api.TunnelRequest{Worker: j.agent.Name, TunnelSpec: api.TunnelSpec{
		Target: j.o.Target, ConfigFile: j.o.SSHConfig, AgentSocket: j.e.Getenv("SSH_AUTH_SOCK"),
		Folder: j.agent.Dir, Data: j.agent.Data, Flags: j.agent.Flags,
	}}
	if j.tty != nil {
		req.Answers = j.tty.answers
	}
	if j.tunnel != nil && j.tunnel.Identity != "" {
		if _, err := os.Stat(j.tunnel.Identity); err == nil {
			req.Identity = j.tunnel.Identity
		}
	}
	if j.o.InstallKey {
		path, err := j.installKey(ctx)
		if err != nil {
			return api.Tunnel{}, err
		}
		req.Identity = path
	}
	j.say("opening the tunnel")
	t, err := j.control.OpenTunnel(ctx, req)
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Params["needs_login"] != true {
		return t, err
	}
	if !j.o.InstallKey {
		return t, env.Failed("the control plane can't log in to %s as you did: %s; with --install-key it gets a key of its own", j.o.Target, err)
	}
	return t, env.Failed("a key was installed for %s, and the sshd there does not take it: %s; it must have PubkeyAuthentication yes", j.o.Target, err)
}

// start starts the agent, or leaves the one alone that runs as it should.
func (j *job) start(ctx context.Context, changed bool) error {
	running, is, err := bootstrap.Status(ctx, j.line, j.agent)
	if err != nil {
		return err
	}
	if is && !changed && running.Version == version.String() && !running.Refused && running.Control == tunnelURL {
		return nil
	}
	if is {
		j.say("starting the agent anew; %d trainings there go on", len(running.Runs))
		if _, err := bootstrap.Stop(ctx, j.line, j.agent, false); err != nil {
			return err
		}
	}
	token := ""
	_, err = j.control.Worker(ctx, j.agent.Name)
	known := err == nil
	switch {
	case api.CodeOf(err) == api.NotFound:
		if token, err = j.enrollment(ctx); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	j.say("starting the agent %s", j.agent.Name)
	_, err = bootstrap.Start(ctx, j.line, j.agent, token)
	var unknown *bootstrap.NotEnrolledError
	if !errors.As(err, &unknown) || !known {
		return err
	}
	if j.tunnel == nil {
		return env.Failed("another worker is called %s; choose a name with --name, or remove that one with cdui workers rm %s", j.agent.Name, j.agent.Name)
	}
	reply, err := j.control.RekeyWorker(ctx, j.agent.Name)
	if err != nil {
		return err
	}
	_, err = bootstrap.Start(ctx, j.line, j.agent, reply.Token)
	return err
}

// tunnelURL is what an agent calls its control plane through a tunnel.
const tunnelURL = "https://localhost"

// enrollment makes a one-time token for this moment.
func (j *job) enrollment(ctx context.Context) (string, error) {
	reply, err := j.control.AddWorker(ctx, j.agent.Name, 10*time.Minute)
	return reply.Token, err
}

const (
	onlineTimeout = 90 * time.Second
	onlinePoll    = 200 * time.Millisecond
)

// online waits until the control plane has the worker.
func (j *job) online(ctx context.Context, began time.Time) (api.Worker, error) {
	waiting, cancel := context.WithTimeout(ctx, onlineTimeout)
	defer cancel()
	tick := time.NewTicker(onlinePoll)
	defer tick.Stop()
	for {
		w, err := j.control.Worker(waiting, j.agent.Name)
		switch {
		case err == nil && w.State == api.WorkerOnline && w.Via == "tunnel":
			return w, nil
		case err == nil && w.State == api.WorkerRejected:
			return w, env.Failed("the control plane turns the agent of %s away: %s", j.o.Target, w.RejectReason)
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return w, context.Cause(ctx)
			}
			return w, j.notOnline(ctx, began)
		}
	}
}

// notOnline asks the agent itself what is wrong.
func (j *job) notOnline(ctx context.Context, began time.Time) error {
	running, is, err := bootstrap.Status(ctx, j.line, j.agent)
	switch {
	case err != nil:
		return err
	case !is:
		return env.Failed("the agent on %s has ended; its log is in agent/%s of the data folder there", j.o.Target, j.agent.Name)
	case running.Problem != "":
		return env.Failed("the agent on %s is not connected: %s", j.o.Target, running.Problem)
	}
	return env.Failed("the agent on %s runs, but was not connected within %s", j.o.Target, time.Since(began).Round(time.Second))
}

// nameFrom makes a worker's name of a machine's; an address is none.
func nameFrom(host string) string {
	if strings.Trim(host, "0123456789.") == "" || strings.Contains(host, ":") {
		return ""
	}
	return protocol.NameFrom(host)
}
