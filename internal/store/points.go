package store

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strconv"

	"cdui/internal/jsonscan"
)

// point is one value of one series. Both fields point into the flush that they
// were read from, as JSON; name is a string with its quotes.
type point struct {
	name, value []byte
}

// points yields the points of a flush, in one pass: every stored flush comes
// through here. A flush that isn't an array of objects yields nothing, or what
// comes before the fault.
func points(flush json.RawMessage) iter.Seq[point] {
	return func(yield func(point) bool) {
		s := jsonscan.New(flush)
		for ok := s.Enter('['); ok && s.More(']'); {
			var p point
			for ok := s.Enter('{'); ok && s.More('}'); {
				switch name, value := s.Name(), s.Value(); string(name) {
				case "name":
					p.name = value
				case "value":
					p.value = value
				}
			}
			if s.Failed() || len(p.name) > 0 && p.name[0] == '"' && !yield(p) {
				return
			}
		}
	}
}

// searchedSeries bounds how many series addPoints looks through for one.
const searchedSeries = 64

// addPoints adds the finite values of a flush to list. The last value of a
// series is the one that counts, so that earlier ones give way to it: a list
// stays as short as a run has series, within what a search is worth.
func addPoints(list []point, flush json.RawMessage) []point {
	for p := range points(flush) {
		if !finite(p.value) {
			continue
		}
		i := slices.IndexFunc(list[:min(len(list), searchedSeries)], func(q point) bool {
			return bytes.Equal(p.name, q.name)
		})
		if i < 0 || len(list) > searchedSeries {
			list = append(list, p)
		} else {
			list[i] = p
		}
	}
	return list
}

// mentions tells whether a flush has a point of the given series.
func mentions(flush json.RawMessage, name string) bool {
	for p := range points(flush) {
		if seriesName(p.name) == name {
			return true
		}
	}
	return false
}

// finite tells whether a value that the scanner gave is a number that a float64
// can hold.
func finite(value []byte) bool {
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return false
	}
	if len(value) < 300 && !bytes.ContainsAny(value, "eE") {
		return true
	}
	f, err := strconv.ParseFloat(string(value), 64)
	return err == nil && !math.IsInf(f, 0)
}

// seriesName unquotes a point's name.
func seriesName(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		var s string
		if json.Unmarshal(quoted, &s) == nil {
			return s
		}
	}
	return string(quoted[1 : len(quoted)-1])
}
