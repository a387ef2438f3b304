package contextcmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"cdui/internal/cli/env"
	"cdui/internal/client"
	"cdui/internal/config"
	"cdui/internal/tlspin"
)

// AddOptions is what add is asked.
type AddOptions struct {
	Name, URL  string
	TokenFile  string
	TokenStdin bool
	CA, Pin    string
	Use        bool
	Replace    bool
	JSON       bool
}

func newAdd(e *env.Env) *cobra.Command {
	o := &AddOptions{}
	cmd := &cobra.Command{
		Use:   "add NAME URL",
		Short: "Give a control plane a name",
		Long: `Write a context into the config file. Nobody is asked whether a control plane is
there. The token itself is never in the config file: --token-file names a file that
holds it, and one that --token-stdin reads, or asks for on a terminal, is kept in a
file of its own beside the config file, for you alone.

A control plane with a certificate of its own making is known by the pin that it
prints at its start; one whose certificate an authority of your own has signed, by
that authority's certificate.`,
		Example: `  cdui context add lab https://lab:8000 --token-stdin --pin sha256:4be0... --use
  cdui context add prod https://cdui.example.org --token-file ~/cdui.token --ca ~/lab-ca.pem
  ssh lab cdui tokens add ada --role submit | cdui context add lab https://lab:8000 --token-stdin`,
		Args: env.Args(2, 2, "a name and a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name, o.URL = args[0], args[1]
			return Add(cmd.Context(), e, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.TokenFile, "token-file", "", "file that holds the token")
	f.BoolVar(&o.TokenStdin, "token-stdin", false, "read the token from standard input, or ask for it on a terminal, and keep it")
	f.StringVar(&o.Pin, "pin", "", "key of the control plane, sha256:..., as it prints it at its start")
	f.StringVar(&o.CA, "ca", "", "file with the certificates that the control plane's is checked with")
	f.BoolVar(&o.Use, "use", false, "make it the current one")
	f.BoolVar(&o.Replace, "replace", false, "take the place of the context that is called so")
	env.JSONFlag(f, &o.JSON, "print it as one JSON document", env.One(Row{}))
	return cmd
}

// Add writes a context.
func Add(ctx context.Context, e *env.Env, o *AddOptions) error {
	vs, err := e.Settings()
	if err != nil {
		return err
	}
	c, err := o.context(e)
	if err != nil {
		return err
	}
	file := vs.File()
	old, there := file.Contexts[o.Name]
	if there && !o.Replace {
		return env.Failed("a context is called %s already, for %s: --replace takes its place", o.Name, old.URL)
	}
	if o.TokenStdin {
		token, err := takeToken(ctx, e, o.Name)
		if err != nil {
			return err
		}
		c.TokenFile = file.TokenPath(o.Name)
		if err := file.KeepToken(o.Name, token); err != nil {
			return env.Failed("%s", err)
		}
	}
	if err := file.SetContext(o.Name, c, o.Use); err != nil {
		if o.TokenStdin && !there {
			_ = file.DropToken(o.Name) // the first error says more
		}
		return env.Failed("%s", err)
	}
	if kept := file.TokenPath(o.Name); old.TokenFile == kept && c.TokenFile != kept {
		if err := file.DropToken(o.Name); err != nil {
			return env.Failed("the context is changed, but its old token is still there: %s", err)
		}
	}
	o.warn(e, c)
	if o.Use {
		return used(e, o.Name, o.JSON)
	}
	if o.JSON {
		return e.JSON(Row{Name: o.Name, URL: c.URL, TokenFile: c.TokenFile, CA: c.CA, Pin: c.Pin})
	}
	e.Print("added %s; commands use it after: cdui context use %s", o.Name, o.Name)
	return nil
}

// validName is narrow enough for a file name, a flag and a table of TOML.
func validName(name string) bool {
	const most = 63
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	}
	return name != "" && len(name) <= most && !strings.ContainsFunc(name, odd) && name[0] != '.' && name[0] != '-'
}

// context makes what is written of what was typed.
func (o *AddOptions) context(e *env.Env) (config.Context, error) {
	var c config.Context
	switch {
	case o.Name == config.Local:
		return c, env.Usagef("local is the control plane of this machine: take another name")
	case !validName(o.Name):
		return c, env.Usagef("%q can't be the name of a context: letters, digits and . _ - can, at most 63, and no . or - first", o.Name)
	case o.TokenFile != "" && o.TokenStdin:
		return c, env.Usagef("--token-file and --token-stdin can't be given together")
	case o.Pin != "" && o.CA != "":
		return c, env.Usagef("--pin and --ca can't be given together: a pinned key needs no authority")
	}
	address := strings.TrimSpace(o.URL)
	if !strings.Contains(address, "://") && (o.Pin != "" || o.CA != "") {
		address = "https://" + address
	}
	var err error
	if c.URL, err = client.Address(address); err != nil {
		return c, env.Usagef("%s", err)
	}
	if o.Pin != "" {
		pin, err := tlspin.Parse(o.Pin)
		if err != nil {
			return c, env.Usagef("--pin: %s", err)
		}
		c.Pin = pin.String()
	}
	c.CA, c.TokenFile = e.Abs(o.CA), e.Abs(o.TokenFile)
	return c, o.check(c)
}

// check refuses what could never be used.
func (o *AddOptions) check(c config.Context) error {
	if err := (client.Context{Name: o.Name, URL: c.URL, TokenFile: c.TokenFile, CAFile: c.CA, Pin: c.Pin}).Check(); err != nil {
		return env.Usagef("the context %s would be of no use: %s", o.Name, err)
	}
	return nil
}

// warn says what is dangerous about a context.
func (o *AddOptions) warn(e *env.Env, c config.Context) {
	if c.TokenFile == "" {
		return
	}
	if plain(c.URL) {
		e.Say("%s is not encrypted: whoever is on the way can read the token. cdui start --tls-self-signed there, and --pin here, prevent it", c.URL)
	}
	if st, err := os.Stat(c.TokenFile); err == nil && st.Mode().Perm()&0o077 != 0 {
		e.Say("others on this machine can read the token: chmod 600 %s", c.TokenFile)
	}
}

// maxToken is more than any token has.
const maxToken = 4096

// takeToken reads a token from standard input, without showing it when that is
// a terminal.
func takeToken(ctx context.Context, e *env.Env, name string) (string, error) {
	read := func() (string, error) {
		raw, err := io.ReadAll(io.LimitReader(e.In, maxToken))
		return string(raw), err
	}
	f, ok := e.In.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) {
		fd := int(f.Fd())
		state, err := term.GetState(fd)
		if err != nil {
			return "", fmt.Errorf("ask for the token: %w", err)
		}
		defer func() { _ = term.Restore(fd, state) }() // somebody may press Ctrl-C
		fmt.Fprintf(e.Err, "Token for %s: ", name)
		defer fmt.Fprintln(e.Err)
		read = func() (string, error) {
			typed, err := term.ReadPassword(fd)
			return string(typed), err
		}
	}
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() { // left to the end of the program when nothing is typed
		text, err := read()
		done <- answer{text, err}
	}()
	var got answer
	select {
	case got = <-done:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	token := strings.TrimSpace(got.text)
	switch {
	case got.err != nil:
		return "", fmt.Errorf("read the token: %w", got.err)
	case token == "":
		return "", env.Usagef("--token-stdin: standard input holds no token")
	case !client.IsToken(token):
		return "", env.Usagef("--token-stdin: that is no token: one line of letters and digits is one")
	}
	return token, nil
}
