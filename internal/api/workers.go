package api

import (
	"time"

	"cdui/internal/device"
	"cdui/internal/protocol"
)

// Paths of workers, of their enrollment and of users' tokens.
const (
	PathWorkers           = "/api/workers"
	PathWorker            = "/api/workers/{id}"
	PathWorkerDrain       = "/api/workers/{id}/drain"
	PathWorkerUndrain     = "/api/workers/{id}/undrain"
	PathWorkerRekey       = "/api/workers/{id}/rekey"
	PathWorkerDevice      = "/api/workers/{id}/devices/{device}"
	PathWorkerEnrollments = "/api/workers/enrollments"
	PathWorkerEnroll      = "/api/workers/enroll"
	PathTokens            = "/api/tokens"
	PathToken             = "/api/tokens/{id}"
	// PathWorkerSocket is where agents connect.
	PathWorkerSocket = "/ws/worker"
)

// EnrollmentRequest asks for a one-time token that makes a worker. Name is only
// for the command that the reply shows.
type EnrollmentRequest struct {
	Name string `json:"name,omitempty"`
	// TTLS is how long the token is good, 24 h when left out.
	TTLS *float64 `json:"ttl_s,omitempty"`
}

// EnrollmentReply holds a one-time token; it is shown this once. Command starts
// the agent on the other machine.
type EnrollmentReply struct {
	// Name is the worker's, for the log of actions.
	Name      string    `json:"-"`
	Token     string    `json:"token"`
	Command   string    `json:"command"`
	ExpiresAt time.Time `json:"expires_at"`
}

// EnrollRequest spends a one-time token.
type EnrollRequest struct {
	Token     string `json:"token"`
	Name      string `json:"name"`
	MachineID string `json:"machine_id"`
	Version   string `json:"version"`
}

// EnrollReply is what an agent identifies itself by from then on.
type EnrollReply struct {
	WorkerID    string           `json:"worker_id"`
	Name        string           `json:"name"`
	WorkerToken string           `json:"worker_token"`
	HeartbeatS  protocol.Seconds `json:"heartbeat_s"`
}

// WorkerState is how a worker stands with the control plane.
type WorkerState string

// The states of a worker.
const (
	WorkerOnline WorkerState = "online"
	// WorkerDisconnected: it is away and holds runs that may be resumed.
	WorkerDisconnected WorkerState = "disconnected"
	WorkerOffline      WorkerState = "offline"
	// WorkerRejected: it came and was turned away for the reason given.
	WorkerRejected WorkerState = "rejected"
)

// WorkerList is the reply of GET /api/workers, by name.
type WorkerList struct {
	Workers []Worker `json:"workers"`
}

// Worker is one worker. What was never told is null or empty.
type Worker struct {
	Name     string      `json:"name"`
	Instance string      `json:"instance"`
	State    WorkerState `json:"state"`
	Draining bool        `json:"draining"`
	// DrainOnly: it is of another release, and connected for the runs that it
	// has alone.
	DrainOnly bool `json:"drain_only"`
	// Degraded: its node types differ from the control plane's.
	Degraded     bool                  `json:"degraded"`
	RejectReason string                `json:"reject_reason"`
	Version      string                `json:"version"`
	Platform     *protocol.Platform    `json:"platform"`
	Python       *protocol.Python      `json:"python"`
	Devices      []WorkerDevice        `json:"devices"`
	Mounts       map[string]string     `json:"mounts"`
	Capabilities protocol.Capabilities `json:"capabilities"`
	Catalog      *WorkerCatalog        `json:"catalog"`
	// Runs are the ids of the runs that it holds.
	Runs        []string   `json:"runs"`
	ConnectedAt *time.Time `json:"connected_at"`
	LastSeen    *time.Time `json:"last_seen"`
	// ResumeUntil is when the runs of a disconnected worker are given up.
	ResumeUntil *time.Time `json:"resume_until"`
	ClockSkewMS *int64     `json:"clock_skew_ms"`
	// Via is direct or tunnel.
	Via     string `json:"via"`
	OneShot bool   `json:"one_shot"`
}

// WorkerCatalog compares a worker's node types with the control plane's.
type WorkerCatalog struct {
	Hash         string   `json:"hash"`
	MissingHere  []string `json:"missing_here"`
	MissingThere []string `json:"missing_there"`
}

// WorkerDevice is one device of a worker, with its slots.
type WorkerDevice struct {
	device.Device
	Slots WorkerSlots `json:"slots"`
	Runs  []string    `json:"runs"`
	// SameCard lists the other workers, or local, that offer the same card.
	SameCard []string `json:"same_card"`
	// Shared cards take several runs by their memory: PromisedMiB of it is
	// promised to those that run, RoomMiB can still be.
	Shared      bool  `json:"shared"`
	PromisedMiB int64 `json:"promised_mib"`
	RoomMiB     int64 `json:"room_mib"`
	// Cordon says why the card takes no runs, null when it does.
	Cordon *Problem `json:"cordon"`
	// Strangers is what other people's processes on the card mean: respect,
	// refuse or ignore.
	Strangers string `json:"strangers"`
}

// WorkerSlots is how many runs a worker's device takes and holds. LimitedBy
// names whose limit applies.
type WorkerSlots struct {
	Slots
	LimitedBy string `json:"limited_by"`
}

// Role is what a user's token allows; each includes those before it.
type Role string

// The roles, in rising order.
const (
	RoleRead   Role = "read"
	RoleSubmit Role = "submit"
	RoleAdmin  Role = "admin"
)

// Allows tells whether r may what needs the role need.
func (r Role) Allows(need Role) bool {
	rank := map[Role]int{RoleRead: 1, RoleSubmit: 2, RoleAdmin: 3}
	return rank[r] > 0 && rank[r] >= rank[need]
}

// TokenRequest makes a token for a user.
type TokenRequest struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// TokenReply holds a user's token; it is shown this once.
type TokenReply struct {
	Name  string `json:"name"`
	Role  Role   `json:"role"`
	Token string `json:"token"`
}

// TokenList is the reply of GET /api/tokens, by name.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// Token is a user's token as it is listed: without the secret.
type Token struct {
	Name      string     `json:"name"`
	Role      Role       `json:"role"`
	CreatedAt time.Time  `json:"created_at"`
	LastUsed  *time.Time `json:"last_used"`
}

// DevicePolicyChange changes what is given of a device's policy.
type DevicePolicyChange struct {
	// Cap is how many runs it takes, 0 for the setting's.
	Cap *int `json:"cap,omitempty"`
	// Shared lets runs share a worker's card by their memory.
	Shared *bool `json:"shared,omitempty"`
	// Cordoned keeps runs away; Reason says why.
	Cordoned *bool   `json:"cordoned,omitempty"`
	Reason   *string `json:"reason,omitempty"`
	// Strangers is respect, refuse or ignore; empty for the default.
	Strangers *string `json:"strangers,omitempty"`
}

// DevicePolicy is what people decided of a device.
type DevicePolicy struct {
	Worker    string `json:"worker"`
	Device    string `json:"device"`
	Cap       int    `json:"cap"`
	Shared    bool   `json:"shared"`
	Cordoned  bool   `json:"cordoned"`
	Reason    string `json:"reason"`
	Strangers string `json:"strangers"`
}
