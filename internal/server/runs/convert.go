package runs

import (
	"encoding/json"
	"fmt"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/store"
)

// converted is what a batch of records means: one change for the store, and
// what the mirror in memory learns from it.
type converted struct {
	change   store.Change
	started  *protocol.Started
	facts    []json.RawMessage
	progress json.RawMessage
	finished *protocol.Finished
	// finishedSeq is the record that closes the run; the change stops before it.
	finishedSeq uint64
}

// factsOn lays what a batch says of a run over what was known of it.
func (c converted) factsOn(known json.RawMessage) json.RawMessage {
	docs := []json.RawMessage{known}
	if c.started != nil {
		docs = append(docs, startedFacts(c.started))
	}
	return mergeFacts(append(docs, c.facts...)...)
}

// convert turns records after the seq recorded so far into a change. Records
// that were recorded before are dropped; a gap is told in a warning. It is pure
// but for artifactID, which hands out row ids.
func convert(recorded uint64, records []protocol.Record, payloadCap int, artifactID func() int64) converted {
	var c converted
	event := func(r protocol.Record, eventType string, payload json.RawMessage) {
		c.change.Events = append(c.change.Events, store.Event{Type: eventType, Payload: run.CapPayload(payload, payloadCap), TS: r.TS})
	}
	for _, r := range records {
		if r.Seq <= recorded {
			continue
		}
		if r.Seq != recorded+1 {
			detail := fmt.Sprintf(`{"from":%d,"to":%d}`, recorded+1, r.Seq-1)
			event(r, run.EventRunWarning, run.Warning("records_lost", json.RawMessage(detail), ""))
		}
		if r.Type == protocol.RunFinished {
			c.finished, c.finishedSeq = r.Finished, r.Seq
			return c
		}
		recorded = r.Seq
		c.change.RecordedSeq = r.Seq
		switch r.Type {
		case protocol.RunStarted:
			c.started = r.Started
		case protocol.Event:
			event(r, r.Event, r.Payload)
			if p := progressOf(r); p != nil {
				c.progress = p
			}
		case protocol.Metrics:
			c.change.Metrics = append(c.change.Metrics, store.Metrics{Points: r.Points, TS: r.TS})
			event(r, run.EventMetric, run.MetricEvent(r.Points))
		case protocol.Artifact:
			id := artifactID()
			c.change.Artifacts = append(c.change.Artifacts, store.Artifact{
				ID: id, Kind: r.Kind, Path: r.Path, Meta: r.Meta, NodeID: r.NodeID, Backend: "local", CreatedAt: r.TS,
			})
			event(r, run.EventArtifact, run.ArtifactEvent(id, r.Kind, r.Path, r.Meta, r.NodeID))
		case protocol.Warning:
			event(r, run.EventRunWarning, run.Warning(r.Kind, r.Meta, r.NodeID))
		case protocol.RunFacts:
			c.facts = append(c.facts, r.Facts)
		}
	}
	return c
}

// progressOf gives the progress payload of a node_status event, nil if it is
// none.
func progressOf(r protocol.Record) json.RawMessage {
	if r.Event != run.EventNodeStatus {
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

// mergeFacts lays the members of later documents over those of earlier ones.
// What is no object is left out.
func mergeFacts(docs ...json.RawMessage) json.RawMessage {
	merged := map[string]json.RawMessage{}
	for _, d := range docs {
		var m map[string]json.RawMessage
		if json.Unmarshal(d, &m) != nil {
			continue
		}
		for k, v := range m {
			merged[k] = v
		}
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

// endFacts is what the row keeps of how a run ended.
func endFacts(f protocol.Finished) json.RawMessage {
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
