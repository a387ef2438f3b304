package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/flat"
)

// compatible says whether an output may be wired to an input.
func compatible(source, target string) bool {
	switch {
	case source == catalog.PortTrigger || target == catalog.PortTrigger:
		return source == target
	case source == catalog.PortAny || target == catalog.PortAny || source == target:
		return true
	}
	return source == catalog.PortImage && target == catalog.PortTensor
}

// dynamicPorts lists the types whose ports depend on params.
var dynamicPorts = map[string]func(catalog.Definition, flat.Params) (inputs, outputs []catalog.Port){
	"Split": func(d catalog.Definition, given flat.Params) (inputs, outputs []catalog.Port) {
		return d.Inputs, numbered("chunk_", 0, count(d, given, "chunks", 32), catalog.PortTensor, nil)
	},
	"ComposeTransform": func(d catalog.Definition, given flat.Params) (inputs, outputs []catalog.Port) {
		return optional(numbered("step_", 1, count(d, given, "steps", 8), "TRANSFORM", nil)), d.Outputs
	},
	"PythonScript": func(d catalog.Definition, given flat.Params) (inputs, outputs []catalog.Port) {
		inputs = optional(numbered("in", 1, count(d, given, "input_ports", 8), catalog.PortAny, typeList(d, given, "input_types")))
		return inputs, numbered("out", 1, count(d, given, "output_ports", 8), catalog.PortAny, typeList(d, given, "output_types"))
	},
}

// portsOf gives the ports that a node of this type has with these params.
func portsOf(d catalog.Definition, given flat.Params) (inputs, outputs []catalog.Port) {
	if dynamic := dynamicPorts[d.NodeName]; dynamic != nil {
		return dynamic(d, given)
	}
	return d.Inputs, d.Outputs
}

// numbered gives n ports prefix<from>, prefix<from+1>, …
func numbered(prefix string, from, n int, dataType string, types []string) []catalog.Port {
	ports := make([]catalog.Port, n)
	for i := range ports {
		ports[i] = catalog.Port{Name: fmt.Sprintf("%s%d", prefix, from+i), DataType: dataType}
		if i < len(types) && types[i] != "" {
			ports[i].DataType = types[i]
		}
	}
	return ports
}

func optional(ports []catalog.Port) []catalog.Port {
	for i := range ports {
		ports[i].Optional = true
	}
	return ports
}

// value gives what a node's param is: as given, else the default.
func value(d catalog.Definition, given flat.Params, name string) json.RawMessage {
	if v, ok := given[name]; ok {
		return v
	}
	p, _ := d.Param(name)
	return p.Default
}

// count reads a number of ports from 1 to high; what makes no sense counts as the default.
func count(d catalog.Definition, given flat.Params, name string, high int) int {
	n, ok := leadingInt(value(d, given, name))
	if !ok {
		p, _ := d.Param(name)
		if n, ok = leadingInt(p.Default); !ok {
			n = 1
		}
	}
	return int(math.Max(1, math.Min(n, float64(high))))
}

// leadingInt reads an integer the way a browser does: "3 chunks" is 3, 2.9 is
// 2, and true is none.
func leadingInt(raw json.RawMessage) (float64, bool) {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return 0, false
	}
	switch v := v.(type) {
	case float64:
		return math.Floor(v), true
	case string:
		s := strings.TrimSpace(v)
		end := 0
		for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && (s[0] == '-' || s[0] == '+')) {
			end++
		}
		n, err := strconv.ParseFloat(s[:end], 64)
		return n, err == nil
	}
	return 0, false
}

func typeList(d catalog.Definition, given flat.Params, name string) []string {
	var s string
	if json.Unmarshal(value(d, given, name), &s) != nil {
		return nil
	}
	types := strings.Split(s, ",")
	for i := range types {
		types[i] = strings.ToUpper(strings.TrimSpace(types[i]))
	}
	return types
}

// hidden says whether a param means nothing beside the values of its siblings.
func hidden(d catalog.Definition, p catalog.Param, given flat.Params) bool {
	for sibling, wanted := range p.VisibleWhen {
		is := plain(value(d, given, sibling))
		var list []json.RawMessage
		if json.Unmarshal(wanted, &list) != nil {
			list = []json.RawMessage{wanted}
		}
		match := false
		for _, w := range list {
			match = match || plain(w) == is
		}
		if !match {
			return true
		}
	}
	return false
}

// plain gives a value as text, so that 1 and "1" are one.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	switch s = string(raw); s {
	case "true":
		return "True"
	case "false":
		return "False"
	}
	return s
}
