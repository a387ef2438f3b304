package env

import (
	"reflect"
	"strconv"

	"github.com/spf13/pflag"
)

// Document is what a command prints with --json.
type Document struct {
	// Of is the type that is printed.
	Of reflect.Type
	// Lines is true for a stream: one document a line.
	Lines bool
	// When says when it is this one, empty where there is no other.
	When string
}

// One is a document that is printed once, of the type of what it is given.
func One(of any) Document { return Document{Of: reflect.TypeOf(of)} }

// Lines is a document that is printed once a line, of the type of what it is given.
func Lines(of any) Document { return Document{Of: reflect.TypeOf(of), Lines: true} }

// If is d where there are several of them.
func (d Document) If(when string) Document {
	d.When = when
	return d
}

// Removed is what commands print that forget things by name.
type Removed struct {
	Removed []string `json:"removed"`
}

// JSONFlag adds --json and records what is printed then, which docs/json.md is
// made of.
func JSONFlag(f *pflag.FlagSet, to *bool, usage string, docs ...Document) {
	flag := f.VarPF(&jsonFlag{to, docs}, "json", "", usage)
	flag.NoOptDefVal = "true"
}

// Documents lists what a command prints with --json, nil when it has no such
// flag.
func Documents(f *pflag.FlagSet) []Document {
	if flag := f.Lookup("json"); flag != nil {
		if v, ok := flag.Value.(*jsonFlag); ok {
			return v.docs
		}
	}
	return nil
}

// jsonFlag is a boolean flag that knows documents.
type jsonFlag struct {
	to   *bool
	docs []Document
}

// String shows the value as it is typed.
func (v *jsonFlag) String() string {
	if v.to == nil {
		return "false"
	}
	return strconv.FormatBool(*v.to)
}

// Type makes help and completion take it for a switch.
func (*jsonFlag) Type() string { return "bool" }

// IsBoolFlag lets it stand without a value.
func (*jsonFlag) IsBoolFlag() bool { return true }

// Set reads the value.
func (v *jsonFlag) Set(s string) error {
	on, err := strconv.ParseBool(s)
	*v.to = err == nil && on
	return err
}
