package workerscmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/text"
	"cdui/internal/protocol"
)

// newAdd makes `cdui workers add`.
func newAdd(e *env.Env, d Deps) *cobra.Command {
	var ttl env.Duration
	cmd := enrollment(e, func(ctx context.Context, name string) (api.EnrollmentReply, error) {
		if err := protocol.ValidName(name); err != nil {
			return api.EnrollmentReply{}, env.Usagef("%v", err)
		}
		return d.Client().AddWorker(ctx, name, time.Duration(ttl))
	}, &cobra.Command{
		Use:   "add NAME",
		Short: "Make a one-time token for a new worker, and show what to run there",
		Long: `Make a one-time token and print the command that makes a worker of another machine.
The token enrolls one worker, once; the agent gets a token of its own for it and
keeps that. Workers are known by their name: lower-case letters, digits and
hyphens.`,
		Example: `  cdui workers add box1
  cdui workers add box1 --ttl 10m --json | jq -r .command`,
		Args: env.Args(1, 1, "a name"),
	})
	cmd.Flags().Var(&ttl, "ttl", "how long the token is good, such as 10m or 2d (default 24h)")
	return cmd
}

func newRekey(e *env.Env, d Deps) *cobra.Command {
	return enrollment(e, func(ctx context.Context, name string) (api.EnrollmentReply, error) {
		if err := named([]string{name}); err != nil {
			return api.EnrollmentReply{}, err
		}
		return d.Client().RekeyWorker(ctx, name)
	}, &cobra.Command{
		Use:   "rekey WORKER",
		Short: "Take a worker's token away, and show how to enroll it again",
		Long: `Take a worker's token away, in case somebody else has seen it, and print the command
that enrolls it again. Its connection is closed; its runs go on there and are
resumed after the enrollment.`,
		Example:           `  cdui workers rekey box1`,
		Args:              env.Args(1, 1, "one worker"),
		ValidArgsFunction: complete(d),
	})
}

// enrollment makes a command that is answered with a one-time token.
func enrollment(e *env.Env, ask func(ctx context.Context, name string) (api.EnrollmentReply, error), cmd *cobra.Command) *cobra.Command {
	name := ""
	answer := noun.Answer[api.EnrollmentReply]{
		Ask: func(ctx context.Context, args []string) (api.EnrollmentReply, error) {
			name = args[0]
			return ask(ctx, name)
		},
		ID: func(r api.EnrollmentReply) string { return r.Token }, IDs: "the token",
		Show: func(r api.EnrollmentReply) error {
			valid := r.ExpiresAt.Sub(e.Now()).Round(time.Minute)
			e.Print("On %s, run (valid %s, once):", name, validity(valid))
			e.Print("  %s", r.Command)
			return nil
		},
	}
	return answer.On(e, cmd)
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
