package protocol

import (
	"encoding/json"
	"fmt"
	"strconv"

	"cdui/internal/jsonscan"
)

// Records are most of what a control plane reads. In the form in which this
// package writes them, they and the frames around them are read in one pass,
// and what they carry aliases what came. Any other form is left to
// encoding/json, which understands the same things.

// Decode gives the records in order. What is no record is left out and told to
// bad.
func (r *RunRecords) Decode(bad func(error)) []Record {
	out := r.read
	if len(out) != len(r.Records) {
		out = make([]Record, len(r.Records))
	}
	n := 0
	for i := range out {
		if out[i].Raw == nil {
			rec, err := DecodeRecord(r.Records[i])
			if err != nil {
				bad(err)
				continue
			}
			out[i] = rec
		}
		if n != i {
			out[n] = out[i]
		}
		n++
	}
	return out[:n]
}

// scanFrames reads a frames frame; false when it is written in another form, or
// badly.
func scanFrames(raw []byte, f *Frames) bool {
	s := jsonscan.New(raw)
	for ok := s.Enter('{'); ok && s.More('}'); {
		switch string(s.Name()) {
		case "type", "epoch":
			s.Value()
		case "runs":
			if f.Runs != nil || s.Kind() != '[' {
				return false
			}
			f.Runs = []RunRecords{}
			for ok := s.Enter('['); ok && s.More(']'); {
				f.Runs = append(f.Runs, RunRecords{})
				if !scanRun(&s, &f.Runs[len(f.Runs)-1]) {
					return false
				}
			}
		default:
			return false
		}
	}
	return s.End()
}

func scanRun(s *jsonscan.Scanner, r *RunRecords) bool {
	for ok := s.Enter('{'); ok && s.More('}'); {
		switch string(s.Name()) {
		case "run_id":
			id, ok := text(s.Value())
			if !ok {
				return false
			}
			r.RunID = string(id)
		case "attempt":
			n, err := strconv.Atoi(string(s.Value()))
			if err != nil {
				return false
			}
			r.Attempt = n
		case "records":
			if r.Records != nil || s.Kind() != '[' {
				return false
			}
			scanRecords(s, r)
		default:
			return false
		}
	}
	return !s.Failed()
}

// usualRecords is how many records a run has in a frame at most, as a rule.
const usualRecords = 64

func scanRecords(s *jsonscan.Scanner, r *RunRecords) {
	r.Records, r.read = make([]json.RawMessage, 0, usualRecords), make([]Record, 0, usualRecords)
	for ok := s.Enter('['); ok && s.More(']'); {
		r.read = append(r.read, Record{})
		rec := &r.read[len(r.read)-1]
		before := *s
		raw, ok := scanRecord(s, rec)
		if !ok {
			// It may be a record none the less, which Decode finds out.
			*s, *rec = before, Record{}
			raw = s.Value()
		}
		r.Records = append(r.Records, raw)
	}
}

// scanRecord reads one record and gives its bytes; false when it is written in
// another form, or badly.
func scanRecord(s *jsonscan.Scanner, r *Record) (raw []byte, ok bool) {
	if s.Kind() != '{' {
		return nil, false
	}
	start := s.Pos()
	for ok := s.Enter('{'); ok && s.More('}'); {
		name := s.Name()
		value := s.Value()
		if value == nil || !r.take(name, value) {
			return nil, false
		}
	}
	if s.Failed() {
		return nil, false
	}
	raw = s.Since(start)
	if len(raw) > MaxRecordBytes || r.complete() != nil {
		return nil, false
	}
	r.Raw = raw
	return raw, true
}

// take sets the field of a member; false when that is not plain to see.
func (r *Record) take(name, value []byte) bool {
	ok := true
	switch string(name) {
	case "seq":
		seq, err := strconv.ParseUint(string(value), 10, 64)
		r.Seq, ok = seq, err == nil
	case "type":
		var t []byte
		if t, ok = text(value); ok {
			r.Type = recordType(t)
		}
	case "ts":
		ok = r.TS.UnmarshalJSON(value) == nil
	case "event":
		ok = setText(&r.Event, value)
	case "payload":
		r.Payload = value
	case "points":
		r.Points = value
	case "kind":
		ok = setText(&r.Kind, value)
	case "path":
		ok = setText(&r.Path, value)
	case "meta":
		r.Meta = value
	case "node_id":
		ok = setText(&r.NodeID, value)
	case "facts":
		r.Facts = value
	case "started":
		ok = json.Unmarshal(value, &r.Started) == nil
	case "finished":
		ok = json.Unmarshal(value, &r.Finished) == nil
	default:
		ok = false
	}
	return ok
}

// recordType spares the known types an allocation.
func recordType(t []byte) RecordType {
	switch string(t) {
	case string(Event):
		return Event
	case string(Metrics):
		return Metrics
	}
	return RecordType(t)
}

func setText(to *string, value []byte) bool {
	t, ok := text(value)
	if ok && *to != string(t) {
		*to = string(t)
	}
	return ok
}

// text gives what stands between the quotes of a string, when that is the
// string itself.
func text(value []byte) ([]byte, bool) {
	if _, plain := jsonscan.Check(value); !plain || value[0] != '"' {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// complete tells whether a record has what each record and its type must have.
func (r *Record) complete() error {
	if r.Seq == 0 || r.Type == "" {
		return fmt.Errorf("%w: seq and type are required", ErrBadRecord)
	}
	if r.Type == RunStarted && r.Started == nil || r.Type == RunFinished && r.Finished == nil {
		return fmt.Errorf("%w: %s without its body", ErrBadRecord, r.Type)
	}
	return nil
}

// DecodeRecord reads one record and keeps its bytes in Raw; it aliases b.
// Unknown fields are ignored; an unknown type is not an error, since the next
// release may add one: callers skip what they don't know.
func DecodeRecord(b []byte) (Record, error) {
	var r Record
	if len(b) > MaxRecordBytes {
		return r, fmt.Errorf("%w: %d bytes, the limit is %d", ErrBadRecord, len(b), MaxRecordBytes)
	}
	s := jsonscan.New(b)
	if _, ok := scanRecord(&s, &r); !ok || !s.End() {
		r = Record{}
		if err := json.Unmarshal(b, &r); err != nil {
			return Record{}, fmt.Errorf("%w: %w", ErrBadRecord, err)
		}
		if err := r.complete(); err != nil {
			return Record{}, err
		}
	}
	r.Raw = b
	return r, nil
}
