package run

import (
	"bytes"
	"encoding/json"
)

// The event types of a run's log.
const (
	EventExecutionStart    = "execution_start"
	EventNodeStatus        = "node_status"
	EventInnerNodeStatus   = "inner_node_status"
	EventMetric            = "metric"
	EventArtifact          = "artifact"
	EventRunWarning        = "run_warning"
	EventExecutionComplete = "execution_complete"
	EventExecutionError    = "execution_error"
	EventExecutionStopped  = "execution_stopped"
)

// TerminalEvent tells whether an event of this type closes a log.
func TerminalEvent(eventType string) bool {
	return eventType == EventExecutionComplete || eventType == EventExecutionError || eventType == EventExecutionStopped
}

// The statuses that a node reports.
const (
	NodeRunning     = "running"
	NodeCompleted   = "completed"
	NodeError       = "error"
	NodeInterrupted = "interrupted"
)

// ExecutionStart is the payload of a log's first event.
func ExecutionStart(runID string) json.RawMessage {
	return payload(field{"run_id", runID})
}

// NodeStatus is the payload of a node_status event; an empty error is left out.
func NodeStatus(nodeID, status, errText, errType string) json.RawMessage {
	fields := []field{{"node_id", nodeID}, {"status", status}}
	if errText != "" {
		fields = append(fields, field{"error", errText})
	}
	if errType != "" {
		fields = append(fields, field{"error_type", errType})
	}
	return payload(fields...)
}

// MetricEvent is the payload that announces stored metric points.
func MetricEvent(points json.RawMessage) json.RawMessage {
	c, err := Canonical(points)
	if err != nil {
		return json.RawMessage("null")
	}
	const head = `{"points":`
	out := make([]byte, 0, len(head)+len(c)+1)
	return append(append(append(out, head...), c...), '}')
}

// ArtifactEvent is the payload that announces a stored artifact row.
func ArtifactEvent(id int64, kind, path string, meta json.RawMessage, nodeID string) json.RawMessage {
	if len(meta) == 0 {
		meta = json.RawMessage("null")
	}
	return payload(field{"artifact_id", id}, field{"kind", kind}, field{"path", path},
		field{"meta", meta}, field{"node_id", nodeID})
}

// Warning is the payload of a run_warning: its kind, then the members of
// detail (an object, or nothing), then the node when there is one.
func Warning(kind string, detail json.RawMessage, nodeID string) json.RawMessage {
	fields := []field{{"kind", kind}}
	if members, ok := objectMembers(detail); ok {
		for _, m := range members {
			if m.name != "kind" && m.name != "node_id" {
				fields = append(fields, field{m.name, m.value})
			}
		}
	}
	if nodeID != "" {
		fields = append(fields, field{"node_id", nodeID})
	}
	return payload(fields...)
}

// ExecutionError is the payload of the terminal event of a failed run. Code
// and params are left out when there is no code.
func ExecutionError(text, code string, params map[string]any) json.RawMessage {
	fields := []field{{"error", text}}
	if code != "" {
		fields = append(fields, field{"code", code}, field{"params", params})
	}
	return payload(fields...)
}

// ExecutionStopped is the payload of the terminal event of a run that was
// cancelled or interrupted; reason is that status.
func ExecutionStopped(reason Status) json.RawMessage {
	return payload(field{"reason", string(reason)})
}

// ExecutionComplete is the payload of the terminal event of a run that
// succeeded.
func ExecutionComplete() json.RawMessage { return json.RawMessage("null") }

type field struct {
	name  string
	value any
}

// payload writes an object with its members in the given order.
func payload(fields ...field) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(f.name))
		b.WriteByte(':')
		switch v := f.value.(type) {
		case string:
			b.Write(quote(v))
		case json.RawMessage:
			b.Write(v)
		default:
			raw, err := json.Marshal(v)
			if err != nil {
				raw = []byte("null")
			}
			b.Write(raw)
		}
	}
	b.WriteByte('}')
	out, err := Canonical(b.Bytes())
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

func quote(s string) []byte {
	raw, _ := json.Marshal(s) // a string always marshals
	out, err := Canonical(raw)
	if err != nil {
		return []byte(`""`)
	}
	return out
}
