package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"cdui/internal/jsonscan"
)

// ErrTooLarge is wrapped by the error of a frame beyond MaxMessageBytes.
var ErrTooLarge = errors.New("frame too large")

// Encode gives the bytes of a frame: its envelope first, then its fields. What
// is longer than MaxFrameBytes must be Split. Records are copied byte for byte.
func Encode(epoch uint64, f Frame) ([]byte, error) {
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.FrameType(), err)
	}
	b := appendHead(nil, f.FrameType(), epoch)
	var err error
	switch f := f.(type) {
	case *Frames:
		b, err = appendFrames(b, f)
	case *SingleRecord:
		b, err = appendSingle(b, f)
	default:
		b, err = appendFields(b, f)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.FrameType(), err)
	}
	if len(b) > MaxMessageBytes {
		return nil, fmt.Errorf("%w: %s of %d bytes, the limit is %d", ErrTooLarge, f.FrameType(), len(b), MaxMessageBytes)
	}
	return b, nil
}

const (
	headType  = `{"type":"`
	headEpoch = `","epoch":`
)

func appendHead(b []byte, t FrameType, epoch uint64) []byte {
	b = append(b, headType...)
	b = append(b, t...)
	b = append(b, headEpoch...)
	return strconv.AppendUint(b, epoch, 10)
}

// appendFields adds the members of the object that v marshals to, and closes it.
func appendFields(b []byte, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) == len("{}") {
		return append(b, '}'), nil
	}
	return append(append(b, ','), body[1:]...), nil
}

func appendFrames(b []byte, f *Frames) ([]byte, error) {
	n := len(b) + 16
	for _, r := range f.Runs {
		n += len(r.RunID) + 64
		for _, raw := range r.Records {
			n += len(raw) + 1
		}
	}
	b = append(make([]byte, 0, n), b...)
	b = append(b, `,"runs":[`...)
	for i, r := range f.Runs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendRun(append(b, '{'), r.RunID, r.Attempt)
		b = append(b, `,"records":[`...)
		for j, raw := range r.Records {
			if err := CheckRecord(raw); err != nil {
				return nil, fmt.Errorf("record %d of run %s: %w", j, r.RunID, err)
			}
			if j > 0 {
				b = append(b, ',')
			}
			b = append(b, raw...)
		}
		b = append(b, `]}`...)
	}
	return append(b, `]}`...), nil
}

func appendSingle(b []byte, s *SingleRecord) ([]byte, error) {
	if err := CheckRecord(s.Record); err != nil {
		return nil, fmt.Errorf("record %d of run %s: %w", s.Seq, s.RunID, err)
	}
	b = appendRun(append(b, ','), s.RunID, s.Attempt)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, s.Seq, 10)
	b = append(b, `,"record":`...)
	return append(append(b, s.Record...), '}'), nil
}

// appendRun relies on checkRun: a run id has nothing to escape.
func appendRun(b []byte, runID string, attempt int) []byte {
	b = append(b, `"run_id":"`...)
	b = append(b, runID...)
	b = append(b, `","attempt":`...)
	return strconv.AppendInt(b, int64(attempt), 10)
}

// CheckRecord tells whether a record can travel: one JSON object of valid
// UTF-8 within MaxRecordBytes. One that can't must be left out of its frame,
// or it would keep back the others for ever.
func CheckRecord(raw json.RawMessage) error {
	switch {
	case len(raw) > MaxRecordBytes:
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrBadRecord, len(raw), MaxRecordBytes)
	case !utf8.Valid(raw):
		return fmt.Errorf("%w: not UTF-8", ErrBadRecord)
	case checkObject(raw) != nil || !jsonscan.Valid(raw):
		return fmt.Errorf("%w: no JSON object", ErrBadRecord)
	}
	return nil
}

// checkObject looks at the first byte alone; the decoder has read the rest.
func checkObject(raw json.RawMessage) error {
	if len(raw) == 0 || raw[0] != '{' {
		return ErrBadRecord
	}
	return nil
}

// DecodeFromAgent reads a frame that an agent sent, whose records alias raw.
// Unknown fields are ignored; a frame of an unknown type is an *Unknown. An error wraps
// ErrBadFrame: the session is closed with CloseBadFrame.
func DecodeFromAgent(raw []byte) (Envelope, error) {
	return decode(raw, agentFrame)
}

// DecodeFromServer is DecodeFromAgent for what the control plane sent.
func DecodeFromServer(raw []byte) (Envelope, error) {
	return decode(raw, serverFrame)
}

