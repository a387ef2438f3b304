package workerscmd_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
	"cdui/internal/cli/workerscmd"
	"cdui/internal/device"
	"cdui/internal/protocol"
)

func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := workerscmd.New(e.Env, workerscmd.Deps{Client: e.Client})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(e.Stdout)
	cmd.SetErr(e.Stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	return cmd.ExecuteContext(t.Context())
}

func ptr[T any](v T) *T { return &v }

// workers is a list that has all that lists can show.
func workers() api.WorkerList {
	card := func(n int, runs ...string) api.WorkerDevice {
		return api.WorkerDevice{
			Device: device.Device{
				Device: fmt.Sprintf("cuda:%d", n), Kind: device.CUDA, Index: n, Name: "NVIDIA H100 80GB HBM3",
				MemoryTotalMiB: ptr(int64(81920)), MemoryFreeMiB: ptr(int64(81920 - 41984)), UtilizationPct: ptr(int64(83)),
				TemperatureC: ptr(int64(64)), PowerW: ptr(512.0),
			},
			Slots: api.WorkerSlots{Slots: api.Slots{Cap: 1, Used: len(runs)}}, Runs: runs,
		}
	}
	quiet := api.WorkerDevice{Device: device.Device{Device: "cuda:0", Kind: device.CUDA, Name: "A6000"}, Slots: api.WorkerSlots{Slots: api.Slots{Cap: 1, Used: 1}}, Runs: []string{clitest.ID("a77e21bb")}}
	sick := api.WorkerDevice{
		Device: device.Device{
			Device: "cuda:1", Kind: device.CUDA, Index: 1, Name: "A6000", MemoryTotalMiB: ptr(int64(49152)), MemoryFreeMiB: ptr(int64(43008)),
			Health:    device.Health{Code: device.UnhealthyXid, Text: "Xid 79: the card fell off the bus"},
			Processes: []device.Process{{PID: 2214, User: ptr("alice"), Name: ptr("python\x1b[31m")}},
		},
		Slots: api.WorkerSlots{Slots: api.Slots{Cap: 1}},
	}
	linux := &protocol.Platform{OS: "linux", Arch: "amd64", Hostname: "box1.lab", Cores: 32, MemoryMiB: 512 << 10}
	return api.WorkerList{Workers: []api.Worker{
		{
			Name: "box1", State: api.WorkerOnline, Version: "0.4.0", Via: "direct", Platform: linux, Mounts: map[string]string{"data": "/mnt/data"},
			Python:      &protocol.Python{Path: "/usr/bin/python3", Version: "3.11.7", Torch: ptr("2.6+cu124"), CUDA: ptr("12.4")},
			ConnectedAt: clitest.Ago(6 * 24 * time.Hour), LastSeen: clitest.Ago(3 * time.Second), ClockSkewMS: ptr(int64(121500)),
			Capabilities: protocol.Capabilities{"ack", "frames"}, Devices: []api.WorkerDevice{card(0, clitest.ID("3f1c9ab2")), card(1)},
			Runs: []string{clitest.ID("3f1c9ab2")},
		},
		{
			Name: "box2", State: api.WorkerDisconnected, Version: "0.4.0", Via: "tunnel", LastSeen: clitest.Ago(12 * time.Second),
			ResumeUntil: ptr(clitest.Now().Add(24 * time.Hour)), Devices: []api.WorkerDevice{quiet, sick}, Runs: []string{clitest.ID("a77e21bb")},
		},
		{Name: "box3", State: api.WorkerOnline, Degraded: true, Version: "0.4.0", Via: "direct", Catalog: &api.WorkerCatalog{MissingThere: []string{"my-pack:Conv4d", "my-pack:Mixer"}}},
		{Name: "box4", State: api.WorkerOnline, Draining: true, Version: "0.4.0", Via: "direct", Python: &protocol.Python{Path: "/usr/bin/python3", Version: "3.11.7"}},
		{Name: "new", State: api.WorkerOffline},
		{Name: "old", State: api.WorkerRejected, RejectReason: "version mismatch: worker 0.3.9, control plane 0.4.0", LastSeen: clitest.Ago(time.Hour)},
	}}
}

func TestListAtEachWidth(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{0, 40, 80, 120} {
		e := clitest.New(t, columns)
		e.Serve(t, map[string]clitest.Reply{"GET /api/workers": {Body: workers()}})
		if err := execute(t, e); err != nil {
			t.Fatal(err)
		}
		got := e.Stdout.String()
		clitest.Golden(t, fmt.Sprintf("ls-%d", columns), got)
		for line := range strings.SplitSeq(got, "\n") {
			if columns > 0 && text.Cells(line) > columns {
				t.Errorf("%d columns: %q has %d cells", columns, line, text.Cells(line))
			}
		}
		if strings.Contains(got, "\x1b") {
			t.Errorf("%d columns: control sequences in %q", columns, got)
		}
	}
}

