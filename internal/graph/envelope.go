package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cdui/internal/run"
)

// ErrEnvelope is wrapped by the errors of ParseEnvelope.
var ErrEnvelope = errors.New("bad graph")

// Envelope is the outer shape of a graph, all that a submit checks.
type Envelope struct {
	Nodes    []Node `json:"nodes"`
	Settings struct {
		Device string `json:"device"`
	} `json:"settings"`
}

// Node is a node as far as the control plane needs it.
type Node struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		Params json.RawMessage `json:"params"`
	} `json:"data"`
}

// ParseEnvelope checks a submitted graph: nodes is a list that is not empty,
// edges, presets and subgraphs are lists when present, settings is an object,
// and settings.device, when set, is a device. Null counts as absent.
func ParseEnvelope(raw json.RawMessage) (Envelope, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		return Envelope{}, fmt.Errorf("%w: it must be an object with nodes and edges", ErrEnvelope)
	}
	for _, name := range []string{"nodes", "edges", "presets", "subgraphs"} {
		if v, ok := keys[name]; ok && string(v) != "null" && first(v) != '[' {
			return Envelope{}, fmt.Errorf("%w: %q must be a list", ErrEnvelope, name)
		}
	}
	if v, ok := keys["settings"]; ok && string(v) != "null" && first(v) != '{' {
		return Envelope{}, fmt.Errorf("%w: %q must be an object", ErrEnvelope, "settings")
	}
	var e Envelope
	if err := json.Unmarshal(raw, &e); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if len(e.Nodes) == 0 {
		return Envelope{}, fmt.Errorf("%w: it has no nodes", ErrEnvelope)
	}
	if d := strings.TrimSpace(e.Settings.Device); d != "" {
		var err error
		if e.Settings.Device, err = run.ParseDevice(d); err != nil {
			return Envelope{}, fmt.Errorf("%w: settings.device: %w", ErrEnvelope, err)
		}
	}
	return e, nil
}

func first(raw json.RawMessage) byte {
	if t := strings.TrimSpace(string(raw)); t != "" {
		return t[0]
	}
	return 0
}
