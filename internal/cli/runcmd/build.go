package runcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/pyruntime"
	"cdui/internal/run"
)

// found is what was seen of the surroundings.
type found struct {
	// kind says what File is.
	kind fileKind
	// path is File, absolute; graph its bytes when it is one.
	path  string
	graph json.RawMessage
	// program is a command's first word as this shell would find it.
	program string
	cwd     string
	env     map[string]string
	// interpreter and venv are absolute, empty when there is none.
	interpreter string
	venv        string
	git         *api.GitState
	// ship is the folder that goes along, empty when none does; code names it
	// once it is sent.
	ship  string
	code  *api.CodeRef
	after []run.After
	title string
}

// build makes the submit.
func build(o *Options, f found) (api.SubmitRequest, error) {
	opts := map[string]any{}
	set := func(key string, value any, given bool) {
		if given {
			opts[key] = value
		}
	}
	if o.Device != "" {
		device, err := run.ParseDevice(o.Device)
		if err != nil {
			return api.SubmitRequest{}, env.Usagef("--device: %v", err)
		}
		opts["device"] = device
	}
	if o.SeedSet && (o.Seed < 0 || o.Seed > run.MaxSeed) {
		return api.SubmitRequest{}, env.Usagef("--seed must be 0 to %d, not %d", run.MaxSeed, o.Seed)
	}
	set("seed", o.Seed, o.SeedSet)
	set("deterministic", true, o.Deterministic)
	set("record_outputs", true, o.RecordOutputs)
	set("provenance", true, o.Provenance)
	set("tags", o.Tags, len(o.Tags) > 0)
	set("note", o.Note, o.Note != "")
	set("key", o.Key, o.Key != "")
	set("hold", true, o.Hold)
	set("error_mode", o.ErrorMode, o.ErrorMode != "")
	set("max_retries", o.MaxRetries, o.MaxRetries != 0)
	set("max_run_seconds", time.Duration(o.TimeLimit).Seconds(), o.TimeLimit > 0)
	set("after", f.after, len(f.after) > 0)
	set("priority", o.Priority, o.Priority != 0)
	if err := target(o, opts); err != nil {
		return api.SubmitRequest{}, err
	}
	if err := retry(o, opts); err != nil {
		return api.SubmitRequest{}, err
	}
	body := api.SubmitRequest{Git: f.git}
	switch f.kind {
	case isGraph:
		body.Graph, body.Cwd, body.Name = f.graph, f.cwd, graphName(o.File)
	case isScript:
		opts["script"] = run.ScriptSpec{
			Path: f.path, Args: words(o.Args), Env: f.env, Cwd: f.cwd, Interpreter: f.interpreter, Venv: f.venv,
		}
	case isCommand:
		opts["command"] = run.CommandSpec{
			Argv: append([]string{f.program}, o.Args[1:]...), Env: f.env, Cwd: f.cwd, Venv: f.venv,
		}
	}
	if o.Name != "" {
		body.Name = &o.Name
	}
	raw, err := json.Marshal(opts)
	if err != nil {
		return body, fmt.Errorf("encode options: %w", err)
	}
	// The same check as the control plane's, so that a slip costs no round trip
	// and is a usage error.
	if _, err := run.ParseOptions(raw); err != nil {
		return body, env.Usagef("%v", err)
	}
	body.Options = raw
	return body, nil
}

func words(args []string) []string {
	if args == nil {
		return []string{}
	}
	return args
}

// titleOf is what the run is called until the control plane names it.
func titleOf(o *Options) string {
	words := o.Args
	if o.File != "" {
		words = append([]string{o.File}, o.Args...)
	}
	title := strings.Join(append([]string{filepath.Base(words[0])}, words[1:]...), " ")
	return text.Style{}.Crop(phrase.Clean(title), maxTitle)
}

// maxTitle keeps the title within a line.
const maxTitle = 60

// resolveAfter looks the runs of --after up, which may be shortened.
func resolveAfter(ctx context.Context, c Control, list []string) ([]run.After, error) {
	var out []run.After
	for _, entry := range list {
		id, condition, _ := strings.Cut(entry, ":")
		cond := run.AfterCondition(condition)
		switch cond {
		case "":
			cond = run.AfterOK
		case run.AfterOK, run.AfterAny, run.AfterFailed:
		default:
			return nil, env.Usagef("--after %s: the condition is ok, any or failed, not %q", entry, condition)
		}
		if id == "" {
			return nil, env.Usagef("--after %q names no run; write it as RUN or RUN:any", entry)
		}
		r, err := c.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, run.After{Run: r.ID, Condition: cond})
	}
	return out, nil
}

// variables reads --env. A bare NAME takes its value from the caller.
func variables(list []string, getenv func(string) string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, entry := range list {
		name, value, given := strings.Cut(entry, "=")
		if name == "" {
			return nil, env.Usagef("--env %q lacks a name; write it as NAME=VALUE", entry)
		}
		if pyruntime.SecretLooking(name) {
			return nil, env.Usagef("--env %s looks like a secret, and a run's options are kept in the database: let the program read it from a file instead", name)
		}
		if !given {
			value = getenv(name)
		}
		out[name] = value
	}
	return out, nil
}
