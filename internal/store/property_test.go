package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/run"
	"cdui/internal/store"
)

// modelRun is what a run must look like, kept in plain slices.
type modelRun struct {
	id        string
	status    run.Status
	attempt   int
	recorded  map[int]uint64
	events    []store.Event
	metrics   []store.Metrics
	final     map[string]string
	artifacts int
}

func (m *modelRun) apply(c store.Change) {
	for i, e := range c.Events {
		e.Cursor = int64(len(m.events) + 1)
		c.Events[i] = e
		m.events = append(m.events, e)
	}
	for _, f := range c.Metrics {
		m.metrics = append(m.metrics, f)
		var points []struct {
			Name  string
			Value json.Number
		}
		if err := json.Unmarshal(f.Points, &points); err != nil {
			panic(err)
		}
		for _, p := range points {
			if p.Value != "" {
				m.final[p.Name] = p.Value.String()
			}
		}
	}
	m.artifacts += len(c.Artifacts)
	if c.RecordedSeq > 0 {
		m.recorded[c.Attempt] = max(m.recorded[c.Attempt], c.RecordedSeq)
	}
	if c.Patch != nil && c.Patch.Status != nil {
		m.status = *c.Patch.Status
	}
	if c.Patch != nil && c.Patch.Attempt != nil {
		m.attempt = *c.Patch.Attempt
	}
}

// machine does the same to a store and to the model.
type machine struct {
	path string
	s    *store.Store
	runs []*modelRun
	next int
}

func TestAnyMixOfWritesAndReopensReadsLikeTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := tempDir(t)
		if err != nil {
			t.Fatal(err)
		}
		m := &machine{path: filepath.Join(dir, "cdui.db")}
		m.open(t)
		defer func() { _ = m.s.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"insert": m.insert,
			"append": m.append,
			"bulk":   m.bulk,
			"fail":   m.fail,
			"place":  m.place,
			"end":    m.end,
			"delete": m.delete,
			"reopen": func(t *rapid.T) {
				if err := m.s.Close(); err != nil {
					t.Fatal(err)
				}
				m.open(t)
			},
			"": m.verify,
		})
		report, err := m.s.Check(context.Background())
		if err != nil || len(report.Findings) > 0 {
			t.Fatalf("check: %v, %v", report.Findings, err)
		}
	})
}

func (m *machine) open(t *rapid.T) {
	s, err := store.Open(context.Background(), store.Config{Path: m.path})
	if err != nil {
		t.Fatal(err)
	}
	m.s = s
}

