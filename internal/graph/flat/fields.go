package flat

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// fields is a JSON object whose members are read by their exact names, as the
// other readers of the format do; encoding/json would ignore case.
type fields map[string]json.RawMessage

func parseFields(raw json.RawMessage) (fields, error) {
	var f fields
	if first(raw) != '{' {
		return nil, fmt.Errorf("must be an object")
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("must be an object: %w", err)
	}
	return f, nil
}

// get gives a member; null counts as absent.
func (f fields) get(name string) (json.RawMessage, bool) {
	v, ok := f[name]
	if !ok || string(v) == "null" {
		return nil, false
	}
	return v, true
}

func (f fields) text(name string) (string, error) {
	v, ok := f.get(name)
	if !ok {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", fmt.Errorf("%q must be a string", name)
	}
	return s, nil
}

func (f fields) list(name string) ([]json.RawMessage, error) {
	v, ok := f.get(name)
	if !ok {
		return nil, nil
	}
	var l []json.RawMessage
	if err := json.Unmarshal(v, &l); err != nil {
		return nil, fmt.Errorf("%q must be a list", name)
	}
	return l, nil
}

func (f fields) object(name string) (fields, error) {
	v, ok := f.get(name)
	if !ok {
		return nil, nil
	}
	o, err := parseFields(v)
	if err != nil {
		return nil, fmt.Errorf("%q %w", name, err)
	}
	return o, nil
}

// first gives the byte that a value begins with.
func first(raw json.RawMessage) byte {
	if t := bytes.TrimSpace(raw); len(t) > 0 {
		return t[0]
	}
	return 0
}
