package sweeps_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs"
	"cdui/internal/server/runs/board"
	"cdui/internal/server/sweeps"
	"cdui/internal/store"
	"cdui/internal/submission"
	"cdui/internal/sweep"
)

// idle is an executor whose runs do only what the test reports for them.
type idle struct {
	mu       sync.Mutex
	attempts map[string]int
	sink     execution.Sink
}

func (x *idle) Start(_ context.Context, job execution.Job, sink execution.Sink) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attempts[job.Row.ID], x.sink = job.Row.Attempt, sink
	return nil
}
func (x *idle) Adopt(context.Context, []execution.Job, execution.Sink) error { return nil }
func (x *idle) Cancel(context.Context, string, time.Duration, bool) error {
	return nil
}

// rig is sweeps over a real store and run service.
type rig struct {
	*sweeps.Service
	t    *testing.T
	path string
	st   *store.Store
	runs *runs.Service
	exec *idle
	// refuse, when set, is what the next submits get.
	refuse error
}

// refusing is a run service that takes nothing while the rig says so.
type refusing struct {
	*runs.Service
	rig *rig
}

func (f refusing) Submit(ctx context.Context, user string, reqs ...api.SubmitRequest) ([]api.SubmitReply, error) {
	if f.rig.refuse != nil {
		return nil, f.rig.refuse
	}
	return f.Service.Submit(ctx, user, reqs...)
}

// builtin is read once.
var builtin = sync.OnceValues(catalog.Builtin)

func newRig(t *testing.T, cpus int) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "cdui.db")}
	r.open(cpus)
	t.Cleanup(r.close)
	return r
}

