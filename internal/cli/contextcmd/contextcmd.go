// Package contextcmd is `cdui context`: control planes that have a name in the
// config file, and which of them commands use. It reads and changes the config
// file through package config and asks no control plane.
package contextcmd

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/config"
)

// Row is a context in `context ls --json`; what it hasn't is empty.
type Row struct {
	// Name is what the context is called.
	Name string `json:"name"`
	// URL is where the control plane is; empty for local where none runs.
	URL string `json:"url"`
	// TokenFile is the file that holds the token.
	TokenFile string `json:"token_file"`
	// CA is a file with the certificates that the control plane's is checked with.
	CA string `json:"ca"`
	// Pin is the key of the control plane.
	Pin string `json:"pin"`
	// Current tells whether commands use it, as things stand.
	Current bool `json:"current"`
	// Problem says what keeps it from being used.
	Problem string `json:"problem"`
}

// List is what `context ls --json` prints. Server is the address that commands
// use in place of a context, if there is one.
type List struct {
	// Contexts are all there are, local included.
	Contexts []Row `json:"contexts"`
	// Server is the address that comes before every context, else empty.
	Server string `json:"server"`
}

type listOptions struct{ json, quiet bool }

func (o *listOptions) flags(f *pflag.FlagSet) {
	env.JSONFlag(f, &o.json, "print one JSON document", env.One(List{}))
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print names alone")
}

// New makes `cdui context`.
func New(e *env.Env) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Give control planes names, and choose which one commands use",
		Long: `List the contexts: control planes that have a name in the config file, with what is
needed to use them, which is a URL, a file with a token, and how their certificate is
known. Commands use the current one, unless --context, CDUI_CONTEXT, --server or
CDUI_SERVER name another. The context local is always there: it is the control plane of
this machine and data folder.`,
		Example: `  cdui context add lab https://lab:8000 --token-stdin --pin sha256:4be0...
  cdui context use lab
  cdui --context local ls
  cdui context`,
		Args: env.UnknownCommand,
		RunE: func(*cobra.Command, []string) error { return list(e, o) },
	}
	o.flags(cmd.Flags())
	cmd.AddCommand(newList(e), newCurrent(e), newUse(e), newAdd(e), newRemove(e))
	return cmd
}

func newList(e *env.Env) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List the contexts", Example: "  cdui context ls\n  cdui context ls --json | jq -r '.contexts[] | select(.current).url'",
		Args: env.Args(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return list(e, o) },
	}
	o.flags(cmd.Flags())
	return cmd
}

// contexts are those of the file, and local; in is what commands use now.
func contexts(e *env.Env) (vs config.Values, rows []Row, in client.Search, err error) {
	if vs, err = e.Settings(); err != nil {
		return vs, nil, in, err
	}
	// One that is chosen and isn't there must not keep the list from being seen.
	var exit *env.Exit
	if in, err = e.Search(); err != nil && !errors.As(err, &exit) {
		return vs, nil, in, err
	}
	chosen := ""
	switch {
	case err != nil || in.Server != "":
	case in.Context != nil:
		chosen = in.Context.Name
	default:
		chosen = config.Local
	}
	file := vs.File()
	if _, own := file.Contexts[config.Local]; !own {
		row := Row{Name: config.Local, Current: chosen == config.Local}
		if info, err := client.LocalServer(in); err == nil {
			row.URL, row.Pin = info.Address, info.Pin
		}
		rows = append(rows, row)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Contexts)) {
		c := file.Contexts[name]
		row := Row{Name: name, URL: c.URL, TokenFile: c.TokenFile, CA: c.CA, Pin: c.Pin, Current: name == chosen}
		if err := (client.Context{Name: name, URL: c.URL, TokenFile: c.TokenFile, CAFile: c.CA, Pin: c.Pin}).Check(); err != nil {
			row.Problem = err.Error()
		}
		rows = append(rows, row)
	}
	return vs, rows, in, nil
}

func list(e *env.Env, o *listOptions) error {
	vs, rows, in, err := contexts(e)
	if err != nil {
		return err
	}
	switch {
	case o.json:
		return e.JSON(List{Contexts: rows, Server: in.Server})
	case o.quiet:
		for _, r := range rows {
			e.Print("%s", r.Name)
		}
		return nil
	}
	t := &text.Table{Columns: []text.Column{
		{}, {Title: "NAME"}, {Title: "URL", Flex: true, Min: 16}, {Title: "KNOWN BY", Flex: true, Min: 8, Drop: 2}, {Title: "TOKEN", Flex: true, Min: 8, Drop: 1},
	}}
	for _, r := range rows {
		mark := ""
		if r.Current {
			mark = "*"
		}
		t.Add(text.Text(mark, phrase.Clean(r.Name), dash(phrase.Clean(r.URL)), dash(phrase.Clean(knownBy(r))), dash(phrase.Clean(r.TokenFile)))...)
	}
	if err := t.Write(e.Out, e.Style()); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Problem != "" {
			e.Say("%s: %s", phrase.Clean(r.Name), phrase.Clean(r.Problem))
		}
	}
	overridden(e, vs, in)
	return nil
}

