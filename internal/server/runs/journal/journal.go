// Package journal says what records, ends and broken links of a run mean for what
// is stored of it: events, metrics, artifacts and facts. It is pure.
package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"cdui/internal/jsonscan"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/store"
)

// Batch is what a batch of records means: one change for the store, and
// what the mirror in memory learns from it.
type Batch struct {
	Change   store.Change
	Started  *protocol.Started
	Facts    []json.RawMessage
	Progress json.RawMessage
	Finished *protocol.Finished
	// FinishedSeq is the record that closes the run; the change stops before it.
	FinishedSeq uint64
}

// Tells whether a batch changes the facts of a run.
func (c Batch) Tells() bool {
	return c.Started != nil || len(c.Facts) > 0 || c.Change.Fingerprint != nil
}

// FactsOn lays what a batch says of a run over what was known of it.
func (c Batch) FactsOn(row run.Row) json.RawMessage {
	docs := []json.RawMessage{row.Facts}
	if c.Change.Fingerprint != nil {
		docs = append(docs, source(row))
	}
	if c.Started != nil {
		docs = append(docs, startedFacts(c.Started))
	}
	return MergeFacts(append(docs, c.Facts...)...)
}

// Convert turns records after the seq recorded so far into a change. Records
// that were recorded before are dropped; a gap is told in a warning. It is pure
// but for artifactID, which hands out row ids.
func Convert(recorded uint64, records []protocol.Record, payloadCap int, artifactID func() int64) Batch {
	var c Batch
	// The payloads of run's builders are canonical, a child's may not be.
	event := func(r *protocol.Record, eventType string, payload json.RawMessage) {
		c.Change.Events = append(c.Change.Events, store.Event{Type: eventType, Payload: run.CapCanonical(payload, payloadCap), TS: r.TS})
	}
	c.Change.Events = make([]store.Event, 0, len(records))
	for i := range records {
		r := &records[i]
		if r.Seq <= recorded {
			continue
		}
		if r.Seq != recorded+1 {
			detail := fmt.Sprintf(`{"from":%d,"to":%d}`, recorded+1, r.Seq-1)
			event(r, run.EventRunWarning, run.Warning("records_lost", json.RawMessage(detail), ""))
		}
		if r.Type == protocol.RunFinished {
			c.Finished, c.FinishedSeq = r.Finished, r.Seq
			return c
		}
		recorded = r.Seq
		c.Change.RecordedSeq = r.Seq
		switch r.Type {
		case protocol.RunStarted:
			c.Started = r.Started
		case protocol.Event:
			c.Change.Events = append(c.Change.Events, store.Event{Type: r.Event, Payload: run.CapPayload(r.Payload, payloadCap), TS: r.TS})
			if p := progressOf(r); p != nil {
				c.Progress = p
			}
		case protocol.Metrics:
			c.Change.Metrics = append(c.Change.Metrics, store.Metrics{Points: r.Points, TS: r.TS})
			event(r, run.EventMetric, run.MetricEvent(r.Points))
		case protocol.Artifact:
			id := artifactID()
			c.Change.Artifacts = append(c.Change.Artifacts, store.Artifact{
				ID: id, Kind: r.Kind, Path: r.Path, Meta: r.Meta, NodeID: r.NodeID, Backend: "local", CreatedAt: r.TS,
			})
			event(r, run.EventArtifact, run.ArtifactEvent(id, r.Kind, r.Path, r.Meta, r.NodeID))
		case protocol.Warning:
			event(r, run.EventRunWarning, run.Warning(r.Kind, r.Meta, r.NodeID))
		case protocol.RunFacts:
			c.facts(r.Facts)
		}
	}
	return c
}

