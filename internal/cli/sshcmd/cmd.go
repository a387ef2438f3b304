package sshcmd

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/client"
	"cdui/internal/protocol"
	"cdui/internal/sshtunnel/sshconfig"
)

// Deps is what the command is given beside its surroundings.
type Deps struct {
	Client func() *client.Client
}

// Options is what the command is asked.
type Options struct {
	Target string
	Name   string
	// Agent is how the agent there is started.
	Agent      AgentOptions
	SSHConfig  string
	AcceptNew  bool
	Binary     string
	InstallKey bool
	// One of these, or none to connect.
	Status, Stop, Upgrade, Uninstall bool
	CancelRuns                       bool
	JSON                             bool
}

// AgentOptions is how the agent on the other machine is started.
type AgentOptions struct {
	Python  string
	Devices []string
	PassEnv []string
	Mounts  map[string]string
	Isolate string
	Warm    string
}

// New makes `cdui agent ssh`.
func New(e *env.Env, d Deps, runF func(context.Context, *Options) error) *cobra.Command {
	o := &Options{}
	if runF == nil {
		runF = func(ctx context.Context, o *Options) error { return Run(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "ssh USER@HOST",
		Short: "Make a worker of any machine with an ssh login",
		Long: `Make a worker of another machine: log in there as ssh would, with its config, copy a
cdui that fits, and start the agent. It reaches the control plane through a tunnel that
the control plane keeps open. The machine needs no root, no open port and nothing
installed; it may lie behind others (ProxyJump).

Run it on the control plane's own machine. What you type to log in is kept in the
control plane's memory, for the times that the connection breaks, and nowhere else:
after a restart of the control plane, log in again by the same command. With
--install-key a key for the tunnel alone is put there, and nobody has to.`,
		Example: `  cdui agent ssh ada@gpu-box
  cdui agent ssh gpu-box --name box1 --python /opt/venv/bin/python --device cuda:0
  cdui agent ssh ada@gpu-box --install-key
  cdui agent ssh --status
  cdui agent ssh --upgrade ada@gpu-box          # trainings go on
  cdui agent ssh --uninstall ada@gpu-box`,
		Args: env.Args(0, 1, "one machine, as ssh knows it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Target = strings.Join(args, "")
			o.Agent.Isolate, o.Agent.Warm = e.Flags.Isolate, e.Flags.Warm
			if err := o.check(e, cmd.CommandPath()); err != nil {
				return err
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Name, "name", "", "what the worker is called (default: as the machine is in USER@HOST)")
	f.StringVar(&o.Agent.Python, "python", "", "interpreter there for runs that name none (default: python3)")
	f.StringToStringVar(&o.Agent.Mounts, "mount", nil, "shared folder there, LABEL=PATH; may be repeated")
	f.StringSliceVar(&o.Agent.Devices, "device", nil, "device to offer, such as cuda:0; may be repeated (default: all)")
	f.StringSliceVar(&o.Agent.PassEnv, "pass-env", nil, "variable of the account there that runs get; may be repeated")
	f.StringVar(&e.Flags.Isolate, "isolate", "", "how a run's processes are held together: auto, pidns, userns, keeper or none")
	f.StringVar(&e.Flags.Warm, "warm", "", "warm spares that are always kept there; 0 keeps them after runs that used torch, -1 never (default 0)")
	f.StringVar(&o.SSHConfig, "ssh-config", "", "ssh config to use in place of ~/.ssh/config, as ssh -F")
	f.BoolVar(&o.AcceptNew, "accept-new", false, "trust the key of a host that is not known yet; one that has changed is refused all the same")
	f.StringVar(&o.Binary, "binary", "", "cdui to copy, where this one doesn't run there")
	f.BoolVar(&o.InstallKey, "install-key", false, "put a key there that opens this tunnel and nothing else")
	f.BoolVar(&o.Status, "status", false, "show the tunnels, or the one to USER@HOST")
	f.BoolVar(&o.Stop, "stop", false, "stop the agent there and close the tunnel; trainings go on")
	f.BoolVar(&o.Upgrade, "upgrade", false, "bring the agent there to this version; trainings go on")
	f.BoolVar(&o.Uninstall, "uninstall", false, "remove the worker, and all that is there of it")
	f.BoolVar(&o.CancelRuns, "cancel-runs", false, "with --stop and --uninstall: stop the trainings too")
	env.JSONFlag(f, &o.JSON, "print one JSON document", env.One(Installed{}).If("otherwise"), env.One(api.TunnelList{}).If("with --status"), env.One(Stopped{}).If("with --stop"), env.One(Uninstalled{}).If("with --uninstall"))
	return cmd
}

// check refuses what makes no sense, before anything is done.
func (o *Options) check(e *env.Env, path string) error {
	var asked []string
	for _, f := range []struct {
		name string
		on   bool
	}{{"--status", o.Status}, {"--stop", o.Stop}, {"--upgrade", o.Upgrade}, {"--uninstall", o.Uninstall}} {
		if f.on {
			asked = append(asked, f.name)
		}
	}
	if len(asked) > 1 {
		return env.Usagef("%s can't be given together", strings.Join(asked, " and "))
	}
	if o.Target == "" && !o.Status {
		return env.Usagef("%s needs a machine, USER@HOST: see %s --help", path, path)
	}
	if o.CancelRuns && !o.Stop && !o.Uninstall {
		return env.Usagef("--cancel-runs goes with --stop or --uninstall")
	}
	if o.Target != "" {
		if _, err := sshconfig.ParseTarget(o.Target); err != nil {
			return env.Usagef("%v", err)
		}
	}
	if o.Name != "" {
		if err := protocol.ValidName(o.Name); err != nil {
			return env.Usagef("--name: %v", err)
		}
	}
	for label, folder := range o.Agent.Mounts {
		if !filepath.IsAbs(folder) {
			return env.Usagef("--mount %s=%s: the folder must be absolute", label, folder)
		}
	}
	if !slices.Contains([]string{"", "auto", "pidns", "userns", "keeper", "none"}, o.Agent.Isolate) {
		return env.Usagef("--isolate is %q: use auto, pidns, userns, keeper, none", o.Agent.Isolate)
	}
	if n, err := strconv.Atoi(o.Agent.Warm); o.Agent.Warm != "" && (err != nil || n < -1) {
		return env.Usagef("--warm is %q: give a number from -1 on", o.Agent.Warm)
	}
	o.SSHConfig, o.Binary = e.Abs(o.SSHConfig), e.Abs(o.Binary)
	return nil
}

// flags are the words of cdui agent start for the options.
func (a AgentOptions) flags(home string) []string {
	var out []string
	if a.Python != "" {
		python := a.Python
		if rest, ok := strings.CutPrefix(python, "~/"); ok {
			python = home + "/" + rest
		}
		out = append(out, "--python="+python)
	}
	for _, d := range a.Devices {
		out = append(out, "--device="+d)
	}
	for _, v := range a.PassEnv {
		out = append(out, "--pass-env="+v)
	}
	for label, folder := range a.Mounts {
		out = append(out, "--mount="+label+"="+folder)
	}
	if a.Isolate != "" {
		out = append(out, "--isolate="+a.Isolate)
	}
	if a.Warm != "" {
		out = append(out, "--warm="+a.Warm)
	}
	slices.Sort(out)
	return out
}
