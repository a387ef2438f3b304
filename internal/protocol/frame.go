package protocol

import (
	"errors"
	"fmt"
)

// Version is the protocol version of hello and welcome. It rises only for a
// change that the other side would misread; what can be left out by a peer
// that doesn't know it is a Capability instead.
const Version = 3

// FrameType is a frame's "type".
type FrameType string

// The frames that an agent sends. A record that travels alone has the record's
// own type (SingleRecord).
const (
	TypeHello          FrameType = "hello"
	TypeHeartbeat      FrameType = "heartbeat"
	TypeRunAlive       FrameType = "run_alive"
	TypeFrames         FrameType = "frames"
	TypeCatalogChanged FrameType = "catalog_changed"
	TypeOutputAnswer   FrameType = "output_answer"
	TypeLogChunk       FrameType = "log_chunk"
)

// TypePart is the one frame that both sides send.
const TypePart FrameType = "part"

// The frames that the control plane sends.
const (
	TypeWelcome     FrameType = "welcome"
	TypeReject      FrameType = "reject"
	TypeAssign      FrameType = "assign"
	TypeCancel      FrameType = "cancel"
	TypeDrain       FrameType = "drain"
	TypeAck         FrameType = "ack"
	TypeCredit      FrameType = "credit"
	TypeCredentials FrameType = "credentials"
	TypeFetchOutput FrameType = "fetch_output"
	TypeCancelFetch FrameType = "cancel_fetch"
	TypeDropOutputs FrameType = "drop_outputs"
	TypeFetchLog    FrameType = "fetch_log"
)

// ErrBadFrame is wrapped by the error of a frame that says what no frame may.
var ErrBadFrame = errors.New("bad frame")

// Frame is the body of one frame; only this package has any. Decoded ones are
// pointers, so that a type switch reads `case *protocol.Hello`.
type Frame interface {
	FrameType() FrameType
	// check refuses what no peer may send, in either direction.
	check() error
}

// Envelope is a frame as it travels. Epoch numbers the sessions of one worker:
// the welcome brings it, both sides put it on everything they send after it,
// and what bears another session's number is dropped. It is on the envelope
// only, never stored. Hello and reject have 0.
type Envelope struct {
	Epoch uint64
	Frame Frame
}

// Unknown stands for a frame of a type that this release doesn't know. Callers
// skip it, with one warning for each type.
type Unknown struct {
	Type FrameType
}

// FrameType implements Frame.
func (u *Unknown) FrameType() FrameType { return u.Type }

func (u *Unknown) check() error { return badFrame("%q is no frame of this release", u.Type) }

func badFrame(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadFrame, fmt.Sprintf(format, args...))
}

// checkRun holds what names a run to what may name a folder.
func checkRun(runID string, attempt int) error {
	if !validRunID(runID) {
		return badFrame("%.80q is no run id", runID)
	}
	if attempt < 1 {
		return badFrame("run %s has no attempt", runID)
	}
	return nil
}

const maxRunID = 64

// validRunID: a run id becomes a folder's name on the worker.
func validRunID(id string) bool {
	if len(id) == 0 || len(id) > maxRunID {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '-' || c == '_'):
		default:
			return false
		}
	}
	return true
}

// maxID bounds request ids, names, versions and other words that the receiver
// keeps in memory.
const maxID = 256

func checkWords(words ...string) error {
	for _, w := range words {
		if len(w) > maxID {
			return badFrame("%.40q… has %d bytes, the limit is %d", w, len(w), maxID)
		}
	}
	return nil
}

func checkRequest(id string) error {
	if id == "" {
		return badFrame("no request_id")
	}
	return checkWords(id)
}
