package pyruntime

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cdui/internal/run"
)

// EnvSpec is what a child's environment is made of beside the parent's.
type EnvSpec struct {
	// Pass names further variables of the parent; a trailing * matches any rest.
	Pass []string
	// Run is the run's own variables. They win, but for the CDUI_ names and
	// those that decide which devices are seen.
	Run map[string]string
	// Venv is an environment's folder; its bin comes first in PATH.
	Venv string
	// Runtime is the folder that holds the package cdui.
	Runtime string
	// Devices are the run's own, as the host counts them: cpu, cuda:N, mps:N.
	Devices []string
	// Visible is what CUDA_VISIBLE_DEVICES has to be to show exactly these
	// cards; empty: their indexes will do.
	Visible string
	// Cores are shared by Slots runs at a time; OMP_NUM_THREADS follows.
	Cores, Slots int
	// CheckpointDir is kept across the attempts of a run.
	CheckpointDir string
	// Seed is the run's, nil when it has none.
	Seed *int64
	// Params is the JSON object that cdui.params() returns.
	Params json.RawMessage
	// MemoryBudgetMiB is what the run may hold on each card; 0 is no budget.
	MemoryBudgetMiB int64
	// Host is the document of the machine, for the run's fingerprint; the child
	// takes it out of its environment. Provenance: it records its sources.
	Host       json.RawMessage
	Provenance bool
	// Argv starts the child: what it needs to meet its own ranks only depends
	// on it. MasterPort is a free port for those that take one; 0 is none.
	Argv       []string
	MasterPort int
}

const (
	ownPrefix   = "CDUI_"
	defaultPath = "/usr/local/bin:/usr/bin:/bin"
	// maxParamsEnv bounds what travels as CDUI_PARAMS; larger ones reach the
	// script by its control pipe only.
	maxParamsEnv = 32 << 10
)

// allowed is the allow-list for variables of the parent; a * stands at one end.
func allowed() []string {
	return []string{
		"HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR", "TERM", "XDG_*",
		"LD_LIBRARY_PATH", "*_PROXY", "SSL_CERT_*",
		"HF_*", "TORCH_*", "TRITON_*", "OMP_*", "MKL_*", "OPENBLAS_*", "NUMEXPR_*", "NCCL_*", "GLOO_*",
		"CUDA_HOME", "CUDA_CACHE_*", "CUDA_MPS_*", "SLURM_*",
	}
}

// decidesDevices lists what the scheduler alone may set, and what would lead
// an AMD card's runtime past it.
func decidesDevices() []string {
	return []string{
		"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
		"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK",
	}
}

