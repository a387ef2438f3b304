// Package hookscmd is `cdui hooks`: commands and URLs that the control plane
// calls when runs start and end, a worker goes or a card falls ill.
package hookscmd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	Client func() *client.Client
}

// New makes `cdui hooks`.
func New(e *env.Env, d Deps) *cobra.Command {
	rm := noun.Remove{Noun: "a hook", Of: "cdui hooks", Done: "removed", Forget: func(ctx context.Context, name string) error {
		return d.Client().RemoveHook(ctx, name)
	}}
	return noun.Group(e, func() *noun.List { return list(e, d) }, &cobra.Command{
		Use:   "hooks",
		Short: "Have something called when runs end, a worker goes or a card falls ill",
		Long: `List the commands and URLs that the control plane calls when something happens, and
how their calls went since it started. Each gets a JSON document: a command on its
standard input, a URL by POST.`,
		Example: `  cdui hooks add chat --on failed,lost --url https://chat.example/cdui --token-file ~/chat.token
  cdui hooks add mail --on failed -- /usr/local/bin/mail-me
  cdui hooks test chat`,
	}, &cobra.Command{
		Short: "List the hooks", Example: "  cdui hooks ls",
	}, newAdd(e, d), rm.On(e, &cobra.Command{
		Use: "rm NAME...", Short: "Forget hooks, and the calls that wait for them", Example: "  cdui hooks rm mail",
	}), newTest(e, d))
}

func list(e *env.Env, d Deps) *noun.List {
	return &noun.List{
		Documents: []env.Document{env.One(api.HookList{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			l, err := d.Client().Hooks(ctx)
			page := noun.Page{Document: l}
			for _, x := range l.Hooks {
				page.Add(x.Name, cells(e, x)...)
			}
			return page, err
		},
		IDs:   "names",
		Empty: "no hooks; add one with: cdui hooks add NAME --on failed -- COMMAND",
		Columns: []text.Column{
			{Title: "NAME"}, {Title: "ON"}, {Title: "CALLS", Flex: true, Min: 12}, {Title: "TAKEN", Right: true}, {Title: "LOST", Right: true}, {Title: "LAST ERROR", Flex: true, Min: 10},
		},
	}
}

func cells(_ *env.Env, h api.Hook) []text.Cell {
	calls := h.URL
	if len(h.Command) > 0 {
		calls = strings.Join(h.Command, " ")
	}
	on := make([]string, len(h.On))
	for i, event := range h.On {
		on[i] = string(event)
	}
	return text.Text(h.Name, strings.Join(on, ","), phrase.Clean(calls), fmt.Sprint(h.Delivered), fmt.Sprint(h.GivenUp+h.Dropped), phrase.Clean(h.LastError))
}

func newAdd(e *env.Env, d Deps) *cobra.Command {
	var on []string
	var url, tokenEnv, tokenFile string
	cmd := &cobra.Command{
		Use:   "add NAME --on EVENT,... (--url URL | -- COMMAND [ARGS])",
		Short: "Have a command or a URL called when something happens",
		Long: `Have a command or a URL called for events: started, finished (succeeded or cancelled),
failed, lost, worker_down, card_unhealthy.

A command runs on the control plane's machine, as its user, without a shell. A URL is
sent the token that --token-file or --token-env name, as Authorization: Bearer; the
token is read at each call and kept nowhere else. Calls that fail are tried again,
five times in all.`,
		Example: `  cdui hooks add chat --on failed,lost --url https://chat.example/cdui --token-file ~/chat.token
  cdui hooks add mail --on failed -- /usr/local/bin/mail-me`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&on, "on", nil, "events that it is called for")
	f.StringVar(&url, "url", "", "address that is sent a POST")
	f.StringVar(&tokenFile, "token-file", "", "file on the control plane's machine with a token for it, mode 0600")
	f.StringVar(&tokenEnv, "token-env", "", "variable of the control plane's environment with a token for it")
	answer := noun.Answer[api.Hook]{
		Ask: func(ctx context.Context, args []string) (api.Hook, error) {
			body := api.HookRequest{HookSpec: api.HookSpec{URL: url, TokenEnv: tokenEnv}}
			name := args
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				name, body.Command = args[:at], args[at:]
			}
			switch {
			case len(name) != 1:
				return api.Hook{}, env.Usagef("cdui hooks add takes one name; a command comes after --")
			case len(on) == 0:
				return api.Hook{}, env.Usagef("say what the hook is called for: --on %v", api.HookEvents())
			case (url == "") == (len(body.Command) == 0):
				return api.Hook{}, env.Usagef("say what is called: --url URL, or -- COMMAND")
			}
			body.Name = name[0]
			for _, event := range on {
				body.On = append(body.On, api.HookEvent(event))
			}
			if body.TokenFile = tokenFile; tokenFile != "" && !filepath.IsAbs(tokenFile) {
				body.TokenFile = filepath.Join(e.Dir, tokenFile)
			}
			return d.Client().AddHook(ctx, body)
		},
		ID: func(h api.Hook) string { return h.Name }, IDs: "its name",
		Show: func(h api.Hook) error {
			e.Print("added %s", h.Name)
			return nil
		},
	}
	return answer.On(e, cmd)
}

func newTest(e *env.Env, d Deps) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "test NAME", Short: "Call a hook once, now, and say how that went", Example: "  cdui hooks test chat",
		Args: env.Args(1, 1, "a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(args[0]) == "" {
				return env.Usagef("a hook's name is empty; cdui hooks -q lists them")
			}
			reply, err := d.Client().TestHook(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				if err := e.JSON(reply); err != nil {
					return err
				}
			}
			if !reply.OK {
				return fmt.Errorf("hook %s failed: %s", phrase.Clean(reply.Name), phrase.Clean(reply.Error))
			}
			if !asJSON {
				e.Print("hook %s was taken", phrase.Clean(reply.Name))
			}
			return nil
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print how it went as one JSON document", env.One(api.HookTestReply{}))
	return cmd
}
