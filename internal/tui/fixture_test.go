package tui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/client"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/tui/ui"
)

func ago(d time.Duration) *time.Time { return clitest.Ago(d) }

func raw(pairs ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return m
}

func ptr[T any](v T) *T { return &v }

// card is a card with everything that a driver can tell.
func card(n int, name string, util, used, total int64) device.Device {
	return device.Device{
		Device: fmt.Sprintf("cuda:%d", n), Kind: "cuda", Index: n, Name: name, UtilizationPct: &util,
		MemoryTotalMiB: ptr(total << 10), MemoryFreeMiB: ptr((total - used) << 10), TemperatureC: ptr(int64(40 + util/4)), PowerW: ptr(float64(90 + 5*util)),
	}
}

var (
	idSweep = clitest.ID("3f1c9ab2")
	idLong  = clitest.ID("a77e2100")
)

// small is one frame with everything that lists can show.
func small() api.LiveFrame {
	busy := run.SlotBusy("cuda:1", []string{clitest.ID("7aa01e00")})
	held, offline := run.Held(), run.WorkerOffline("box2")
	list := []api.LiveRun{
		{ID: clitest.ID("44f2b1cc"), Order: 1, Name: "🚀 wide-unet 👩‍🔬 🇹🇼", Kind: "script", Status: run.Failed, EndClass: run.EndOutOfMemory, Error: "CUDA out of memory: asked 9.5 GiB, 3.1 GiB free on cuda:1 of box1, where 7aa01e00 holds 41 GiB", QueueKey: "box1/cuda:1", Worker: "box1", Devices: []string{"cuda:1"}, CreatedAt: *ago(5 * time.Hour), StartedAt: ago(5 * time.Hour), FinishedAt: ago(5*time.Hour - 12*time.Second)},
		{ID: clitest.ID("9e0a17aa"), Order: 2, Name: "digits", Kind: "script", Status: run.Succeeded, QueueKey: "cpu", Devices: []string{"cpu"}, CreatedAt: *ago(3 * time.Hour), StartedAt: ago(3 * time.Hour), FinishedAt: ago(3*time.Hour - 64*time.Second), Final: raw("accuracy", "0.97812", "train_loss", "0.0502"), User: "ada"},
		{ID: clitest.ID("77aa01ee"), Order: 3, Name: "evil\x1b[31m\nname\u202e", Kind: "command", Status: run.Cancelled, QueueKey: "cpu", CreatedAt: *ago(50 * time.Hour)},
		{ID: clitest.ID("1de00000"), Order: 4, Name: "nightly", Kind: "command", Status: run.Interrupted, EndClass: run.EndWorkerLost, QueueKey: "box2/cpu", Worker: "box2", CreatedAt: *ago(26 * time.Hour), StartedAt: ago(26 * time.Hour), FinishedAt: ago(25 * time.Hour)},
		{ID: clitest.ID("7aa01e00"), Order: 5, Name: "長期預訓練 language model", Kind: "graph", Status: run.Running, QueueKey: "box1/cuda:1", Worker: "box1", Devices: []string{"cuda:1"}, CreatedAt: *ago(9 * time.Hour), StartedAt: ago(9 * time.Hour), PID: ptr(4711), Progress: raw("epoch", "2", "total_epochs", "12", "event", `"batch"`, "batch", "300", "total_batches", "400"), Final: raw("loss", "3.2214")},
		{ID: idLong, Order: 6, Name: "long pretrain", Kind: "script", Status: run.Disconnected, QueueKey: "box2/cuda:0,cuda:1", Worker: "box2", Devices: []string{"cuda:0", "cuda:1"}, CreatedAt: *ago(9 * time.Hour), StartedAt: ago(9 * time.Hour), Progress: raw("epoch", "3", "total_epochs", "12", "event", `"epoch"`), Final: raw("loss", "2.2214")},
		{ID: idSweep, Order: 7, Name: "resnet epoch sweep #3", Kind: "graph", Status: run.Running, QueueKey: "box1/cuda:0", Worker: "box1", Devices: []string{"cuda:0"}, CreatedAt: *ago(18 * time.Minute), StartedAt: ago(18 * time.Minute), PID: ptr(41277), Progress: raw("epoch", "7", "total_epochs", "10", "event", `"epoch"`), Final: raw("train_loss", "0.12354", "val_accuracy", "0.914"), User: "ada"},
		{ID: clitest.ID("81d00200"), Order: 8, Name: "digits", Kind: "script", Status: run.Running, QueueKey: "cpu", Devices: []string{"cpu"}, CreatedAt: *ago(time.Minute), StartedAt: ago(time.Minute), CancelRequestedAt: ago(3 * time.Second), StoppingDeadline: ptr(clitest.Now().Add(27 * time.Second)), Final: raw("loss", "0.0411")},
		{ID: clitest.ID("5b90cc12"), Order: 9, Name: "finetune-7b", Kind: "script", Status: run.Queued, QueueKey: "box1/cuda:1", Worker: "box1", CreatedAt: *ago(4 * time.Minute)},
		{ID: clitest.ID("0c11d400"), Order: 10, Name: "eval 評估 📈", Kind: "script", Status: run.Queued, QueueKey: "box1/cuda:1", Worker: "box1", CreatedAt: *ago(3 * time.Minute), Tags: []string{"nightly"}},
		{ID: clitest.ID("c0ffee00"), Order: 11, Name: "probe.py", Kind: "script", Status: run.Queued, QueueKey: "box2/cuda:1", Worker: "box2", CreatedAt: *ago(2 * time.Minute)},
		{ID: clitest.ID("be1d0000"), Order: 12, Name: "later", Kind: "graph", Status: run.Queued, Held: true, QueueKey: "cpu", Aside: &held, CreatedAt: *ago(90 * time.Second)},
	}
	entry := func(prefix, name string, status run.Status, at int, why *run.Reason) api.QueueEntry {
		return api.QueueEntry{RunID: clitest.ID(prefix), Name: name, Status: status, Position: at, Reason: why}
	}
	behind := run.Behind(clitest.ID("5b90cc12"), 2)
	key := func(name string, limit int, running, waiting []api.QueueEntry) api.LiveKey {
		return api.LiveKey{QueueKey: api.QueueKey{Key: name, Cap: limit, Running: running, Waiting: waiting}, WaitingTotal: len(waiting)}
	}
	torch, here := "2.6+cu124", device.Device{Device: "cpu", Kind: "cpu", Name: "Xeon"}
	h100 := func(n int, util, used int64, slots int, runs ...string) api.WorkerDevice {
		return api.WorkerDevice{Device: card(n, "NVIDIA H100 80GB", util, used, 80), Slots: api.WorkerSlots{Slots: api.Slots{Cap: 1, Used: slots}}, Runs: runs}
	}
	shared := h100(1, 61, 41, 1, clitest.ID("7aa01e00"))
	shared.Shared, shared.PromisedMiB, shared.RoomMiB = true, 69<<10, 11<<10
	sick := h100(1, 0, 6, 0)
	sick.Cordon = &api.Problem{Code: run.ReasonCordoned, Text: "Xid 79"}
	sick.Processes = []device.Process{{PID: 2214, User: ptr("alice"), Name: ptr("python")}}
	return api.LiveFrame{
		Type: api.LiveSnapshot, Boot: "b", Cursor: 12, Complete: true, Runs: list,
		Counts: &api.LiveCounts{Running: 4, Waiting: 4, Runs: 1204},
		Keys: []api.LiveKey{
			key("box1/cuda:0", 1, []api.QueueEntry{entry("3f1c9ab2", "resnet epoch sweep #3", run.Running, 0, nil)}, nil),
			key("box1/cuda:1", 1, []api.QueueEntry{entry("7aa01e00", "長期預訓練 language model", run.Running, 0, nil)},
				[]api.QueueEntry{entry("5b90cc12", "finetune-7b", run.Queued, 1, &busy), entry("0c11d400", "eval 評估 📈", run.Queued, 2, &behind)}),
			key("box2/cuda:1", 1, nil, []api.QueueEntry{entry("c0ffee00", "probe.py", run.Queued, 1, &offline)}),
			{QueueKey: api.QueueKey{Key: "cuda:0", Cap: 1, Held: ptr(run.KeyHeld("cuda:0", "until the paper is out"))}},
			key("cpu", 2, []api.QueueEntry{entry("81d00200", "digits", run.Running, 0, nil)}, []api.QueueEntry{entry("be1d0000", "later", run.Queued, 0, &held)}),
		},
		Machine: &api.LiveMachine{
			Server:   api.ServerInfo{Address: "http://127.0.0.1:8000", Version: "0.4.0", MachineID: "m1"},
			Devices:  []api.Device{{Device: here, Slots: api.Slots{Cap: 2, Used: 1}, Runs: []string{clitest.ID("81d00200")}}},
			Problems: []api.Problem{{Code: "user_file", Text: "nodes/conv4d.py: line 3: no such module"}},
		},
		Workers: []api.Worker{
			{
				Name: "box1", State: api.WorkerOnline, Version: "0.4.0", Via: "direct", Platform: &protocol.Platform{Cores: 32}, Python: &protocol.Python{Torch: &torch}, ConnectedAt: ago(6 * 24 * time.Hour), Runs: []string{idSweep, clitest.ID("7aa01e00")},
				Devices: []api.WorkerDevice{h100(0, 83, 41, 1, idSweep), shared},
			},
			{
				Name: "box2", State: api.WorkerDisconnected, Version: "0.4.0", Via: "tunnel", LastSeen: ago(12 * time.Second), ResumeUntil: ptr(clitest.Now().Add(24 * time.Hour)), Runs: []string{idLong},
				Devices: []api.WorkerDevice{h100(0, 97, 70, 1, idLong), sick},
			},
			{Name: "box3", State: api.WorkerOnline, Degraded: true, Version: "0.4.0", Via: "direct", Python: &protocol.Python{}, Catalog: &api.WorkerCatalog{MissingThere: []string{"my-pack:Conv4d", "my-pack:Mixer"}}},
			{Name: "old", State: api.WorkerRejected, RejectReason: "version mismatch: worker 0.3.9, control plane 0.4.0"},
			{Name: "工作站", State: api.WorkerOffline, Draining: true, LastSeen: ago(50 * time.Hour)},
		},
	}
}

