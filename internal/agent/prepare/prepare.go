// Package prepare turns an assignment of the control plane into what a shim
// needs on this machine: interpreter, argv, working folder, the child's whole
// environment, and what it is handed on its control pipe.
//
// It reads nothing but its arguments and the inventory that it is given, and
// starts nothing. Whether a path that came over the wire stays in its folder is
// checked here too.
package prepare

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/pyruntime"
	"cdui/internal/run"
)

// Surroundings is what the machine gives to every run.
type Surroundings struct {
	// Runtime holds the Python package cdui, NodesDir the user's node types.
	Runtime, NodesDir string
	// Python is the interpreter of runs that name none; empty when there is
	// none, for the reason in PythonProblem.
	Python, PythonProblem string
	// Environ is the agent's own environment, PassEnv what of it runs get
	// beside the allow-list.
	Environ, PassEnv []string
	Cores            int
	// Offered are the devices of this worker.
	Offered []string
	// Visible gives the value of CUDA_VISIBLE_DEVICES that shows exactly the
	// named devices; nil: their indexes will do.
	Visible func(devices []string) string
	// Host gives the document of the machine with the named devices, for the
	// fingerprints of runs; nil: they tell of Python alone.
	Host func(devices []string) json.RawMessage
	// Mounts maps labels to folders.
	Mounts map[string]string
	// Port is a free TCP port for ranks to meet at, 0 where there is none.
	Port int
}

// Folders are a run's own on this machine.
type Folders struct {
	// Code is where the program's folder is laid out, Data what the run reads
	// and writes as its data folder.
	Code, Data string
	// Checkpoints and Outputs outlive the attempt.
	Checkpoints, Outputs string
}

// Under gives the folders of a run below dir.
func Under(dir string) Folders {
	return Folders{
		Code: filepath.Join(dir, "code"), Data: filepath.Join(dir, "data"),
		Checkpoints: filepath.Join(dir, "checkpoints"), Outputs: filepath.Join(dir, "outputs"),
	}
}

// Unfit is why an assignment can't be honoured here.
type Unfit struct {
	// Code is one of the protocol's refusals.
	Code, Text string
}

func (u *Unfit) Error() string { return u.Text }

func unfit(code, format string, args ...any) error {
	return &Unfit{Code: code, Text: fmt.Sprintf(format, args...)}
}

// seedOf gives the seed in a run's options, nil when there is none.
func seedOf(options json.RawMessage) *int64 {
	var o struct {
		Seed *int64 `json:"seed"`
	}
	if json.Unmarshal(options, &o) != nil {
		return nil // whatever they are, they name no seed
	}
	return o.Seed
}

// Assignment builds what the shim is handed. Errors are *Unfit.
func (s *Surroundings) Assignment(a *protocol.Assign, f Folders) (protocol.Assignment, error) {
	out := protocol.Assignment{
		RunID: a.RunID, Attempt: a.Attempt, Kind: a.Kind, NodeID: a.NodeID,
		GraceMS: a.GraceS.Duration().Milliseconds(), MaxRunMS: a.MaxRunS.Duration().Milliseconds(),
		PayloadCap: a.PayloadCap,
	}
	env := pyruntime.EnvSpec{
		Pass: s.PassEnv, Runtime: s.Runtime, Devices: a.Devices, Cores: s.Cores, Slots: s.share(a.Devices),
		CheckpointDir: f.Checkpoints, MasterPort: s.Port, Seed: seedOf(a.Options),
	}
	out.MemoryBudgets, env.MemoryBudgetMiB = budgets(a)
	var err error
	switch {
	case a.Script != nil:
		err = s.script(a, f, &out, &env)
	case a.Command != nil:
		err = s.command(a, f, &out, &env)
	case a.Graph != nil:
		err = s.graph(a, f, &out)
	default:
		err = unfit(protocol.RefuseUnsupported, "this worker knows no runs of kind %q", a.Kind)
	}
	if err != nil {
		return out, err
	}
	if len(a.Secrets) > 0 {
		vars := maps.Clone(env.Run)
		if vars == nil {
			vars = map[string]string{}
		}
		maps.Copy(vars, a.Secrets)
		env.Run = vars
	}
	env.Argv = out.Argv
	if s.Visible != nil {
		env.Visible = s.Visible(a.Devices)
	}
	if s.Host != nil && a.Kind != protocol.KindCommand {
		env.Host = s.Host(a.Devices)
	}
	out.Env = pyruntime.ChildEnv(withoutOurs(s.Environ), env)
	out.VisibleDevices, out.DeviceAliases = aliases(a.Devices)
	return out, nil
}

func (s *Surroundings) script(a *protocol.Assign, f Folders, out *protocol.Assignment, env *pyruntime.EnvSpec) error {
	p := a.Script
	path, err := within(a, f, p.Path)
	if err != nil {
		return err
	}
	if p.Interpreter == "" && p.Venv == "" && s.Python == "" {
		return s.noPython()
	}
	out.Dir = f.Code
	switch {
	case p.Cwd != "":
		if out.Dir, err = within(a, f, p.Cwd); err != nil {
			return err
		}
	case a.Code == nil:
		out.Dir = filepath.Dir(path)
	}
	out.Argv = pyruntime.ScriptArgv(s.Runtime, s.Python, run.ScriptSpec{
		Path: path, Args: p.Args, Interpreter: p.Interpreter, Venv: p.Venv,
	})
	out.Input = p.Params
	env.Run, env.Venv, env.Params = p.Env, p.Venv, p.Params
	env.Provenance = provenance(a.Options)
	return nil
}

