package runcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/run"
)

// RerunOptions is what `cdui runs rerun` is asked.
type RerunOptions struct {
	Run       string
	Args      []string
	ArgsSet   bool
	Name      string
	Device    string
	Worker    string
	Devices   []string
	Memory    string
	Seed      int64
	SeedSet   bool
	Tags      []string
	Note      string
	TimeLimit env.Duration
	Hold      bool
	Watch     Watch
}

// Rerunner is what a rerun needs of a control plane beside the rest.
type Rerunner interface {
	Control
	Rerun(ctx context.Context, id string, body api.RerunRequest) (api.SubmitReply, error)
}

// NewRerun makes the command.
func NewRerun(e *env.Env, deps Deps, control func() Rerunner, runF func(context.Context, *RerunOptions) error) *cobra.Command {
	o := &RerunOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *RerunOptions) error { return Rerun(ctx, e, deps, control(), o) }
	}
	cmd := &cobra.Command{
		Use:   "rerun RUN [flags] [-- ARGS]",
		Short: "Run a copy of a run, with changes",
		Long: `Queue a copy of a run and follow it. Flags change single options, and what
comes after -- takes the place of the script's or command's arguments. The copy
remembers which run it comes from.`,
		Example: `  cdui runs rerun 3f1c9a
  cdui runs rerun 3f1c9a --device cuda:1 -- --lr 1e-4`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			before := args
			if dash >= 0 {
				before, o.Args, o.ArgsSet = args[:dash], args[dash:], true
			}
			if len(before) != 1 {
				return env.Usagef("rerun takes one run, and new arguments after --: cdui runs rerun RUN -- ARGS")
			}
			o.Run, o.SeedSet = before[0], cmd.Flags().Changed("seed")
			if err := o.Watch.check(); err != nil {
				return err
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Name, "name", "", "what the copy is called")
	f.StringVar(&o.Device, "device", "", "another device")
	f.StringSliceVar(&o.Devices, "devices", nil, "other devices, that it needs together")
	f.StringVar(&o.Worker, "worker", "", "another place: local, any or a worker's name")
	f.StringVar(&o.Memory, "memory", "", "another memory budget, such as 12GiB, or auto")
	f.Int64Var(&o.Seed, "seed", 0, "another seed")
	f.StringSliceVar(&o.Tags, "tag", nil, "other tags; may be repeated")
	f.StringVar(&o.Note, "note", "", "another note")
	f.Var(&o.TimeLimit, "time-limit", "another time limit")
	f.BoolVar(&o.Hold, "hold", false, "queue it, but don't start it before it is released")
	o.Watch.flags(f)
	return cmd
}

// request makes the body of a rerun.
func (o *RerunOptions) request() (api.RerunRequest, error) {
	changes := map[string]any{}
	if o.Device != "" {
		device, err := run.ParseDevice(o.Device)
		if err != nil {
			return api.RerunRequest{}, env.Usagef("--device: %v", err)
		}
		changes["device"] = device
	}
	if err := target(&Options{Worker: o.Worker, Devices: o.Devices, Memory: o.Memory}, changes); err != nil {
		return api.RerunRequest{}, err
	}
	if o.SeedSet {
		if o.Seed < 0 || o.Seed > run.MaxSeed {
			return api.RerunRequest{}, env.Usagef("--seed must be 0 to %d, not %d", run.MaxSeed, o.Seed)
		}
		changes["seed"] = o.Seed
	}
	if len(o.Tags) > 0 {
		changes["tags"] = o.Tags
	}
	if o.Note != "" {
		changes["note"] = o.Note
	}
	if o.TimeLimit > 0 {
		changes["max_run_seconds"] = time.Duration(o.TimeLimit).Seconds()
	}
	if o.Hold {
		changes["hold"] = true
	}
	body := api.RerunRequest{}
	for key, value := range changes {
		raw, err := json.Marshal(value)
		if err != nil {
			return body, fmt.Errorf("encode option %s: %w", key, err)
		}
		if body.Options == nil {
			body.Options = map[string]json.RawMessage{}
		}
		body.Options[key] = raw
	}
	if o.ArgsSet {
		body.Args = words(o.Args)
	}
	if o.Name != "" {
		body.Name = &o.Name
	}
	return body, nil
}

// Rerun queues the copy and follows it.
func Rerun(ctx context.Context, e *env.Env, deps Deps, control Rerunner, o *RerunOptions) error {
	body, err := o.request()
	if err != nil {
		return err
	}
	from, err := control.Run(ctx, o.Run)
	if err != nil {
		return err
	}
	reply, err := control.Rerun(ctx, from.ID, body)
	if err != nil {
		return err
	}
	return show(ctx, e, deps, control, reply, phrase.Title(from.Row), &o.Watch)
}
