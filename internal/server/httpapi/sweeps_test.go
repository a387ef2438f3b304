package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/sweep"
)

const (
	sweepBody = `{"options":{"command":{"argv":["train","-x"],"cwd":"/"}},"name":"=lr","sweep_spec":{"method":"grid","params":[{"arg":"--lr","values":[0.1,0.2,-1]}]},
		"objective":{"metric":"loss","direction":"minimize"}}`
	studyBody = `{"options":{"command":{"argv":["true"],"cwd":"/"}},"repetitions":2}`
)

// create posts a body that makes something, and gives its id.
func (w *site) create(path, body, id string) string {
	w.t.Helper()
	code, raw := w.post(path, body)
	var reply map[string]any
	if err := json.Unmarshal(raw, &reply); err != nil || code != http.StatusCreated {
		w.t.Fatalf("POST %s: %d %s", path, code, raw)
	}
	return reply[id].(string)
}

// sweep makes one whose first variant has ended.
func (w *site) sweep() string {
	w.t.Helper()
	_, raw := w.post(api.PathSweeps, sweepBody)
	reply := parse[api.SweepReply](w.t, raw)
	w.report(reply.Variants[0].RunID, 1,
		protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 4}},
		protocol.Record{Type: protocol.Metrics, Points: []byte(`[{"name":"loss","value":1.5,"step":1}]`)}, finished(run.Succeeded))
	return reply.SweepID
}

func (w *site) study() string {
	w.t.Helper()
	return w.create(api.PathStudies, studyBody, "study_id")
}

// Proves F.1: 201 and its reply; unknown keys are 422, what can't be compiled is
// 400, and neither leaves a row.
func TestASweepThroughTheAPI(t *testing.T) {
	w := newSite(t)
	for body, want := range map[string]int{
		`{`: 422, `{"swep":1}`: 422,
		strings.Replace(sweepBody, `"method"`, `"sampels":1,"method"`, 1):               422,
		strings.Replace(sweepBody, `"arg"`, `"argument"`, 1):                            422,
		strings.Replace(sweepBody, `"direction"`, `"dir"`, 1):                           422,
		strings.Replace(sweepBody, `[0.1,0.2,-1]`, `[0.1,0.1]`, 1):                      400,
		strings.Replace(sweepBody, `"minimize"`, `"down"`, 1):                           400,
		strings.Replace(sweepBody, `"cwd":"/"`, `"cwd":"rel"`, 1):                       400,
		strings.Replace(sweepBody, `"objective":{"metric":"loss",`, `"objective":{`, 1): 400,
	} {
		if code, raw := w.post(api.PathSweeps, body); code != want {
			t.Errorf("%s: %d %s, want %d", body, code, raw, want)
		}
	}
	if code, _ := w.request("POST", api.PathSweeps, sweepBody); code != 403 {
		t.Errorf("without a token: %d", code)
	}
	_, raw := w.request("GET", api.PathSweeps, "")
	if list := parse[api.SweepList](t, raw); list.Total != 0 || list.Limit != 50 {
		t.Errorf("%s", raw)
	}
	id := w.sweep()
	code, raw := w.request("GET", "/api/sweeps/"+id[:7], "")
	got := parse[api.Sweep](t, raw)
	if code != 200 || got.SweepID != id || got.State != sweep.Running || got.Best.Index != 0 || got.Counts[run.Succeeded] != 1 || got.Variants[1].Rank != nil {
		t.Errorf("%d %s", code, raw)
	}
	for _, key := range []string{`"objective_warning":null`, `"error":null`, `"finished_at":null`, `"rank":1`, `"objective":1.5`, `"run_exists":true`, `"final_metrics":{"loss":1.5}`, `"worker_id":""`, `"devices":["cpu"]`, `"queue_key":"cpu"`, `"missing":0`} {
		if !strings.Contains(string(raw), key) {
			t.Errorf("no %s in %s", key, raw)
		}
	}
	code, raw = w.request("GET", "/api/sweeps/"+id+"?format=csv", "")
	if code != 200 || !strings.HasPrefix(string(raw), "\ufeffrank,variant_index,domain_index,run_id,status,objective,'--lr\n1,0,0,") || !strings.Contains(string(raw), ",-1\n") {
		t.Errorf("%d %q", code, raw)
	}
	if code, _ = w.request("GET", "/api/sweeps/"+id+"?format=xml", ""); code != 400 {
		t.Errorf("a format that isn't there: %d", code)
	}
	if code, raw = w.request("GET", "/api/sweeps/zz", ""); code != 404 {
		t.Errorf("%d %s", code, raw)
	}
	code, raw = w.post("/api/sweeps/"+id+"/cancel", "")
	if c := parse[api.SweepCancelReply](t, raw); code != 200 || c.AlreadyFinished != 1 || c.Cancelled != 2 {
		t.Errorf("%d %s", code, raw)
	}
}

func TestAStudyThroughTheAPI(t *testing.T) {
	w := newSite(t)
	for body, want := range map[string]int{
		`{"repetitons":3}`: 422, `{"repetitions":3}`: 422,
		strings.Replace(studyBody, `2}`, `0}`, 1):                 400,
		strings.Replace(studyBody, `2}`, `2,"sweep_id":"zz"}`, 1): 404,
	} {
		if code, raw := w.post(api.PathStudies, body); code != want {
			t.Errorf("%s: %d %s, want %d", body, code, raw, want)
		}
	}
	// The best variant of a sweep is repeated.
	swept := w.sweep()
	code, raw := w.post(api.PathStudies, `{"sweep_id":"`+swept[:8]+`","repetitions":2}`)
	if y := parse[api.StudyReply](t, raw); code != 201 || y.SweepID != swept || *y.SweepVariant != 0 {
		t.Errorf("%d %s", code, raw)
	}
	id := w.study()
	code, raw = w.request("GET", "/api/studies/"+id[:7], "")
	if y := parse[api.Study](t, raw); code != 200 || y.StudyID != id || y.Repetitions != 2 || len(y.List) != 2 || y.State != api.StudyRunning {
		t.Errorf("%d %s", code, raw)
	}
	if code, raw = w.post("/api/studies/"+id+"/resume", `{"budget":1}`); code != 422 {
		t.Errorf("%d %s", code, raw)
	}
	if code, raw = w.post("/api/studies/"+id+"/cancel", ""); code != 200 || !strings.Contains(string(raw), `"stopped":"cancelled"`) {
		t.Errorf("%d %s", code, raw)
	}
}
