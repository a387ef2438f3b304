package function

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/finding"
)

// Arguments turns what a caller sends into the values of a graph's inputs, by
// name, each of its input's type. An input that is left out and not required
// takes its default.
func (c Contract) Arguments(sent map[string]json.RawMessage) (map[string]json.RawMessage, []Problem) {
	values := map[string]json.RawMessage{}
	var problems []Problem
	names := map[string]bool{}
	for _, in := range c.Inputs {
		names[in.Name] = true
		raw, ok := sent[in.Name]
		var err error
		switch {
		case ok && string(raw) != "null" || ok && in.Type == TypeJSON:
			values[in.Name], err = in.coerce(raw)
		case in.Required:
			err = fmt.Errorf("it is required")
		default:
			values[in.Name], err = in.fromDefault()
		}
		if err != nil {
			problems = append(problems, Problem{Code: CodeInvalidInput, NodeID: in.NodeID, Message: fmt.Sprintf("input %q: %s", in.Name, err)})
		}
	}
	known := slices.Sorted(maps.Keys(names))
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if names[name] {
			continue
		}
		hint := ""
		if near := catalog.Nearest(name, known); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
		problems = append(problems, Problem{Code: CodeInvalidInput, Message: fmt.Sprintf("the graph has no input %q%s", name, hint)})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return values, nil
}

// fromDefault reads the default, which is text whatever the type.
func (in Input) fromDefault() (json.RawMessage, error) {
	trimmed := strings.TrimSpace(in.Default)
	switch {
	case in.Type == TypeString:
		return json.Marshal(in.Default)
	case trimmed == "":
		return json.RawMessage("null"), nil
	case in.Type == TypeJSON:
		if !json.Valid([]byte(trimmed)) {
			return nil, fmt.Errorf("%q is not JSON", in.Default)
		}
		return json.RawMessage(trimmed), nil
	}
	quoted, err := json.Marshal(trimmed)
	if err != nil {
		return nil, err
	}
	return in.coerce(quoted)
}

// coerce makes a JSON value one of the input's type. Text that is a number or
// a boolean to the last letter counts as one.
func (in Input) coerce(raw json.RawMessage) (json.RawMessage, error) {
	if in.Type == TypeJSON {
		return raw, nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	s, isText := v.(string)
	switch in.Type {
	case TypeString:
		if isText {
			return raw, nil
		}
	case TypeNumber, TypeInteger:
		if isText {
			v, raw = parseNumber(s)
		}
		n, ok := v.(float64)
		if ok && in.Type == TypeNumber {
			return raw, nil
		}
		if ok && n == math.Trunc(n) && math.Abs(n) <= 1<<53 {
			return json.RawMessage(strconv.FormatInt(int64(n), 10)), nil
		}
	case TypeBoolean:
		if b, ok := v.(bool); ok {
			v, s, isText = b, strconv.FormatBool(b), true
		}
		if low := strings.ToLower(s); isText && (low == "true" || low == "false") {
			return json.RawMessage(low), nil
		}
	case TypeImage:
		return image(s, isText)
	}
	return nil, fmt.Errorf("it must be %s, not %s", article(in.Type), kind(v))
}

func parseNumber(s string) (any, json.RawMessage) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return s, nil
	}
	return f, json.RawMessage(strconv.FormatFloat(f, 'g', -1, 64))
}

// image takes base64, with or without the head of a data URL.
func image(s string, isText bool) (json.RawMessage, error) {
	if _, body, ok := strings.Cut(s, ";base64,"); ok && strings.HasPrefix(s, "data:") {
		s = body
	}
	if _, err := base64.StdEncoding.DecodeString(s); !isText || s == "" || err != nil {
		return nil, fmt.Errorf("it must be an image file as base64")
	}
	return json.Marshal(s)
}

func article(t string) string {
	if t == TypeInteger {
		return "an integer"
	}
	return "a " + t
}

func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(finding.Short(v))
	case bool:
		return "a boolean"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		return "a list"
	}
	return "an object"
}
