package nvml

import (
	"encoding/json"
	"fmt"

	"cdui/internal/device"
)

// The ways to ask the driver.
const (
	wayLibrary = "library"
	waySMI     = "nvidia-smi"
)

// answer is one line that the process writes.
type answer struct {
	// Way is how the driver was asked; empty when there is none.
	Way    string          `json:"way"`
	Driver string          `json:"driver,omitempty"`
	Cards  []device.Device `json:"cards"`
	// Error says why there are no cards in this answer.
	Error string `json:"error,omitempty"`
}

// maxAnswer bounds a line: many cards with many processes are far below it.
const maxAnswer = 4 << 20

func decodeAnswer(line []byte) (answer, error) {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return answer{}, fmt.Errorf("read what the driver's reader says: %w", err)
	}
	return a, nil
}
