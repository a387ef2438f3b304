package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cdui/internal/protocol"
)

// Version is the version of the folder's documents and of the socket.
const Version = 1

// The operations that a host sends.
const (
	OpAssign = "assign"
	OpCancel = "cancel"
	OpAck    = "ack"
	// OpStop ends a shim that has no assignment yet.
	OpStop = "stop"
	// OpWarm makes the shim a spare: it starts the child ahead of its run.
	OpWarm = "warm"
)

// CodeReplaced tells a host that a newer one has taken its place.
const CodeReplaced = "replaced"

// CodeSpareOver tells the host of a spare that it ends, and why.
const CodeSpareOver = "spare_over"

// The operations that a shim sends.
const (
	OpHello    = "hello"
	OpAssigned = "assigned"
	OpAppended = "appended"
	OpStopping = "stopping"
	OpRefused  = "refused"
	// OpReady tells that a spare can serve, OpImported what a run's main process
	// has imported of what is worth a spare.
	OpReady    = "ready"
	OpImported = "imported"
)

// Message is one line of the socket, in either direction. Only the fields of
// its operation are set.
type Message struct {
	Op string `json:"op"`

	// assign, warm. Dir is where the folder of a spare lies from its assignment
	// on.
	Assignment *protocol.Assignment `json:"assignment,omitempty"`
	Dir        string               `json:"dir,omitempty"`

	// ready, imported: top-level Python modules. Paths are the files and folders
	// that the interpreter looks for modules in, with their times of change in
	// nanoseconds.
	Modules []string         `json:"modules,omitempty"`
	Paths   map[string]int64 `json:"paths,omitempty"`

	// cancel
	GraceMS int64 `json:"grace_ms,omitempty"`
	Force   bool  `json:"force,omitempty"`

	// ack, hello, appended: the last record. Console is the console's size.
	Seq     uint64 `json:"seq,omitempty"`
	Console int64  `json:"console,omitempty"`

	// hello
	V         int    `json:"v,omitempty"`
	RunID     string `json:"run_id,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	PID       int    `json:"pid,omitempty"`
	State     State  `json:"state,omitempty"`
	Isolation string `json:"isolation,omitempty"`

	// stopping: when the run will be killed, and why it stops.
	Deadline *time.Time `json:"deadline,omitempty"`
	Reason   string     `json:"reason,omitempty"`

	// refused
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}

// MaxMessageBytes bounds one line; an assignment with a large environment and
// a large graph fits.
const MaxMessageBytes = 128 << 20

// Encode marshals m with its newline.
func Encode(m Message) ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s message: %w", m.Op, err)
	}
	return append(b, '\n'), nil
}

// Read reads one message.
func Read(br *bufio.Reader) (Message, error) {
	var m Message
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > MaxMessageBytes {
			return m, fmt.Errorf("read message: longer than %d bytes", MaxMessageBytes)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return m, err
		}
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("read message: %w", err)
	}
	return m, nil
}
