package studies_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
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
	"cdui/internal/server/studies"
	"cdui/internal/store"
	"cdui/internal/study"
	"cdui/internal/submission"
)

// idle is an executor whose runs do only what the test reports for them.
type idle struct {
	mu       sync.Mutex
	attempts map[string]int
	asked    map[string]bool
	sink     execution.Sink
}

func (x *idle) Start(_ context.Context, job execution.Job, sink execution.Sink) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attempts[job.Row.ID], x.sink = job.Row.Attempt, sink
	return nil
}

// Adopt takes over what an earlier process had started.
func (x *idle) Adopt(_ context.Context, jobs []execution.Job, sink execution.Sink) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, job := range jobs {
		x.attempts[job.Row.ID], x.sink = job.Row.Attempt, sink
	}
	return nil
}

func (x *idle) Cancel(_ context.Context, id string, _ time.Duration, _ bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asked[id] = true
	return nil
}

// flaky is a run service and a ledger that fail when the rig says so.
type flaky struct {
	*runs.Service
	rig *rig
}

func (f flaky) Submit(ctx context.Context, user string, reqs ...api.SubmitRequest) ([]api.SubmitReply, error) {
	f.rig.mu.Lock()
	refuse, lose := f.rig.refuse, f.rig.loseReply
	f.rig.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	replies, err := f.Service.Submit(ctx, user, reqs...)
	if err == nil && lose {
		return nil, errors.New("the power went")
	}
	return replies, err
}

type rig struct {
	*studies.Service
	t    *testing.T
	path string
	st   *store.Store
	runs *runs.Service
	exec *idle
	stop func()

	best api.SubmitRequest

	// mu guards how submits go.
	mu        sync.Mutex
	refuse    error
	loseReply bool
}

// submits says how the next submits go.
func (r *rig) submits(refuse error, loseReply bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse, r.loseReply = refuse, loseReply
}

func (r *rig) Best(context.Context, string) (api.SubmitRequest, string, int, error) {
	return r.best, strings.Repeat("5", 32), 3, nil
}

// builtin is read once.
var builtin = sync.OnceValues(catalog.Builtin)

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "cdui.db")}
	r.open()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	cat, err := builtin()
	if err != nil {
		r.t.Fatal(err)
	}
	cat, _ = cat.With([]catalog.Definition{{NodeName: "Chat", Params: []catalog.Param{{Name: "key", ParamType: catalog.ParamSecret}}}}, nil)
	get := func(context.Context) *catalog.Catalog { return cat }
	if r.st, err = store.Open(context.Background(), store.Config{Path: r.path}); err != nil {
		r.t.Fatal(err)
	}
	r.exec = &idle{attempts: map[string]int{}, asked: map[string]bool{}}
	r.runs = runs.New(runs.Config{
		Store: r.st, Executor: r.exec, Limits: scheduler.Limits{GPU: 1, CPU: 3}, PayloadCap: 1 << 17, Interactive: 2, Catalog: get,
		Devices: func() device.Inventory { return device.Inventory{{Device: "cpu", Kind: "cpu"}} }, Grace: time.Second,
		Ended: func(run.Row) { r.Nudge() },
	})
	r.Service = studies.New(studies.Config{Submitter: flaky{r.runs, r}, Ledger: r.st, Runs: r.st, Sweeps: r, Catalog: get})
	if err := r.runs.Load(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.runs.Board().SetWorker("box1", board.Worker{Worker: submission.Worker{Devices: []string{"cpu"}}})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.Drive(ctx) })
	r.stop = func() {
		cancel()
		wg.Wait()
		r.runs.Close()
		if err := r.st.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

// restart is what a control plane that dies and comes back does.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.open()
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			r.t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// end lets a run end, with a loss if one is given.
func (r *rig) end(id string, status run.Status, class run.EndClass, loss string) {
	r.t.Helper()
	var sink execution.Sink
	attempt := 0
	r.eventually("run "+id+" starts", func() bool {
		r.exec.mu.Lock()
		defer r.exec.mu.Unlock()
		a, ok := r.exec.attempts[id]
		sink, attempt = r.exec.sink, a
		return ok
	})
	records := []protocol.Record{{Type: protocol.RunStarted, Started: &protocol.Started{PID: 4}}}
	if loss != "" {
		records = append(records, protocol.Record{Type: protocol.Metrics, Points: []byte(`[{"name":"loss","value":` + loss + `,"step":1}]`)})
	}
	records = append(records, protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: string(status), EndClass: string(class)}})
	for i := range records {
		records[i].Seq, records[i].TS = uint64(i+1), time.Now().UTC()
	}
	if err := sink.Record(context.Background(), id, attempt, records); err != nil {
		r.t.Fatal(err)
	}
}