// none is a control plane that nothing happened on.
func none() api.LiveFrame {
	return api.LiveFrame{
		Type: api.LiveSnapshot, Boot: "b", Complete: true, Counts: &api.LiveCounts{},
		Machine: &api.LiveMachine{Server: api.ServerInfo{Address: "http://127.0.0.1:8000", Version: "0.4.0"}},
	}
}

// huge is n runs and 8 workers with 8 cards each.
func huge(n int) api.LiveFrame {
	f := none()
	statuses := []run.Status{run.Succeeded, run.Succeeded, run.Failed, run.Queued, run.Running, run.Cancelled}
	for i := range n {
		status := statuses[i%len(statuses)]
		r := api.LiveRun{
			ID: fmt.Sprintf("%08x%024x", uint32(i)*2654435761, i), Order: int64(i), Name: fmt.Sprintf("sweep %d 超參數 #%d", i/100, i%100), Kind: "script",
			Status: status, QueueKey: fmt.Sprintf("box%d/cuda:%d", i%8, i/8%8), Worker: fmt.Sprintf("box%d", i%8), CreatedAt: *ago(time.Duration(n-i) * time.Minute),
			Final: raw("loss", fmt.Sprintf("%.4f", 3*math.Exp(-float64(i%97)/20)), "accuracy", fmt.Sprintf("%.3f", 1-math.Exp(-float64(i%97)/20))),
		}
		if status != run.Queued {
			r.StartedAt, r.Devices = ago(time.Duration(n-i)*time.Minute), []string{fmt.Sprintf("cuda:%d", i/8%8)}
		}
		if !status.Active() {
			r.FinishedAt = ago(time.Duration(n-i)*time.Minute - 50*time.Second)
		}
		if status == run.Failed {
			r.Error = "ValueError: shapes (32, 10) and (10, 32) not aligned"
		}
		if status == run.Running {
			r.Progress = raw("epoch", fmt.Sprint(i%10+1), "total_epochs", "10", "event", `"epoch"`)
		}
		f.Runs = append(f.Runs, r)
	}
	for b := range 8 {
		w := api.Worker{Name: fmt.Sprintf("box%d", b), State: api.WorkerOnline, Version: "0.4.0", Via: "direct"}
		for c := range 8 {
			w.Devices = append(w.Devices, api.WorkerDevice{
				Device: card(c, "NVIDIA H100 80GB", int64((b*13+c*29)%101), int64((b*7+c*11)%80), 80),
				Slots:  api.WorkerSlots{Slots: api.Slots{Cap: 1, Used: 1}}, Runs: []string{fmt.Sprintf("%08x%024x", b*8+c, b)},
			})
			name := fmt.Sprintf("box%d/cuda:%d", b, c)
			f.Keys = append(f.Keys, api.LiveKey{QueueKey: api.QueueKey{Key: name, Cap: 1}, WaitingTotal: 40})
		}
		f.Workers = append(f.Workers, w)
	}
	f.Counts = &api.LiveCounts{Running: n / 6, Waiting: n / 6, Runs: 3 * n}
	return f
}

