package run

import (
	"encoding/json"
	"math"
	"strconv"
)

// Last is the last value of a series; Nonfinite names one that JSON can't hold,
// whose Value is null.
type Last struct {
	Value     json.RawMessage `json:"value"`
	Nonfinite string          `json:"nonfinite,omitempty"`
}

// Float gives the value as a number; false where there is none.
func (l *Last) Float() (float64, bool) {
	if l == nil {
		return 0, false
	}
	switch l.Nonfinite {
	case "inf":
		return math.Inf(1), true
	case "-inf":
		return math.Inf(-1), true
	case "nan":
		return math.NaN(), true
	}
	f, err := strconv.ParseFloat(string(l.Value), 64)
	return f, err == nil
}