// overridden says what comes before every context, if something does.
func overridden(e *env.Env, vs config.Values, in client.Search) {
	if in.Server == "" {
		return
	}
	e.Say("commands use %s (%s), not a context", phrase.Clean(in.Server), vs.Get(config.Server).Origin)
}

// knownBy says what tells that a control plane is the one that is meant.
func knownBy(r Row) string {
	switch {
	case r.Pin != "":
		return r.Pin
	case r.CA != "":
		return r.CA
	case strings.HasPrefix(r.URL, "https:"):
		return "authorities"
	}
	return ""
}

func dash(s string) string { return cmp.Or(s, text.Dash) }

func newCurrent(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "current", Short: "Print the context that commands use",
		Long: `Print the name of the context that commands use. Where --server or CDUI_SERVER
name an address, no context is used, and the exit code is 4.`,
		Example: "  cdui context current",
		Args:    env.Args(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if _, err := e.Search(); err != nil {
				return err
			}
			vs, rows, in, err := contexts(e)
			if err != nil {
				return err
			}
			at := slices.IndexFunc(rows, func(r Row) bool { return r.Current })
			if at < 0 {
				return env.NotFound("no context is used: commands use %s (%s)", in.Server, vs.Get(config.Server).Origin)
			}
			if asJSON {
				return e.JSON(rows[at])
			}
			e.Print("%s", rows[at].Name)
			return nil
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print it as one JSON document", env.One(Row{}))
	return cmd
}

func newUse(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one",
		Example: "  cdui context use lab\n  cdui context use local                     # back to this machine",
		Args:    env.Args(1, 1, "a context"),
		RunE: func(_ *cobra.Command, args []string) error {
			vs, err := e.Settings()
			if err != nil {
				return err
			}
			if _, err := env.Context(vs, args[0]); err != nil {
				return err
			}
			if err := vs.File().UseContext(args[0]); err != nil {
				return env.Failed("%s", err)
			}
			return used(e, args[0], asJSON)
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print it as one JSON document", env.One(Row{}))
	return cmd
}

// used says where commands go, now that a context is the current one.
func used(e *env.Env, name string, asJSON bool) error {
	vs, rows, in, err := contexts(e)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
	switch {
	case asJSON:
		return e.JSON(rows[at])
	case name == config.Local && rows[at].URL == "":
		e.Print("commands use the control plane of this machine now")
	default:
		e.Print("commands use %s now, at %s", name, rows[at].URL)
	}
	if rows[at].Problem != "" {
		e.Say("%s: %s", name, phrase.Clean(rows[at].Problem))
	}
	if v := vs.Get(config.ContextName); !rows[at].Current && in.Server == "" && v.Text != name {
		e.Say("but %s says %q here, and comes first", v.Origin, v.Text)
	}
	overridden(e, vs, in)
	return nil
}

func newRemove(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "rm NAME...", Short: "Remove contexts, and the tokens that were kept for them",
		Long: `Remove contexts from the config file. A token that context add wrote goes with its
context; a file that --token-file named stays.`,
		Example: "  cdui context rm lab",
		Args:    env.Args(1, -1, "a context"),
		RunE: func(_ *cobra.Command, args []string) error {
			vs, err := e.Settings()
			if err != nil {
				return err
			}
			file := vs.File()
			for _, name := range args { // all of them, or none
				if c, err := env.Context(vs, name); err != nil {
					return err
				} else if c == nil {
					return env.Usagef("the context local is the control plane of this machine and can't be removed")
				}
			}
			for _, name := range args {
				if err := remove(file, name); err != nil {
					return err
				}
				if asJSON {
					continue
				}
				e.Print("removed %s", name)
				if file.Current == name {
					e.Say("it was the current one: commands use the control plane of this machine now")
				}
			}
			if asJSON {
				return e.JSON(env.Removed{Removed: args})
			}
			return nil
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print what was removed as one JSON document", env.One(env.Removed{}))
	return cmd
}

func remove(file config.File, name string) error {
	if err := file.RemoveContext(name); err != nil {
		return env.Failed("%s", err)
	}
	if file.Contexts[name].TokenFile == file.TokenPath(name) {
		if err := file.DropToken(name); err != nil {
			return env.Failed("the context is gone, but its token isn't: %s", err)
		}
	}
	return nil
}

// plain tells whether what is sent to an address can be read on the way.
func plain(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !client.Loopback(address)
}
