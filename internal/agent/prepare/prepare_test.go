package prepare_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cdui/internal/agent/prepare"
	"cdui/internal/protocol"
)

func surroundings() prepare.Surroundings {
	return prepare.Surroundings{
		Runtime: "/rt", NodesDir: "/data/nodes", Python: "/usr/bin/python3", Cores: 16,
		Offered: []string{"cpu", "cuda:0", "cuda:1", "cuda:2", "cuda:3"},
		Environ: []string{
			"HOME=/h", "PATH=/bin", "WANDB_MODE=offline", "CODEFYUI_DB_PATH=/db", "CODEFYUI_WORKER_TOKEN=t",
			"CUDA_VISIBLE_DEVICES=GPU-1", "ROCR_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=0", "CDUI_TOKEN=s",
		},
		Mounts: map[string]string{"data": "/mnt/shared"},
	}
}

func variable(env []string, name string) (string, bool) {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

func script(devices ...string) *protocol.Assign {
	return &protocol.Assign{
		RunID: "r1", Attempt: 2, Kind: protocol.KindScript, NodeID: "n", Devices: devices, Device: devices[0],
		GraceS: 20, MaxRunS: 60, PayloadCap: 7,
		Script: &protocol.Script{
			Path: "src/train.py", Args: []string{"--lr", "3e-4"}, Env: map[string]string{"A": "1", "KEY": "plain"},
			Params: json.RawMessage(`{"n":1}`),
		},
		Code: &protocol.Code{Hash: "h"},
	}
}

// TestAScriptWithItsFolder: ISO-05, ISO-09, R-05.
func TestAScriptWithItsFolder(t *testing.T) {
	t.Parallel()
	s := surroundings()
	in := script("cuda:2", "cuda:0")
	in.Secrets = protocol.Secrets{"KEY": "secret"}
	f := prepare.Under("/files/r1")
	a, err := s.Assignment(in, f)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/usr/bin/python3", "-u", "/rt/cdui/child.py", "script", "/files/r1/code/src/train.py", "--lr", "3e-4"}
	if !slices.Equal(a.Argv, want) || a.Dir != "/files/r1/code" {
		t.Errorf("argv %q in %s", a.Argv, a.Dir)
	}
	if a.RunID != "r1" || a.Attempt != 2 || a.NodeID != "n" || a.GraceMS != 20_000 || a.MaxRunMS != 60_000 || a.PayloadCap != 7 {
		t.Errorf("got %+v", a)
	}
	for name, want := range map[string]string{
		"CUDA_VISIBLE_DEVICES": "2,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "A": "1", "KEY": "secret", "HOME": "/h",
		"OMP_NUM_THREADS": "8", "CDUI_CHECKPOINT_DIR": "/files/r1/checkpoints",
	} {
		if got, _ := variable(a.Env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !reflect.DeepEqual(a.DeviceAliases, map[string]string{"cuda:0": "cuda:2", "cuda:1": "cuda:0"}) {
		t.Errorf("aliases %v", a.DeviceAliases)
	}
	if !slices.Equal(a.VisibleDevices, []string{"cuda:2", "cuda:0"}) {
		t.Errorf("visible %v", a.VisibleDevices)
	}
}

// TestWhatTheEnvironmentLeavesOut: ISO-06, ISO-08, R-10.
func TestWhatTheEnvironmentLeavesOut(t *testing.T) {
	t.Parallel()
	s := surroundings()
	s.PassEnv = []string{"WANDB_*", "CODEFYUI_*", "CDUI_*", "ROCR_*", "HIP_*", "CUDA_*"}
	a, err := s.Assignment(script("cpu"), prepare.Under("/f"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"CODEFYUI_DB_PATH", "CODEFYUI_WORKER_TOKEN", "CDUI_TOKEN", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"} {
		if v, there := variable(a.Env, name); there {
			t.Errorf("the child gets %s=%s", name, v)
		}
	}
	if v, there := variable(a.Env, "CUDA_VISIBLE_DEVICES"); v != "" || !there {
		t.Errorf("CUDA_VISIBLE_DEVICES is %q", v)
	}
	if v, _ := variable(a.Env, "WANDB_MODE"); v != "offline" {
		t.Errorf("--pass-env passed %q", v)
	}
}

// TestAGraph: ISO-05, MNT-04, ROLE-20.
func TestAGraph(t *testing.T) {
	t.Parallel()
	s := surroundings()
	for _, c := range []struct {
		name    string
		storage *protocol.Storage
		root    string
	}{
		{"no files", nil, "/f/data"},
		{"transfer", &protocol.Storage{Backend: protocol.BackendTransfer}, "/f/data"},
		{"same machine", &protocol.Storage{Backend: protocol.BackendLocal, Folder: "/cp"}, "/cp"},
		{"mount", &protocol.Storage{Backend: protocol.BackendMount, Label: "data"}, "/mnt/shared"},
	} {
		a, err := s.Assignment(&protocol.Assign{
			RunID: "r", Attempt: 1, Kind: protocol.KindGraph, Devices: []string{"cuda:3"},
			Graph: &protocol.Graph{Prepared: json.RawMessage(`{"nodes":[]}`)}, Storage: c.storage,
			Options: json.RawMessage(`{"device":"cuda:3","seed":4,"script":{"path":"x"}}`),
		}, prepare.Under("/f"))
		if err != nil {
			t.Fatal(err)
		}
		var in struct {
			Graph   json.RawMessage `json:"graph"`
			Options struct {
				Device string          `json:"device"`
				Seed   int             `json:"seed"`
				Script json.RawMessage `json:"script"`
			} `json:"options"`
			DataRoot   string   `json:"data_root"`
			SearchDirs []string `json:"search_dirs"`
			OutputsDir string   `json:"outputs_dir"`
		}
		if err := json.Unmarshal(a.Input, &in); err != nil {
			t.Fatal(err)
		}
		if in.DataRoot != c.root || in.SearchDirs[0] != c.root || a.Dir != c.root || in.OutputsDir != "/f/outputs" {
			t.Errorf("%s: %+v in %s", c.name, in, a.Dir)
		}
		if in.Options.Device != "cuda:0" || in.Options.Seed != 4 || string(in.Options.Script) != "null" || string(in.Graph) != `{"nodes":[]}` {
			t.Errorf("%s: %+v", c.name, in)
		}
		if v, _ := variable(a.Env, "CUDA_VISIBLE_DEVICES"); v != "3" {
			t.Errorf("%s: CUDA_VISIBLE_DEVICES is %q", c.name, v)
		}
		if v, _ := variable(a.Env, "CDUI_SEED"); v != "4" {
			t.Errorf("%s: CDUI_SEED is %q", c.name, v)
		}
	}
}

func TestWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	command := func(cwd string, code *protocol.Code, argv ...string) *protocol.Assign {
		return &protocol.Assign{
			RunID: "r", Attempt: 1, Kind: protocol.KindCommand, Devices: []string{"cpu"}, Code: code,
			Command: &protocol.Command{Argv: argv, Cwd: cwd},
		}
	}
	folder := &protocol.Code{Hash: "h"}
	graph := &protocol.Assign{
		RunID: "r", Attempt: 1, Kind: protocol.KindGraph, Devices: []string{"cpu"}, Graph: &protocol.Graph{},
		Storage: &protocol.Storage{Backend: protocol.BackendMount, Label: "nas"},
	}
	outside := script("cpu")
	outside.Script.Path = "../../etc/passwd"
	for _, c := range []struct {
		name   string
		in     *protocol.Assign
		python string
		code   string
		text   string
	}{
		{"a script that leaves its folder", outside, "p", protocol.RefuseUnsupported, "leaves the folder"},
		{"a working folder that leaves it", command("../x", folder, "true"), "p", protocol.RefuseUnsupported, "leaves the folder"},
		{"an absolute one beside a folder", command("/etc", folder, "true"), "p", protocol.RefuseUnsupported, "leaves the folder"},
		{"a relative one without", command("src", nil, "true"), "p", protocol.RefuseUnsupported, "is not absolute"},
		{"nothing to do", command("", nil), "p", protocol.RefuseUnsupported, "empty"},
		{"no Python for a script", script("cpu"), "", protocol.RefuseNoInterpreter, "none found"},
		{"no Python for a graph", graph, "", protocol.RefuseNoInterpreter, "none found"},
		{"an unknown mount", graph, "p", protocol.RefuseUnsupported, "--mount nas="},
		{"an unknown kind", &protocol.Assign{RunID: "r", Attempt: 1, Kind: "dance"}, "p", protocol.RefuseUnsupported, "dance"},
	} {
		s := surroundings()
		s.Python, s.PythonProblem = c.python, "none found"
		_, err := s.Assignment(c.in, prepare.Under("/f"))
		var u *prepare.Unfit
		if !errors.As(err, &u) || u.Code != c.code || !strings.Contains(u.Text, c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestACommandNeedsNoPython: R-05.
func TestACommandNeedsNoPython(t *testing.T) {
	t.Parallel()
	s := surroundings()
	s.Python = ""
	a, err := s.Assignment(&protocol.Assign{
		RunID: "r", Attempt: 1, Kind: protocol.KindCommand, Devices: []string{"cpu"},
		Command: &protocol.Command{Argv: []string{"./job.sh"}, Cwd: "sub"}, Code: &protocol.Code{},
	}, prepare.Under("/f"))
	if err != nil || a.Dir != filepath.Join("/f/code", "sub") || !slices.Equal(a.Argv, []string{"./job.sh"}) {
		t.Errorf("%q in %s, %v", a.Argv, a.Dir, err)
	}
}

// MEM-04, MEM-05: budgets come by the worker's devices and reach the child as it
// sees them; in its environment as one number, the least.
func TestMemoryBudgetsReachTheChild(t *testing.T) {
	t.Parallel()
	s := surroundings()
	in := script("cuda:2", "cuda:0")
	in.MemoryBudgets = map[string]int64{"cuda:0": 2048, "cuda:2": 3072, "cuda:3": 1}
	in.Script.Env["CDUI_MEMORY_BUDGET_MIB"] = "99999"
	a, err := s.Assignment(in, prepare.Under("/f"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := variable(a.Env, "CDUI_MEMORY_BUDGET_MIB"); got != "2048" {
		t.Errorf("the child gets %q", got)
	}
	if want := map[string]int64{"cuda:0": 3072, "cuda:1": 2048}; !reflect.DeepEqual(a.MemoryBudgets, want) {
		t.Errorf("budgets %v", a.MemoryBudgets)
	}
	command := &protocol.Assign{RunID: "r", Attempt: 1, Kind: protocol.KindCommand, Devices: []string{"cuda:1"}, Command: &protocol.Command{Argv: []string{"x"}}}
	for budget, want := range map[int64]string{512: "512", 0: ""} {
		command.MemoryBudgets = map[string]int64{"cuda:1": budget}
		if a, err = s.Assignment(command, prepare.Under("/f")); err != nil {
			t.Fatal(err)
		}
		if got, _ := variable(a.Env, "CDUI_MEMORY_BUDGET_MIB"); got != want {
			t.Errorf("a command gets %q of %d MiB", got, budget)
		}
	}
}
