package graph

import (
	"encoding/json"
	"fmt"
)

// Snapshot gives a graph as a run's row keeps it: of its settings only the
// device stays, since a run's other settings are in its options.
func Snapshot(raw json.RawMessage) (json.RawMessage, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	var settings struct {
		Device string `json:"device,omitempty"`
	}
	if s, ok := doc["settings"]; ok {
		if err := json.Unmarshal(s, &settings); err != nil {
			return nil, fmt.Errorf("%w: settings: %w", ErrEnvelope, err)
		}
		delete(doc, "settings")
	}
	if settings.Device != "" {
		kept, err := json.Marshal(settings)
		if err != nil {
			return nil, fmt.Errorf("%w: settings: %w", ErrEnvelope, err)
		}
		doc["settings"] = kept
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	return out, nil
}
