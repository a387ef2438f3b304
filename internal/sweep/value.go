package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cdui/internal/catalog"
)

// kind is what values a param takes.
type kind struct {
	// paramType is one of catalog's, empty for an argument, which takes any
	// scalar.
	paramType string
	low, high *float64
	options   []string
}

func kindOf(p catalog.Param) (kind, error) {
	switch p.ParamType {
	case catalog.ParamInt, catalog.ParamFloat, catalog.ParamBool, catalog.ParamString, catalog.ParamSelect:
		return kind{p.ParamType, p.MinValue, p.MaxValue, p.Options}, nil
	case catalog.ParamSecret:
		return kind{}, errors.New("is a secret and can't be swept")
	}
	return kind{}, fmt.Errorf("is a %s; int, float, bool, string and select can be swept", p.ParamType)
}

// domain gives the values of a param in their one spelling.
func (k kind) domain(p Param, most int) ([]json.RawMessage, error) {
	switch {
	case (len(p.Values) > 0) == (p.Range != nil):
		return nil, errors.New("give either values or a range")
	case p.Range != nil:
		return k.spread(*p.Range, most)
	case len(p.Values) > most:
		return nil, fmt.Errorf("has %d values, the limit is %d", len(p.Values), most)
	}
	out := make([]json.RawMessage, len(p.Values))
	for i, raw := range p.Values {
		v, err := k.coerce(raw)
		if err != nil {
			return nil, err
		}
		if j := index(out[:i], v); j >= 0 {
			return nil, fmt.Errorf("values %d and %d are both %s", j+1, i+1, v)
		}
		out[i] = v
	}
	return out, nil
}

func index(list []json.RawMessage, v json.RawMessage) int {
	return slices.IndexFunc(list, func(w json.RawMessage) bool { return bytes.Equal(v, w) })
}

// coerce reads one value as the param takes it.
func (k kind) coerce(raw json.RawMessage) (json.RawMessage, error) {
	text := string(bytes.TrimSpace(raw))
	shape := byte(0)
	if text != "" {
		shape = text[0]
	}
	switch {
	case !json.Valid(raw) || shape == '{' || shape == '[' || shape == 'n':
		return nil, fmt.Errorf("value %s: a value is a number, a string or true or false", text)
	case shape == '"':
		return k.str(raw)
	case shape == 't' || shape == 'f':
		if k.paramType != "" && k.paramType != catalog.ParamBool {
			return nil, fmt.Errorf("value %s: it takes %s", text, k.takes())
		}
		return json.RawMessage(text), nil
	}
	return k.number(text)
}

func (k kind) takes() string {
	switch k.paramType {
	case catalog.ParamInt:
		return "whole numbers"
	case catalog.ParamFloat:
		return "numbers"
	case catalog.ParamBool:
		return "true and false"
	case catalog.ParamSelect:
		return strings.Join(k.options, ", ")
	}
	return "strings"
}

func (k kind) str(raw json.RawMessage) (json.RawMessage, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("value %s: %w", raw, err)
	}
	switch {
	case k.paramType == catalog.ParamSelect && !slices.Contains(k.options, s):
		hint := "it takes " + k.takes()
		if near := catalog.Nearest(s, k.options); near != "" {
			hint = "did you mean " + near + "?"
		}
		return nil, fmt.Errorf("value %q: %s", s, hint)
	case k.paramType != "" && k.paramType != catalog.ParamString && k.paramType != catalog.ParamSelect:
		return nil, fmt.Errorf("value %q: it takes %s", s, k.takes())
	}
	return marshal(s), nil
}

