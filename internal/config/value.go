package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Origin says where a value came from: default, flag --NAME, an environment
// variable or the config file.
type Origin string

// FromDefault marks a value that nobody set.
const FromDefault Origin = "default"

// Value is a setting with what it is set to.
type Value struct {
	Setting
	Text   string
	Origin Origin
	// Err says what is wrong with Text; the default then holds.
	Err error

	number int64
}

// Sources is where settings are looked for.
type Sources struct {
	// Flags maps setting names to flags that were given.
	Flags map[string]string
	// Getenv reads a variable; a variable that is set to nothing counts as unset.
	Getenv func(string) string
	File   File
}

// Values holds every setting's value.
type Values struct {
	list []Value
	file File
}

// Load looks every setting up. It never fails: a fault stays with its setting.
func Load(src Sources) Values {
	vs := Values{file: src.File}
	for _, s := range Settings() {
		v := Value{Setting: s, Text: s.Default, Origin: FromDefault}
		lower := strings.ToLower(s.Name)
		switch {
		case src.Flags[s.Name] != "":
			v.Text, v.Origin = src.Flags[s.Name], "flag"
		case src.Getenv("CDUI_"+s.Name) != "":
			v.Text, v.Origin = src.Getenv("CDUI_"+s.Name), Origin("CDUI_"+s.Name)
		case src.Getenv("CODEFYUI_"+s.Name) != "":
			v.Text, v.Origin = src.Getenv("CODEFYUI_"+s.Name), Origin("CODEFYUI_"+s.Name)
		case src.File.Settings[lower] != "":
			v.Text, v.Origin = src.File.Settings[lower], Origin(src.File.Path)
		}
		var err error
		if v.number, err = parse(s, v.Text); err != nil {
			v.Err = fmt.Errorf("%s is %q (%s): %w", s.Name, v.Text, v.Origin, err)
			v.number, _ = parse(s, s.Default) // the defaults are known to be right
		}
		vs.list = append(vs.list, v)
	}
	return vs
}

// All lists every value in the registry's order.
func (vs Values) All() []Value { return slices.Clone(vs.list) }

// File is the config file that the values were read with.
func (vs Values) File() File { return vs.file }

// Err joins the faults of all settings; nil when there are none.
func (vs Values) Err() error {
	var errs []error
	for _, v := range vs.list {
		if v.Err != nil {
			errs = append(errs, v.Err)
		}
	}
	return errors.Join(errs...)
}

// Get gives the value of a setting of the registry.
func (vs Values) Get(name string) Value {
	for _, v := range vs.list {
		if v.Name == name {
			return v
		}
	}
	panic("config: no setting is called " + name)
}

// Text gives a setting's text, its default where the text is faulty.
func (vs Values) Text(name string) string {
	v := vs.Get(name)
	if v.Err != nil {
		return v.Default
	}
	return v.Text
}

// Int gives a Number or Bytes setting.
func (vs Values) Int(name string) int64 { return vs.Get(name).number }

// Duration gives a Seconds setting.
func (vs Values) Duration(name string) time.Duration {
	return time.Duration(vs.Get(name).number) * time.Millisecond
}

// List gives a Text setting split at its commas.
func (vs Values) List(name string) []string {
	var out []string
	for part := range strings.SplitSeq(vs.Text(name), ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// parse reads text as the setting's kind; Seconds come back in milliseconds.
func parse(s Setting, text string) (int64, error) {
	switch s.Kind {
	case Number:
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return 0, errors.New("give a whole number")
		}
		return n, atLeast(n, s.Min, "")
	case Bytes:
		n, err := ParseBytes(text)
		if err != nil {
			return 0, err
		}
		return n, atLeast(n, s.Min, " bytes")
	case Seconds:
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.IsNaN(f) || f < 0 || f > 1e9 {
			return 0, errors.New("give a number of seconds, 0 or more")
		}
		return int64(f * 1000), nil
	case Choice:
		if !slices.Contains(s.Choices, text) {
			return 0, fmt.Errorf("use %s", strings.Join(s.Choices, ", "))
		}
	case Text, Path, Secret:
	}
	return 0, nil
}

func atLeast(n, low int64, unit string) error {
	if n < low {
		return fmt.Errorf("give %d%s or more", low, unit)
	}
	return nil
}

// ParseBytes reads a size such as 4096, 64MiB, 1.5GB or 20g.
func ParseBytes(text string) (int64, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz ")
	factor, ok := byteUnits()[strings.TrimSpace(s[len(digits):])]
	if !ok {
		return 0, fmt.Errorf("give bytes or a size such as 64MiB")
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && factor == 1 {
		return n, nil
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(f) || math.Abs(f*factor) >= math.MaxInt64 {
		return 0, fmt.Errorf("give bytes or a size such as 64MiB")
	}
	return int64(f * factor), nil
}

func byteUnits() map[string]float64 {
	return map[string]float64{
		"": 1, "b": 1,
		"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
		"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
		"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
		"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
	}
}