// source is a control plane that answers from memory, and keeps what it was
// asked to change.
type source struct {
	row    api.Run
	events []api.Event
	log    string
	files  []api.Artifact
	active bool
	err    error
	did    []string

	actions []api.Action
	// curves are the runs whose metric was read alone.
	curves  []string
	sweeps  []api.Sweep
	studies []api.Study
	reads   []string
}

func (s *source) Run(context.Context, string) (api.Run, error) { return s.row, s.err }

func (s *source) Events(_ context.Context, id string, cursor int64, _ time.Duration, limit int) (api.Events, error) {
	page := api.Events{RunID: id, Active: s.active, Cursor: cursor}
	for _, e := range s.events {
		if e.Cursor > cursor && len(page.Events) < limit {
			page.Events = append(page.Events, e)
			page.Cursor = e.Cursor
		}
	}
	return page, s.err
}

func (s *source) Metrics(_ context.Context, id, name string) (api.Metrics, error) {
	var m api.Metrics
	steps, best := 60, 1.0
	if n := strings.IndexByte("012345", id[7]); strings.HasPrefix(id, "abc0000") && n >= 0 { // variants of a sweep
		steps, best = []int{60, 60, 60, 60, 24, 33}[n], []float64{0.93, 1, 1, 1, 0.4, 0.7}[n]
	}
	if name != "" {
		s.curves = append(s.curves, run.Short(id))
		slices.Sort(s.curves)
	}
	if id == idSweep && name != "" {
		steps, best = 41, 0.985
	}
	for i := range steps {
		step := json.RawMessage(fmt.Sprint(i))
		add := func(name string, v float64) {
			m.Metrics = append(m.Metrics, api.Metric{Name: name, Step: step, Value: json.RawMessage(fmt.Sprintf("%.4f", v))})
		}
		x := float64(i)
		add("train_loss", 2.3*math.Exp(-x/14)+0.04*math.Sin(x*1.7)+0.1)
		add("val_accuracy", best*0.95-best*0.85*math.Exp(-x/12)+0.01*math.Cos(x*2.3))
		add("lr", 1e-3*(1+math.Cos(x*math.Pi/60))/2)
	}
	return m, s.err
}

