package agentcmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/agent"
	"cdui/internal/agent/folder"
	"cdui/internal/agent/via"
	"cdui/internal/blobs"
	"cdui/internal/cli/env"
	"cdui/internal/client"
	"cdui/internal/config"
	"cdui/internal/fsinfo"
	"cdui/internal/protocol"
	"cdui/internal/tlspin"
)

// StartOptions is what start is asked.
type StartOptions struct {
	Control    string
	Token      string
	TokenStdin bool
	Name       string
	Devices    []string
	Python     string
	PassEnv    []string
	Mounts     map[string]string
	CA, Pin    string
	// Tunnel names the file that cdui agent ssh keeps on this machine.
	Tunnel     string
	Background bool
	JSON       bool
}

// NewStart makes `cdui agent start`.
func NewStart(e *env.Env, d Deps, runF func(context.Context, *StartOptions) error) *cobra.Command {
	o := &StartOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *StartOptions) error { return Start(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "start --control URL [--token TOKEN]",
		Short: "Start the agent of this machine",
		Long: `Start the agent, in the foreground unless -d is given. The first start enrolls this
machine with the one-time token that cdui workers add gives; later ones need neither
the token nor --control. Runs that an earlier agent left going are taken up again.

The token may also come in CDUI_AGENT_TOKEN, or on standard input with --token-stdin.
An agent on the control plane's own machine and data folder needs none.`,
		Example: `  cdui agent start --control http://lab:8000 --token k3x9aa.8f21... --name box1
  cdui agent start -d                        # later, in the background
  cdui agent start --device cuda:0,cuda:1 --python ~/venv/bin/python`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Control, "control", "", "address of the control plane, such as https://lab:8000")
	f.StringVar(&o.Token, "token", "", "one-time token of cdui workers add")
	f.BoolVar(&o.TokenStdin, "token-stdin", false, "read the one-time token from standard input")
	f.StringVar(&o.Name, "name", "", "what the worker is called (default: after this machine)")
	f.StringSliceVar(&o.Devices, "device", nil, "device to offer, such as cuda:0; may be repeated (default: all)")
	f.StringVar(&o.Python, "python", "", "interpreter for runs that name none (default: the active environment's, else python3)")
	f.StringSliceVar(&o.PassEnv, "pass-env", nil, "variable of the agent's environment that runs get; may be repeated")
	f.StringToStringVar(&o.Mounts, "mount", nil, "shared folder, LABEL=PATH; may be repeated")
	f.StringVar(&o.Pin, "pin", "", "key of the control plane, sha256:..., in place of the machine's authorities")
	f.StringVar(&o.CA, "ca", "", "file with the certificates that the control plane's is checked with")
	f.StringVar(&o.Tunnel, "tunnel", "", "file that says where the tunnel to the control plane ends; cdui agent ssh keeps it")
	_ = f.MarkHidden("tunnel") // nobody gives it by hand
	f.StringVar(&e.Flags.Isolate, "isolate", "", "how a run's processes are held together: auto, pidns, userns, keeper or none")
	f.StringVar(&e.Flags.Warm, "warm", "", "warm spares that are always kept: started ahead of their runs with torch imported; 0 keeps them after runs that used torch, -1 never (default 0)")
	f.StringVar(&e.Flags.LogFormat, "log-format", "", "how the log is written: text or json (default text)")
	f.BoolVarP(&o.Background, "background", "d", false, "run in the background")
	env.JSONFlag(f, &o.JSON, "once it is up, print how it stands as one JSON document", env.One(agent.Status{}))
	return cmd
}

