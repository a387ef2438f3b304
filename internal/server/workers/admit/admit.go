// Package admit decides what a worker's first frames mean: whom its connection
// speaks for and whether it is let in, and what its list of runs says of those
// that are held as placed there. It is pure: what is known of the worker and of
// its other connection is handed in.
package admit

import (
	"fmt"

	"cdui/internal/protocol"
)

// Way is how a connection was authenticated.
type Way string

// The ways.
const (
	// Session is the control plane's own token, from this machine alone.
	Session Way = "session"
	// Worker is a worker's token, from enrollment.
	Worker Way = "worker"
)

// Identity is what a credential proves.
type Identity struct {
	Way Way
	// Name is the worker that the token belongs to.
	Name string
}

// Standing is what the registry holds of the name that a hello bears.
type Standing struct {
	// Version is the control plane's own release.
	Version string
	// Enrolled: a worker of that name has a token of its own.
	Enrolled bool
	// Runs is how many runs are held as placed there.
	Runs int
	// Live is the worker's present connection, nil for none.
	Live *Live
}

// Live is a connection that a worker has already.
type Live struct {
	Epoch uint64
	Nonce string
	Way   Way
}

// Pinged is the outcome of asking a live connection for a sign of life.
type Pinged struct {
	Epoch    uint64
	Answered bool
}

// Action is what to do with a hello.
type Action string

// The actions.
const (
	// Welcome lets it in; a live connection is closed as replaced.
	Welcome Action = "welcome"
	// Ping asks the live connection first.
	Ping Action = "ping"
	// Reject turns it away.
	Reject Action = "reject"
)

// Verdict is the decision on a hello.
type Verdict struct {
	Action Action
	// DrainOnly: it is let in for the runs that it has alone.
	DrainOnly bool
	Reject    *protocol.Reject
}

// Decide says what to do with a hello. pinged is nil before anybody was asked.
func Decide(h *protocol.Hello, id Identity, s Standing, pinged *Pinged) Verdict {
	if r := identity(h, id, s); r != nil {
		return Verdict{Action: Reject, Reject: r}
	}
	drainOnly := false
	switch {
	case h.Protocol != protocol.Version:
		return reject(protocol.RejectProtocolMismatch, map[string]any{"worker": h.Protocol, "server": protocol.Version},
			"this worker speaks protocol %d (cdui %s), the control plane %d (cdui %s)", h.Protocol, h.Version, protocol.Version, s.Version)
	case h.Version != s.Version && s.Runs == 0 && h.HeldRuns == 0:
		return reject(protocol.RejectVersionMismatch, map[string]any{"worker": h.Version, "server": s.Version},
			"this worker runs cdui %s, the control plane %s; install %s on %s", h.Version, s.Version, s.Version, h.Name)
	case h.Version != s.Version:
		drainOnly = true
	case h.OneShot || h.Instance != "" || h.InstanceID != "":
		return reject(protocol.RejectOneShot, nil, "this control plane expects no one-shot worker %s", h.RegisteredName())
	}
	if l := s.Live; l != nil && l.Nonce != h.Nonce {
		switch {
		case pinged == nil || pinged.Epoch != l.Epoch:
			return Verdict{Action: Ping}
		case pinged.Answered:
			return reject(protocol.RejectDuplicateAgent, map[string]any{"worker": h.Name},
				"another agent is connected as %s and answers; if this is a copy of its folder, enroll this one under a name of its own", h.Name)
		}
	}
	return Verdict{Action: Welcome, DrainOnly: drainOnly}
}

// identity refuses a name that the connection has no right to.
func identity(h *protocol.Hello, id Identity, s Standing) *protocol.Reject {
	name := h.RegisteredName()
	if err := protocol.ValidRegisteredName(name); err != nil {
		code := protocol.RejectBadName
		if h.Name == protocol.NameAny || h.Name == protocol.NameLocal {
			code = protocol.RejectReservedName
		}
		return &protocol.Reject{Code: code, Reason: err.Error()}
	}
	switch {
	case id.Way == Worker && id.Name != h.Name:
		return &protocol.Reject{
			Code: protocol.RejectWrongName, Params: map[string]any{"worker": id.Name},
			Reason: fmt.Sprintf("this token belongs to the worker %s, not to %s", id.Name, h.Name),
		}
	case id.Way == Session && s.Enrolled:
		return &protocol.Reject{
			Code: protocol.RejectNameTaken, Params: map[string]any{"worker": h.Name},
			Reason: fmt.Sprintf("%s is an enrolled worker with a token of its own; start this agent with another --name, or enroll it", h.Name),
		}
	case s.Live != nil && s.Live.Way != id.Way:
		return &protocol.Reject{
			Code: protocol.RejectNameTaken, Params: map[string]any{"worker": h.Name},
			Reason: fmt.Sprintf("%s is connected with another kind of token; stop that agent, or take another name", h.Name),
		}
	}
	return nil
}

func reject(code string, params map[string]any, format string, args ...any) Verdict {
	return Verdict{Action: Reject, Reject: &protocol.Reject{Code: code, Reason: fmt.Sprintf(format, args...), Params: params}}
}
