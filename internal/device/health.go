package device

import (
	"encoding/json"
	"fmt"
)

// The codes of devices that should take no runs.
const (
	// UnhealthyXid is a critical error that the driver reported of the card.
	UnhealthyXid = "xid"
	// UnhealthyECC is memory that returned wrong data, or can't be repaired.
	UnhealthyECC = "ecc"
	// UnhealthyLost is a card that fell off the bus.
	UnhealthyLost = "lost"
	// UnhealthyReset is a card that works again only after a reset.
	UnhealthyReset = "reset_required"
	// UnhealthyUnreadable is a card that the driver lists and can't open.
	UnhealthyUnreadable = "unreadable"
	// UnhealthyGone is a card that the driver listed before and lists no more.
	UnhealthyGone = "gone"
	// UnhealthyNoAnswer is every card of a driver that has stopped answering.
	UnhealthyNoAnswer = "no_answer"
)

// Health is "ok" or what is wrong with a device; its zero value is ok.
type Health struct {
	// Code is stable, Text a sentence.
	Code, Text string
}

// healthJSON is how a Health that is not ok is written.
type healthJSON struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

const ok = "ok"

// OK tells whether nothing is wrong.
func (h Health) OK() bool { return h.Code == "" }

// String gives "ok" or the sentence.
func (h Health) String() string {
	switch {
	case h.OK():
		return ok
	case h.Text == "":
		return h.Code
	}
	return h.Text
}

// MarshalJSON writes "ok" or an object.
func (h Health) MarshalJSON() ([]byte, error) {
	if h.OK() {
		return json.Marshal(ok)
	}
	return json.Marshal(healthJSON(h))
}

// UnmarshalJSON reads what MarshalJSON writes. A device of a peer that says
// nothing of health counts as ok.
func (h *Health) UnmarshalJSON(raw []byte) error {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if word != ok && word != "" {
			return fmt.Errorf("read health: %q is neither %q nor an object", word, ok)
		}
		*h = Health{}
		return nil
	}
	var object healthJSON
	if err := json.Unmarshal(raw, &object); err != nil {
		return fmt.Errorf("read health: %w", err)
	}
	if object.Code == "" {
		return fmt.Errorf("read health: %s has no code", raw)
	}
	*h = Health(object)
	return nil
}
