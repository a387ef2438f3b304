package nodestate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cdui/internal/api"
	"cdui/internal/cli/nodestate"
	"cdui/internal/run"
)

func start() time.Time { return time.Date(2026, 3, 4, 14, 0, 0, 0, time.UTC) }

func event(after time.Duration, payload string) api.Event {
	return api.Event{Type: run.EventNodeStatus, Payload: json.RawMessage(payload), TS: start().Add(after)}
}

func progress(after time.Duration, payload string) api.Event {
	return event(after, `{"node_id":"t","status":"progress","outputs":[{"output_kind":"progress","progress":`+payload+`}]}`)
}

func TestANodeFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	var b nodestate.Board
	b.Apply(event(0, `{"node_id":"a","status":"running"}`))
	b.Apply(event(time.Second, `{"node_id":"b","status":"running"}`))
	if got := b.Running(); len(got) != 2 || got[0].ID != "a" || b.Over() != 0 {
		t.Errorf("%+v", got)
	}
	c, ok := b.Apply(event(3*time.Second, `{"node_id":"a","status":"completed","outputs":[{"output_kind":"text","text":"hello"},{"output_kind":"tensor_summary","tensor_summary":{}}]}`))
	if !ok || !c.Ended || !slices.Equal(c.Text, []string{"hello"}) || c.Node.Ended.Sub(c.Node.Started) != 3*time.Second {
		t.Errorf("%+v", c)
	}
	c, _ = b.Apply(event(4*time.Second, `{"node_id":"b","status":"error","error":"ValueError: no","error_type":"ValueError"}`))
	if c.Node.Status != nodestate.Failed || c.Node.Error != "ValueError: no" || b.Over() != 2 || len(b.Running()) != 0 {
		t.Errorf("%+v", c)
	}
	// A retry runs again.
	if c, _ = b.Apply(event(5*time.Second, `{"node_id":"b","status":"running"}`)); c.Node.Over() || c.Node.Error != "" || b.Over() != 1 {
		t.Errorf("%+v", c)
	}
	if c, _ = b.Apply(event(6*time.Second, `{"node_id":"late","status":"skipped"}`)); c.Node.Started.IsZero() || !c.Ended {
		t.Errorf("%+v", c)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var b nodestate.Board
	b.Apply(event(0, `{"node_id":"t","status":"running"}`))
	for _, c := range []struct {
		after    time.Duration
		payload  string
		epoch    bool
		fraction float64 // -1: unknown
		left     time.Duration
		loss     string
	}{
		{0, `{"event":"config","config":{"epochs":4,"lr":0.1}}`, false, -1, -1, ""},
		{time.Second, `{"event":"batch","epoch":1,"batch":5,"total_batches":10,"loss":9,"phase":"train"}`, false, 0.125, 7 * time.Second, "9"},
		{2 * time.Second, `{"event":"epoch","epoch":1,"total_epochs":4,"loss":2.5,"lr":0.1,"losses":[2.5]}`, true, 0.25, 6 * time.Second, "2.5"},
		{3 * time.Second, `{"event":"batch","epoch":2,"batch":1,"total_batches":2,"loss":7,"phase":"val"}`, false, 0.5, 3 * time.Second, "2.5"},
		{8 * time.Second, `{"event":"epoch","epoch":4,"total_epochs":4,"loss":null}`, true, 1, 0, "null"},
	} {
		change, ok := b.Apply(progress(c.after, c.payload))
		p := change.Node.Progress
		f, known := p.Fraction()
		if !known {
			f = -1
		}
		left, can := p.Left()
		if !can {
			left = -1
		}
		if !ok || change.Epoch != c.epoch || f != c.fraction || left != c.left || string(p.Loss) != c.loss || string(p.LR) != "0.1" {
			t.Errorf("%s: epoch %v, fraction %v, left %v, %+v", c.payload, change.Epoch, f, left, p)
		}
	}
}

func TestAResumedTrainingCountsFromWhereItBegan(t *testing.T) {
	t.Parallel()
	var b nodestate.Board
	b.Apply(progress(0, `{"event":"config","config":{"epochs":10,"start_epoch":6}}`))
	c, _ := b.Apply(progress(time.Second, `{"event":"epoch","epoch":7,"total_epochs":10,"start_epoch":6,"loss":1}`))
	if f, ok := c.Node.Progress.Fraction(); !ok || f != 0.25 {
		t.Errorf("%v", f)
	}
}

func TestOtherEventsTellNothingOfNodes(t *testing.T) {
	t.Parallel()
	var b nodestate.Board
	for _, e := range []api.Event{
		{Type: run.EventMetric, Payload: json.RawMessage(`{"node_id":"a","status":"running"}`)},
		event(0, `null`), event(0, `{"status":"running"}`), event(0, `[1]`), event(0, `{"elided":true,"bytes":1}`),
	} {
		if _, ok := b.Apply(e); ok {
			t.Errorf("%s %s is taken", e.Type, e.Payload)
		}
	}
	if len(b.Nodes()) > 0 {
		t.Error("there are nodes")
	}
}

func TestWhateverIsTold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b nodestate.Board
		statuses := []string{"running", "progress", "completed", "cached", "skipped", "error", "interrupted", "new"}
		number := rapid.SampledFrom([]string{"0", "1", "2", "7", "-3", "null", "1000000000000"})
		for i := range rapid.IntRange(0, 40).Draw(t, "events") {
			payload := fmt.Sprintf(`{"node_id":"%c","status":%q,"outputs":[{"output_kind":"progress","progress":{"event":%q,"epoch":%s,"total_epochs":%s,"start_epoch":%s,"batch":%s,"total_batches":%s}}]}`,
				'a'+rune(rapid.IntRange(0, 2).Draw(t, "node")), rapid.SampledFrom(statuses).Draw(t, "status"), rapid.SampledFrom([]string{"config", "epoch", "batch"}).Draw(t, "event"),
				number.Draw(t, "epoch"), number.Draw(t, "epochs"), number.Draw(t, "begin"), number.Draw(t, "batch"), number.Draw(t, "batches"))
			c, ok := b.Apply(event(time.Duration(i)*time.Second, payload))
			if !ok {
				t.Fatal("not taken")
			}
			if f, _ := c.Node.Progress.Fraction(); !(f >= 0 && f <= 1) || math.IsNaN(f) {
				t.Fatalf("fraction %v", f)
			}
			if left, ok := c.Node.Progress.Left(); ok && left < 0 {
				t.Fatalf("left %v", left)
			}
		}
		if n := len(b.Running()) + b.Over(); n > len(b.Nodes()) {
			t.Fatalf("%d of %d", n, len(b.Nodes()))
		}
	})
}
