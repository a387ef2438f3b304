package agentcmd

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/agent"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/warm/stock"
)

// Running is the agents that run on this machine.
type Running struct {
	Agents []agent.Status `json:"agents"`
}

func newStatus(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the agents of this machine",
		Long: `Show the agents that run on this machine, or one of them: whether the control plane
knows them, what they offer, which runs they have.`,
		Example: `  cdui agent status
  cdui agent status --json | jq '.agents[].connected'`,
		Args:              env.Args(0, 1, "one agent"),
		ValidArgsFunction: complete(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			return status(cmd.Context(), e, strings.Join(args, ""), asJSON)
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print one JSON document", env.One(Running{}))
	return cmd
}

func status(ctx context.Context, e *env.Env, name string, asJSON bool) error {
	data, err := e.DataFolder()
	if err != nil {
		return err
	}
	var list []agent.Status
	if name == "" {
		list, err = running(ctx, data.Path)
	} else {
		var s agent.Status
		s, err = agent.Query(ctx, data.Path, name)
		list = []agent.Status{s}
	}
	switch {
	case errors.Is(err, agent.ErrNotRunning):
		return &client.Unreachable{Text: err.Error(), Absent: true}
	case err != nil:
		return err
	case asJSON:
		return e.JSON(Running{Agents: list})
	case len(list) == 0:
		return &client.Unreachable{Text: "no agent is running here; start one with: cdui agent start", Absent: true}
	}
	for _, s := range list {
		if err := show(e, s); err != nil {
			return err
		}
	}
	return nil
}

func show(e *env.Env, s agent.Status) error {
	style := e.Style()
	mark, words := run.Running, "connected"
	switch {
	case s.Refused:
		mark, words = run.Failed, "refused"
	case !s.Connected:
		mark, words = run.Disconnected, "not connected"
	case s.Draining:
		words = "connected, draining"
	}
	if s.Since != nil {
		words += " for " + text.Age(e.Now().Sub(*s.Since))
	}
	e.Print("%s %s  %s   pid %d   v%s", style.PaintedMark(mark, false), s.Name, words, s.PID, s.Version)
	t := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {Flex: true, Wrap: true, Min: 12}}}
	row := func(name, value string) {
		if value != "" {
			t.Add(text.Cell{}, text.Cell{Text: name, Colour: text.Grey}, text.Cell{Text: phrase.Clean(value)})
		}
	}
	row("control", s.Control)
	row("problem", s.Problem)
	row("devices", strings.Join(s.Devices, ", "))
	row("python", strings.TrimSpace(s.Python+withTorch(s)))
	row("isolation", s.Isolation)
	row("spares", sparesOf(s.Spares))
	row("runs", runsOf(s.Runs))
	return t.Write(e.Out, style)
}

func withTorch(s agent.Status) string {
	switch {
	case s.Python == "":
		return ""
	case s.Torch == "":
		return ", no torch"
	}
	return ", torch " + s.Torch
}

func sparesOf(list []stock.Status) string {
	var out []string
	for _, sp := range list {
		words := sp.Device + " " + string(sp.Kind)
		if !sp.Ready {
			words += " (starting)"
		}
		out = append(out, words)
	}
	return strings.Join(out, ", ")
}

func runsOf(list []protocol.AliveRun) string {
	var out []string
	for _, r := range list {
		words := run.Short(r.RunID)
		if r.State != protocol.AliveRunning {
			words += " (" + string(r.State) + ")"
		}
		out = append(out, words)
	}
	return strings.Join(out, ", ")
}