// ChildEnv builds the whole environment of a run's child from the parent's,
// sorted by name. It reads nothing but its arguments.
func ChildEnv(base []string, spec EnvSpec) []string {
	env := toMap(inherited(base, spec.Pass))
	for name, value := range spec.Run {
		if !reserved(name) {
			env[name] = value
		}
	}
	if env["PATH"] == "" {
		env["PATH"] = defaultPath
	}
	if spec.Venv != "" {
		env["PATH"] = prepend(filepath.Join(spec.Venv, "bin"), env["PATH"])
		env["VIRTUAL_ENV"] = spec.Venv
		delete(env, "PYTHONHOME")
	}
	if spec.Runtime != "" {
		env["PYTHONPATH"] = strings.TrimPrefix(env["PYTHONPATH"]+string(filepath.ListSeparator)+spec.Runtime, string(filepath.ListSeparator))
	}
	if spec.Cores > 0 && spec.Slots > 0 && env["OMP_NUM_THREADS"] == "" {
		env["OMP_NUM_THREADS"] = strconv.Itoa(max(1, spec.Cores/spec.Slots))
	}
	setDevices(env, spec.Devices, spec.Visible)
	setRendezvous(env, spec.Argv, spec.MasterPort)
	if spec.CheckpointDir != "" {
		env["CDUI_CHECKPOINT_DIR"] = spec.CheckpointDir
	}
	if spec.Seed != nil {
		env["CDUI_SEED"] = strconv.FormatInt(*spec.Seed, 10)
	}
	if n := len(spec.Params); n > 0 && n <= maxParamsEnv && string(spec.Params) != "null" {
		env["CDUI_PARAMS"] = string(spec.Params)
	}
	if spec.MemoryBudgetMiB > 0 {
		env["CDUI_MEMORY_BUDGET_MIB"] = strconv.FormatInt(spec.MemoryBudgetMiB, 10)
	}
	if len(spec.Host) > 0 {
		env["CDUI_HOST"] = string(spec.Host)
	}
	if spec.Provenance {
		env["CDUI_PROVENANCE"] = "1"
	}
	out := make([]string, 0, len(env))
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// inherited picks from the parent's variables what a child may see. Secrets
// that match a pattern of the allow-list stay behind unless passed by name.
func inherited(base, pass []string) []string {
	var out []string
	for _, entry := range base {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || reserved(name) {
			continue
		}
		if matches(pass, name) || matches(allowed(), name) && !SecretLooking(name) {
			out = append(out, entry)
		}
	}
	return out
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if rest, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(name, rest)
		}
		if rest, ok := strings.CutPrefix(p, "*"); ok {
			// The proxy variables are written in both cases.
			return strings.HasSuffix(strings.ToUpper(name), rest)
		}
		return name == p
	})
}

func reserved(name string) bool {
	return strings.HasPrefix(name, ownPrefix) || slices.Contains(decidesDevices(), name)
}

// setDevices makes exactly the run's own cards visible, numbered from 0 in
// PCI order as nvidia-smi has them.
func setDevices(env map[string]string, devices []string, visible string) {
	var cards []string
	kind := "cpu"
	for _, d := range devices {
		k, index, _ := strings.Cut(d, ":")
		if k == "cuda" && index != "" {
			cards = append(cards, index)
		}
		if k == "cuda" || k == "mps" {
			kind = k
		}
	}
	env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
	env["CUDA_VISIBLE_DEVICES"] = strings.Join(cards, ",")
	if len(cards) > 0 && visible != "" {
		env["CUDA_VISIBLE_DEVICES"] = visible
	}
	if kind == "cuda" {
		kind = "cuda:0"
	}
	env["CDUI_DEVICE"] = kind
}

// setRendezvous leaves all as it is once the user has placed it by hand.
func setRendezvous(env map[string]string, argv []string, port int) {
	for name := range env {
		if strings.HasPrefix(name, "PET_RDZV_") || strings.HasPrefix(name, "PET_MASTER_") || name == "MASTER_PORT" {
			return
		}
	}
	for name, value := range rendezvous(argv, port) {
		if env[name] == "" {
			env[name] = value
		}
	}
}

func prepend(folder, path string) string {
	if first, _, _ := strings.Cut(path, string(filepath.ListSeparator)); first == folder {
		return path
	}
	return folder + string(filepath.ListSeparator) + path
}

// toMap keeps the last of several entries of one name, as exec does.
func toMap(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok {
			m[name] = value
		}
	}
	return m
}

// ScriptArgv starts a script under the runtime at root. The script's own
// interpreter counts, then its environment's, then the one given.
func ScriptArgv(root, interpreter string, spec run.ScriptSpec) []string {
	switch {
	case spec.Interpreter != "":
		interpreter = spec.Interpreter
	case spec.Venv != "":
		interpreter = filepath.Join(spec.Venv, "bin", "python")
	}
	argv := []string{interpreter, "-u", filepath.Join(root, "cdui", "child.py"), "script", spec.Path}
	return append(argv, spec.Args...)
}

// GraphArgv starts the engine under the runtime at root. It runs isolated: what
// a graph's nodes import is the interpreter's own.
func GraphArgv(root, interpreter string) []string {
	return []string{interpreter, "-I", "-B", "-u", filepath.Join(root, "cdui", "graph_child.py")}
}