func (s *source) Log(_ context.Context, _ string, offset int64, limit int, _ time.Duration) (client.LogChunk, error) {
	size := int64(len(s.log))
	from := min(offset, size)
	to := min(from+int64(limit), size)
	return client.LogChunk{Bytes: []byte(s.log[from:to]), Offset: from, Next: to, Size: size, Ended: !s.active}, s.err
}

func (s *source) Artifacts(context.Context, string, string) (api.Artifacts, error) {
	return api.Artifacts{Artifacts: s.files}, s.err
}

func (s *source) note(format string, args ...any) error {
	s.did = append(s.did, fmt.Sprintf(format, args...))
	return s.err
}

func (s *source) Cancel(_ context.Context, id string, _ api.CancelRequest) (api.CancelReply, error) {
	return api.CancelReply{RunID: id, Status: run.Running, Cancelled: true, GraceS: 30}, s.note("cancel %s", run.Short(id))
}

func (s *source) Hold(_ context.Context, id string) (api.RunState, error) {
	return api.RunState{}, s.note("hold %s", run.Short(id))
}

func (s *source) Release(_ context.Context, id string) (api.RunState, error) {
	return api.RunState{}, s.note("release %s", run.Short(id))
}

func (s *source) Delete(_ context.Context, id string) error {
	return s.note("delete %s", run.Short(id))
}

