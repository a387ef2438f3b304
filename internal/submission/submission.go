// Package submission turns what somebody submits into the row of a run, or
// refuses it with a sentence and a code. But for NewID it is pure: the machine's devices and
// the catalogue are handed in, and nothing is stored here.
package submission

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/graph"
	"cdui/internal/graph/secret"
	"cdui/internal/run"
)

// Interactive is the lane of runs that start at once or not at all.
const Interactive = "interactive"

// Checked is a submission that may become a run. Row lacks its id, status and
// time. Program is zero for a graph that is no program of its own; then Vault
// holds what its secret params were set to.
type Checked struct {
	Row     run.Row
	Program graph.Program
	Vault   secret.Vault
}

// Facts is what a row notes of its submission in execution_facts.
type Facts struct {
	// Cwd is where a graph's relative paths are looked for first.
	Cwd string `json:"cwd,omitempty"`
	// Secrets: some params were secret, and their values are in memory only.
	Secrets bool `json:"secrets,omitempty"`
	// Code is the folder that the program brought along.
	Code *api.CodeRef `json:"code,omitempty"`
}

// FactsOf reads the facts of a row's submission.
func FactsOf(row run.Row) Facts {
	var f Facts
	if json.Unmarshal(row.Facts, &f) != nil {
		return Facts{}
	}
	return f
}

// Check reads a submission. Its errors are *api.Error; it never leaves what
// could not start on the machines that are known.
func Check(req api.SubmitRequest, m Machines, cat *catalog.Catalog) (Checked, error) {
	o, err := run.ParseOptions(req.Options)
	if err != nil {
		return Checked{}, OptionError(err)
	}
	name, err := CleanName(req.Name)
	if err != nil {
		return Checked{}, err
	}
	raw, err := graphOf(req.Graph, o)
	if err != nil {
		return Checked{}, err
	}
	env, err := graph.ParseEnvelope(raw)
	if err != nil {
		return Checked{}, api.Errorf(api.Invalid, "%v", err)
	}
	program, isProgram, err := env.Program()
	if err != nil {
		return Checked{}, api.Errorf(api.Invalid, "%v", err)
	}
	if isProgram && o.Lane == Interactive {
		return Checked{}, api.Errorf(api.Unavailable, "a Script or Command can't run in the interactive lane; leave the lane out to queue it").With("rejected", true)
	}
	if o.Device == "" {
		o.Device = settingsDevice(m, o, env.Settings.Device)
	}
	c := Checked{Program: program, Row: run.Row{
		Name: name, Options: o, Graph: raw, RerunOf: req.RerunOf, Likeness: likeness(raw, program),
		SweepID: req.SweepID, SweepVariant: req.SweepVariant,
	}}
	if err := c.place(m); err != nil {
		return Checked{}, err
	}
	if req.Git != nil {
		c.Row.GitCommit, c.Row.GitDirty = req.Git.Commit, req.Git.Dirty
	}
	if isProgram {
		return c, c.keepCode(req.Code)
	}
	if req.Code != nil {
		return Checked{}, api.Errorf(api.Invalid, "code: a folder comes along with a script or a command, not with a graph")
	}
	if err := c.types(m, raw, cat); err != nil {
		return Checked{}, err
	}
	return c, c.keepGraph(raw, req.Cwd, cat)
}

// keepCode notes the folder that a program brings along; the program lies in it.
func (c *Checked) keepCode(code *api.CodeRef) error {
	if code == nil {
		return nil
	}
	type named struct{ what, path string }
	var paths []named
	if s := c.Program.Script; s != nil {
		paths = append(paths, named{"the script", s.Path}, named{"its working folder", s.Cwd})
	} else {
		paths = append(paths, named{"the working folder", c.Program.Command.Cwd})
	}
	for _, n := range paths {
		if _, ok := code.Rel(n.path); n.path != "" && !ok {
			return api.Errorf(api.Invalid, "code: %s %s does not lie in the folder %s that comes along", n.what, n.path, code.Root).
				With("root", code.Root)
		}
	}
	var err error
	if c.Row.Facts, err = json.Marshal(Facts{Code: code}); err != nil {
		return fmt.Errorf("note the folder that came along: %w", err)
	}
	return nil
}

