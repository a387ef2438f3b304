package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"cdui/internal/run"
)

// logKind is one of the two append-only logs.
type logKind int

const (
	eventLog logKind = iota
	metricLog
	logKinds
)

func (k logKind) String() string {
	if k == eventLog {
		return "events"
	}
	return "metrics"
}

// rows and chunks name the tables of the log.
func (k logKind) rows() string {
	if k == eventLog {
		return "exec_run_events"
	}
	return "exec_run_metrics"
}

func (k logKind) chunks() string {
	if k == eventLog {
		return "exec_run_event_chunks"
	}
	return "exec_run_metric_chunks"
}

// lag is how many rows an open tail may lie behind the log's end before it is
// written out as a short chunk. Open reads up to three times as many rows.
func (k logKind) lag() int64 {
	if k == eventLog {
		return 1 << 16
	}
	return 1 << 13
}

// tail is the part of a run's log that stands in no chunk yet.
type tail struct {
	// first is the position of ids[0], or of the next row when there is none.
	first int64
	// ids are the rows' ids. Copies of a tail share the array: whoever appends
	// writes beyond the length that others see.
	ids []int64
}

// next is the position of the row to come; positions start at 1.
func (t tail) next() int64 { return t.first + int64(len(t.ids)) }

// recorded is a place in a run's spool.
type recorded struct {
	attempt int
	seq     uint64
}

func (r recorded) max(o recorded) recorded {
	if o.attempt > r.attempt || o.attempt == r.attempt && o.seq > r.seq {
		return o
	}
	return r
}

// runLog is what the writer must know of a run without asking the database.
// The writer changes a copy and publishes it after the commit.
type runLog struct {
	ref      int64
	id       string
	status   run.Status
	attempt  int
	recorded recorded
	tails    [logKinds]tail
	// finals is shared by all copies and changed only when one is published,
	// under Store.mu; pending is what this copy adds to it.
	finals  finals
	pending []point
}

func (l *runLog) edit() *runLog {
	c := *l
	return &c
}

// finals is the last finite value of each series.
type finals map[string]json.RawMessage

func (f finals) add(points []point) {
	for _, p := range points {
		if bytes.IndexByte(p.name, '\\') < 0 {
			// The common case costs no allocation.
			value, ok := f[string(p.name[1:len(p.name)-1])]
			if ok && len(value) == len(p.value) {
				copy(value, p.value)
				continue
			}
		}
		f[seriesName(p.name)] = append(json.RawMessage(nil), p.value...)
	}
}

func (f finals) clone() finals {
	c := make(finals, len(f))
	for name, value := range f {
		c[name] = append(json.RawMessage(nil), value...)
	}
	return c
}

// encode gives f with points added as a JSON object, f itself unchanged.
func (f finals) encode(points []point) (string, error) {
	c := f
	if len(points) > 0 {
		c = f.clone()
		c.add(points)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode final metrics: %w", err)
	}
	return string(b), nil
}

func decodeFinals(text string) (finals, error) {
	f := finals{}
	if text == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return nil, fmt.Errorf("%w: final metrics: %w", ErrDamaged, err)
	}
	return f, nil
}
