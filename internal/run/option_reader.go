package run

import (
	"encoding/json"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// optionReader reads typed options and remembers the first fault.
type optionReader struct {
	m   map[string]json.RawMessage
	err error
}

func (p *optionReader) fail(option, format string, args ...any) {
	if p.err == nil {
		p.err = optionErr(option, format, args...)
	}
}

// get returns the raw value, and false when the key is absent or null.
func (p *optionReader) get(name string) (json.RawMessage, bool) {
	raw, ok := p.m[name]
	if !ok || string(raw) == "null" {
		return nil, false
	}
	return raw, true
}

func (p *optionReader) device() string {
	raw, ok := p.m["device"]
	if !ok {
		return ""
	}
	var s string
	if string(raw) == "null" || json.Unmarshal(raw, &s) != nil {
		p.fail("device", "must be a string")
		return ""
	}
	d, err := ParseDevice(s)
	if err != nil {
		p.fail("device", "%v", err)
	}
	return d
}

func (p *optionReader) seed() *int64 {
	raw, ok := p.get("seed")
	if !ok {
		return nil
	}
	var n int64
	if json.Unmarshal(raw, &n) != nil || n < 0 || n > MaxSeed {
		p.fail("seed", "must be a whole number from 0 to %d", MaxSeed)
		return nil
	}
	return &n
}

func (p *optionReader) boolean(name string) bool {
	raw, ok := p.m[name]
	if !ok {
		return false
	}
	var b bool
	if string(raw) == "null" || json.Unmarshal(raw, &b) != nil {
		p.fail(name, "must be true or false")
	}
	return b
}

func (p *optionReader) text(name, def string, limit int, required bool) string {
	raw, ok := p.get(name)
	if !ok {
		return def
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		p.fail(name, "must be a string")
		return def
	}
	s = strings.TrimSpace(s)
	if n := utf8.RuneCountInString(s); n > limit {
		p.fail(name, "has %d characters, the limit is %d", n, limit)
	} else if required && n == 0 {
		p.fail(name, "must not be empty")
	}
	return s
}

func (p *optionReader) oneOf(name, def string, choices ...string) string {
	s := p.text(name, def, MaxLaneChars, true)
	if slices.Contains(choices, s) {
		return s
	}
	p.fail(name, "is %q; use %s", s, strings.Join(choices, ", "))
	return def
}

func (p *optionReader) integer(name string, def, low, high int) int {
	raw, ok := p.get(name)
	if !ok {
		return def
	}
	var n int
	if json.Unmarshal(raw, &n) != nil || n < low || n > high {
		p.fail(name, "must be a whole number from %d to %d", low, high)
		return def
	}
	return n
}

// maxSeconds keeps a time limit inside what a Duration can hold.
const maxSeconds = 1e9

func (p *optionReader) seconds(name string) float64 {
	raw, ok := p.get(name)
	if !ok {
		return 0
	}
	var f float64
	if json.Unmarshal(raw, &f) != nil || f < 0 || f > maxSeconds || math.IsNaN(f) {
		p.fail(name, "must be a number of seconds from 0 (no limit) to %g", maxSeconds)
		return 0
	}
	return f
}

func (p *optionReader) tags() []string {
	raw, ok := p.get("tags")
	if !ok {
		return []string{}
	}
	var in []string
	if json.Unmarshal(raw, &in) != nil {
		p.fail("tags", "must be a list of strings")
		return []string{}
	}
	if len(in) > MaxTags {
		p.fail("tags", "has %d entries, the limit is %d", len(in), MaxTags)
	}
	out := make([]string, 0, len(in))
	for _, t := range in {
		t = strings.TrimSpace(t)
		if t == "" || utf8.RuneCountInString(t) > MaxTagChars {
			p.fail("tags", "each must have 1 to %d characters", MaxTagChars)
		}
		out = append(out, t)
	}
	return out
}

// ValidID tells whether s is a whole run id.
func ValidID(s string) bool {
	return len(s) == idLen && strings.Trim(s, "0123456789abcdef") == ""
}

const idLen = 32

func (p *optionReader) after() []After {
	raw, ok := p.get("after")
	if !ok {
		return []After{}
	}
	var in []After
	if json.Unmarshal(raw, &in) != nil {
		p.fail("after", "must be a list of {run, condition}")
		return []After{}
	}
	for i := range in {
		if in[i].Condition == "" {
			in[i].Condition = AfterOK
		}
		switch in[i].Condition {
		case AfterOK, AfterAny, AfterFailed:
		default:
			p.fail("after", "condition is %q; use ok, any or failed", in[i].Condition)
		}
		if !ValidID(in[i].Run) {
			p.fail("after", "%q is no run id", in[i].Run)
		}
	}
	return in
}

const maxNamePart = 63

// validWorker tells whether s can be a worker's name: lower-case letters,
// digits and hyphens, not a hyphen first, and for one of several instances a
// dot and the instance's own part.
func validWorker(s string) bool {
	name, instance, has := strings.Cut(s, ".")
	if !namePart(name) || name[0] == '-' {
		return false
	}
	return !has || namePart(instance)
}

func namePart(s string) bool {
	return s != "" && len(s) <= maxNamePart && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// concreteDevice tells whether d names one device: cpu, cuda:N or mps:N.
func concreteDevice(d string) bool {
	kind, n, has := strings.Cut(d, ":")
	if !has {
		return d == "cpu"
	}
	return (kind == "cuda" || kind == "mps") && n != "" && len(n) <= 4 && strings.Trim(n, "0123456789") == ""
}

func (p *optionReader) target() *Target {
	raw, ok := p.get("target")
	if !ok {
		return nil
	}
	var keys map[string]json.RawMessage
	var t Target
	if json.Unmarshal(raw, &keys) != nil || json.Unmarshal(raw, &t) != nil {
		p.fail("target", "must be an object {worker, devices}")
		return nil
	}
	for k := range keys {
		if !slices.Contains(targetKeys, k) {
			p.fail("target", "has the unknown key %q; supported: %s", k, strings.Join(targetKeys, ", "))
		}
	}
	if t.Worker != "" && !validWorker(t.Worker) {
		p.fail("target", "%q is no worker name", t.Worker)
	}
	seen := map[string]bool{}
	for i, d := range t.Devices {
		d = strings.ToLower(strings.TrimSpace(d))
		t.Devices[i] = d
		switch {
		case !concreteDevice(d):
			p.fail("target", "%q is no single device; use cpu, cuda:N or mps:N", d)
		case seen[d]:
			p.fail("target", "names %s twice", d)
		case deviceKind(d) != deviceKind(t.Devices[0]):
			p.fail("target", "mixes %s and %s; a set has one kind", t.Devices[0], d)
		}
		seen[d] = true
	}
	if t.Pool != "" && t.Pool != PoolOneShot {
		p.fail("target", "pool is %q; use %s", t.Pool, PoolOneShot)
	}
	if t.Pool != "" && t.Worker == "" {
		t.Worker = "any"
	}
	p.budget(&t)
	return &t
}

var targetKeys = []string{"worker", "devices", "pool", "memory_gib", "memory_source", "wait"}

const maxMemoryGiB = 1 << 20

func (p *optionReader) budget(t *Target) {
	switch {
	case t.MemoryGiB < 0 || t.MemoryGiB > maxMemoryGiB || math.IsNaN(t.MemoryGiB):
		p.fail("target", "memory_gib must be a number of GiB from 0 (no budget) to %d", maxMemoryGiB)
	case t.MemorySource != "" && t.MemorySource != MemoryUser && t.MemorySource != MemoryEstimate:
		p.fail("target", "memory_source is %q; use %s or %s", t.MemorySource, MemoryUser, MemoryEstimate)
	case t.MemorySource == MemoryUser && t.MemoryGiB == 0:
		p.fail("target", "memory_source is user, but memory_gib is missing")
	case t.MemorySource == "" && t.MemoryGiB > 0:
		t.MemorySource = MemoryUser
	}
	if t.Local() && (t.MemoryGiB > 0 || t.MemorySource != "") {
		p.fail("target", "memory_gib is for workers: a run on the control plane's own machine has its card to itself")
	}
}

func deviceKind(d string) string {
	kind, _, _ := strings.Cut(d, ":")
	return kind
}

// The kernel's limits on what exec takes: one string (MAX_ARG_STRLEN, its NUL
// counted) and all of them, for which a quarter of the usual 8 MiB stack
// stands; some room is left for the allow-listed part of the environment.
const (
	MaxEnvString = 128<<10 - 1
	MaxEnvTotal  = 1536 << 10
)

func (p *optionReader) env(option string, env map[string]string) {
	total, largest, size := 0, "", 0
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			p.fail(option, "environment variable %q: a name must not be empty or hold '=' or NUL, a value must not hold NUL", k)
		}
		n := len(k) + 1 + len(v)
		total += n + 1
		if n > size || n == size && k < largest {
			largest, size = k, n
		}
	}
	if size > MaxEnvString || total > MaxEnvTotal {
		p.fail(option, "environment too large: %s has %d bytes of %d in all; the system takes %d in one variable and %d together. Put it into a file", largest, size, total, MaxEnvString, MaxEnvTotal)
	}
}