// keepGraph puts a graph's secrets into the vault and the rest into the row.
func (c *Checked) keepGraph(raw json.RawMessage, cwd string, cat *catalog.Catalog) error {
	scrubbed, vault, err := secret.Scrub(raw, cat)
	if err != nil {
		return api.Errorf(api.Invalid, "%v", err)
	}
	if c.Row.Graph, err = graph.Snapshot(scrubbed); err != nil {
		return api.Errorf(api.Invalid, "%v", err)
	}
	c.Vault = vault
	facts := Facts{Cwd: cwd, Secrets: !vault.Empty()}
	if facts == (Facts{}) {
		return nil
	}
	if c.Row.Facts, err = json.Marshal(facts); err != nil {
		return fmt.Errorf("note where the run was submitted: %w", err)
	}
	return nil
}

// settingsDevice is the device that a graph's own settings ask for. A graph
// travels between machines, so one that isn't there becomes cpu, and the engine
// warns; a device in the options is an order and is refused instead.
func settingsDevice(m Machines, o run.Options, wanted string) string {
	if settingsFit(m, o, wanted) != nil {
		return device.CPU
	}
	return wanted
}

func graphOf(raw json.RawMessage, o run.Options) (json.RawMessage, error) {
	given := len(raw) > 0 && string(raw) != "null"
	var err error
	switch {
	case given && (o.Script != nil || o.Command != nil):
		return nil, api.Errorf(api.Invalid, "give either a graph or options.script or options.command, not both")
	case given:
		return raw, nil
	case o.Script != nil:
		raw, err = graph.ForScript(*o.Script)
	case o.Command != nil:
		raw, err = graph.ForCommand(*o.Command)
	default:
		return nil, api.Errorf(api.Unreadable, "no graph: give \"graph\", or options.script or options.command")
	}
	if err != nil {
		return nil, api.Errorf(api.Invalid, "%v", err)
	}
	return raw, nil
}

// place resolves the devices that the options ask for and the queue key, or
// refuses what could never start.
func (c *Checked) place(m Machines) error {
	o := &c.Row.Options
	if !o.Target.Local() {
		return c.target(m)
	}
	c.Row.Devices = []string{}
	if t := o.Target; t != nil && len(t.Devices) > 0 {
		c.Row.Devices = t.Devices
		for _, d := range t.Devices {
			if !m.Local.Has(d) {
				return noDevice(m.Local, d)
			}
		}
		o.Device = t.Devices[0]
	} else {
		if o.Device == "" {
			o.Device = device.CPU
		}
		d, err := m.Local.Resolve(o.Device)
		if err != nil {
			return noDevice(m.Local, o.Device)
		}
		o.Device, c.Row.Devices = d, []string{d}
	}
	c.Row.QueueKey = strings.Join(c.Row.Devices, ",")
	return nil
}

func noDevice(inv device.Inventory, d string) error {
	return api.Errorf(api.Invalid, "this machine has no %s; it offers %s", d, strings.Join(inv.Names(), ", ")).
		With("device", d).With("offers", inv.Names())
}

// CleanName is the name that a run, a sweep or a study gets: trimmed, none at
// all when blank.
func CleanName(name *string) (string, error) {
	if name == nil {
		return "", nil
	}
	n := strings.TrimSpace(*name)
	if c := utf8.RuneCountInString(n); c > run.MaxNameChars {
		return "", api.Errorf(api.Invalid, "name has %d characters, the limit is %d", c, run.MaxNameChars)
	}
	return n, nil
}

// CleanKey trims the key of an idempotent request and bounds it.
func CleanKey(key string) (string, error) {
	key = strings.TrimSpace(key)
	if n := utf8.RuneCountInString(key); n > run.MaxKeyChars {
		return "", api.Errorf(api.Invalid, "key has %d characters, the limit is %d", n, run.MaxKeyChars)
	}
	return key, nil
}

// Given is a document of a request, nil when it is null.
func Given(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// NewID makes the id of a run, a sweep or a study: 128 random bits, in hex.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime aborts instead
	return hex.EncodeToString(b[:])
}

// OptionError is what is answered to options that make no sense.
func OptionError(err error) error {
	e := api.Errorf(api.Invalid, "%v", err)
	var oe *run.OptionError
	if errors.As(err, &oe) {
		e.With("option", oe.Option).With("supported", run.OptionKeys())
	}
	return e
}