func (r *rig) open(cpus int) {
	r.t.Helper()
	cat, err := builtin()
	if err != nil {
		r.t.Fatal(err)
	}
	cat, _ = cat.With([]catalog.Definition{{NodeName: "Chat", Params: []catalog.Param{{Name: "key", ParamType: catalog.ParamSecret}, {Name: "n", ParamType: catalog.ParamInt}}}}, nil)
	get := func(context.Context) *catalog.Catalog { return cat }
	if r.st, err = store.Open(context.Background(), store.Config{Path: r.path}); err != nil {
		r.t.Fatal(err)
	}
	r.exec = &idle{attempts: map[string]int{}}
	r.runs = runs.New(runs.Config{
		Store: r.st, Executor: r.exec, Limits: scheduler.Limits{GPU: 1, CPU: cpus}, PayloadCap: 1 << 17, Interactive: 2, Catalog: get,
		Devices: func() device.Inventory { return device.Inventory{{Device: "cpu", Kind: "cpu"}} }, Grace: time.Second,
	})
	if err := r.runs.Load(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.runs.Board().SetWorker("box1", board.Worker{Worker: submission.Worker{Devices: []string{"cpu", "cuda:0"}}})
	r.Service = sweeps.New(sweeps.Config{
		Submitter: refusing{r.runs, r}, Ledger: r.st, Runs: r.st, Catalog: get, Limits: sweep.Limits{Runs: 32, Params: 4, Domain: 32},
	})
	if err := r.Load(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() {
	r.runs.Close()
	if err := r.st.Close(); err != nil {
		r.t.Error(err)
	}
}

// end lets a run log its loss, empty for none, and end.
func (r *rig) end(id string, status run.Status, loss string) {
	r.t.Helper()
	var sink execution.Sink
	attempt := 0
	for deadline := time.Now().Add(time.Minute); sink == nil && time.Now().Before(deadline); {
		r.exec.mu.Lock()
		if a, ok := r.exec.attempts[id]; ok {
			sink, attempt = r.exec.sink, a
		}
		r.exec.mu.Unlock()
	}
	if sink == nil {
		r.t.Fatalf("run %s did not start", id)
	}
	records := []protocol.Record{{Type: protocol.RunStarted, Started: &protocol.Started{PID: 4}}}
	switch loss {
	case "":
	case "nan":
		records = append(records, protocol.Record{Type: protocol.Metrics, Points: []byte(`[{"name":"loss","value":9,"step":1},{"name":"loss","value":null,"nonfinite":"nan","step":2}]`)})
	default:
		records = append(records, protocol.Record{Type: protocol.Metrics, Points: []byte(`[{"name":"loss","value":` + loss + `,"step":1}]`)})
	}
	records = append(records, protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: string(status), Error: "why"}})
	for i := range records {
		records[i].Seq, records[i].TS = uint64(i+1), time.Now().UTC()
	}
	if err := sink.Record(context.Background(), id, attempt, records); err != nil {
		r.t.Fatal(err)
	}
}

const graph = `{"nodes":[{"id":"start","type":"Start"},{"id":"lin","type":"Linear","data":{"params":{"in_features":1,"out_features":1}}}],"edges":[],"settings":{"device":"cpu"}}`

// request is a sweep over in_features, with more members put in.
func request(t *testing.T, values, more string) api.SweepRequest {
	t.Helper()
	var req api.SweepRequest
	raw := `{"base_graph":` + graph + `,"name":"width","sweep_spec":{"method":"grid","params":[{"node_id":"lin","param":"in_features","values":` + values + `}]},
		"objective":{"metric":"loss","direction":"minimize"}` + more + `}`
	if err := json.Unmarshal([]byte(raw), &req); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return req
}

func (r *rig) create(req api.SweepRequest) api.SweepReply {
	r.t.Helper()
	reply, err := r.Create(r.t.Context(), "ada", req)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

func (r *rig) show(id string) api.Sweep {
	r.t.Helper()
	w, err := r.Show(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

func (r *rig) total() int {
	r.t.Helper()
	_, n, err := r.st.List(r.t.Context(), store.Filter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func seeded(t *testing.T, r *rig) api.SweepReply {
	t.Helper()
	req := request(t, `[8,16,32,64]`, `,"seed_variants":true,"options":{"tags":["nightly"]}`)
	seed := int64(4294967295)
	req.SweepSpec.Seed = &seed
	return r.create(req)
}

// Proves F.1, SW-01: the reply, the children's names, seeds and graphs, and how
// they rank once they have ended; failed ones rank too.
func TestASweepFromItsSubmitToItsBest(t *testing.T) {
	r := newRig(t, 8)
	reply := seeded(t, r)
	if reply.State != sweep.Running || reply.TotalCombinations != 4 || len(reply.Variants) != 4 || reply.Existing || !run.ValidID(reply.SweepID) {
		t.Fatalf("%+v", reply)
	}
	for i, v := range reply.Variants {
		row, err := r.st.Run(t.Context(), v.RunID)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := r.st.Graph(t.Context(), v.RunID)
		if err != nil {
			t.Fatal(err)
		}
		wantSeed := []int64{4294967295, 0, 1, 2}[i]
		if row.Name != fmt.Sprintf("width #%d", i+1) || row.SweepID != reply.SweepID || *row.SweepVariant != i || row.User != "ada" ||
			*row.Options.Seed != wantSeed || *v.Seed != wantSeed || !slices.Equal(row.Options.Tags, []string{"nightly"}) || row.Options.Device != "cpu" ||
			!strings.Contains(string(raw), fmt.Sprintf(`"in_features":%s,`, v.Params[0].Value)) {
			t.Errorf("variant %d: %+v %s", i, row, raw)
		}
	}
	for i, loss := range []string{"0.5", "0.25", "nan", ""} {
		status := run.Succeeded
		if i == 1 {
			status = run.Failed
		}
		r.end(reply.Variants[i].RunID, status, loss)
	}
	w := r.show(reply.SweepID[:6])
	var order, ranks []int
	for _, v := range w.Variants {
		order = append(order, v.Index)
		if v.Rank != nil {
			ranks = append(ranks, *v.Rank)
		}
		if !v.RunExists || v.QueueKey != "cpu" || !slices.Equal(v.Devices, []string{"cpu"}) {
			t.Errorf("%+v", v)
		}
	}
	if w.State != sweep.Finished || !slices.Equal(order, []int{1, 0, 2, 3}) || !slices.Equal(ranks, []int{1, 2, 3}) || w.Best == nil || w.Best.Index != 1 ||
		string(w.Best.Objective) != "0.25" || w.ObjectiveWarning != nil || w.FinishedAt == nil || w.Counts[run.Succeeded] != 3 || w.Counts[run.Failed] != 1 || w.Counts[sweep.Missing] != 0 {
		t.Errorf("%+v, %v %v", w, order, ranks)
	}
	if v := w.Variants[2]; v.ObjectiveNonfinite != "nan" || string(v.Objective) != "null" {
		t.Errorf("%+v", v)
	}
	id, csv, err := r.CSV(t.Context(), reply.SweepID)
	if want := "1,1,1," + reply.Variants[1].RunID + ",failed,0.25,16\n"; err != nil || id != reply.SweepID || !strings.Contains(string(csv), want) || !strings.HasPrefix(string(csv), "\ufeffrank,") {
		t.Errorf("%s, %v; want %s", csv, err, want)
	}
	// What was harvested outlives the runs.
	for _, v := range reply.Variants {
		if err := r.st.Delete(t.Context(), v.RunID); err != nil {
			t.Fatal(err)
		}
	}
	after := r.show(reply.SweepID)
	if after.State != sweep.Finished || after.Best.RunID != w.Best.RunID || after.Variants[0].RunExists || after.Variants[0].FinalMetrics != nil || after.Variants[0].Status != run.Failed {
		t.Errorf("%+v", after)
	}
}

// Proves F.1, SWP-02: what is refused leaves no rows.
func TestRefusalsLeaveNoRows(t *testing.T) {
	r := newRig(t, 2)
	for name, c := range map[string]struct {
		req  api.SweepRequest
		want string
	}{
		"a value":       {request(t, `[8,"x"]`, ``), "whole numbers"},
		"no objective":  {func() api.SweepRequest { q := request(t, `[8]`, ``); q.Objective.Metric = " "; return q }(), "objective.metric"},
		"a seed":        {request(t, `[8]`, `,"options":{"seed":3}`), "seed"},
		"the lane":      {request(t, `[8]`, `,"options":{"lane":"interactive"}`), "lane"},
		"no worker":     {request(t, `[8]`, `,"options":{"target":{"worker":"gpu-bx"}}`), "no worker"},
		"no device":     {request(t, `[8]`, `,"options":{"device":"cuda:3"}`), "no cuda:3"},
		"a long name":   {request(t, `[8]`, `,"name":"`+strings.Repeat("x", 65)+`"`), "limit is 64"},
		"an option":     {request(t, `[8]`, `,"options":{"sed":3}`), "unknown"},
		"two bases":     {request(t, `[8]`, `,"options":{"command":{"argv":["true"],"cwd":"/"}}`), "not both"},
		"no base":       {func() api.SweepRequest { q := request(t, `[8]`, ``); q.BaseGraph = nil; return q }(), "no base"},
		"a long key":    {request(t, `[8]`, `,"key":"`+strings.Repeat("k", 129)+`"`), "key has"},
		"no graph":      {func() api.SweepRequest { q := request(t, `[8]`, ``); q.BaseGraph = []byte(`{"nodes":[]}`); return q }(), "there is no node"},
		"seeds of none": {request(t, `[8]`, `,"seed_variants":true`), "seed_variants"},
	} {
		_, err := r.Create(t.Context(), "", c.req)
		if err == nil || !strings.Contains(err.Error(), c.want) || api.CodeOf(err) != api.Invalid {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if list, err := r.List(t.Context(), 50, 0); err != nil || list.Total != 0 || r.total() != 0 {
		t.Errorf("%d sweeps, %d runs, %v", list.Total, r.total(), err)
	}
	// A refusal that comes late leaves none either.
	r.refuse = api.Errorf(api.Unavailable, "the control plane is shutting down")
	if _, err := r.Create(t.Context(), "", request(t, `[8,16]`, `,"key":"k"`)); api.CodeOf(err) != api.Unavailable {
		t.Errorf("%v", err)
	}
	r.refuse = nil
	if reply := r.create(request(t, `[8,16]`, `,"key":"k"`)); reply.Existing {
		t.Errorf("the refused sweep holds its key")
	}
}

// Proves SWP-01: the target reaches every child, which waits for its worker.
func TestTheTargetReachesEveryChild(t *testing.T) {
	r := newRig(t, 2)
	reply := r.create(request(t, `[8,16,32]`, `,"options":{"target":{"worker":"box1","devices":["cuda:0"]}}`))
	for _, v := range r.show(reply.SweepID).Variants {
		row, err := r.st.Run(t.Context(), v.RunID)
		if err != nil || row.Options.Target.Worker != "box1" || v.QueueKey != "box1/cuda:0" || v.Status != run.Queued {
			t.Errorf("%+v, %v", row, err)
		}
	}
}

// Proves SW-01: the same key again is the same sweep, at the same time too.
func TestAKeyIsOneSweep(t *testing.T) {
	r := newRig(t, 2)
	replies := make([]api.SweepReply, 4)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i], _ = r.Create(t.Context(), "", request(t, `[8,16]`, `,"key":"nightly"`)) })
	}
	wg.Wait()
	fresh := 0
	for _, reply := range replies {
		if !reply.Existing {
			fresh++
		}
		if reply.SweepID != replies[0].SweepID || len(reply.Variants) != 2 || reply.Variants[0].RunID != replies[0].Variants[0].RunID {
			t.Errorf("%+v", reply)
		}
	}
	if fresh != 1 || r.total() != 2 {
		t.Errorf("%d fresh, %d runs", fresh, r.total())
	}
}

// Proves F.1: a cancel is idempotent, counts, and starts nothing in the place
// of what it stops; then only what is wanting runs again.
func TestCancelAndRerun(t *testing.T) {
	r := newRig(t, 1)
	reply := r.create(request(t, `[8,16,32,64]`, ``))
	r.end(reply.Variants[0].RunID, run.Succeeded, "0.5")
	second := reply.Variants[1].RunID
	started := func(id string) bool {
		r.exec.mu.Lock()
		defer r.exec.mu.Unlock()
		return r.exec.attempts[id] > 0
	}
	for deadline := time.Now().Add(time.Minute); !started(second) && time.Now().Before(deadline); {
	}
	out, err := r.Cancel(t.Context(), reply.SweepID)
	if err != nil || out.State != sweep.Cancelling || out.Cancelled != 3 || out.AlreadyFinished != 1 || out.Variants[0].Cancelled || !out.Variants[3].Cancelled ||
		out.Variants[3].Status != run.Cancelled || out.Variants[1].Status != run.Running {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := r.Rerun(t.Context(), "ada", reply.SweepID); api.CodeOf(err) != api.Conflict {
		t.Errorf("a rerun while it stops: %v", err)
	}
	if out, err = r.Cancel(t.Context(), reply.SweepID); err != nil || out.Cancelled != 1 || out.State != sweep.Cancelling {
		t.Errorf("again: %+v, %v", out, err)
	}
	r.end(second, run.Cancelled, "")
	if started(reply.Variants[2].RunID) || started(reply.Variants[3].RunID) {
		t.Error("a variant was started in the place of one that was stopped")
	}
	if out, err = r.Cancel(t.Context(), reply.SweepID); err != nil || out.Cancelled != 0 || out.AlreadyFinished != 4 || out.State != sweep.Finished {
		t.Errorf("when it has ended: %+v, %v", out, err)
	}
	if err := r.st.Delete(t.Context(), reply.Variants[3].RunID); err != nil {
		t.Fatal(err)
	}
	again, err := r.Rerun(t.Context(), "ada", reply.SweepID)
	if err != nil || again.State != sweep.Running || len(again.Variants) != 3 || again.Variants[0].Index != 1 || again.Variants[0].RunID == second {
		t.Fatalf("%+v, %v", again, err)
	}
	if twice, err := r.Rerun(t.Context(), "ada", reply.SweepID); err != nil || len(twice.Variants) != 0 {
		t.Errorf("a second rerun: %+v, %v", twice, err)
	}
	row, err := r.st.Run(t.Context(), again.Variants[0].RunID)
	if err != nil || row.RerunOf != second || row.Name != "width #2" || *row.SweepVariant != 1 {
		t.Errorf("%+v, %v", row, err)
	}
	for i, v := range again.Variants {
		r.end(v.RunID, run.Succeeded, fmt.Sprintf("0.%d", 4-i))
	}
	w := r.show(reply.SweepID)
	if w.State != sweep.Finished || w.Counts[run.Succeeded] != 4 || w.Best.Index != 3 || r.total() != 6 {
		t.Errorf("%+v, %d runs", w, r.total())
	}
}

// Proves F.1: what nobody saw end is missing; what is about to be pruned is kept.
func TestHarvestBeforeRowsGo(t *testing.T) {
	r := newRig(t, 8)
	reply := r.create(request(t, `[8,16]`, ``))
	a, b := reply.Variants[0].RunID, reply.Variants[1].RunID
	r.end(a, run.Succeeded, "0.5")
	r.end(b, run.Succeeded, "0.4")
	if err := r.st.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := r.Harvest(t.Context(), []string{b}); err != nil {
		t.Fatal(err)
	}
	if err := r.st.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w := r.show(reply.SweepID)
	if w.Counts[sweep.Missing] != 1 || w.Counts[run.Succeeded] != 1 || w.Best.RunID != b || w.State != sweep.Finished {
		t.Errorf("%+v", w)
	}
	again, err := r.Rerun(t.Context(), "", reply.SweepID)
	if err != nil || len(again.Variants) != 1 || again.Variants[0].Index != 0 {
		t.Errorf("%+v, %v", again, err)
	}
}

// A crash between the sweep and its runs leaves nothing; one after both leaves a
// sweep that goes on.
func TestARestart(t *testing.T) {
	r := newRig(t, 8)
	reply := r.create(request(t, `[8,16]`, ``))
	if err := r.st.AddSweep(t.Context(), store.Sweep{ID: strings.Repeat("f", 32), Key: "k", Plan: []byte(`{}`), Base: []byte(`{}`), Results: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	r.close()
	r.open(8)
	list, err := r.List(t.Context(), 50, 0)
	if err != nil || list.Total != 1 || list.Sweeps[0].SweepID != reply.SweepID || list.Sweeps[0].State != sweep.Running {
		t.Errorf("%+v, %v", list, err)
	}
}

// A graph's secrets are kept by nobody, so that nothing is run again without
// them.
func TestSecretsAreNotKept(t *testing.T) {
	r := newRig(t, 8)
	req := request(t, `[8]`, ``)
	req.BaseGraph = json.RawMessage(`{"nodes":[{"id":"start","type":"Start"},{"id":"lin","type":"Chat","data":{"params":{"key":"hunter2","n":1}}}],"edges":[]}`)
	req.SweepSpec.Params[0].Param = "n"
	reply := r.create(req)
	w, err := r.st.Sweep(t.Context(), reply.SweepID)
	if err != nil || strings.Contains(fmt.Sprintf("%s%s", w.Base, w.Plan), "hunter2") {
		t.Errorf("%s, %v", w.Base, err)
	}
	r.end(reply.Variants[0].RunID, run.Failed, "")
	if _, err := r.Rerun(t.Context(), "", reply.SweepID); api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), "secrets") {
		t.Errorf("%v", err)
	}
	if _, _, _, err := r.Best(t.Context(), reply.SweepID); api.CodeOf(err) != api.Conflict {
		t.Errorf("%v", err)
	}
}

// a command's arguments are swept, and the best of them is found.
func TestACommandsArguments(t *testing.T) {
	r := newRig(t, 8)
	var req api.SweepRequest
	if err := json.Unmarshal([]byte(`{"options":{"command":{"argv":["/bin/train","--lr","1"],"cwd":"/"}},"sweep_spec":{"method":"grid","params":[{"arg":"--lr","values":[0.1,0.2]}]},
		"objective":{"metric":"loss","direction":"maximize"}}`), &req); err != nil {
		t.Fatal(err)
	}
	reply := r.create(req)
	if _, _, _, err := r.Best(t.Context(), reply.SweepID); api.CodeOf(err) != api.Conflict {
		t.Errorf("the best of nothing: %v", err)
	}
	for i, v := range reply.Variants {
		row, err := r.st.Run(t.Context(), v.RunID)
		if err != nil || !slices.Equal(row.Options.Command.Argv, []string{"/bin/train", "--lr", []string{"0.1", "0.2"}[i]}) || row.Name != "" {
			t.Errorf("%+v, %v", row.Options.Command, err)
		}
		r.end(v.RunID, run.Succeeded, []string{"1", "2"}[i])
	}
	best, id, index, err := r.Best(t.Context(), reply.SweepID[:8])
	if err != nil || id != reply.SweepID || index != 1 || !strings.Contains(string(best.Options), `"0.2"`) {
		t.Errorf("%s %s %d %v", best.Options, id, index, err)
	}
}

func TestIdsOfSweeps(t *testing.T) {
	r := newRig(t, 8)
	for _, id := range []string{"", "zz", strings.Repeat("a", 32)} {
		if _, err := r.Show(t.Context(), id); api.CodeOf(err) != api.NotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
	ids := map[string]bool{}
	for range 17 { // one of the sixteen first letters comes twice
		ids[r.create(request(t, `[8]`, ``)).SweepID[:1]] = true
	}
	two := 0
	for letter := range maps.Keys(ids) {
		if _, err := r.Show(t.Context(), letter); api.CodeOf(err) == api.Conflict {
			two++
		}
	}
	if two == 0 {
		t.Error("no letter is ambiguous")
	}
}
