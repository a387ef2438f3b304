package warm_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/pyruntime"
	"cdui/internal/run"
	"cdui/internal/warm"
)

// scriptRun is a script's assignment as agents and the control plane build it.
func scriptRun(devices []string, vars map[string]string, args ...string) protocol.Assignment {
	argv := pyruntime.ScriptArgv("/rt", "/venv/bin/python", run.ScriptSpec{Path: "/srv/train.py", Args: args})
	return protocol.Assignment{
		RunID: "r", Kind: protocol.KindScript, Argv: argv, Dir: "/srv", VisibleDevices: devices,
		Env: pyruntime.ChildEnv([]string{"PATH=/bin", "HOME=/root", "HF_HOME=/hf"}, pyruntime.EnvSpec{
			Run: vars, Runtime: "/rt", Devices: devices, Cores: 4, Slots: 2, Argv: argv, MasterPort: 4711, CheckpointDir: "/ck/" + strings.Join(args, ""),
		}),
	}
}

func key(t *testing.T, a protocol.Assignment) string {
	t.Helper()
	r, ok := warm.RecipeOf(a)
	if !ok {
		return "none"
	}
	return r.Key
}

// Proves K-04: interpreter, device and what counts before the start decide
// whether a spare serves; everything else comes with the run.
func TestWhatASpareServes(t *testing.T) {
	cpu := []string{"cpu"}
	usual := scriptRun(cpu, nil)
	other := func(change func(*protocol.Assignment)) protocol.Assignment {
		a := scriptRun(cpu, nil)
		a.Argv, a.Env = slices.Clone(a.Argv), slices.Clone(a.Env)
		change(&a)
		return a
	}
	for name, a := range map[string]protocol.Assignment{
		"other arguments":       scriptRun(cpu, nil, "--lr", "3"),
		"the program's own":     scriptRun(cpu, map[string]string{"LR": "3", "WANDB_MODE": "offline", "HF_TOKEN": "x", "PATH": "/opt/bin"}),
		"another folder":        other(func(a *protocol.Assignment) { a.Dir = "/elsewhere" }),
		"another script":        other(func(a *protocol.Assignment) { a.Argv[4] = "/srv/eval.py" }),
		"a limit and an input":  other(func(a *protocol.Assignment) { a.MaxRunMS, a.Input = 5, []byte("{}") }),
		"a reserved name given": scriptRun(cpu, map[string]string{"CUDA_VISIBLE_DEVICES": "7"}),
	} {
		if key(t, a) != key(t, usual) {
			t.Errorf("%s: no spare serves it", name)
		}
	}
	for name, a := range map[string]protocol.Assignment{
		"threads":                scriptRun(cpu, map[string]string{"OMP_NUM_THREADS": "1"}),
		"hash seed":              scriptRun(cpu, map[string]string{"PYTHONHASHSEED": "0"}),
		"loader":                 scriptRun(cpu, map[string]string{"LD_PRELOAD": "/x.so"}),
		"allocator":              scriptRun(cpu, map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "x"}),
		"another card":           scriptRun([]string{"cuda:1"}, nil),
		"another interpreter":    other(func(a *protocol.Assignment) { a.Argv[0] = "/usr/bin/python3" }),
		"another runtime":        other(func(a *protocol.Assignment) { a.Argv[2] = "/rt2/cdui/child.py" }),
		"locale":                 scriptRun(cpu, map[string]string{"LC_ALL": "C"}),
		"more folders of import": scriptRun(cpu, map[string]string{"PYTHONPATH": "/lib/mine"}),
	} {
		if k := key(t, a); k == key(t, usual) || k == "none" {
			t.Errorf("%s: the usual spare would serve it, or none ever", name)
		}
	}
	for name, a := range map[string]protocol.Assignment{
		"a command":                    {Kind: protocol.KindCommand, Argv: []string{"/venv/bin/python", "-u", "x", "script", "y"}, VisibleDevices: cpu},
		"two cards":                    scriptRun([]string{"cuda:0", "cuda:1"}, nil),
		"a folder relative to its own": scriptRun(cpu, map[string]string{"PYTHONPATH": "lib"}),
		"a secret before the start":    scriptRun(cpu, map[string]string{"TORCH_API_KEY": "x"}),
		"an interpreter by name":       other(func(a *protocol.Assignment) { a.Argv[0] = "python3" }),
	} {
		if key(t, a) != "none" {
			t.Errorf("%s: a spare is made for it", name)
		}
	}
	graph := usual
	graph.Kind, graph.Argv = protocol.KindGraph, pyruntime.GraphArgv("/rt", "/venv/bin/python")
	if k := key(t, graph); k == "none" || k == key(t, usual) {
		t.Error("a graph has no spare of its own")
	}
}

// Proves P-03, R-10: nothing of one run gets into a spare, a secret least of all.
func TestASpareHoldsNothingOfARun(t *testing.T) {
	a := scriptRun([]string{"cpu"}, map[string]string{"MY_TOKEN": "hush", "LR": "3", "OMP_NUM_THREADS": "2"}, "--secret", "hush")
	r, ok := warm.RecipeOf(a)
	if !ok {
		t.Fatal("no recipe")
	}
	for _, s := range append(slices.Clone(r.Env), r.Argv...) {
		if strings.Contains(s, "hush") || strings.HasPrefix(s, "CDUI_") || strings.HasPrefix(s, "LR=") || strings.Contains(s, "train.py") {
			t.Errorf("the spare has %s", s)
		}
	}
	if !slices.Contains(r.Env, "OMP_NUM_THREADS=2") || !slices.Contains(r.Env, "CUDA_VISIBLE_DEVICES=") || !slices.Contains(r.Env, "PATH=/bin") {
		t.Errorf("%q", r.Env)
	}
	if r.Argv[len(r.Argv)-1] != "spare" || r.Argv[0] != a.Argv[0] {
		t.Errorf("%q", r.Argv)
	}
}

func TestShadowedModules(t *testing.T) {
	imported := []string{"numpy", "random", "torch"}
	for entries, want := range map[string]string{
		"train.py data README.md":               "",
		"train.py random.py":                    "random",
		"torch train.py":                        "torch",
		"numpy.cpython-311-x86_64-linux-gnu.so": "numpy",
		"random.txt numpy.json":                 "",
	} {
		if got := warm.Shadowed(strings.Fields(entries), imported); got != want {
			t.Errorf("%s: %q, want %q", entries, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		n       int
		devices string
		want    map[string]int
	}{
		{0, "cpu", map[string]int{}},
		{-1, "cpu cuda:0", map[string]int{}},
		{2, "cpu", map[string]int{"cpu": 2}},
		{1, "cpu cuda:0 cuda:1", map[string]int{"cuda:0": 1}},
		{4, "cpu cuda:0 cuda:1", map[string]int{"cuda:0": 1, "cuda:1": 1, "cpu": 2}},
		{4, "cuda:0", map[string]int{"cuda:0": 1}},
	} {
		if got := warm.Spread(c.n, strings.Fields(c.devices)); !maps.Equal(got, c.want) {
			t.Errorf("%d on %s: %v, want %v", c.n, c.devices, got, c.want)
		}
	}
}