const graph = `{"nodes":[{"id":"start","type":"Start"},{"id":"lin","type":"Linear"}],"edges":[]}`

func request(t *testing.T, more string) api.StudyRequest {
	t.Helper()
	var req api.StudyRequest
	if err := json.Unmarshal([]byte(`{"base_graph":`+graph+`,"name":"digits","seed":7,"repetitions":3`+more+`}`), &req); err != nil {
		t.Fatal(err)
	}
	return req
}

func (r *rig) create(req api.StudyRequest) api.StudyReply {
	r.t.Helper()
	reply, err := r.Create(r.t.Context(), "ada", req)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

func (r *rig) show(id string) api.Study {
	r.t.Helper()
	y, err := r.Show(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return y
}

func (r *rig) total() int {
	r.t.Helper()
	_, n, err := r.st.List(r.t.Context(), store.Filter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// finished waits for the end of a study.
func (r *rig) finished(id string) api.Study {
	r.t.Helper()
	var y api.Study
	r.eventually("the study ends", func() bool {
		y = r.show(id)
		return y.State == api.StudyFinished
	})
	return y
}

// attempt waits for attempt number of repetition i and gives its run.
func (r *rig) attempt(id string, i, number int) string {
	r.t.Helper()
	run := ""
	r.eventually(fmt.Sprintf("attempt %d of repetition %d", number, i), func() bool {
		if list := r.show(id).List[i].Attempts; len(list) >= number {
			run = list[number-1].RunID
		}
		return run != ""
	})
	return run
}

// Proves SW-02, F.2: repetitions have derived seeds, a lost attempt is repeated
// and not scored, and the mean and its interval come out.
func TestAStudyFromItsSubmitToItsMean(t *testing.T) {
	r := newRig(t)
	reply := r.create(request(t, ``))
	if reply.State != api.StudyRunning || len(reply.List) != 3 || reply.Counts[study.Going] != 3 || reply.Confidence != 0.95 || reply.MaxAttempts != 3 {
		t.Fatalf("%+v", reply)
	}
	for i, rep := range reply.List {
		row, err := r.st.Run(t.Context(), rep.Attempts[0].RunID)
		if err != nil || *row.Options.Seed != int64(7+i) || rep.Seed != int64(7+i) || row.Name != fmt.Sprintf("digits #%d", i+1) || row.User != "ada" ||
			row.Options.Key != study.Key(reply.StudyID, i, 1) || rep.Attempts[0].QueueKey != "cpu" {
			t.Errorf("repetition %d: %+v, %v", i, row, err)
		}
	}
	r.end(r.attempt(reply.StudyID, 0, 1), run.Succeeded, "", "1")
	lost := r.attempt(reply.StudyID, 1, 1)
	r.end(lost, run.Interrupted, run.EndWorkerLost, "100")
	r.end(r.attempt(reply.StudyID, 2, 1), run.Succeeded, "", "3")
	second := r.attempt(reply.StudyID, 1, 2)
	row, err := r.st.Run(t.Context(), second)
	if err != nil || *row.Options.Seed != 8 || row.RerunOf != lost {
		t.Errorf("%+v, %v", row, err)
	}
	r.end(second, run.Succeeded, "", "2")
	y := r.finished(reply.StudyID)
	if y.Counts[study.Scored] != 3 || len(y.Metrics) != 1 || *y.Metrics[0].Mean != 2 || *y.Metrics[0].SD != 1 || y.FinishedAt == nil || r.total() != 4 {
		t.Errorf("%+v, %d runs", y, r.total())
	}
	if half := 4.302652729911275 / math.Sqrt(3); math.Abs(*y.Metrics[0].CIHigh-2-half) > 1e-9 || math.Abs(*y.Metrics[0].CILow-2+half) > 1e-9 {
		t.Errorf("interval %v %v", *y.Metrics[0].CILow, *y.Metrics[0].CIHigh)
	}
	if a := y.List[1].Attempts[0]; !a.Lost || a.Void || y.List[1].Metrics["loss"].Nonfinite != "" || string(y.List[1].Metrics["loss"].Value) != "2" {
		t.Errorf("%+v", y.List[1])
	}
	// What was harvested outlives the runs.
	for _, rep := range y.List {
		for _, a := range rep.Attempts {
			if err := r.st.Delete(t.Context(), a.RunID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := r.show(reply.StudyID[:8]); *after.Metrics[0].Mean != 2 || after.List[0].Attempts[0].RunExists {
		t.Errorf("%+v", after)
	}
}

// Proves SWP-09, SW-02: a study goes on after a restart; an attempt that is
// adopted counts, also one that was submitted and never noted, and nothing runs
// twice.
func TestAStudySurvivesRestarts(t *testing.T) {
	r := newRig(t)
	reply := r.create(request(t, ``))
	id := reply.StudyID
	r.end(r.attempt(id, 0, 1), run.Succeeded, "", "1")
	r.restart()
	if y := r.show(id); y.State != api.StudyRunning || len(y.List[1].Attempts) != 1 || y.List[1].Attempts[0].RunID != reply.List[1].Attempts[0].RunID {
		t.Errorf("%+v", y)
	}
	// The reply to the second attempt's submit is lost with the control plane.
	r.submits(nil, true)
	r.end(r.attempt(id, 1, 1), run.Interrupted, run.EndServer, "")
	r.eventually("another run is submitted", func() bool { return r.total() == 4 })
	r.restart()
	r.submits(nil, false)
	second := r.attempt(id, 1, 2)
	if row, err := r.st.Run(t.Context(), second); err != nil || row.Options.Key != study.Key(id, 1, 2) {
		t.Errorf("%+v, %v", row, err)
	}
	r.end(second, run.Succeeded, "", "2")
	r.end(r.attempt(id, 2, 1), run.Succeeded, "", "3")
	if y := r.finished(id); y.Counts[study.Scored] != 3 || r.total() != 4 {
		t.Errorf("%+v, %d runs", y, r.total())
	}
	r.restart()
	if y := r.show(id); y.State != api.StudyFinished || r.total() != 4 {
		t.Errorf("%+v", y)
	}
}

// Proves F.2: what is refused leaves no rows.
func TestRefusalsLeaveNoRows(t *testing.T) {
	r := newRig(t)
	secret := request(t, ``)
	secret.BaseGraph = json.RawMessage(`{"nodes":[{"id":"c","type":"Chat","data":{"params":{"key":"hunter2"}}}],"edges":[]}`)
	none := request(t, ``)
	none.BaseGraph = nil
	for want, req := range map[string]api.StudyRequest{
		"repetitions":   request(t, `,"repetitions":0`),
		"confidence":    request(t, `,"confidence":1`),
		"option \"seed": request(t, `,"options":{"seed":3}`),
		"option \"key":  request(t, `,"options":{"key":"k"}`),
		"option \"lane": request(t, `,"options":{"lane":"interactive"}`),
		"no worker":     request(t, `,"options":{"target":{"worker":"gpu-bx"}}`),
		"no cuda:3":     request(t, `,"options":{"device":"cuda:3"}`),
		"limit is 64":   request(t, `,"name":"`+strings.Repeat("x", 65)+`"`),
		"not both":      request(t, `,"sweep_id":"ab"`),
		"secrets":       secret,
		"no graph":      none,
	} {
		_, err := r.Create(t.Context(), "", req)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r.submits(api.Errorf(api.Invalid, "no more"), false)
	if _, err := r.Create(t.Context(), "", request(t, `,"key":"k"`)); err == nil {
		t.Error("a refused submit is a study")
	}
	r.submits(nil, false)
	if list, err := r.List(t.Context(), 50, 0); err != nil || list.Total != 0 || r.total() != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	first := r.create(request(t, `,"key":"k"`))
	if second := r.create(request(t, `,"key":"k"`)); !second.Existing || second.StudyID != first.StudyID || r.total() != 3 {
		t.Errorf("%+v", second)
	}
}

// A repetition that can't be queued any more fails; what fails for the moment is
// tried again.
func TestAttemptsThatCantBeQueued(t *testing.T) {
	r := newRig(t)
	reply := r.create(request(t, `,"repetitions":2`))
	r.submits(api.Errorf(api.Unavailable, "for the moment"), false)
	r.end(r.attempt(reply.StudyID, 0, 1), run.Interrupted, run.EndWorkerLost, "")
	if y := r.show(reply.StudyID); y.Counts[study.Waiting] != 1 || y.State != api.StudyRunning {
		t.Errorf("%+v", y)
	}
	r.submits(nil, false)
	r.Nudge()
	again := r.attempt(reply.StudyID, 0, 2)
	r.submits(api.Errorf(api.Invalid, "no worker \"box9\""), false)
	r.end(again, run.Interrupted, run.EndWorkerLost, "")
	r.end(r.attempt(reply.StudyID, 1, 1), run.Succeeded, "", "1")
	y := r.finished(reply.StudyID)
	if a := y.List[0].Attempts; y.Counts[study.Failed] != 1 || y.Counts[study.Scored] != 1 || len(a) != 3 || !strings.Contains(a[2].Error, "box9") {
		t.Errorf("%+v", y)
	}
}

// Proves F.2: a cancel stops everything and is idempotent; a resume gives
// another attempt to what has no score, and to that alone.
func TestCancelAndResume(t *testing.T) {
	r := newRig(t)
	reply := r.create(request(t, `,"repetitions":5`)) // three run, two wait
	id := reply.StudyID
	r.end(r.attempt(id, 0, 1), run.Succeeded, "", "1")
	r.eventually("the fourth starts", func() bool {
		r.exec.mu.Lock()
		defer r.exec.mu.Unlock()
		return r.exec.attempts[reply.List[3].Attempts[0].RunID] > 0
	})
	for range 2 {
		y, err := r.Cancel(t.Context(), id)
		if err != nil || y.State != api.StudyCancelling || y.Stopped != study.ByCancel || y.List[4].Attempts[0].Status != run.Cancelled {
			t.Fatalf("%+v, %v", y, err)
		}
	}
	if _, err := r.Resume(t.Context(), id, api.StudyResumeRequest{}); api.CodeOf(err) != api.Conflict {
		t.Errorf("a resume while it stops: %v", err)
	}
	for _, i := range []int{1, 2, 3} {
		r.end(reply.List[i].Attempts[0].RunID, run.Cancelled, run.EndCancel, "")
	}
	y := r.finished(id)
	if y.Counts[study.Cancelled] != 4 || y.Counts[study.Scored] != 1 {
		t.Errorf("%+v", y)
	}
	if y, err := r.Cancel(t.Context(), id); err != nil || y.State != api.StudyFinished {
		t.Errorf("%+v, %v", y, err)
	}
	r.restart()
	resumed, err := r.Resume(t.Context(), id, api.StudyResumeRequest{})
	if err != nil || resumed.State != api.StudyRunning || len(resumed.List[0].Attempts) != 1 || len(resumed.List[4].Attempts) != 2 || !resumed.List[4].Attempts[0].Void {
		t.Fatalf("%+v, %v", resumed, err)
	}
	if twice, err := r.Resume(t.Context(), id, api.StudyResumeRequest{}); err != nil || len(twice.List[4].Attempts) != 2 {
		t.Errorf("%+v, %v", twice, err)
	}
	for i := 1; i < 5; i++ {
		r.end(r.attempt(id, i, 2), run.Succeeded, "", "1")
	}
	if y := r.finished(id); y.Counts[study.Scored] != 5 || r.total() != 9 || y.Stopped != "" {
		t.Errorf("%+v", y)
	}
	if y, err := r.Resume(t.Context(), id, api.StudyResumeRequest{}); err != nil || y.State != api.StudyFinished || r.total() != 9 {
		t.Errorf("a resume of nothing: %+v, %v", y, err)
	}
}

// Proves SWP-08: budgets cancel the runs; more of a used-up budget is to be
// given with the resume.
func TestBudgets(t *testing.T) {
	r := newRig(t)
	reply := r.create(request(t, `,"max_active_seconds":0.05`))
	asked := func(n int) func() bool {
		return func() bool {
			r.exec.mu.Lock()
			defer r.exec.mu.Unlock()
			return len(r.exec.asked) == n
		}
	}
	r.eventually("all are asked to stop", asked(3))
	for _, rep := range reply.List {
		r.end(rep.Attempts[0].RunID, run.Cancelled, run.EndCancel, "")
	}
	y := r.finished(reply.StudyID)
	if y.Stopped != study.ByActiveTime || y.Counts[study.Cancelled] != 3 || y.List[0].Attempts[0].Stopped != study.ByActiveTime || y.ActiveSeconds < 0.05 {
		t.Errorf("%+v", y)
	}
	if _, err := r.Resume(t.Context(), reply.StudyID, api.StudyResumeRequest{}); api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), "used up") {
		t.Errorf("%v", err)
	}
	none, run3 := 0.0, 0.03
	if _, err := r.Resume(t.Context(), reply.StudyID, api.StudyResumeRequest{MaxActiveSeconds: &none, MaxRunSeconds: &run3}); err != nil {
		t.Fatal(err)
	}
	r.eventually("all are asked to stop again", asked(6))
	for i := range 3 {
		r.end(r.attempt(reply.StudyID, i, 2), run.Cancelled, run.EndCancel, "")
	}
	if y = r.finished(reply.StudyID); y.Stopped != "" || y.Counts[study.OverTime] != 3 {
		t.Errorf("%+v", y)
	}
}

// The best variant of a sweep, and a command, can be repeated.
func TestWhatIsRepeated(t *testing.T) {
	r := newRig(t)
	swept := "lr #4"
	r.best = api.SubmitRequest{Name: &swept, Options: json.RawMessage(`{"command":{"argv":["/bin/train","--lr","0.2"],"cwd":"/"},"tags":["a"]}`)}
	req := request(t, `,"sweep_id":"555","options":{"tags":["b"]}`)
	req.BaseGraph, req.Name = nil, nil
	reply := r.create(req)
	if reply.Name != swept {
		t.Errorf("it is called %q", reply.Name)
	}
	row, err := r.st.Run(t.Context(), reply.List[2].Attempts[0].RunID)
	if err != nil || row.Options.Command.Argv[2] != "0.2" || row.Options.Tags[0] != "b" || *row.Options.Seed != 9 {
		t.Errorf("%+v, %v", row.Options, err)
	}
	if reply.SweepID != strings.Repeat("5", 32) || *reply.SweepVariant != 3 {
		t.Errorf("%+v", reply)
	}
	// What is waited for by name comes along too: SWP-01 for studies.
	away := r.create(request(t, `,"options":{"target":{"worker":"box1"}}`))
	for _, rep := range away.List {
		if rep.Attempts[0].QueueKey != "box1/cpu" || rep.Attempts[0].Status != run.Queued {
			t.Errorf("%+v", rep)
		}
	}
}

func TestIdsOfStudies(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"", "zz"} {
		if _, err := r.Show(t.Context(), id); api.CodeOf(err) != api.NotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}
