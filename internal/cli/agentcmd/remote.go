package agentcmd

import (
	"github.com/spf13/cobra"

	"cdui/internal/agent/forget"
	"cdui/internal/agent/via"
	"cdui/internal/cli/env"
	"cdui/internal/protocol"
	"cdui/internal/tlspin"
)

// reached is the end of a tunnel that leads to the control plane.
type reached struct {
	Reached string `json:"reached"`
}

// forgotten is an agent whose folder is removed.
type forgotten struct {
	Forgotten string `json:"forgotten"`
}

// newReach makes `cdui agent reach`, which `cdui agent ssh` calls on the other
// machine: whether a tunnel leads to the control plane.
func newReach(e *env.Env) *cobra.Command {
	var pin string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "reach --pin PIN END",
		Hidden:  true,
		Short:   "Tell whether a tunnel leads to the control plane with a key",
		Example: `  cdui agent reach --pin sha256:... 127.0.0.1:43211`,
		Args:    env.Args(1, 1, "one end of a tunnel"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := tlspin.Parse(pin)
			if err != nil {
				return env.Usagef("--pin: %v", err)
			}
			if err := via.Reach(cmd.Context(), args[0], key); err != nil {
				return env.Failed("%s", err)
			}
			if asJSON {
				return e.JSON(reached{args[0]})
			}
			e.Print("the control plane answers at %s", args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&pin, "pin", "", "key of the control plane, sha256:...")
	env.JSONFlag(cmd.Flags(), &asJSON, "print the end as one JSON document", env.One(reached{}))
	return cmd
}

// newForget makes `cdui agent forget`, the last that `cdui agent ssh --uninstall`
// does with the cdui of the other machine.
func newForget(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "forget NAME",
		Hidden:  true,
		Short:   "Remove the folder of an agent that is not running, with all that it holds",
		Example: `  cdui agent forget box1`,
		Args:    env.Args(1, 1, "one agent"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := protocol.ValidName(args[0]); err != nil {
				return env.Usagef("%v", err)
			}
			data, err := e.DataFolder()
			if err != nil {
				return err
			}
			if err := forget.Agent(cmd.Context(), data.Path, args[0]); err != nil {
				return env.Failed("%s", err)
			}
			if asJSON {
				return e.JSON(forgotten{args[0]})
			}
			e.Print("forgot %s", args[0])
			return nil
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print its name as one JSON document", env.One(forgotten{}))
	return cmd
}