// Start starts an agent.
func Start(ctx context.Context, e *env.Env, d Deps, o *StartOptions) error {
	vs, err := e.Settings()
	if err != nil {
		return err
	}
	if v := vs.Get(config.Isolate); v.Origin == "flag" && v.Err != nil {
		return env.Usagef("--isolate is %q: use %s", v.Text, strings.Join(v.Choices, ", "))
	}
	if v := vs.Get(config.Warm); v.Origin == "flag" && v.Err != nil {
		return env.Usagef("--warm is %q: give how many spares to keep, 0 for those that runs turn out to want, or -1 for none", v.Text)
	}
	if v := vs.Get(config.LogFormat); v.Origin == "flag" && v.Err != nil {
		return env.Usagef("--log-format is %q: use %s", v.Text, strings.Join(v.Choices, ", "))
	}
	token, err := takeToken(e, o)
	if err != nil {
		return err
	}
	data, err := e.DataFolder()
	if err != nil {
		return err
	}
	if err := o.complete(e, data.Path); err != nil {
		return err
	}
	if err := config.MakeFolder(data.Path); err != nil {
		return env.Failed("%s", err)
	}
	if o.Background {
		return background(ctx, e, o, data.Path, token)
	}
	if data.Note != "" {
		e.Say("%s", data.Note)
	}
	cache, err := blobs.Open(filepath.Join(data.Path, "agent-cache"))
	if err != nil {
		return env.Failed("%s", err)
	}
	log := e.Logger(vs)
	err = d.Work(ctx, agent.Config{
		Control: o.Control, Tunnel: o.Tunnel, Pin: o.Pin, CAFile: o.CA, EnrollToken: token, SessionTokenFile: sessionToken(o.Control, data.Path),
		Name: o.Name, DataDir: data.Path, Devices: o.Devices, Python: o.Python, PassEnv: o.PassEnv, Mounts: o.Mounts,
		Environ: without(e.Environ, tokenVariable), Exe: e.Exe, Isolate: vs.Text(config.Isolate), Warm: int(vs.Int(config.Warm)), Logger: log,
		Storage: func(up agent.Upstream) agent.Storage {
			return d.Storage(up, cache, log)
		},
		Ready: func() {
			if o.JSON {
				// An agent doesn't end because nobody reads its first line.
				if s, err := agent.Query(ctx, data.Path, o.Name); err == nil {
					_ = e.JSON(s)
				}
			}
		},
	})
	if err != nil && ctx.Err() == nil {
		return env.Failed("%s", err)
	}
	return nil
}

// complete checks the options and fills in what an earlier start, or the
// control plane of the same data folder, told.
func (o *StartOptions) complete(e *env.Env, dataDir string) error {
	if o.Name == "" {
		o.Name = agent.DefaultName()
	}
	if err := protocol.ValidName(o.Name); err != nil {
		return env.Usagef("--name: %v", err)
	}
	if o.Pin != "" {
		if _, err := tlspin.Parse(o.Pin); err != nil {
			return env.Usagef("--pin: %v", err)
		}
		if o.CA != "" {
			return env.Usagef("--pin and --ca can't be given together: a pinned key needs no authority")
		}
	}
	for label, path := range o.Mounts {
		if !filepath.IsAbs(path) {
			return env.Usagef("--mount %s=%s: the folder must be absolute", label, path)
		}
	}
	// An agent in the background works in another folder than this.
	if strings.ContainsRune(o.Python, filepath.Separator) {
		o.Python = e.Abs(o.Python)
	}
	if o.CA != "" {
		o.CA = e.Abs(o.CA)
		if _, err := os.Stat(o.CA); err != nil {
			return env.Usagef("--ca %s: no such file", o.CA)
		}
	}
	if o.Tunnel != "" {
		o.Tunnel = e.Abs(o.Tunnel)
		if o.Pin == "" {
			return env.Usagef("--tunnel needs --pin: anybody on this machine could stand at its end")
		}
		o.Control = via.URL
	}
	if o.Control == "" {
		o.recall(e, dataDir)
	}
	if o.Control == "" {
		return env.Usagef("say which control plane takes this machine: --control http://HOST:8000; cdui workers add %s prints the whole command", o.Name)
	}
	return nil
}

// recall takes the control plane from the start before this one, else the one
// of this data folder.
func (o *StartOptions) recall(e *env.Env, dataDir string) {
	if note, err := folder.ReadNote(folder.Path(dataDir, o.Name)); err == nil && note.Control != "" {
		o.Control = note.Control
		if o.Pin == "" && o.CA == "" {
			o.Pin, o.CA, o.Tunnel = note.Pin, note.CAFile, note.Tunnel
		}
		return
	}
	info, err := client.LocalServer(client.Search{DataDir: dataDir, MachineID: fsinfo.MachineID(), Alive: e.Alive})
	if err == nil {
		o.Control = info.Address
	}
}

// sessionToken is the control plane's own token, for an agent beside it. It
// goes to this machine alone.
func sessionToken(control, dataDir string) string {
	path := filepath.Join(dataDir, "token")
	if control == via.URL {
		return "" // that is another machine's
	}
	if _, err := os.Stat(path); err != nil || !client.Loopback(control) {
		return ""
	}
	return path
}
