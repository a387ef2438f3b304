package shim

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"cdui/internal/childproto"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/spool"
)

const (
	metricsEvery = 500 * time.Millisecond
	// Beyond thinAbove of the spool's cap only one metric point in thinKeep is
	// kept, so that events still find room.
	thinAbove = 0.75
	thinKeep  = 10
)

// sink numbers what is reported and puts it into the spool. What finds no room
// there is counted, by record type (metrics by point); the run goes on.
type sink struct {
	w       *spool.Writer
	payload int
	nodeID  string
	log     *slog.Logger

	points  []childproto.Point
	oldest  time.Time
	thinned int
	dropped map[string]int64
}

func newSink(w *spool.Writer, a protocol.Assignment, log *slog.Logger) *sink {
	s := &sink{w: w, payload: a.PayloadCap, log: log, dropped: map[string]int64{}}
	if a.Kind != protocol.KindGraph {
		s.nodeID = a.NodeID
	}
	return s
}

// last is the number of the last record in the spool.
func (s *sink) last() uint64 { return s.w.Next() - 1 }

// put appends r. An end record may use the room that is reserved for them.
func (s *sink) put(r protocol.Record, end bool) {
	r.Seq, r.TS = s.w.Next(), time.Now().UTC().Truncate(time.Millisecond)
	b, err := protocol.EncodeRecord(&r)
	if err == nil {
		err = s.w.Append(b, r.Seq, end)
	}
	if err == nil {
		return
	}
	if !errors.Is(err, spool.ErrFull) {
		s.log.Error("record is lost", "type", r.Type, "error", err)
	}
	n := int64(1)
	if r.Type == protocol.Metrics {
		n = int64(len(s.points))
	}
	s.dropped[string(r.Type)] += n
}

func (s *sink) event(name string, payload json.RawMessage, end bool) {
	s.put(protocol.Record{Type: protocol.Event, Event: name, Payload: run.CapPayload(payload, s.payload)}, end)
}

func (s *sink) warn(kind string, detail any, end bool) {
	meta, err := json.Marshal(detail)
	if err != nil {
		s.log.Error("warning is lost", "kind", kind, "error", err)
		return
	}
	s.put(protocol.Record{Type: protocol.Warning, Kind: kind, Meta: meta}, end)
}

// addPoints takes metric points; bad counts those that are none.
func (s *sink) addPoints(points []childproto.Point, now time.Time) (bad int) {
	for _, p := range points {
		p, ok := cleanPoint(p)
		if !ok {
			bad++
			continue
		}
		if p.NodeID == "" {
			p.NodeID = s.nodeID
		}
		if s.w.Fill() > thinAbove {
			if s.thinned++; s.thinned%thinKeep != 0 {
				s.dropped[string(protocol.Metrics)]++
				continue
			}
		}
		if len(s.points) == 0 {
			s.oldest = now
		}
		s.points = append(s.points, p)
		if len(s.points) == protocol.MaxPoints {
			s.flush()
		}
	}
	return bad
}

// due is when the waiting points must be flushed; zero without any.
func (s *sink) due() time.Time {
	if len(s.points) == 0 {
		return time.Time{}
	}
	return s.oldest.Add(metricsEvery)
}

func (s *sink) flush() {
	if len(s.points) == 0 {
		return
	}
	b, err := json.Marshal(s.points)
	if err != nil {
		s.log.Error("metric points are lost", "error", err)
	} else {
		s.put(protocol.Record{Type: protocol.Metrics, Points: b}, false)
	}
	s.points = s.points[:0]
}

// cleanPoint makes sure that a point's value is a number that every reader can
// take, or null with the reason beside it.
func cleanPoint(p childproto.Point) (childproto.Point, bool) {
	if p.Name == "" {
		return p, false
	}
	if n := len(p.Step); n == 0 || p.Step[0] != '-' && (p.Step[0] < '0' || p.Step[0] > '9') {
		p.Step = json.RawMessage("null")
	}
	switch p.Nonfinite {
	case "nan", "inf", "-inf":
		p.Value = json.RawMessage("null")
		return p, true
	case "":
	default:
		return p, false
	}
	text := string(p.Value)
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9'):
		return p, false
	case errors.Is(err, strconv.ErrRange) && math.IsInf(v, 0) && strings.ContainsAny(text, "eE."):
		p.Value, p.Nonfinite = json.RawMessage("null"), "inf"
		if v < 0 {
			p.Nonfinite = "-inf"
		}
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return p, false
	}
	return p, true
}