func decode(raw []byte, blank func(FrameType) Frame) (Envelope, error) {
	if len(raw) > MaxMessageBytes {
		return Envelope{}, badFrame("%d bytes, the limit is %d", len(raw), MaxMessageBytes)
	}
	t, epoch, err := head(raw)
	if err != nil {
		return Envelope{}, err
	}
	f := blank(t)
	if f == nil {
		return Envelope{epoch, &Unknown{Type: t}}, nil
	}
	if err := unmarshal(raw, f); err != nil {
		if h := foreignHello(t, raw); h != nil {
			return Envelope{epoch, h}, nil
		}
		return Envelope{}, fmt.Errorf("%w: %s: %w", ErrBadFrame, t, err)
	}
	if err := f.check(); err != nil {
		return Envelope{}, fmt.Errorf("%s: %w", t, err)
	}
	return Envelope{epoch, f}, nil
}

func unmarshal(raw []byte, f Frame) error {
	if f, ok := f.(*Frames); ok {
		if scanFrames(raw, f) {
			return nil
		}
		*f = Frames{}
	}
	return json.Unmarshal(raw, f)
}

// foreignHello reads a hello that this release can't, as far as its rejection
// needs it: another protocol version may have changed any field but these.
func foreignHello(t FrameType, raw []byte) *Hello {
	var h struct {
		Name     string `json:"name"`
		Version  string `json:"version"`
		Protocol int    `json:"protocol_version"`
	}
	if t != TypeHello || json.Unmarshal(raw, &h) != nil || h.Protocol == Version || h.Protocol == 0 {
		return nil
	}
	hello := &Hello{Name: h.Name, Version: h.Version, Protocol: h.Protocol}
	if hello.check() != nil {
		return nil
	}
	return hello
}

// maxType bounds the type of a frame, which ends up in a warning.
const maxType = 64

// head reads a frame's envelope. Frames of this package begin with it, which
// saves parsing them twice.
func head(raw []byte) (FrameType, uint64, error) {
	if t, epoch, ok := fastHead(raw); ok {
		return t, epoch, nil
	}
	var h struct {
		Type  FrameType `json:"type"`
		Epoch uint64    `json:"epoch"`
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return "", 0, fmt.Errorf("%w: %w", ErrBadFrame, err)
	}
	if h.Type == "" || len(h.Type) > maxType {
		return "", 0, badFrame("no type")
	}
	return h.Type, h.Epoch, nil
}

func fastHead(raw []byte) (FrameType, uint64, bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(headType))
	if !ok {
		return "", 0, false
	}
	n := 0
	for n < len(rest) && n < maxType && (rest[n] >= 'a' && rest[n] <= 'z' || rest[n] == '_') {
		n++
	}
	t := FrameType(rest[:n])
	rest, ok = bytes.CutPrefix(rest[n:], []byte(headEpoch))
	if !ok || n == 0 {
		return "", 0, false
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	if digits == len(rest) || rest[digits] != ',' && rest[digits] != '}' {
		return "", 0, false
	}
	epoch, err := strconv.ParseUint(string(rest[:digits]), 10, 64)
	return t, epoch, err == nil
}

// agentFrame gives an empty frame of a type that agents send, nil for others.
func agentFrame(t FrameType) Frame {
	switch t {
	case TypeHello:
		return &Hello{}
	case TypeHeartbeat:
		return &Heartbeat{}
	case TypeRunAlive:
		return &RunAlive{}
	case TypeFrames:
		return &Frames{}
	case TypeCatalogChanged:
		return &CatalogChanged{}
	case TypeOutputAnswer:
		return &OutputAnswer{}
	case TypeLogChunk:
		return &LogChunk{}
	case TypePart:
		return &Part{}
	default:
		if r := RecordType(t); knownRecord(r) {
			return &SingleRecord{Type: r}
		}
		return nil
	}
}

// serverFrame gives an empty frame of a type that the control plane sends,
// with what a missing field means.
func serverFrame(t FrameType) Frame {
	switch t {
	case TypeWelcome:
		return &Welcome{HeartbeatS: SecondsOf(DefaultHeartbeat), GraceS: SecondsOf(DefaultGrace)}
	case TypeReject:
		return &Reject{}
	case TypeAssign:
		return &Assign{GraceS: SecondsOf(DefaultGrace)}
	case TypeCancel:
		return &Cancel{}
	case TypeDrain:
		return &Drain{On: true}
	case TypeAck:
		return &Ack{}
	case TypeCredit:
		return &Credit{}
	case TypeCredentials:
		return &Credentials{}
	case TypeFetchOutput:
		return &FetchOutput{}
	case TypeCancelFetch:
		return &CancelFetch{}
	case TypeDropOutputs:
		return &DropOutputs{}
	case TypeFetchLog:
		return &FetchLog{}
	case TypePart:
		return &Part{}
	default:
		return nil
	}
}

func knownRecord(t RecordType) bool {
	switch t {
	case RunStarted, Event, Metrics, Artifact, Warning, RunFacts, RunFinished:
		return true
	}
	return false
}
