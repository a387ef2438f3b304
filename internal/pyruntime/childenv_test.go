package pyruntime_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/pyruntime"
	"cdui/internal/run"
)

// Proves R-10, ISO-04, ISO-06, ISO-08.
func TestChildEnv(t *testing.T) {
	cpu := []string{"CDUI_DEVICE=cpu", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES="}
	tests := []struct {
		name string
		base []string
		spec pyruntime.EnvSpec
		want []string // beside cpu and PATH=/bin, which base holds in each case
	}{
		{name: "nothing but what a child needs"},
		{
			name: "the allow-list",
			base: []string{
				"HOME=/h", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "LANG=C", "LC_ALL=C", "TZ=UTC", "TMPDIR=/t", "TERM=xterm",
				"XDG_CACHE_HOME=/c", "LD_LIBRARY_PATH=/l", "http_proxy=p", "HTTPS_PROXY=p", "SSL_CERT_FILE=/s", "HF_HOME=/hf",
				"TORCH_HOME=/th", "TRITON_CACHE_DIR=/tr", "OMP_PROC_BIND=1", "MKL_DEBUG=1", "OPENBLAS_MAIN_FREE=1",
				"NUMEXPR_MAX_THREADS=1", "NCCL_DEBUG=INFO", "GLOO_SOCKET_IFNAME=lo", "CUDA_HOME=/cuda", "CUDA_CACHE_PATH=/cc",
				"CUDA_MPS_PIPE_DIRECTORY=/mps", "SLURM_JOB_ID=7",
				"EDITOR=vi", "SSH_AUTH_SOCK=/s", "DISPLAY=:0", "PYTHONPATH=/other", "LD_PRELOAD=x.so", "HOMEBREW=1", "CUDA_LAUNCH_BLOCKING=1",
			},
			want: []string{
				"HOME=/h", "USER=u", "LOGNAME=u", "SHELL=/bin/sh", "LANG=C", "LC_ALL=C", "TZ=UTC", "TMPDIR=/t", "TERM=xterm",
				"XDG_CACHE_HOME=/c", "LD_LIBRARY_PATH=/l", "http_proxy=p", "HTTPS_PROXY=p", "SSL_CERT_FILE=/s", "HF_HOME=/hf",
				"TORCH_HOME=/th", "TRITON_CACHE_DIR=/tr", "OMP_PROC_BIND=1", "MKL_DEBUG=1", "OPENBLAS_MAIN_FREE=1",
				"NUMEXPR_MAX_THREADS=1", "NCCL_DEBUG=INFO", "GLOO_SOCKET_IFNAME=lo", "CUDA_HOME=/cuda", "CUDA_CACHE_PATH=/cc",
				"CUDA_MPS_PIPE_DIRECTORY=/mps", "SLURM_JOB_ID=7",
			},
		},
		{
			name: "secrets and steering of others stay behind",
			base: []string{
				"CODEFYUI_DB_PATH=/db", "CDUI_TOKEN=t", "CDUI_HOME=/h", "HF_TOKEN=t", "AWS_SECRET_ACCESS_KEY=s", "GITHUB_TOKEN=g",
				"ROCR_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=0", "GPU_DEVICE_ORDINAL=0", "CUDA_VISIBLE_DEVICES=7", "ODD", "=x",
			},
		},
		{
			name: "passed by name",
			base: []string{"HF_TOKEN=t", "MY_A=1", "MY_B=2", "OTHER=3", "CDUI_TOKEN=t", "CUDA_VISIBLE_DEVICES=7"},
			spec: pyruntime.EnvSpec{Pass: []string{"HF_TOKEN", "MY_*", "ABSENT", "CDUI_TOKEN", "CUDA_VISIBLE_DEVICES"}},
			want: []string{"HF_TOKEN=t", "MY_A=1", "MY_B=2"},
		},
		{
			name: "the run's own win, but for what decides devices and CDUI_",
			base: []string{"LANG=C"},
			spec: pyruntime.EnvSpec{Run: map[string]string{
				"LANG": "de", "X": "1", "CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST", "HIP_VISIBLE_DEVICES": "1",
				"CDUI_DEVICE": "cuda:3", "CDUI_RUN_ID": "x", "CUDA_LAUNCH_BLOCKING": "1",
			}},
			want: []string{"LANG=de", "X=1", "CUDA_LAUNCH_BLOCKING=1"},
		},
		{
			name: "runtime after the user's own path",
			spec: pyruntime.EnvSpec{Runtime: "/data/runtime/1", Run: map[string]string{"PYTHONPATH": "/mine"}},
			want: []string{"PYTHONPATH=/mine:/data/runtime/1"},
		},
		{
			name: "runtime alone",
			spec: pyruntime.EnvSpec{Runtime: "/data/runtime/1"},
			want: []string{"PYTHONPATH=/data/runtime/1"},
		},
		{
			name: "threads shared",
			spec: pyruntime.EnvSpec{Cores: 8, Slots: 2},
			want: []string{"OMP_NUM_THREADS=4"},
		},
		{
			name: "more slots than cores",
			spec: pyruntime.EnvSpec{Cores: 2, Slots: 4},
			want: []string{"OMP_NUM_THREADS=1"},
		},
		{
			name: "threads chosen",
			base: []string{"OMP_NUM_THREADS=3"},
			spec: pyruntime.EnvSpec{Cores: 8, Slots: 2},
			want: []string{"OMP_NUM_THREADS=3"},
		},
		{
			name: "what cdui tells its own package",
			spec: pyruntime.EnvSpec{CheckpointDir: "/c", Params: json.RawMessage(`{"lr":1}`), Seed: new(int64)},
			want: []string{"CDUI_CHECKPOINT_DIR=/c", `CDUI_PARAMS={"lr":1}`, "CDUI_SEED=0"},
		},
		{
			name: "params too large for a variable",
			spec: pyruntime.EnvSpec{Params: json.RawMessage(`{"a":"` + strings.Repeat("x", 40<<10) + `"}`)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := slices.Concat(tt.want, cpu, []string{"PATH=/bin"})
			slices.Sort(want)
			got := pyruntime.ChildEnv(append([]string{"PATH=/bin"}, tt.base...), tt.spec)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// ISO-04, ISO-05, ISO-06, P-06: the run's cards alone, in their order.
func TestChildEnvDevices(t *testing.T) {
	tests := []struct {
		devices       []string
		device, cards string
	}{
		{nil, "cpu", ""},
		{[]string{"cpu"}, "cpu", ""},
		{[]string{"mps:0"}, "mps", ""},
		{[]string{"cuda:0"}, "cuda:0", "0"},
		{[]string{"cuda:5"}, "cuda:0", "5"},
		{[]string{"cuda:3", "cuda:1"}, "cuda:0", "3,1"},
	}
	for _, tt := range tests {
		env := asMap(pyruntime.ChildEnv(nil, pyruntime.EnvSpec{Devices: tt.devices}))
		if env["CDUI_DEVICE"] != tt.device || env["CUDA_VISIBLE_DEVICES"] != tt.cards || env["CUDA_DEVICE_ORDER"] != "PCI_BUS_ID" {
			t.Errorf("%v: got device %q, cards %q, order %q", tt.devices, env["CDUI_DEVICE"], env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"])
		}
		if _, ok := env["CUDA_VISIBLE_DEVICES"]; !ok {
			t.Errorf("%v: CUDA_VISIBLE_DEVICES is not set, so all cards would be seen", tt.devices)
		}
	}
}

func TestChildEnvPath(t *testing.T) {
	tests := []struct {
		name, base, own, venv, want string
	}{
		{"none at all", "", "", "", "/usr/local/bin:/usr/bin:/bin"},
		{"the parent's", "/a:/b", "", "", "/a:/b"},
		{"the run's", "/a:/b", "/c", "", "/c"},
		{"environment first", "/a:/b", "", "/v", "/v/bin:/a:/b"},
		{"environment before the run's", "/a", "/c", "/v", "/v/bin:/c"},
		{"environment there already", "/v/bin:/a", "", "/v", "/v/bin:/a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := pyruntime.EnvSpec{Venv: tt.venv, Run: map[string]string{}}
			if tt.own != "" {
				spec.Run["PATH"] = tt.own
			}
			env := asMap(pyruntime.ChildEnv([]string{"PATH=" + tt.base}, spec))
			if env["PATH"] != tt.want || env["VIRTUAL_ENV"] != tt.venv {
				t.Errorf("got PATH %q, VIRTUAL_ENV %q, want %q", env["PATH"], env["VIRTUAL_ENV"], tt.want)
			}
		})
	}
}

func TestChildEnvRendezvous(t *testing.T) {
	own := map[string]string{
		"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "localhost:0", "PET_LOCAL_ADDR": "localhost",
		"PET_REDIRECTS": "9:0", "PET_TEE": "9:0",
	}
	port := map[string]string{"PET_MASTER_PORT": "41234", "MASTER_PORT": "41234"}
	tests := []struct {
		argv string
		env  map[string]string
		want map[string]string
	}{
		{argv: "torchrun --nproc-per-node 2 train.py", want: own},
		{argv: "/venv/bin/torchrun --nproc_per_node=2 --nnodes 1 train.py --master_addr x", want: own},
		{argv: "torchrun --nnodes=1:1 --nproc-per-node 2 -m pkg.train", want: own},
		{argv: "python3 -u -m torch.distributed.run --nproc-per-node 2 train.py", want: own},
		{argv: "python -m torch.distributed.launch train.py", want: own},
		{argv: "torchrun --standalone train.py"},
		{argv: "torchrun --nnodes 2 --node-rank 0 --master-addr h train.py"},
		{argv: "torchrun --nnodes=1:4 train.py"},
		{argv: "torchrun --master_port 29600 train.py"},
		{argv: "torchrun --rdzv-backend=c10d --rdzv-endpoint=h:1 train.py"},
		{argv: "torchrun train.py", env: map[string]string{"PET_MASTER_PORT": "1"}, want: map[string]string{"PET_MASTER_PORT": "1"}},
		{argv: "torchrun train.py", env: map[string]string{"PET_RDZV_BACKEND": "static"}, want: map[string]string{"PET_RDZV_BACKEND": "static"}},
		{argv: "./job.sh", want: port},
		{argv: "python3 train.py -m torch.distributed.run", want: port},
		{argv: "python3 -m train", want: port},
		{argv: "./job.sh", env: map[string]string{"MASTER_PORT": "1"}, want: map[string]string{"MASTER_PORT": "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.argv, func(t *testing.T) {
			env := asMap(pyruntime.ChildEnv(nil, pyruntime.EnvSpec{Argv: strings.Fields(tt.argv), Run: tt.env, MasterPort: 41234}))
			maps.DeleteFunc(env, func(name, _ string) bool {
				return !strings.HasPrefix(name, "PET_") && name != "MASTER_PORT"
			})
			if !maps.Equal(env, tt.want) {
				t.Errorf("got %v, want %v", env, tt.want)
			}
		})
	}
}

func TestFreePort(t *testing.T) {
	port, err := pyruntime.FreePort()
	if err != nil || port < 1024 {
		t.Errorf("got port %d, %v", port, err)
	}
}

// TestChildEnvProperties: whatever the parent and the run hold, nothing that
// looks like a secret of the parent gets through, devices are the scheduler's,
// and each name stands once, in order.
func TestChildEnvProperties(t *testing.T) {
	name := rapid.SampledFrom([]string{
		"HOME", "PATH", "HF_TOKEN", "HF_HOME", "NCCL_DEBUG", "GITHUB_TOKEN", "CUDA_VISIBLE_DEVICES", "CDUI_DEVICE", "CDUI_TOKEN",
		"HIP_VISIBLE_DEVICES", "PYTHONPATH", "OMP_NUM_THREADS", "X", "SLURM_JWT", "MASTER_PORT",
	})
	value := rapid.StringMatching(`[a-z:/=]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		var base []string
		for n, v := range rapid.MapOf(name, value).Draw(t, "base") {
			base = append(base, n+"="+v)
		}
		own := rapid.MapOf(name, value).Draw(t, "own")
		before := slices.Clone(base)
		got := pyruntime.ChildEnv(base, pyruntime.EnvSpec{Run: own, Devices: []string{"cuda:2"}, Cores: 4, Slots: 1})
		if !slices.Equal(base, before) {
			t.Fatal("the parent's environment was changed")
		}
		env := asMap(got)
		if len(env) != len(got) || !slices.IsSorted(got) {
			t.Fatalf("names repeat or are out of order: %q", got)
		}
		if env["CUDA_VISIBLE_DEVICES"] != "2" || env["CDUI_DEVICE"] != "cuda:0" || env["CDUI_TOKEN"] != "" || env["HIP_VISIBLE_DEVICES"] != "" {
			t.Fatalf("the run chose its own devices: %q", got)
		}
		for n := range env {
			if _, given := own[n]; pyruntime.SecretLooking(n) && !given {
				t.Fatalf("%s came from the parent", n)
			}
		}
		if env["PATH"] == "" || env["OMP_NUM_THREADS"] == "" {
			t.Fatalf("no PATH or no OMP_NUM_THREADS: %q", got)
		}
	})
}

// Proves R-05.
func TestScriptArgv(t *testing.T) {
	tests := []struct {
		spec run.ScriptSpec
		want string
	}{
		{run.ScriptSpec{Path: "/p/t.py"}, "/usr/bin/python3 -u /r/cdui/child.py script /p/t.py"},
		{run.ScriptSpec{Path: "/p/t.py", Args: []string{"--lr", "3"}}, "/usr/bin/python3 -u /r/cdui/child.py script /p/t.py --lr 3"},
		{run.ScriptSpec{Path: "/p/t.py", Venv: "/v"}, "/v/bin/python -u /r/cdui/child.py script /p/t.py"},
		{run.ScriptSpec{Path: "/p/t.py", Venv: "/v", Interpreter: "/i"}, "/i -u /r/cdui/child.py script /p/t.py"},
	}
	for _, tt := range tests {
		if got := strings.Join(pyruntime.ScriptArgv("/r", "/usr/bin/python3", tt.spec), " "); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestSecretLooking(t *testing.T) {
	secret := strings.Fields(`HF_TOKEN GITHUB_TOKEN token MY_SECRET SECRETS DB_PASSWORD dbpassword PGPASSWORD MYSQL_PWD API_KEY apikey
		WANDB_API_KEY OPENAI_KEY AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID PRIVATE_KEY SSH_KEY GOOGLE_APPLICATION_CREDENTIALS
		SMTP_PASS KEY_PASSPHRASE SLURM_JWT GITHUB_PAT CDUI_AUTHTOKEN HUGGING_FACE_HUB_TOKEN`)
	open := strings.Fields(`PATH PWD OLDPWD HOME LR BATCH_SIZE TOKENIZERS_PARALLELISM NUM_TOKENS MAX_TOKENS PAD_TOKEN EOS_TOKEN
		SORT_KEY KEY PRIMARY_KEY TOKENS SSH_AUTH_SOCK COMPASS BYPASS_CACHE PATIENCE MONKEY HF_HOME SECRETARY N_KEYS`)
	for _, name := range secret {
		if !pyruntime.SecretLooking(name) {
			t.Errorf("%s does not look like a secret", name)
		}
	}
	for _, name := range open {
		if pyruntime.SecretLooking(name) {
			t.Errorf("%s looks like a secret", name)
		}
	}
}

func asMap(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		m[name] = value
	}
	return m
}

func TestChildEnvNamesCardsByUUIDWhenTheirIndexesWontDo(t *testing.T) {
	for _, tt := range []struct {
		devices       []string
		visible, want string
	}{
		{[]string{"cuda:2", "cuda:0"}, "GPU-c,GPU-a", "GPU-c,GPU-a"},
		{[]string{"cuda:2"}, "", "2"},
		{[]string{"cpu"}, "GPU-c", ""},
	} {
		env := pyruntime.ChildEnv(nil, pyruntime.EnvSpec{Devices: tt.devices, Visible: tt.visible})
		if !slices.Contains(env, "CUDA_VISIBLE_DEVICES="+tt.want) {
			t.Errorf("%v: %v", tt, env)
		}
	}
}
