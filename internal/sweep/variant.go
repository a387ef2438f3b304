package sweep

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cdui/internal/graph/tree"
)

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// Apply gives the base with the values of a variant.
func (p Plan) Apply(base Base, v Variant) (Base, error) {
	switch {
	case base.Script != nil:
		s := *base.Script
		s.Args = p.args(s.Args, v)
		return Base{Script: &s}, nil
	case base.Command != nil:
		c := *base.Command
		c.Argv = slices.Concat(c.Argv[:1], p.args(c.Argv[1:], v))
		return Base{Command: &c}, nil
	}
	file, err := tree.Parse(base.Graph)
	if err != nil {
		return Base{}, fmt.Errorf("base_graph: %w", err)
	}
	for i, d := range p.Params {
		value, err := tree.Value(v.Values[i])
		if err != nil {
			return Base{}, fmt.Errorf("set %s: %w", d.Label(), err)
		}
		for _, x := range tree.List(file, "nodes") {
			if o, ok := x.(tree.Object); ok && tree.Text(o, "id") == d.NodeID {
				tree.Make(tree.Make(o, "data"), "params")[d.Param] = value
			}
		}
	}
	raw, err := tree.Bytes(file)
	return Base{Graph: raw}, err
}

// args sets each swept argument: in its place where the base has it, else at
// the end.
func (p Plan) args(base []string, v Variant) []string {
	args := slices.Clone(base)
	for i, d := range p.Params {
		args = setArg(args, d.Arg, v.Values[i])
	}
	return args
}

// setArg sets one argument. A dashed one that is true or false is a flag, which
// is there or isn't.
func setArg(args []string, arg string, value json.RawMessage) []string {
	text := argText(value)
	dashed := strings.HasPrefix(arg, "-")
	flag := dashed && (text == "true" || text == "false") && value[0] != '"'
	at := len(args) - 1 // the last one is what programs go by
	for at >= 0 && args[at] != arg && !strings.HasPrefix(args[at], arg+"=") {
		at--
	}
	switch {
	case flag && text == "false":
		return slices.DeleteFunc(args, func(a string) bool { return a == arg })
	case flag && at >= 0:
		return args
	case flag:
		return append(args, arg)
	case at >= 0 && args[at] != arg || !dashed:
		if at < 0 {
			return append(args, arg+"="+text)
		}
		args[at] = arg + "=" + text
		return args
	case at >= 0 && at+1 < len(args):
		args[at+1] = text
		return args
	case at >= 0:
		return append(args, text)
	}
	return append(args, arg, text)
}

func argText(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}