func (s *Surroundings) command(a *protocol.Assign, f Folders, out *protocol.Assignment, env *pyruntime.EnvSpec) error {
	p := a.Command
	if len(p.Argv) == 0 {
		return unfit(protocol.RefuseUnsupported, "the command is empty")
	}
	out.Dir, out.Argv = f.Data, p.Argv
	if a.Code != nil {
		out.Dir = f.Code
	}
	if p.Cwd != "" {
		var err error
		if out.Dir, err = within(a, f, p.Cwd); err != nil {
			return err
		}
	}
	env.Run, env.Venv = p.Env, p.Venv
	return nil
}

// provenance tells whether a script's source is recorded; a graph's child reads
// that in its options.
func provenance(options json.RawMessage) bool {
	var o struct {
		Provenance bool `json:"provenance"`
	}
	return json.Unmarshal(options, &o) == nil && o.Provenance
}

// graphInput is what the Python engine is handed on its control pipe.
type graphInput struct {
	RunID       string                     `json:"run_id"`
	Graph       json.RawMessage            `json:"graph"`
	Options     run.Options                `json:"options"`
	DataRoot    string                     `json:"data_root"`
	SearchDirs  []string                   `json:"search_dirs"`
	NodesDir    string                     `json:"nodes_dir"`
	OutputsDir  string                     `json:"outputs_dir"`
	APIInputs   map[string]json.RawMessage `json:"api_inputs"`
	MaxParallel int                        `json:"max_parallel"`
}

func (s *Surroundings) graph(a *protocol.Assign, f Folders, out *protocol.Assignment) error {
	if s.Python == "" {
		return s.noPython()
	}
	root, err := s.dataRoot(a, f)
	if err != nil {
		return err
	}
	in := graphInput{
		RunID: a.RunID, Graph: a.Graph.Prepared, DataRoot: root,
		SearchDirs: []string{root, filepath.Join(root, "data")},
		NodesDir:   s.NodesDir, OutputsDir: f.Outputs,
		APIInputs: a.Graph.Inputs, MaxParallel: max(1, a.Graph.MaxParallel),
	}
	if len(a.Options) > 0 {
		if err := json.Unmarshal(a.Options, &in.Options); err != nil {
			return unfit(protocol.RefuseUnsupported, "the options of run %s can't be read: %v", a.RunID, err)
		}
	}
	// Both describe the program of another kind of run.
	in.Options.Script, in.Options.Command = nil, nil
	// The child sees the run's own cards alone, numbered from 0.
	if len(a.Devices) > 0 {
		in.Options.Device = alias(0, a.Devices[0])
	}
	if out.Input, err = json.Marshal(in); err != nil {
		return unfit(protocol.RefuseUnsupported, "the graph of run %s can't be handed over: %v", a.RunID, err)
	}
	out.Dir, out.Argv = root, pyruntime.GraphArgv(s.Runtime, s.Python)
	return nil
}

// dataRoot is the folder that a graph reads and writes its files in.
func (s *Surroundings) dataRoot(a *protocol.Assign, f Folders) (string, error) {
	if a.Storage == nil {
		return f.Data, nil
	}
	switch a.Storage.Backend {
	case protocol.BackendLocal:
		if !filepath.IsAbs(a.Storage.Folder) {
			return "", unfit(protocol.RefuseUnsupported, "the data folder %q is not absolute", a.Storage.Folder)
		}
		return a.Storage.Folder, nil
	case protocol.BackendMount:
		folder, ok := s.Mounts[a.Storage.Label]
		if !ok {
			return "", unfit(protocol.RefuseUnsupported, "this worker has no mount %q; start its agent with --mount %s=/path", a.Storage.Label, a.Storage.Label)
		}
		return folder, nil
	case protocol.BackendTransfer, protocol.BackendS3:
		return f.Data, nil
	}
	return "", unfit(protocol.RefuseUnsupported, "this worker knows no storage %q", a.Storage.Backend)
}

func (s *Surroundings) noPython() error {
	return unfit(protocol.RefuseNoInterpreter, "this worker has no Python: %s", s.PythonProblem)
}

// within finds a path of the assignment: below the code folder when there is
// one, and as it is otherwise.
func within(a *protocol.Assign, f Folders, path string) (string, error) {
	if a.Code == nil {
		if !filepath.IsAbs(path) {
			return "", unfit(protocol.RefuseUnsupported, "the path %q is not absolute and no folder came with the run", path)
		}
		return filepath.Clean(path), nil
	}
	if !filepath.IsLocal(path) {
		return "", unfit(protocol.RefuseUnsupported, "the path %q leaves the folder that came with the run", path)
	}
	return filepath.Join(f.Code, path), nil
}

// share is how many runs like this one the machine's cores are for.
func (s *Surroundings) share(devices []string) int {
	if len(devices) == 0 || device.Kind(devices[0]) != device.CUDA {
		return 1
	}
	cards := 0
	for _, d := range s.Offered {
		if device.Kind(d) == device.CUDA {
			cards++
		}
	}
	return max(1, cards/len(devices))
}

// withoutOurs drops what belongs to the agent or to a control plane beside it,
// so that not even --pass-env hands it to a run.
func withoutOurs(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "CODEFYUI_") {
			return false
		}
		return name == "CODEFYUI_DB_PATH" || strings.Contains(name, "TOKEN") || pyruntime.SecretLooking(name)
	})
}

// aliases tells how the run sees its devices: cards are renumbered from 0 in
// their order.
func aliases(devices []string) ([]string, map[string]string) {
	names := map[string]string{}
	for i, d := range devices {
		names[alias(i, d)] = d
	}
	return devices, names
}

func alias(i int, d string) string {
	if device.Kind(d) == device.CUDA {
		return fmt.Sprintf("cuda:%d", i)
	}
	return d
}
