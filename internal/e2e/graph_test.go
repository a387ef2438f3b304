package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// repo is the repository's root.
func repo(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// besideRepo is the folder of graphs and data that may lie beside the
// repository.
func besideRepo(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(repo(t)), "shared")
	if _, err := os.Stat(filepath.Join(dir, "graphs")); err != nil {
		t.Skip("no graphs of the format lie beside the repository")
	}
	return dir
}

// digits runs the example from where it finds its data.
func (p *plane) digits(args ...string) string {
	p.t.Helper()
	root := repo(p.t)
	return p.run(append([]string{"--cwd", root, filepath.Join(root, "examples", "digits", "graph.json")}, args...)...)
}

func (p *plane) copy(from string, to ...string) {
	p.t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		p.t.Fatal(err)
	}
	p.data(string(raw), to...)
}

// data writes a file of the data folder.
func (p *plane) data(text string, path ...string) {
	p.t.Helper()
	full := filepath.Join(append([]string{p.dir}, path...)...)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// losses gives a training's losses as "step value", with the very digits that
// are stored.
func (p *plane) losses(id string) []string {
	p.t.Helper()
	var all api.Metrics
	p.get("/api/runs/"+id+"/metrics?name=train_loss", &all)
	out := make([]string, len(all.Metrics))
	for i, m := range all.Metrics {
		out[i] = string(m.Step) + " " + string(m.Value)
	}
	return out
}

// nodeEnds gives the last status of each node.
func (p *plane) nodeEnds(id string) map[string]nodeStatus {
	p.t.Helper()
	out := map[string]nodeStatus{}
	for _, e := range p.events(id) {
		var s nodeStatus
		if e.Type == run.EventNodeStatus && json.Unmarshal(e.Payload, &s) == nil {
			out[s.NodeID] = s
		}
	}
	return out
}

type nodeStatus struct {
	NodeID    string            `json:"node_id"`
	Status    string            `json:"status"`
	Error     string            `json:"error"`
	ErrorType string            `json:"error_type"`
	Outputs   []json.RawMessage `json:"outputs"`
}

// A.1, A.5, A.6, B.5: files that others wrote, run to their end.
func TestGraphFilesOfTheFormatRunUnchanged(t *testing.T) {
	needTorch(t)
	beside := besideRepo(t)
	p := newPlane(t)
	p.copy(filepath.Join(beside, "data", "iris.csv"), "data", "samples", "iris.csv")
	extra := map[string][]string{
		"train-cnn-mnist.json": {
			"--set", "train-pipeline.dataset.data_dir=" + filepath.Join(beside, "data"),
			"--set", "train-pipeline.dataset.split=test", "--set", "train-pipeline.train_loop.epochs=1",
		},
	}
	files, err := filepath.Glob(filepath.Join(beside, "graphs", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no graphs: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if out, code := p.try(append([]string{"run", file}, extra[name]...)...); code != 0 {
			t.Errorf("%s: exit %d:\n%s", name, code, out)
		}
	}
	var list api.RunList
	p.get("/api/runs?status=succeeded", &list)
	for _, r := range list.Runs {
		if r.Name == "train-cnn-mnist.json" && len(p.losses(r.ID)) != 1 {
			t.Errorf("the losses of %s are %v", r.Name, p.losses(r.ID))
		}
	}
	if list.Total != len(files) {
		t.Errorf("%d of %d succeeded", list.Total, len(files))
	}
}

// C.11, P-05: the same losses to the last bit, also over a restart of the control plane.
func TestTheDigitsGraphLearnsAndRepeatsItself(t *testing.T) {
	needTorch(t)
	p := newPlane(t)
	first := p.ended(p.digits("--seed", "7"))
	if first.Status != run.Succeeded {
		t.Fatalf("%s: %s", first.Status, first.Error)
	}
	if first.Name != "graph.json" {
		t.Errorf("its name is %q", first.Name)
	}
	var accuracy float64
	if err := json.Unmarshal(first.FinalMetrics["eval_accuracy"], &accuracy); err != nil || accuracy < 0.95 {
		t.Errorf("accuracy %s", first.FinalMetrics["eval_accuracy"])
	}
	losses := p.losses(first.ID)
	if len(losses) < 15 {
		t.Fatalf("losses %v", losses)
	}

	// The same again, and the control plane dies in the middle.
	id := p.digits("--seed", "7")
	eventually(t, time.Minute, "the training has begun", func() bool { return len(p.losses(id)) > 0 })
	p.kill9()
	p.start()
	second := p.ended(id)
	if second.Status != run.Succeeded {
		t.Fatalf("after the restart: %s: %s", second.Status, second.Error)
	}
	if again := p.losses(id); !slices.Equal(again, losses) {
		t.Errorf("the same seed gave other losses:\n%v\n%v", losses, again)
	}
	if string(second.FinalMetrics["eval_accuracy"]) != string(first.FinalMetrics["eval_accuracy"]) {
		t.Errorf("accuracy %s and %s", first.FinalMetrics["eval_accuracy"], second.FinalMetrics["eval_accuracy"])
	}
	if other := p.losses(p.ended(p.digits("--seed", "8", "--set", "trainer.epochs=2")).ID); len(other) != 2 || slices.Equal(other, losses[:2]) {
		t.Errorf("another seed gave %v", other)
	}
	if out := p.cdui("runs", "show", id); !strings.Contains(out, "trainer") || !strings.Contains(out, "TrainingLoop") || !strings.Contains(out, "epoch 20/20") {
		t.Errorf("runs show says\n%s", out)
	}
}

// Proves C.10, C.20, CAN-03.
func TestCancelInMidTrainingKeepsPartialResults(t *testing.T) {
	needTorch(t)
	p := newPlane(t)
	id := p.digits("--set", "trainer.epochs=100000")
	eventually(t, time.Minute, "some epochs are done", func() bool { return len(p.losses(id)) > 1 })
	p.cdui("cancel", "-d", id)
	r := p.ended(id)
	if r.Status != run.Cancelled || r.EndClass != run.EndCancel {
		t.Errorf("%s %s %q", r.Status, r.EndClass, r.Error)
	}
	ends := p.nodeEnds(id)
	if got := ends["trainer"]; got.Status != "interrupted" || len(got.Outputs) == 0 {
		t.Errorf("the trainer ended %q with %d outputs", got.Status, len(got.Outputs))
	}
	if got, ran := ends["saver"]; ran {
		t.Errorf("a node after the stop ended %q", got.Status)
	}
	var made api.Artifacts
	p.get("/api/runs/"+id+"/artifacts?kind=checkpoint", &made)
	if len(made.Artifacts) != 1 || made.Artifacts[0].NodeID != "trainer" {
		t.Fatalf("checkpoints %+v", made.Artifacts)
	}
	if _, err := os.Stat(made.Artifacts[0].Path); err != nil {
		t.Error(err)
	}
}

// unrunnable has two types that nobody knows and one that is nearly right.
const unrunnable = `{"nodes":[
  {"id":"start","type":"Start","data":{"params":{}}},
  {"id":"a","type":"Frobnicate","data":{"params":{}}},
  {"id":"b","type":"Conv2","data":{"params":{}}},
  {"id":"c","type":"acme:Thing","data":{"params":{}}}],
 "edges":[
  {"id":"e1","source":"start","sourceHandle":"trigger","target":"a","type":"trigger"},
  {"id":"e2","source":"start","sourceHandle":"trigger","target":"b","type":"trigger"},
  {"id":"e3","source":"start","sourceHandle":"trigger","target":"c","type":"trigger"}]}`

// A.9, D.1: a submit checks no semantics; validation reports all findings at once.
func TestR03_ABadGraphNeverRuns(t *testing.T) {
	p := newPlane(t)
	file := p.file("bad.json", unrunnable)
	for _, args := range [][]string{{"run", file}, {"validate", file}} {
		out, code := p.try(args...)
		if code != 1 || !strings.HasPrefix(out, file+": 3 findings\n") || strings.Count(out, "\n") != 4 || !strings.Contains(out, "did you mean Conv2d?") {
			t.Errorf("%s: exit %d:\n%s", args[0], code, out)
		}
	}
	var list api.RunList
	if p.get("/api/runs", &list); list.Total != 0 {
		t.Errorf("%d runs were queued", list.Total)
	}
	raw, err := p.command("validate", "--json", file).Output()
	if exitCode(t, err) != 1 {
		t.Errorf("validate --json: %v", err)
	}
	var found api.ValidateReply
	if err := json.Unmarshal(raw, &found); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]int{}
	for _, issue := range found.Issues {
		if issue.Code == "unknown_type" && issue.NodeID != nil {
			nodes[*issue.NodeID]++
		}
	}
	if found.Valid || !maps.Equal(nodes, map[string]int{"a": 1, "b": 1, "c": 1}) || len(found.Errors) != 3 {
		t.Errorf("%+v", found)
	}

	// The API takes a graph by its envelope alone; what is wrong ends the run.
	var reply api.SubmitReply
	status, raw, err := p.post(api.PathRuns, `{"graph":`+unrunnable+`}`)
	if err != nil || status != 200 || json.Unmarshal(raw, &reply) != nil {
		t.Fatalf("submit: %d %v %s", status, err, raw)
	}
	r := p.ended(reply.RunID)
	if r.Status != run.Failed || r.EndClass != run.EndBadGraph || !strings.Contains(r.Error, "Frobnicate") || !strings.Contains(r.Error, "acme:Thing") {
		t.Errorf("%s %s %q", r.Status, r.EndClass, r.Error)
	}
}

func TestValidateNeedsNoControlPlane(t *testing.T) {
	p := preparePlane(t)
	file := p.file("bad.json", unrunnable)
	out, code := p.try("validate", file)
	if code != 1 || !strings.Contains(out, "no control plane runs here") || !strings.Contains(out, "3 findings") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	good := filepath.Join(repo(t), "examples", "digits", "graph.json")
	if out, code = p.try("validate", good, "--set", "trainer.epochs=3"); code != 0 || !strings.Contains(out, "10 nodes, fine") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if out, code = p.try("validate", good, "--set", "trainer.epoch=3"); code != 2 || !strings.Contains(out, "did you mean epochs?") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

const userNode = `from cdui.node import Node, Param, Port


class Twice(Node):
    NODE_NAME = "Twice"
    CATEGORY = "Mine"
    DESCRIPTION = "Says a word twice."

    @classmethod
    def outputs(cls, params=None):
        return [Port("value", "STRING")]

    @classmethod
    def params(cls):
        return [Param("word", "string", "ha", "What to say.")]

    def execute(self, inputs, params):
        return {"value": params["word"] * 2, "__log__": params["word"] * 2}
`

func TestCAT10_AUsersNodeRunsAndABrokenOneBesideItIsReported(t *testing.T) {
	needTorch(t)
	p := newPlane(t)
	p.data(userNode, "nodes", "twice.py")
	p.data("import nothing_of_that_name\n", "nodes", "broken.py")
	graph := p.file("twice.json", `{"nodes":[{"id":"start","type":"Start","data":{}},{"id":"twice","type":"Twice","data":{"params":{}}}],
		"edges":[{"id":"e","source":"start","sourceHandle":"trigger","target":"twice","type":"trigger"}]}`)
	out, code := p.try("run", graph, "--set", "twice.word=ho")
	if code != 0 || !strings.Contains(out, "\nhoho\n") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if out = p.cdui("status"); !strings.Contains(out, "broken.py") || !strings.Contains(out, "nothing_of_that_name") {
		t.Errorf("status says\n%s", out)
	}
	if out = p.cdui("nodes", "Twice"); !strings.Contains(out, "Mine") || !strings.Contains(out, "What to say.") {
		t.Errorf("nodes Twice says\n%s", out)
	}
}

// Proves C.5.
func TestANodeThatFailsIsNamed(t *testing.T) {
	needTorch(t)
	p := newPlane(t)
	graph := p.file("wrong.json", `{"nodes":[{"id":"start","type":"Start","data":{}},
		{"id":"odd one","type":"Reshape","data":{"params":{"shape":"7"}}}, {"id":"x","type":"TensorCreate","data":{"params":{"shape":"2,3"}}},
		{"id":"say","type":"Print","data":{"params":{}}}, {"id":"other","type":"Print","data":{"params":{"label":"still here"}}}],
		"edges":[{"id":"t","source":"start","sourceHandle":"trigger","target":"x","type":"trigger"},
		{"id":"a","source":"x","sourceHandle":"tensor","target":"odd one","targetHandle":"tensor"},
		{"id":"b","source":"odd one","sourceHandle":"tensor","target":"say","targetHandle":"value"},
		{"id":"c","source":"x","sourceHandle":"tensor","target":"other","targetHandle":"value"}]}`)
	out, code := p.try("run", graph)
	if code != 1 || !strings.Contains(out, `failed`) || strings.Count(out, `node "odd one" (Reshape)`) != 1 {
		t.Errorf("exit %d:\n%s", code, out)
	}
	out, code = p.try("run", graph, "--error-mode", "continue")
	if code != 0 || !strings.Contains(out, `error      node "odd one"`) || !strings.Contains(out, `skipped    node "say"`) || !strings.Contains(out, "[still here]") {
		t.Errorf("continue: exit %d:\n%s", code, out)
	}
}

// small is a training of one epoch in all of its parts.
const small = `{"nodes":[
  {"id":"start","type":"Start","data":{"params":{}}},
  {"id":"data","type":"PythonScript","data":{"params":{"output_types":"DATASET","code":"import torch\n\ndef run(inputs, params):\n    x = torch.randn(128, 2)\n    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())\n"}}},
  {"id":"loader","type":"DataLoader","data":{"params":{"batch_size":64}}},
  {"id":"model","type":"SequentialModel","data":{"params":{"layers":"{\"version\":2,\"nodes\":[{\"id\":\"in\",\"type\":\"Input\",\"ports\":[{\"id\":\"x\",\"name\":\"x\"}]},{\"id\":\"fc\",\"type\":\"Linear\",\"params\":{\"in_features\":2,\"out_features\":2}},{\"id\":\"out\",\"type\":\"Output\",\"ports\":[{\"id\":\"y\",\"name\":\"y\"}]}],\"edges\":[{\"id\":\"a\",\"source\":\"in\",\"sourceHandle\":\"x\",\"target\":\"fc\"},{\"id\":\"b\",\"source\":\"fc\",\"target\":\"out\",\"targetHandle\":\"y\"}]}"}}},
  {"id":"optimizer","type":"Optimizer","data":{"params":{}}},
  {"id":"loss","type":"Loss","data":{"params":{}}},
  {"id":"trainer","type":"TrainingLoop","data":{"params":{"epochs":1}}},
  {"id":"saver","type":"ModelSaver","data":{"params":{"path":"small.pt"}}},
  {"id":"say","type":"Print","data":{"params":{"label":"saved to"}}}],
 "edges":[
  {"id":"t1","source":"start","sourceHandle":"trigger","target":"data","type":"trigger"},
  {"id":"t2","source":"start","sourceHandle":"trigger","target":"model","type":"trigger"},
  {"id":"t3","source":"start","sourceHandle":"trigger","target":"loss","type":"trigger"},
  {"id":"e1","source":"data","sourceHandle":"out1","target":"loader","targetHandle":"dataset"},
  {"id":"e2","source":"model","sourceHandle":"model","target":"optimizer","targetHandle":"model"},
  {"id":"e3","source":"model","sourceHandle":"model","target":"trainer","targetHandle":"model"},
  {"id":"e4","source":"loader","sourceHandle":"dataloader","target":"trainer","targetHandle":"dataloader"},
  {"id":"e5","source":"optimizer","sourceHandle":"optimizer","target":"trainer","targetHandle":"optimizer"},
  {"id":"e6","source":"loss","sourceHandle":"loss_fn","target":"trainer","targetHandle":"loss_fn"},
  {"id":"e7","source":"trainer","sourceHandle":"model","target":"saver","targetHandle":"model"},
  {"id":"e8","source":"saver","sourceHandle":"path","target":"say","targetHandle":"value"}]}`

// TestR09_ARunWithoutTargetTellsWhatTheFormatSays compares the order of events
// and the keys of their payloads with a stored list. Points come together as
// time allows, so metric events have no fixed place: only their keys count.
// LANE-08, INV-01: held by a stored list.
func TestR09_ARunWithoutTargetTellsWhatTheFormatSays(t *testing.T) {
	needTorch(t)
	p := newPlane(t)
	r := p.ended(p.run("--seed", "1", p.file("small.json", small)))
	if r.Status != run.Succeeded {
		t.Fatalf("%s: %s", r.Status, r.Error)
	}
	var order []string
	points := map[string]bool{}
	for _, e := range p.events(r.ID) {
		var payload any
		if err := json.Unmarshal(e.Payload, &payload); err != nil {
			t.Fatal(err)
		}
		line := e.Type + " " + shape(payload, "")
		if node, ok := payload.(map[string]any); ok && e.Type == run.EventNodeStatus {
			line = fmt.Sprintf("%s %v %v %s", e.Type, node["node_id"], node["status"], shape(payload, ""))
		}
		if e.Type == run.EventMetric {
			points[line] = true
			continue
		}
		// How often a training tells of batches depends on the machine.
		if len(order) == 0 || order[len(order)-1] != line {
			order = append(order, line)
		}
	}
	got := strings.Join(append(order, slices.Sorted(maps.Keys(points))...), "\n") + "\n"
	path := filepath.Join("testdata", "r09.golden")
	if os.Getenv("CDUI_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("events are\n%s\nwant (CDUI_TEST_UPDATE=1 writes them anew)\n%s", got, want)
	}
}

// free are keys whose values are keyed by names of the graph.
var free = []string{"tensor_summary", "progress", "meta"}

// shape writes a payload's keys, sorted, and those within; a list has the
// shapes of its items, each once.
func shape(v any, key string) string {
	switch v := v.(type) {
	case map[string]any:
		if slices.Contains(free, key) {
			return "{…}"
		}
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, k+shape(v[k], k))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		items := map[string]bool{}
		for _, item := range v {
			items[shape(item, "")] = true
		}
		return "[" + strings.Join(slices.Sorted(maps.Keys(items)), " | ") + "]"
	case nil:
		if key == "" {
			return "null"
		}
	}
	return ""
}
