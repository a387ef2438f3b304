package runcmd

import (
	"strings"
	"time"

	"cdui/internal/cli/env"
	"cdui/internal/config"
)

// autoMemory leaves a run's memory to what earlier runs took.
const autoMemory = "auto"

// target makes options.target of the flags about the place.
func target(o *Options, opts map[string]any) error {
	t := map[string]any{}
	if o.Worker != "" {
		t["worker"] = o.Worker
	}
	if len(o.Devices) > 0 {
		t["devices"] = o.Devices
	}
	if o.Immediate {
		t["wait"] = false
	}
	switch {
	case o.Memory == "":
	case strings.EqualFold(o.Memory, autoMemory):
		t["memory_source"] = "estimate"
	default:
		n, err := config.ParseBytes(o.Memory)
		if err != nil || n <= 0 {
			return env.Usagef("--memory %q is no size; use one such as 12GiB or 800MiB, or auto", o.Memory)
		}
		t["memory_gib"] = float64(n) / (1 << 30)
	}
	if len(t) > 0 {
		opts["target"] = t
	}
	return nil
}

// retry makes options.retry of the flags about repetitions.
func retry(o *Options, opts map[string]any) error {
	if o.Retry == 0 {
		if len(o.RetryOn) > 0 || o.RetryDelay > 0 {
			return env.Usagef("--retry-on and --retry-delay say when a run is repeated; --retry says how often")
		}
		return nil
	}
	r := map[string]any{"limit": o.Retry}
	if len(o.RetryOn) > 0 {
		r["on"] = o.RetryOn
	}
	if o.RetryDelay > 0 {
		r["delay_s"] = time.Duration(o.RetryDelay).Seconds()
	}
	opts["retry"] = r
	return nil
}