func TestListWithoutUTF8IsASCII(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 80)
	e.Set("LANG", "C")
	e.Serve(t, map[string]clitest.Reply{"GET /api/workers": {Body: workers()}})
	if err := execute(t, e, "ls"); err != nil {
		t.Fatal(err)
	}
	if got := e.Stdout.String(); !strings.HasPrefix(got, "box1  * online") || strings.ContainsFunc(got, func(r rune) bool { return r > 126 }) {
		t.Errorf("got %q", got)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"online", "disconnected", "degraded", "draining", "new", "rejected"} {
		e := clitest.New(t, 80)
		w := workers().Workers[i]
		e.Serve(t, map[string]clitest.Reply{"GET /api/workers/" + w.Name: {Body: w}})
		if err := execute(t, e, "show", w.Name); err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, "show-"+name, e.Stdout.String())
	}
}

func TestQuietAndJSON(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"ls -q": "box1\nbox2\nbox3\nbox4\nnew\nold\n", "--json": `{"workers":[{"name":"box1",`} {
		e := clitest.New(t, 0)
		e.Serve(t, map[string]clitest.Reply{"GET /api/workers": {Body: workers()}})
		if err := execute(t, e, strings.Fields(args)...); err != nil || !strings.HasPrefix(e.Stdout.String(), want) {
			t.Errorf("%s: %v, %s", args, err, e.Stdout)
		}
	}
}

func TestAddPrintsTheCommandForTheOtherMachine(t *testing.T) {
	t.Parallel()
	command := "cdui agent start --control https://lab:8000 --pin sha256:00 --token k3x9aa.8f21aaaabbbbcccc --name box3"
	reply := clitest.Reply{Status: http.StatusCreated, Body: api.EnrollmentReply{Token: "k3x9aa.8f21aaaabbbbcccc", Command: command, ExpiresAt: clitest.Now().Add(24 * time.Hour)}}
	for _, c := range []struct{ args, asked, out string }{
		{"add box3", `{"name":"box3"}`, "On box3, run (valid 24 h, once):\n  " + command + "\n"},
		{"add box3 --ttl 10m -q", `{"name":"box3","ttl_s":600}`, "k3x9aa.8f21aaaabbbbcccc\n"},
		{"add box3 --json", `{"name":"box3"}`, `{"token":"k3x9aa.8f21aaaabbbbcccc","command":"` + command + `","expires_at":"2026-03-05T14:02:00Z"}` + "\n"},
		{"rekey box3", "", "On box3, run (valid 24 h, once):\n  " + command + "\n"},
	} {
		e := clitest.New(t, 0)
		control := e.Serve(t, map[string]clitest.Reply{"POST /api/workers/enrollments": reply, "POST /api/workers/box3/rekey": reply})
		if err := execute(t, e, strings.Fields(c.args)...); err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if got := control.Requests()[0].Body; got != c.asked || e.Stdout.String() != c.out {
			t.Errorf("%s: asked %q, said %q", c.args, got, e.Stdout)
		}
	}
}

func TestNamesThatMakeNoWorker(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"add", "Box"}, {"add", "any"}, {"add", "local"}, {"add"}, {"add", "a", "b"}, {"drain"}, {"drain", " "}, {"rm", ""}, {"show", ""}, {"add", "box", "--ttl", "soon"}} {
		e := clitest.New(t, 0)
		control := e.Serve(t, nil)
		var usage *env.Usage
		if err := execute(t, e, args...); !errors.As(err, &usage) && !strings.Contains(fmt.Sprint(err), "--ttl") || len(control.Requests()) > 0 {
			t.Errorf("%q: %v, asked %v", args, err, control.Requests())
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	list := workers().Workers
	for _, c := range []struct{ args, out string }{
		{"drain box1 box2", "box1 takes no new runs; 1 run there goes on\nbox2 takes no new runs; 1 run there goes on\n"},
		{"drain box4", "box4 takes no new runs; nothing runs there\n"},
		{"undrain box4", "box4 takes runs again\n"},
		{"rm box1 box4", "removed box1\nremoved box4\n"},
	} {
		e := clitest.New(t, 0)
		replies := map[string]clitest.Reply{}
		for _, w := range list {
			replies["POST /api/workers/"+w.Name+"/drain"] = clitest.Reply{Body: w}
			replies["POST /api/workers/"+w.Name+"/undrain"] = clitest.Reply{Body: w}
			replies["DELETE /api/workers/"+w.Name] = clitest.Reply{Status: http.StatusNoContent}
		}
		e.Serve(t, replies)
		if err := execute(t, e, strings.Fields(c.args)...); err != nil || e.Stdout.String() != c.out {
			t.Errorf("%s: %v, said %q", c.args, err, e.Stdout)
		}
	}
	e := clitest.New(t, 0)
	e.Serve(t, map[string]clitest.Reply{"DELETE /api/workers/gone": clitest.Refusal(api.NotFound, `no worker "gone"`)})
	if err := execute(t, e, "rm", "gone"); api.CodeOf(err) != api.NotFound {
		t.Errorf("rm gone: %v", err)
	}
}
