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
)

// deviceChange is a command that changes the policy of one device.
type deviceChange struct {
	use, short, long, example string
	// extra is what stands behind worker and device.
	extra int
	flags func(cmd *cobra.Command)
	// change makes what is sent of what stands behind.
	change func(cmd *cobra.Command, extra []string) (api.DevicePolicyChange, error)
	said   func(p api.DevicePolicy) string
}

func newDeviceChange(e *env.Env, d Deps, dc deviceChange) *cobra.Command {
	what := "a worker and a device"
	if dc.extra > 0 {
		what += ", and on or off"
	}
	cmd := &cobra.Command{
		Use: dc.use, Short: dc.short, Long: dc.long, Example: dc.example,
		Args:              env.Args(2+dc.extra, 2+dc.extra, what),
		ValidArgsFunction: completeDevice(d, dc.extra),
	}
	if dc.flags != nil {
		dc.flags(cmd)
	}
	answer := noun.Answer[api.DevicePolicy]{
		Ask: func(ctx context.Context, args []string) (api.DevicePolicy, error) {
			var none api.DevicePolicy
			if err := named(args[:1]); err != nil {
				return none, err
			}
			device := strings.ToLower(strings.TrimSpace(args[1]))
			if device == "" {
				return none, env.Usagef("the device is empty; cdui workers show %s lists them", args[0])
			}
			change, err := dc.change(cmd, args[2:])
			if err != nil {
				return none, err
			}
			return d.Client().SetDevice(ctx, args[0], device, change)
		},
		Show: func(p api.DevicePolicy) error {
			e.Print("%s", dc.said(p))
			return nil
		},
	}
	return answer.On(e, cmd)
}

// completeDevice offers workers, then their devices, then on and off.
func completeDevice(d Deps, extra int) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	workers := complete(d)
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return workers(cmd, args, prefix)
		case len(args) == 2 && extra > 0:
			return []cobra.Completion{"on", "off"}, cobra.ShellCompDirectiveNoFileComp
		case len(args) > 1:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		w, err := d.Client().Worker(ctx, args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, dev := range w.Devices {
			if strings.HasPrefix(dev.Device.Device, prefix) {
				out = append(out, cobra.CompletionWithDesc(dev.Device.Device, dev.Name))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

func onDevice(p api.DevicePolicy) string { return p.Worker + "/" + p.Device }

func newShare(e *env.Env, d Deps) *cobra.Command {
	return newDeviceChange(e, d, deviceChange{
		use: "share WORKER DEVICE on|off", short: "Let several runs share a card by their memory",
		long: `Let several runs share a worker's card by their memory: those with --memory are let
in as long as their budgets fit, those without want the card to themselves. When
several workers offer the card, all of them must share it.`,
		example: "  cdui workers share box1 cuda:0 on\n  cdui run train.py --worker box1 --device cuda:0 --memory 12GiB",
		extra:   1,
		change: func(_ *cobra.Command, extra []string) (api.DevicePolicyChange, error) {
			on := strings.EqualFold(extra[0], "on")
			if !on && !strings.EqualFold(extra[0], "off") {
				return api.DevicePolicyChange{}, env.Usagef("%q is neither on nor off", extra[0])
			}
			return api.DevicePolicyChange{Shared: &on}, nil
		},
		said: func(p api.DevicePolicy) string {
			if p.Shared {
				return onDevice(p) + " is shared by memory"
			}
			return onDevice(p) + " is not shared"
		},
	})
}

func newCordon(e *env.Env, d Deps) *cobra.Command {
	reason := ""
	return newDeviceChange(e, d, deviceChange{
		use: "cordon WORKER DEVICE", short: "Keep new runs from one device; what runs there goes on",
		long:    "Keep new runs from one device; what runs there goes on. The worker local is the\ncontrol plane's own machine.",
		example: "  cdui workers cordon box1 cuda:1 --reason 'fan is loud'\n  cdui workers cordon local cuda:0",
		flags:   func(cmd *cobra.Command) { cmd.Flags().StringVar(&reason, "reason", "", "why, for those who wait") },
		change: func(*cobra.Command, []string) (api.DevicePolicyChange, error) {
			on := true
			return api.DevicePolicyChange{Cordoned: &on, Reason: &reason}, nil
		},
		said: func(p api.DevicePolicy) string { return onDevice(p) + " takes no new runs" },
	})
}

func newUncordon(e *env.Env, d Deps) *cobra.Command {
	return newDeviceChange(e, d, deviceChange{
		use: "uncordon WORKER DEVICE", short: "Let a device take runs again",
		example: "  cdui workers uncordon box1 cuda:1",
		change: func(*cobra.Command, []string) (api.DevicePolicyChange, error) {
			off := false
			return api.DevicePolicyChange{Cordoned: &off}, nil
		},
		said: func(p api.DevicePolicy) string { return onDevice(p) + " takes runs again" },
	})
}

func newSet(e *env.Env, d Deps) *cobra.Command {
	limit, strangers := 0, ""
	return newDeviceChange(e, d, deviceChange{
		use: "set WORKER DEVICE", short: "Change how many runs a device takes, and what other people's processes mean",
		long: `Change how many runs a device takes at a time, and what other people's processes on
it mean: with respect their memory counts (the default on shared cards), with
refuse the device takes no runs while they are there, with ignore they don't
count (the default elsewhere).`,
		example: "  cdui workers set box1 cuda:0 --cap 2\n  cdui workers set box1 cuda:1 --strangers refuse",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().IntVar(&limit, "cap", 0, "how many runs at a time; 0 for what the control plane's settings say")
			cmd.Flags().StringVar(&strangers, "strangers", "", "respect, refuse or ignore; empty for the default")
		},
		change: func(cmd *cobra.Command, _ []string) (api.DevicePolicyChange, error) {
			var c api.DevicePolicyChange
			if cmd.Flags().Changed("cap") {
				c.Cap = &limit
			}
			if cmd.Flags().Changed("strangers") {
				c.Strangers = &strangers
			}
			if c == (api.DevicePolicyChange{}) {
				return c, env.Usagef("say what to set: --cap, --strangers or both")
			}
			return c, nil
		},
		said: func(p api.DevicePolicy) string {
			takes := "as many runs as the settings say"
			if p.Cap == 1 {
				takes = "1 run at a time"
			} else if p.Cap > 1 {
				takes = text.Count(p.Cap) + " runs at a time"
			}
			return onDevice(p) + " takes " + takes + "; strangers: " + p.Strangers
		},
	})
}
