package protocol

import "time"

// What a connection may carry.
const (
	// MaxFrameBytes bounds one WebSocket message: both ends set it as their
	// read limit. A longer frame travels as parts.
	MaxFrameBytes = 8 << 20
	// MaxMessageBytes bounds a frame that was put together from parts.
	MaxMessageBytes = 80 << 20
	// PartBytes is how much of a frame one part carries: little, so that a
	// heartbeat, a cancel or an ack between two parts doesn't wait.
	PartBytes = 1 << 20
	// BatchBytes is where a sender closes a frames frame, for the same reason.
	// A single record may be longer.
	BatchBytes = 256 << 10
)

// What one run may have on the way: records sent and not yet acknowledged. A
// record over CreditBytes travels when nothing else of its run does.
const (
	CreditRecords = 1024
	CreditBytes   = 4 << 20
)

// What one log request may have on the way, and what one chunk holds.
const (
	LogCreditBytes = 1 << 20
	LogChunkBytes  = 128 << 10
)

// The clock of a connection.
const (
	// HelloTimeout is how long the control plane waits for the first frame.
	HelloTimeout = 10 * time.Second
	// DefaultHeartbeat is welcome.heartbeat_s unless a test or a setting says
	// otherwise; a worker is disconnected after MissedHeartbeats of them in
	// which no frame came.
	DefaultHeartbeat = 10 * time.Second
	MissedHeartbeats = 3
	// The control plane acknowledges at the latest after so many records of a
	// run, or so long after the first of them.
	AckRecords = 64
	AckEvery   = time.Second
	// DefaultGrace is how long a cancelled child may take.
	DefaultGrace = 30 * time.Second
	// PingTimeout is how long an existing connection has to answer when another
	// process claims its name.
	PingTimeout = 2 * time.Second
)

// MaxClockSkew is where the difference of the clocks is worth a warning.
const MaxClockSkew = 30 * time.Second

// The close codes of /ws/worker beside those of WebSocket itself.
const (
	// CloseForbidden: Host or Origin is not allowed.
	CloseForbidden = 4003
	// CloseBadFrame: the peer sent something that is no frame.
	CloseBadFrame = 4400
	// CloseUnauthorized: no authoriser takes the credential, or not any more.
	CloseUnauthorized = 4401
	// CloseRejected follows a reject frame.
	CloseRejected = 4403
	// CloseNoHello: the first frame did not come in time.
	CloseNoHello = 4408
	// CloseReplaced: another connection of this worker took over.
	CloseReplaced = 4409
	// CloseTooSlow: what had to be sent did not fit into the outbox any more.
	CloseTooSlow = 4429
)

// Refused tells whether a close code means that this worker isn't wanted, so
// that trying again changes nothing until somebody mends it: its runs get the
// resume grace and are stopped then.
func Refused(closeCode int) bool {
	switch closeCode {
	case CloseForbidden, CloseUnauthorized, CloseRejected:
		return true
	}
	return false
}

// Seconds is a duration on the wire.
type Seconds float64

// maxSeconds is longer than anything runs, and fits into a time.Duration.
const maxSeconds = 1e9

// SecondsOf converts d.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration converts s; what is negative is 0, and nothing overflows.
func (s Seconds) Duration() time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(float64(min(s, maxSeconds)) * float64(time.Second))
}