// progressOf gives the progress payload of a node_status event, nil if it is
// none.
func progressOf(r *protocol.Record) json.RawMessage {
	if r.Event != run.EventNodeStatus || !isProgress(r.Payload) {
		return nil
	}
	var p struct {
		Status  string `json:"status"`
		Outputs []struct {
			Kind     string          `json:"output_kind"`
			Progress json.RawMessage `json:"progress"`
		} `json:"outputs"`
	}
	if json.Unmarshal(r.Payload, &p) != nil || p.Status != "progress" {
		return nil
	}
	for _, o := range p.Outputs {
		if o.Kind == "progress" {
			return o.Progress
		}
	}
	return nil
}

// isProgress reads as much of a payload as tells whether it can be progress:
// most aren't.
func isProgress(payload json.RawMessage) bool {
	s := jsonscan.New(payload)
	for ok := s.Enter('{'); ok && s.More('}'); {
		name, value := s.Name(), s.Value()
		if string(name) == "status" {
			return string(value) == `"progress"`
		}
	}
	return false
}

// MergeFacts lays the members of later documents over those of earlier ones.
// What is no object is left out.
func MergeFacts(docs ...json.RawMessage) json.RawMessage {
	merged := map[string]json.RawMessage{}
	for _, d := range docs {
		var m map[string]json.RawMessage
		if json.Unmarshal(d, &m) != nil {
			continue
		}
		maps.Copy(merged, m)
	}
	if len(merged) == 0 {
		return nil
	}
	out, err := json.Marshal(merged)
	if err != nil {
		return nil
	}
	return out
}

func startedFacts(st *protocol.Started) json.RawMessage {
	doc, err := json.Marshal(map[string]any{
		"pid": st.PID, "visible_devices": st.VisibleDevices, "device_aliases": st.DeviceAliases,
		"memory_limit": st.MemoryLimit, "isolation": st.Isolation,
	})
	if err != nil {
		return nil
	}
	return doc
}

// EndFacts is what the row keeps of how a run ended.
func EndFacts(f protocol.Finished) json.RawMessage {
	m := map[string]any{"exit": f.Exit, "active_ms": f.ActiveMS}
	if f.EndClass != "" {
		m["end_class"] = f.EndClass
	}
	if f.ErrorType != "" {
		m["error_type"] = f.ErrorType
	}
	if f.Code != "" {
		m["error_reason"] = f.Code
	}
	if len(f.PeakMemory) > 0 {
		m["peak_memory"] = f.PeakMemory
	}
	if f.OutputTail != "" {
		m["output_tail"] = f.OutputTail
	}
	if len(f.Killed) > 0 {
		m["killed"] = f.Killed
	}
	if len(f.Dropped) > 0 {
		m["dropped"] = f.Dropped
	}
	doc, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return doc
}

// Terminal is the event that closes a run's log.
func Terminal(status run.Status, f protocol.Finished, ts time.Time) store.Event {
	ev := store.Event{TS: ts}
	switch status {
	case run.Succeeded:
		ev.Type, ev.Payload = run.EventExecutionComplete, run.ExecutionComplete()
	case run.Failed:
		ev.Type, ev.Payload = run.EventExecutionError, run.ExecutionError(f.Error, "", nil)
	default:
		ev.Type, ev.Payload = run.EventExecutionStopped, run.ExecutionStopped(status)
	}
	return ev
}

// With lays one member over a document of facts. What can't be written down is
// left out.
func With(facts json.RawMessage, name string, value any) json.RawMessage {
	doc, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		return facts
	}
	return MergeFacts(facts, doc)
}

// LinkEvent is the warning in a run's log about its executor's view of it.
func LinkEvent(l execution.Link, ts time.Time) store.Event {
	params := map[string]any{"worker": l.Worker}
	if l.Reason != nil {
		params["reason"] = l.Reason
	}
	detail, err := json.Marshal(map[string]any{"text": l.Text, "code": l.Code, "params": params})
	if err != nil {
		detail = nil // a warning without its detail is better than none
	}
	return store.Event{Type: run.EventRunWarning, Payload: run.Warning(l.Code, detail, ""), TS: ts}
}
