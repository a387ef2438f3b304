package serverctl

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/client"
	"cdui/internal/config"
	"cdui/internal/fsinfo"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	// Serve runs a control plane in this process.
	Serve func(ctx context.Context, e *env.Env, dataDir string, vs config.Values, ready func(api.ServerInfo)) error
}

// StartOptions is what start is asked.
type StartOptions struct {
	Foreground bool
	JSON       bool
}

// NewStart makes `cdui start`.
func NewStart(e *env.Env, d Deps, runF func(context.Context, *StartOptions) error) *cobra.Command {
	o := &StartOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *StartOptions) error { return Start(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start the control plane on this machine",
		Long: `Start the control plane, in the background unless -f is given, and wait until it
answers. Trainings that an earlier one left going are taken up again.

It listens on 127.0.0.1:8000 and keeps everything in one data folder. Workers on other
machines need another address and should have TLS: with a certificate, or with one that
the control plane makes for itself, whose pin it prints.`,
		Example: `  cdui start
  cdui start --listen 0.0.0.0:8000 --tls-self-signed
  cdui start --listen 127.0.0.1:9000 --data ~/cdui-test
  cdui start -f                              # in the foreground, for systemd`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.BoolVarP(&o.Foreground, "foreground", "f", false, "stay in the foreground")
	f.StringVar(&e.Flags.Listen, "listen", "", "address to listen on, HOST:PORT (default 127.0.0.1:8000)")
	f.StringVar(&e.Flags.TLSCert, "tls-cert", "", "speak TLS with this certificate (PEM, with its chain)")
	f.StringVar(&e.Flags.TLSKey, "tls-key", "", "key of that certificate")
	f.BoolVar(&e.Flags.TLSSelfSigned, "tls-self-signed", false, "speak TLS with a certificate of its own making, and print its pin")
	f.StringVar(&e.Flags.Isolate, "isolate", "", "how a run's processes are held together: auto, pidns, userns, keeper or none")
	f.StringVar(&e.Flags.Warm, "warm", "", "warm spares that are always kept: started ahead of their runs with torch imported; 0 keeps them after runs that used torch, -1 never (default 0)")
	env.JSONFlag(f, &o.JSON, "print address, pid and boot id as one JSON document", env.One(api.ServerInfo{}))
	f.StringVar(&e.Flags.LogFormat, "log-format", "", "how the log is written: text or json (default text)")
	return cmd
}

// Start starts a control plane, unless one runs.
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
	if err := checkListen(vs.Text(config.Listen)); err != nil {
		return err
	}
	folder, err := config.DataFolder(vs, e.Getenv, e.UID, fsinfo.Network)
	if err != nil {
		return err
	}
	reporter := openReporter(e)
	defer reporter.close()
	if o.Foreground {
		if folder.Note != "" {
			e.Say("%s", folder.Note)
		}
		return reporter.failed(foreground(ctx, e, d, o, folder.Path, vs, reporter))
	}
	if folder.Note != "" {
		e.Say("%s", folder.Note)
	}
	if info, ok := running(ctx, e, folder.Path); ok {
		return announce(e, o, info, "the control plane runs already")
	}
	for _, v := range vs.All() {
		if v.Err != nil {
			e.Say("%s; its default holds", v.Err)
		}
	}
	info, err := background(ctx, e, folder.Path)
	if err != nil {
		// Somebody else may have been quicker.
		if info, ok := running(ctx, e, folder.Path); ok {
			return announce(e, o, info, "the control plane runs already")
		}
		return err
	}
	return announce(e, o, info, "the control plane is up")
}

// checkListen refuses an address that no program could listen on.
func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return env.Usagef("%q is no address to listen on: --listen and CDUI_LISTEN take HOST:PORT, such as 127.0.0.1:8000", address)
	}
	return nil
}

func announce(e *env.Env, o *StartOptions, info api.ServerInfo, what string) error {
	if o.JSON {
		return e.JSON(info)
	}
	e.Print("%s at %s (pid %d)", what, info.Address, info.PID)
	if info.Pin != "" {
		e.Print("its key is pinned by %s", info.Pin)
	}
	if s, err := e.Search(); err == nil && s.Context != nil {
		e.Say("commands go to %s, the context %s, and not here: cdui context use local changes that", phrase.Clean(s.Context.URL), phrase.Clean(s.Context.Name))
	}
	return nil
}

func foreground(ctx context.Context, e *env.Env, d Deps, o *StartOptions, dataDir string, vs config.Values, r *reporter) error {
	if err := config.MakeFolder(dataDir); err != nil {
		return env.Failed("%s", err)
	}
	err := d.Serve(ctx, e, dataDir, vs, func(info api.ServerInfo) {
		r.ready(info)
		if o.JSON && r.pipe == nil {
			_ = e.JSON(info) // a server doesn't end because nobody reads its first line
		}
	})
	if err != nil && ctx.Err() == nil {
		return env.Failed("%s", err)
	}
	return nil
}

// running asks whether the data folder's control plane answers.
func running(ctx context.Context, e *env.Env, dataDir string) (api.ServerInfo, bool) {
	info, err := client.LocalServer(client.Search{DataDir: dataDir, MachineID: fsinfo.MachineID(), Alive: e.Alive})
	if err != nil {
		return api.ServerInfo{}, false
	}
	h, err := at(*info).Health(ctx)
	return *info, err == nil && h.BootID == info.BootID
}

func at(info api.ServerInfo) *client.Client {
	return client.New(client.Config{Place: func() (client.Place, error) {
		return client.Place{URL: info.Address, Pin: info.Pin, Local: &info}, nil
	}})
}

// report is what a background control plane tells the process that started it.
type report struct {
	Info  *api.ServerInfo `json:"info,omitempty"`
	Error string          `json:"error,omitempty"`
}

// reportVariable names the file descriptor that a report goes to.
const reportVariable = "CDUI_START_FD"

// reporter is the child's end of that pipe; without one it does nothing.
type reporter struct{ pipe *os.File }

func openReporter(e *env.Env) *reporter {
	if e.Getenv(reportVariable) != "3" {
		return &reporter{}
	}
	unix.CloseOnExec(3) // the shims must not keep it open
	return &reporter{pipe: os.NewFile(3, "start report")}
}

func (r *reporter) ready(info api.ServerInfo) { r.send(report{Info: &info}) }

func (r *reporter) failed(err error) error {
	var said *env.Exit
	if errors.As(err, &said) && said.Text != "" {
		r.send(report{Error: said.Text})
	} else if err != nil {
		r.send(report{Error: err.Error()})
	}
	return err
}

func (r *reporter) send(what report) {
	if r.pipe != nil {
		_ = json.NewEncoder(r.pipe).Encode(what) // whoever started us may be gone
		r.close()
	}
}

func (r *reporter) close() {
	if r.pipe != nil {
		r.pipe.Close()
		r.pipe = nil
	}
}

func notReady(log string, why string) error {
	if why == "" {
		why = "it ended without a word"
	}
	return env.Failed("the control plane did not start: %s; its log is %s", why, log)
}
