package edit

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/tree"
	"cdui/internal/run"
)

// Coerce reads what somebody typed for a param. Errors don't repeat the value
// of a secret.
func Coerce(p catalog.Param, text string) (any, error) {
	switch p.ParamType {
	case catalog.ParamInt:
		return integer(p, text)
	case catalog.ParamFloat:
		return float(p, text)
	case catalog.ParamBool:
		switch strings.ToLower(text) {
		case "true", "1", "yes", "on":
			return true, nil
		case "false", "0", "no", "off":
			return false, nil
		}
		return nil, fmt.Errorf("param %q is true or false, not %q", p.Name, text)
	case catalog.ParamSelect:
		return selected(p, text)
	case catalog.ParamTensorGrid:
		v, err := tree.Value(json.RawMessage(text))
		if _, list := v.([]any); err != nil || !list {
			return nil, fmt.Errorf("param %q is a grid of numbers as JSON, such as [[1, 0], [0, 1]], not %q", p.Name, text)
		}
		return v, nil
	}
	return text, nil
}

func integer(p catalog.Param, text string) (any, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		// 5.0 and 1e3 are whole too.
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return nil, fmt.Errorf("param %q is a whole number, not %q", p.Name, text)
		}
		n = int64(f)
	}
	if err := within(p, float64(n), text); err != nil {
		return nil, err
	}
	return json.Number(strconv.FormatInt(n, 10)), nil
}

func float(p catalog.Param, text string) (any, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("param %q is a number, not %q", p.Name, text)
	}
	if err := within(p, f, text); err != nil {
		return nil, err
	}
	// What was typed is kept where JSON can hold it: 3e-4 stays 3e-4.
	if json.Valid([]byte(text)) {
		return json.Number(text), nil
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), nil
}

func within(p catalog.Param, f float64, text string) error {
	if p.MinValue != nil && f < *p.MinValue {
		return fmt.Errorf("param %q is %s, the least is %v", p.Name, text, *p.MinValue)
	}
	if p.MaxValue != nil && f > *p.MaxValue {
		return fmt.Errorf("param %q is %s, the most is %v", p.Name, text, *p.MaxValue)
	}
	return nil
}

func selected(p catalog.Param, text string) (any, error) {
	if len(p.Options) == 0 || slices.Contains(p.Options, text) {
		return text, nil
	}
	// A node may be put on a device that the options, which name kinds, don't
	// list: cuda:1.
	if p.Name == "device" {
		if device, err := run.ParseDevice(text); err == nil {
			return device, nil
		}
	}
	if near := catalog.Nearest(text, p.Options); near != "" {
		return nil, fmt.Errorf("param %q is %q; did you mean %s?", p.Name, text, near)
	}
	return nil, fmt.Errorf("param %q is %q; it can be %s", p.Name, text, strings.Join(p.Options, ", "))
}
