package sweep

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"cdui/internal/run"
)

// The methods of choosing combinations.
const (
	Grid   = "grid"
	Random = "random"
)

// The directions of an objective.
const (
	Minimize = "minimize"
	Maximize = "maximize"
)

// The scales and types of a range.
const (
	Linear = "linear"
	Log    = "log"

	TypeInt   = "int"
	TypeFloat = "float"
)

// Spec is which values a sweep tries.
type Spec struct {
	Method string `json:"method"`
	// Seed of the draw, and of the variants' own seeds.
	Seed    *int64  `json:"seed,omitempty"`
	Samples *int    `json:"samples,omitempty"`
	Params  []Param `json:"params"`
}

// Param is one thing that is swept: a param of a node, or an argument of a
// script or command. Exactly one of Values and Range is given.
type Param struct {
	Address
	Values []json.RawMessage `json:"values,omitempty"`
	Range  *Range            `json:"range,omitempty"`
}

// Address says what is swept. Arg stands alone: --lr becomes "--lr VALUE", lr
// becomes "lr=VALUE".
type Address struct {
	NodeID string `json:"node_id,omitempty"`
	Param  string `json:"param,omitempty"`
	Arg    string `json:"arg,omitempty"`
}

// Label is the address in one word, as tables and CSV have it.
func (a Address) Label() string {
	if a.Arg != "" {
		return a.Arg
	}
	return a.NodeID + "." + a.Param
}

// Range is evenly spaced values from Min to Max, both of them included.
type Range struct {
	Min   *json.Number `json:"min"`
	Max   *json.Number `json:"max"`
	Count *int         `json:"count"`
	// Scale is linear unless it is log; Type is the param's own unless given.
	Scale string `json:"scale,omitempty"`
	Type  string `json:"type,omitempty"`
}

// Objective is the series that variants are ranked by.
type Objective struct {
	Metric    string `json:"metric"`
	Direction string `json:"direction"`
}

// MaxMetricChars bounds the name of an objective's series.
const MaxMetricChars = 128

// Check refuses an objective that says nothing.
func (o Objective) Check() error {
	n := utf8.RuneCountInString(o.Metric)
	switch {
	case strings.TrimSpace(o.Metric) == "":
		return fmt.Errorf("objective.metric: name the series to rank by")
	case n > MaxMetricChars:
		return fmt.Errorf("objective.metric: has %d characters, the limit is %d", n, MaxMetricChars)
	case o.Direction != Minimize && o.Direction != Maximize:
		return fmt.Errorf("objective.direction: is %q; use %s or %s", o.Direction, Minimize, Maximize)
	}
	return nil
}

// Limits bound a sweep.
type Limits struct {
	// Runs is how many variants, Params how many params, Domain how many values
	// of one param.
	Runs, Params, Domain int
}

// Base is what the variants differ from: a graph, a script or a command.
type Base struct {
	Graph   json.RawMessage
	Script  *run.ScriptSpec
	Command *run.CommandSpec
}

// OutputRuns is how many runs' recorded outputs are kept side by side.
const OutputRuns = 20

// CheckOptions refuses options that can't hold for every variant. raw is the
// options as they were submitted.
func CheckOptions(raw json.RawMessage, spec Spec, seedVariants bool, variants int) error {
	var given map[string]json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &given) != nil {
		return fmt.Errorf("options: must be an object")
	}
	has := func(key string) bool { v, ok := given[key]; return ok && string(v) != "null" }
	var lane string
	_ = json.Unmarshal(given["lane"], &lane) // what is no string is refused with the options
	var record bool
	_ = json.Unmarshal(given["record_outputs"], &record)
	switch {
	case has("seed"):
		return fmt.Errorf("option \"seed\": every variant would have the same; give the sweep a seed and seed_variants")
	case has("key"):
		return fmt.Errorf("option \"key\": it belongs to one run; give the sweep a key")
	case lane == "interactive":
		return fmt.Errorf("option \"lane\": a sweep queues; leave the interactive lane out")
	case record && variants > OutputRuns:
		return fmt.Errorf("option \"record_outputs\": outputs of %d runs are kept at a time, and the sweep has %d variants", OutputRuns, variants)
	case seedVariants && spec.Seed == nil:
		return fmt.Errorf("seed_variants: the variants' seeds count up from the sweep's seed; give one")
	}
	return nil
}