func (m *machine) pick(t *rapid.T, active bool) *modelRun {
	var some []*modelRun
	for _, r := range m.runs {
		if r.status.Active() == active {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		t.Skip("no such run")
	}
	return rapid.SampledFrom(some).Draw(t, "run")
}

func (m *machine) insert(t *rapid.T) {
	row := newRow(m.next)
	m.next++
	if _, err := m.s.Apply(context.Background(), store.Change{Insert: row}); err != nil {
		t.Fatal(err)
	}
	m.runs = append(m.runs, &modelRun{id: row.ID, status: row.Status, recorded: map[int]uint64{}, final: map[string]string{}})
}

func (m *machine) change(t *rapid.T, r *modelRun) store.Change {
	c := store.Change{RunID: r.id}
	c.Events = events(len(r.events), rapid.SampledFrom([]int{0, 1, 2, 64, 255, 256, 257}).Draw(t, "events"))
	for i := range rapid.SampledFrom([]int{0, 1, 3, 257}).Draw(t, "flushes") {
		text := fmt.Sprintf(`[{"name":"s%d","value":%d},{"name":"n","value":null}]`, i%3, len(r.metrics)+i)
		c.Metrics = append(c.Metrics, flushes(text)...)
	}
	if rapid.IntRange(0, 5).Draw(t, "artifact") == 0 {
		c.Artifacts = []store.Artifact{{ID: m.s.NextArtifactID(), Kind: "k", Path: "/p", CreatedAt: at(1)}}
	}
	if r.attempt > 0 && rapid.Bool().Draw(t, "recorded") {
		c.Attempt = rapid.IntRange(max(1, r.attempt-1), r.attempt).Draw(t, "attempt")
		if c.Attempt == r.attempt {
			c.RecordedSeq = r.recorded[c.Attempt] + uint64(rapid.IntRange(1, 9).Draw(t, "seq"))
		}
	}
	return c
}

func (m *machine) append(t *rapid.T) { m.store(t, m.pick(t, true)) }

func (m *machine) bulk(t *rapid.T) {
	a, b := m.pick(t, true), m.pick(t, true)
	if a == b {
		t.Skip("the same run twice")
	}
	m.store(t, a, b)
}

func (m *machine) store(t *rapid.T, runs ...*modelRun) {
	changes := make([]store.Change, len(runs))
	for i, r := range runs {
		changes[i] = m.change(t, r)
	}
	results, err := m.s.Apply(context.Background(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		first := int64(0)
		if len(changes[i].Events) > 0 {
			first = int64(len(r.events) + 1)
		}
		r.apply(changes[i])
		if results[i].FirstCursor != first || results[i].LastCursor != int64(len(r.events)) {
			t.Fatalf("run %s: %+v", r.id, results[i])
		}
	}
}

// fail stores much and then something that can't be.
func (m *machine) fail(t *rapid.T) {
	r := m.pick(t, true)
	c := m.change(t, r)
	_, err := m.s.Apply(context.Background(), c, store.Change{Insert: newRow(m.next)}, store.Change{RunID: "no such run"})
	if !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
}

func (m *machine) place(t *rapid.T) {
	r := m.pick(t, true)
	status, attempt := run.Running, r.attempt+1
	c := store.Change{RunID: r.id, Patch: &store.Patch{Status: &status, Attempt: &attempt}}
	if _, err := m.s.Apply(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	r.apply(c)
}

func (m *machine) end(t *rapid.T) {
	r := m.pick(t, true)
	c := finish(r.id)
	if _, err := m.s.Apply(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	r.apply(c)
}

func (m *machine) delete(t *rapid.T) {
	r := m.pick(t, false)
	if err := m.s.Delete(context.Background(), r.id); err != nil {
		t.Fatal(err)
	}
	m.runs = slices.DeleteFunc(m.runs, func(o *modelRun) bool { return o == r })
}

// verify compares one run after each step; Repeat draws another each time.
func (m *machine) verify(t *rapid.T) {
	ctx := context.Background()
	if _, total, err := m.s.List(ctx, store.Filter{Limit: 1}); err != nil || total != len(m.runs) {
		t.Fatalf("%d runs of %d, %v", total, len(m.runs), err)
	}
	if len(m.runs) > 0 {
		m.verifyRun(ctx, t, rapid.SampledFrom(m.runs).Draw(t, "verified"))
	}
}

func (m *machine) verifyRun(ctx context.Context, t *rapid.T, r *modelRun) {
	after := int64(rapid.IntRange(0, len(r.events)).Draw(t, "after"))
	got, err := m.s.Events(ctx, r.id, after, 1<<20, 0)
	if err != nil || len(got) != len(r.events)-int(after) || len(got) > 0 && !reflect.DeepEqual(got, r.events[after:]) {
		t.Fatalf("run %s after %d: %d events of %d, %v", r.id, after, len(got), len(r.events), err)
	}
	metrics, err := m.s.Metrics(ctx, r.id, "")
	if err != nil || len(metrics) != len(r.metrics) || len(metrics) > 0 && !reflect.DeepEqual(metrics, r.metrics) {
		t.Fatalf("run %s: %d flushes of %d, %v", r.id, len(metrics), len(r.metrics), err)
	}
	final, err := m.s.FinalMetrics(ctx, r.id)
	if err != nil || len(final) != len(r.final) {
		t.Fatalf("run %s: final metrics %s, want %v, %v", r.id, final, r.final, err)
	}
	for name, value := range r.final {
		if string(final[name]) != value {
			t.Fatalf("run %s: %s is %s, want %s", r.id, name, final[name], value)
		}
	}
	artifacts, err := m.s.Artifacts(ctx, r.id, "")
	if err != nil || len(artifacts) != r.artifacts {
		t.Fatalf("run %s: %d artifacts of %d, %v", r.id, len(artifacts), r.artifacts, err)
	}
	row, err := m.s.Run(ctx, r.id)
	if err != nil || row.Status != r.status {
		t.Fatalf("run %s is %s, want %s, %v", r.id, row.Status, r.status, err)
	}
	if r.status.Active() && row.RecordedSeq != r.recorded[r.attempt] {
		t.Fatalf("run %s: recorded seq %d, want %d", r.id, row.RecordedSeq, r.recorded[r.attempt])
	}
}
