// Package offer gives the shell what a flag or argument may be: runs, workers,
// devices, queue keys, contexts, params of a graph file. It asks the control
// plane for a moment at most, and where nobody answers it offers nothing and
// says nothing. It knows flags by their names; commands keep the completion
// that they have themselves.
package offer

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/client"
	"cdui/internal/config"
	"cdui/internal/run"
)

// patience is how long somebody who pressed tab is kept.
const patience = time.Second

// Offers are completions for one Env.
type Offers struct{ env *env.Env }

// New makes them.
func New(e *env.Env) *Offers { return &Offers{env: e} }

type find func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, error)

// asked asks the control plane, for as long as somebody waits.
func (o *Offers) asked(f find) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		c := o.env.Client()
		defer c.Close()
		found, err := f(ctx, c, cmd, args, prefix)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found = slices.DeleteFunc(found, func(x cobra.Completion) bool { return !strings.HasPrefix(x, prefix) })
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// Runs offers the ids of runs.
func (o *Offers) Runs(statuses ...run.Status) cobra.CompletionFunc {
	return o.asked(func(ctx context.Context, c *client.Client, _ *cobra.Command, args []string, prefix string) ([]cobra.Completion, error) {
		list, err := c.Runs(ctx, client.ListFilter{Statuses: statuses, Limit: 100})
		var out []cobra.Completion
		for _, r := range list.Runs {
			id := run.Short(r.ID)
			if len(prefix) > len(id) {
				id = r.ID
			}
			if !slices.ContainsFunc(args, func(a string) bool { return a != "" && strings.HasPrefix(r.ID, a) }) {
				out = append(out, cobra.CompletionWithDesc(id, string(r.Status)+"  "+phrase.Title(r.Row)))
			}
		}
		return out, err
	})
}

// targets offers where a run may go.
func (o *Offers) targets() cobra.CompletionFunc {
	return o.asked(func(ctx context.Context, c *client.Client, _ *cobra.Command, _ []string, _ string) ([]cobra.Completion, error) {
		list, err := c.Workers(ctx)
		out := []cobra.Completion{
			cobra.CompletionWithDesc("local", "the control plane's machine"), cobra.CompletionWithDesc("any", "the first that can take it"),
		}
		for _, w := range list.Workers {
			out = append(out, cobra.CompletionWithDesc(w.Name, string(w.State)))
		}
		return out, err
	})
}

// devices offers those of the worker that --worker names, else of the control
// plane's machine. A list with commas goes on after the last one.
func (o *Offers) devices() cobra.CompletionFunc {
	return o.asked(func(ctx context.Context, c *client.Client, cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, error) {
		before := prefix[:strings.LastIndexByte(prefix, ',')+1]
		var out []cobra.Completion
		add := func(device, name string) {
			if !slices.Contains(strings.Split(before, ","), device) {
				out = append(out, cobra.CompletionWithDesc(before+device, phrase.Clean(name)))
			}
		}
		worker := ""
		if f := cmd.Flags().Lookup("worker"); f != nil {
			worker = f.Value.String()
		}
		if worker == "" || worker == "local" {
			st, err := c.Status(ctx)
			for _, d := range st.Devices {
				add(d.Device.Device, d.Name)
			}
			return out, err
		}
		list, err := c.Workers(ctx)
		seen := map[string]bool{}
		for _, w := range list.Workers {
			for _, d := range w.Devices {
				if (w.Name == worker || worker == "any") && !seen[d.Device.Device] {
					seen[d.Device.Device] = true
					add(d.Device.Device, d.Name)
				}
			}
		}
		return out, err
	})
}

// Keys offers the keys of the queue.
func (o *Offers) Keys() cobra.CompletionFunc {
	return o.asked(func(ctx context.Context, c *client.Client, _ *cobra.Command, args []string, _ string) ([]cobra.Completion, error) {
		if len(args) > 0 {
			return nil, nil
		}
		q, err := c.Queue(ctx)
		var out []cobra.Completion
		for _, k := range q.Keys {
			out = append(out, k.Key)
		}
		return out, err
	})
}