func (k kind) number(text string) (json.RawMessage, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("value %s: it must be finite", text)
	}
	whole, isWhole := integer(text, f)
	switch k.paramType {
	case catalog.ParamInt:
		if !isWhole {
			return nil, fmt.Errorf("value %s: it takes whole numbers", text)
		}
	case catalog.ParamFloat, "":
	default:
		return nil, fmt.Errorf("value %s: it takes %s", text, k.takes())
	}
	switch {
	case k.low != nil && f < *k.low:
		return nil, fmt.Errorf("value %s: the least is %v", text, *k.low)
	case k.high != nil && f > *k.high:
		return nil, fmt.Errorf("value %s: the most is %v", text, *k.high)
	case isWhole && k.paramType != catalog.ParamFloat:
		return json.RawMessage(strconv.FormatInt(whole, 10)), nil
	}
	return marshal(f + 0), nil // -0 is 0
}

// exact is the largest float64 up to which every whole number has one.
const exact = 1 << 53

// integer gives a number that is whole: 5, 5.0 and 5e0.
func integer(text string, f float64) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	if f != math.Trunc(f) || math.Abs(f) > exact {
		return 0, false
	}
	return int64(f), true
}

func marshal(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // strings and finite numbers always do
	return bytes.TrimRight(b.Bytes(), "\n")
}

// spread gives the values of a range; those that rounding makes equal are one.
func (k kind) spread(r Range, most int) ([]json.RawMessage, error) {
	if k.paramType != "" && k.paramType != catalog.ParamInt && k.paramType != catalog.ParamFloat {
		return nil, fmt.Errorf("range: it takes %s; list the values", k.takes())
	}
	whole := r.Type == TypeInt || r.Type == "" && k.paramType == catalog.ParamInt
	low, high, err := r.bounds(whole, most)
	if err != nil {
		return nil, fmt.Errorf("range: %w", err)
	}
	n := *r.Count
	var out []json.RawMessage
	for i := range n {
		f := r.at(low, high, i, n)
		if whole {
			f = math.Round(f)
		}
		v, err := k.number(strconv.FormatFloat(f, 'f', -1, 64))
		if err != nil {
			return nil, fmt.Errorf("range: %w", err)
		}
		if index(out, v) < 0 {
			out = append(out, v)
		}
	}
	return out, nil
}

func (r Range) bounds(whole bool, most int) (low, high float64, err error) {
	switch {
	case r.Min == nil || r.Max == nil || r.Count == nil:
		return 0, 0, errors.New("it needs min, max and count")
	case *r.Count < 1 || *r.Count > most:
		return 0, 0, fmt.Errorf("count is %d; it can be 1 to %d", *r.Count, most)
	case r.Scale != "" && r.Scale != Linear && r.Scale != Log:
		return 0, 0, fmt.Errorf("scale is %q; use %s or %s", r.Scale, Linear, Log)
	case r.Type != "" && r.Type != TypeInt && r.Type != TypeFloat:
		return 0, 0, fmt.Errorf("type is %q; use %s or %s", r.Type, TypeInt, TypeFloat)
	}
	low, lowErr := strconv.ParseFloat(r.Min.String(), 64)
	high, highErr := strconv.ParseFloat(r.Max.String(), 64)
	switch {
	case lowErr != nil || highErr != nil || math.IsNaN(low) || math.IsInf(high-low, 0) || math.IsNaN(high-low):
		return 0, 0, errors.New("min and max must be finite numbers")
	case low > high:
		return 0, 0, fmt.Errorf("min %s is above max %s", r.Min, r.Max)
	case r.Scale == Log && low <= 0:
		return 0, 0, fmt.Errorf("min is %s; a log scale needs one above 0", r.Min)
	case whole && (low != math.Trunc(low) || high != math.Trunc(high) || math.Abs(low) > exact || math.Abs(high) > exact):
		return 0, 0, errors.New("min and max must be whole numbers")
	}
	return low, high, nil
}

// at gives value i of n; the ends are exact.
func (r Range) at(low, high float64, i, n int) float64 {
	switch i {
	case 0:
		return low
	case n - 1:
		return high
	}
	share := float64(i) / float64(n-1)
	if r.Scale == Log {
		from, to := math.Log10(low), math.Log10(high)
		return math.Pow(10, from+share*(to-from))
	}
	return low + share*(high-low)
}
