package protocol

// Problem says why something happened, for programs and for people. It is what
// params.reason of a coded warning holds.
type Problem struct {
	Code   string         `json:"code"`
	Text   string         `json:"text"`
	Params map[string]any `json:"params,omitempty"`
}

// Why a hello is rejected.
const (
	RejectBadHello         = "bad_hello"         // the first frame is no hello
	RejectBadName          = "bad_name"          // no legal worker name
	RejectReservedName     = "reserved_name"     // local or any
	RejectWrongName        = "wrong_name"        // the token belongs to another worker
	RejectNameTaken        = "name_taken"        // the name was authenticated otherwise
	RejectDuplicateAgent   = "duplicate_agent"   // another process of this worker is connected and answers
	RejectProtocolMismatch = "protocol_mismatch" // another protocol version
	RejectVersionMismatch  = "version_mismatch"  // another release, and no run to finish
	RejectOneShot          = "one_shot_refused"  // a one-shot agent that isn't expected
)

// The code of a run_finished by which an agent refuses an assignment.
const (
	RefuseDeviceNotOffered = "device_not_offered"  // a device that it does not offer
	RefuseAlreadyRunning   = "already_running"     // another attempt of the run still executes there
	RefuseDraining         = "worker_is_draining"  // it takes nothing at present
	RefuseNoInterpreter    = "no_such_interpreter" // no Python for a run that needs one
	RefuseNoTorch          = "torch_missing"       // no torch for a run that needs it
	RefuseUnsupported      = "unsupported"         // a kind or a backend that it doesn't know
	RefuseStartFailed      = "start_failed"        // the shim could not be started
)

// The codes of warnings and errors of runs on workers.
const (
	CodeWorkerDisconnected     = "worker_disconnected"
	CodeWorkerReconnected      = "worker_reconnected"
	CodeWorkerGone             = "worker_gone"
	CodeWorkerNotConnected     = "worker_not_connected"
	CodeWorkerUnreachable      = "worker_unreachable"
	CodeWorkerTransferFailed   = "worker_transfer_failed"
	CodeWorkerRemoved          = "worker_removed"
	CodeWorkerAdopted          = "worker_adopted"
	CodeWorkerLostAfterRestart = "worker_lost_after_restart"
	CodeWorkerS3Failed         = "worker_s3_transfer_failed"
	CodeWorkerStorageFallback  = "worker_storage_fallback"
)

// The codes of the cause behind one of those (Problem in params.reason).
const (
	CauseConnectionClosed        = "connection_closed"
	CauseNoHeartbeat             = "no_heartbeat" // params: seconds
	CauseNoReconnect             = "no_reconnect" // params: seconds
	CauseNoReconnectAfterRestart = "no_reconnect_after_restart"
	CauseNotListed               = "not_listed" // run_alive did not name the run
	CauseRemoved                 = "removed"
	CauseRekeyed                 = "rekeyed"
	CauseReplaced                = "replaced"
	CauseSupervisorLost          = "supervisor_lost" // the shim is gone without a word
	CauseMachineRestarted        = "machine_restarted"
)

// The codes of a log_chunk's problem.
const (
	LogNotFound   = "not_found"
	LogUnreadable = "unreadable"
)
