package workerscmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
	"cdui/internal/protocol"
)

// AddOptions is what add is asked.
type AddOptions struct {
	Name  string
	TTL   env.Duration
	JSON  bool
	Quiet bool
}

// NewAdd makes `cdui workers add`.
func NewAdd(e *env.Env, d Deps, runF func(context.Context, *AddOptions) error) *cobra.Command {
	o := &AddOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *AddOptions) error { return Add(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a one-time token for a new worker, and show what to run there",
		Long: `Make a one-time token and print the command that makes a worker of another machine.
The token enrolls one worker, once; the agent gets a token of its own for it and
keeps that. Workers are known by their name: lower-case letters, digits and
hyphens.`,
		Example: `  cdui workers add box1
  cdui workers add box1 --ttl 10m --json | jq -r .command`,
		Args: env.Args(1, 1, "a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.Var(&o.TTL, "ttl", "how long the token is good, such as 10m or 2d (default 24h)")
	env.JSONFlag(f, &o.JSON, "print token, command and expires_at as one JSON document", env.One[api.EnrollmentReply]())
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print the token alone")
	return cmd
}

// Add makes a one-time token.
func Add(ctx context.Context, e *env.Env, d Deps, o *AddOptions) error {
	if err := protocol.ValidName(o.Name); err != nil {
		return env.Usagef("%v", err)
	}
	reply, err := d.Client().AddWorker(ctx, o.Name, time.Duration(o.TTL))
	if err != nil {
		return err
	}
	return printEnrollment(e, o.Name, reply, o.JSON, o.Quiet)
}

func printEnrollment(e *env.Env, name string, reply api.EnrollmentReply, asJSON, quiet bool) error {
	switch {
	case asJSON:
		return e.JSON(reply)
	case quiet:
		e.Print("%s", reply.Token)
		return nil
	}
	valid := reply.ExpiresAt.Sub(e.Now()).Round(time.Minute)
	e.Print("On %s, run (valid %s, once):", name, validity(valid))
	e.Print("  %s", reply.Command)
	return nil
}

// validity is a duration without the parts that are nought: 24 h, 10 min.
func validity(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return text.Count(int(d/time.Hour)) + " h"
	case d >= time.Minute && d < time.Hour:
		return text.Count(int(d/time.Minute)) + " min"
	}
	return strings.TrimSuffix(text.Duration(d), " 00s")
}

func newRekey(e *env.Env, d Deps) *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "rekey WORKER",
		Short: "Take a worker's token away, and show how to enroll it again",
		Long: `Take a worker's token away, in case somebody else has seen it, and print the command
that enrolls it again. Its connection is closed; its runs go on there and are
resumed after the enrollment.`,
		Example:           `  cdui workers rekey box1`,
		Args:              env.Args(1, 1, "one worker"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := named(args); err != nil {
				return err
			}
			reply, err := d.Client().RekeyWorker(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printEnrollment(e, args[0], reply, asJSON, quiet)
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print token, command and expires_at as one JSON document", env.One[api.EnrollmentReply]())
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the token alone")
	return cmd
}