func (p *optionReader) args(option string, args []string) {
	total := 0
	for i, a := range args {
		if strings.Contains(a, "\x00") {
			p.fail(option, "argument %d holds a NUL byte", i+1)
		}
		if len(a) > MaxEnvString {
			p.fail(option, "argument %d is too large: %d bytes, the system takes %d", i+1, len(a), MaxEnvString)
		}
		total += len(a) + 1
	}
	if total > MaxEnvTotal {
		p.fail(option, "the arguments are too large: %d bytes, the system takes %d", total, MaxEnvTotal)
	}
}

func (p *optionReader) dir(option, name, value string, required bool) {
	switch {
	case value == "" && !required:
	case value == "":
		p.fail(option, "%s is required", name)
	case !path.IsAbs(value) || strings.Contains(value, "\x00"):
		p.fail(option, "%s must be an absolute path, not %q", name, value)
	}
}

func (p *optionReader) script() *ScriptSpec {
	raw, ok := p.get("script")
	if !ok {
		return nil
	}
	var s ScriptSpec
	if err := strictUnmarshal(raw, &s); err != nil {
		p.fail("script", "%v", err)
		return nil
	}
	if s.Args == nil {
		s.Args = []string{}
	}
	p.dir("script", "path", s.Path, true)
	p.dir("script", "cwd", s.Cwd, false)
	p.dir("script", "interpreter", s.Interpreter, false)
	p.dir("script", "venv", s.Venv, false)
	if s.Cwd == "" {
		s.Cwd = path.Dir(s.Path)
	}
	p.args("script", s.Args)
	p.env("script", s.Env)
	return &s
}

