// Package tree holds a graph file as the JSON that it is, so that values in it
// can be changed and everything else stays, also what nobody here knows.
// Numbers keep their digits; only the order of keys may change.
package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Object is a JSON object.
type Object = map[string]any

// Parse reads a file whose value is an object.
func Parse(raw json.RawMessage) (Object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o Object
	if err := dec.Decode(&o); err != nil {
		return nil, fmt.Errorf("read graph: %w", err)
	}
	if o == nil {
		return nil, errors.New("read graph: it must be an object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read graph: something follows its end")
	}
	return o, nil
}

// Value decodes one JSON value the way Parse does.
func Value(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("read value: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read value: something follows its end")
	}
	return v, nil
}

// Bytes writes an object as a file.
func Bytes(o Object) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil {
		return nil, fmt.Errorf("write graph: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Child gives the object under a key; a nil one for anything else.
func Child(o Object, key string) Object {
	c, _ := o[key].(Object)
	return c
}

// List gives the list under a key; a nil one for anything else.
func List(o Object, key string) []any {
	l, _ := o[key].([]any)
	return l
}

// Text gives the string under a key; "" for anything else.
func Text(o Object, key string) string {
	s, _ := o[key].(string)
	return s
}

// Make gives the object under a key, which it makes where there is none.
func Make(o Object, key string) Object {
	c, ok := o[key].(Object)
	if !ok || c == nil {
		c = Object{}
		o[key] = c
	}
	return c
}