func (s *source) HoldQueue(_ context.Context, key, _ string) (api.QueueHold, error) {
	return api.QueueHold{}, s.note("hold queue %s", key)
}

func (s *source) ReleaseQueue(_ context.Context, key string) (api.QueueHold, error) {
	return api.QueueHold{}, s.note("release queue %s", key)
}

func (s *source) AddWorker(_ context.Context, name string, _ time.Duration) (api.EnrollmentReply, error) {
	return api.EnrollmentReply{
		Command: "cdui agent start --control http://lab:8000 --token k3x9aa.8f21c0ffee --name " + name, ExpiresAt: clitest.Now().Add(24 * time.Hour),
	}, s.note("add %s", name)
}

func (s *source) Drain(_ context.Context, name string) (api.Worker, error) {
	return api.Worker{Name: name, Runs: []string{"a", "b"}}, s.note("drain %s", name)
}

func (s *source) Undrain(_ context.Context, name string) (api.Worker, error) {
	return api.Worker{Name: name}, s.note("undrain %s", name)
}

func (s *source) RemoveWorker(_ context.Context, name string) error { return s.note("remove %s", name) }

func (s *source) SetDevice(_ context.Context, worker, device string, c api.DevicePolicyChange) (api.DevicePolicy, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return api.DevicePolicy{}, err
	}
	return api.DevicePolicy{}, s.note("set %s %s %s", worker, device, raw)
}

func (s *source) submit(_ context.Context, sub ui.Submission) (api.SubmitReply, error) {
	return api.SubmitReply{RunID: clitest.ID("fe11")}, s.note("submit %s%s %v on %s %v %s", run.Short(sub.From), sub.File, sub.Args, sub.Worker, sub.Devices, sub.Memory)
}

// sweepRun is what there is to read of the run that the fixtures open.
func sweepRun() *source {
	s := &source{active: true}
	for _, l := range small().Runs {
		if l.ID == idSweep {
			s.row = l.Row()
		}
	}
	s.row.LastCursor = ptr(int64(9))
	s.row.GitCommit = "0123456789abcdef"
	s.row.Options.Tags = []string{"nightly", "夜間"}
	add := func(after time.Duration, kind, payload string) {
		s.events = append(s.events, api.Event{Cursor: int64(len(s.events) + 1), Type: kind, Payload: json.RawMessage(payload), TS: ago(18 * time.Minute).Add(after)})
	}
	add(0, run.EventExecutionStart, `{"run_id":"`+idSweep+`"}`)
	for i, node := range []string{"dataset", "loader", "模型"} {
		add(time.Duration(i)*time.Second, run.EventNodeStatus, `{"node_id":"`+node+`","status":"running"}`)
		add(time.Duration(i)*time.Second+400*time.Millisecond, run.EventNodeStatus, `{"node_id":"`+node+`","status":"completed"}`)
	}
	add(4*time.Second, run.EventNodeStatus, `{"node_id":"trainer","status":"running"}`)
	add(5*time.Second, run.EventNodeStatus, `{"node_id":"trainer","status":"progress","outputs":[{"output_kind":"progress","progress":{"event":"epoch","epoch":7,"total_epochs":10,"loss":0.12}}]}`)
	add(6*time.Second, run.EventRunWarning, `{"kind":"slow_disk","text":"the folder of checkpoints is on a network disk; saving took `+strings.Repeat("long ", 30)+`"}`)
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "epoch %d: \x1b[32mloss\x1b[0m %.4f 訓練 ✓\n", i/5+1, 2.3*math.Exp(-float64(i)/14))
	}
	b.WriteString("epoch 7:  62%|██████▏   | 290/469 [00:11<00:06, 26.1it/s]")
	s.log = b.String()
	s.files = []api.Artifact{
		{ID: 1, Kind: "checkpoint", Path: "models/resnet.pt", Meta: json.RawMessage(`{"size":46137344}`), NodeID: "trainer", CreatedAt: *ago(2 * time.Minute)},
		{ID: 2, Kind: "figure", Path: "圖/損失.png", CreatedAt: *ago(time.Minute)},
		{ID: 3, Kind: "text", Path: "/runs/3f1c9ab2/報告.txt", Backend: "transfer", CreatedAt: *ago(time.Minute)},
	}
	return s
}