func (p *optionReader) command() *CommandSpec {
	raw, ok := p.get("command")
	if !ok {
		return nil
	}
	var c CommandSpec
	if err := strictUnmarshal(raw, &c); err != nil {
		p.fail("command", "%v", err)
		return nil
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		p.fail("command", "argv must name a program")
	}
	p.dir("command", "cwd", c.Cwd, true)
	p.dir("command", "venv", c.Venv, false)
	p.args("command", c.Argv)
	p.env("command", c.Env)
	return &c
}

func strictUnmarshal(raw json.RawMessage, v any) error {
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// retryable are the end classes that a retry may name.
var retryable = []EndClass{EndUserCode, EndOutOfMemory, EndKilled, EndTimeout, EndWorkerLost, EndServer, EndBadGraph}

func (p *optionReader) retry() *Retry {
	raw, ok := p.get("retry")
	if !ok {
		return nil
	}
	var in struct {
		Limit  int        `json:"limit"`
		On     []EndClass `json:"on"`
		DelayS *float64   `json:"delay_s"`
	}
	if err := strictUnmarshal(raw, &in); err != nil {
		p.fail("retry", "must be an object {limit, on, delay_s}: %v", err)
		return nil
	}
	r := &Retry{Limit: in.Limit, On: append([]EndClass{}, in.On...), DelayS: retryDelayS}
	if in.DelayS != nil {
		r.DelayS = *in.DelayS
	}
	if r.Limit < 1 || r.Limit > MaxRetryLimit {
		p.fail("retry", "limit must be a whole number from 1 to %d", MaxRetryLimit)
	}
	if !(r.DelayS >= 0 && r.DelayS <= MaxRetryDelay.Seconds()) {
		p.fail("retry", "delay_s must be a number of seconds from 0 to %g", MaxRetryDelay.Seconds())
	}
	for _, class := range r.On {
		if !slices.Contains(retryable, class) {
			p.fail("retry", "on names %q; use %s", class, strings.Join(classNames(retryable), ", "))
		}
	}
	return r
}

func classNames(classes []EndClass) []string {
	out := make([]string, len(classes))
	for i, c := range classes {
		out[i] = string(c)
	}
	return out
}