// Hooks offers the names of hooks.
func (o *Offers) Hooks() cobra.CompletionFunc {
	return o.asked(func(ctx context.Context, c *client.Client, _ *cobra.Command, _ []string, _ string) ([]cobra.Completion, error) {
		list, err := c.Hooks(ctx)
		var out []cobra.Completion
		for _, h := range list.Hooks {
			out = append(out, h.Name)
		}
		return out, err
	})
}

// Tokens offers the names of users' tokens.
func (o *Offers) Tokens() cobra.CompletionFunc {
	return o.asked(func(ctx context.Context, c *client.Client, _ *cobra.Command, _ []string, _ string) ([]cobra.Completion, error) {
		list, err := c.Tokens(ctx)
		var out []cobra.Completion
		for _, t := range list.Tokens {
			out = append(out, cobra.CompletionWithDesc(t.Name, string(t.Role)))
		}
		return out, err
	})
}

// after offers runs, and how one that is waited for must end.
func (o *Offers) after() cobra.CompletionFunc {
	runs := o.Runs()
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if id, _, ok := strings.Cut(prefix, ":"); ok {
			return []cobra.Completion{id + ":ok", id + ":any", id + ":failed"}, cobra.ShellCompDirectiveNoFileComp
		}
		out, directive := runs(cmd, nil, prefix)
		return out, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// Contexts offers contexts, without asking anybody.
func (o *Offers) Contexts() cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		file, err := config.ReadFile(config.FilePath(o.env.Getenv))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if _, own := file.Contexts[config.Local]; !own {
			file.Contexts[config.Local] = config.Context{URL: "the control plane of this machine"}
		}
		var out []cobra.Completion
		for _, name := range slices.Sorted(maps.Keys(file.Contexts)) {
			if strings.HasPrefix(name, prefix) && !slices.Contains(args, name) {
				out = append(out, cobra.CompletionWithDesc(name, phrase.Clean(file.Contexts[name].URL)))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// words are the flags with few values.
func words() map[string][]cobra.Completion {
	statuses := []cobra.Completion{}
	for _, s := range run.Statuses() {
		statuses = append(statuses, string(s))
	}
	return map[string][]cobra.Completion{
		"status": statuses, "isolate": {"auto", "pidns", "userns", "keeper", "none"}, "log-format": {"text", "json"},
		"error-mode": {"fail_fast", "continue", "retry"}, "role": {"read", "submit", "admin"},
		"on":       {"started", "finished", "failed", "lost", "worker_down", "card_unhealthy"},
		"retry-on": {"user_code", "out_of_memory", "killed", "timeout", "worker_lost", "server"},
		"theme":    {"dark", "light", "none", "auto"}, "lang": {"en", "zh-TW"}, "strangers": {"respect", "refuse", "ignore"},
	}
}

// among offers those of a list that begin like what is typed, after a comma too.
func among(list []cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := prefix[:strings.LastIndexByte(prefix, ',')+1]
		var out []cobra.Completion
		for _, word := range list {
			if strings.HasPrefix(before+word, prefix) {
				out = append(out, before+word)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// Flags gives every flag of a command tree its completion, by its name, and
// where a flag takes neither a file nor something known, none.
func (o *Offers) Flags(root *cobra.Command) {
	byName := map[string]cobra.CompletionFunc{
		"context": o.Contexts(), "worker": o.targets(), "devices": o.devices(), "device": o.devices(), "set": o.params(), "after": o.after(),
	}
	for name, list := range words() {
		byName[name] = among(list)
	}
	files := []string{"data", "files", "python", "venv", "conda", "cwd", "ca", "token-file", "tls-cert", "tls-key", "ssh-config", "binary", "tunnel", "mount"}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		give := func(f *pflag.Flag) {
			_, has := cmd.GetFlagCompletionFunc(f.Name)
			if has || f.NoOptDefVal != "" || slices.Contains(files, f.Name) {
				return
			}
			complete := byName[f.Name]
			if complete == nil {
				complete = cobra.NoFileCompletions
			}
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails for one that has one
		}
		cmd.LocalNonPersistentFlags().VisitAll(give)
		cmd.PersistentFlags().VisitAll(give)
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}
