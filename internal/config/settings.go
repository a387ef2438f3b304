package config

import "cdui/internal/version"

// Kind says how a setting's text is read.
type Kind string

// The kinds of setting.
const (
	Text    Kind = "text"
	Path    Kind = "path"
	Number  Kind = "number"
	Bytes   Kind = "bytes"
	Seconds Kind = "seconds"
	Choice  Kind = "choice"
	Secret  Kind = "secret"
)

// Setting describes one setting. Name is the part after CDUI_.
type Setting struct {
	Name    string
	Kind    Kind
	Default string
	Choices []string
	// Min is the least Number, Bytes or Seconds that is taken.
	Min int64
	Doc string
}

// The names of the settings.
const (
	Home             = "HOME"
	Listen           = "LISTEN"
	Server           = "SERVER"
	ContextName      = "CONTEXT"
	Token            = "TOKEN"
	Pin              = "PIN"
	TLSCert          = "TLS_CERT"
	TLSKey           = "TLS_KEY"
	TLSSelfSigned    = "TLS_SELF_SIGNED"
	ResumeGrace      = "WORKER_RESUME_GRACE_S"
	MaxConcurrentGPU = "RUN_QUEUE_MAX_CONCURRENT_GPU"
	MaxConcurrentCPU = "RUN_QUEUE_MAX_CONCURRENT_CPU"
	MaxConcurrent    = "RUN_QUEUE_MAX_CONCURRENT"
	CUDAContext      = "EXECUTION_CUDA_CONTEXT_MIB"
	MaxInteractive   = "RUN_INTERACTIVE_MAX_CONCURRENT"
	MaxParallelNodes = "MAX_PARALLEL_NODES"
	MaxSweepRuns     = "MAX_SWEEP_RUNS"
	MaxSweepParams   = "MAX_SWEEP_PARAMS"
	MaxSweepDomain   = "MAX_SWEEP_DOMAIN"
	PayloadCap       = "RUN_EVENT_PAYLOAD_CAP_BYTES"
	ResponseCap      = "RUN_EVENTS_RESPONSE_CAP_BYTES"
	BodyCap          = "MAX_RUN_BODY_BYTES"
	FolderCap        = "TRANSFER_MAX_INPUT_BYTES"
	FileCap          = "MAX_UPLOAD_SIZE"
	ArtifactCap      = "TRANSFER_MAX_OUTPUT_BYTES"
	KeepRuns         = "RUN_RETENTION_KEEP_LAST"
	BytesMaxAge      = "RUN_BYTES_MAX_AGE_DAYS"
	BytesMaxTotal    = "RUN_BYTES_MAX_TOTAL_BYTES"
	CancelGrace      = "CANCEL_GRACE_S"
	AllowedHosts     = "ALLOWED_HOSTS"
	Isolate          = "ISOLATE"
	Python           = "PYTHON"
	Warm             = "WARM"
	Releases         = "RELEASES"
	LogFormat        = "LOG_FORMAT"
	LogLevel         = "LOG_LEVEL"
)

// Settings lists every setting, in the order that people are shown.
func Settings() []Setting {
	return []Setting{
		{Name: Home, Kind: Path, Doc: "data folder; by default cdui under $XDG_DATA_HOME"},
		{Name: Listen, Kind: Text, Default: "127.0.0.1:8000", Doc: "address that the control plane listens on"},
		{Name: Server, Kind: Text, Doc: "control plane that commands talk to, such as http://lab:8000"},
		{Name: ContextName, Kind: Text, Doc: "context of the config file that commands use, see cdui context; local is the control plane of this machine"},
		{Name: Token, Kind: Secret, Doc: "token for that control plane, when it is not a local one"},
		{Name: Pin, Kind: Text, Doc: "key of that control plane, sha256:..., in place of an authority's word"},
		{Name: TLSCert, Kind: Path, Doc: "certificate that the control plane answers with; makes it speak TLS"},
		{Name: TLSKey, Kind: Path, Doc: "key of that certificate"},
		{Name: TLSSelfSigned, Kind: Choice, Default: "no", Choices: []string{"no", "yes"}, Doc: "speak TLS with a certificate of its own making, which agents know by its pin"},
		{Name: ResumeGrace, Kind: Seconds, Default: "86400", Doc: "seconds that the runs of a worker that is away are kept"},
		{Name: MaxConcurrentGPU, Kind: Number, Default: "1", Doc: "runs at once on each accelerator; less than 1 acts as 1"},
		{Name: MaxConcurrentCPU, Kind: Number, Default: "2", Doc: "runs at once on the cpu; less than 1 acts as 1"},
		{Name: MaxConcurrent, Kind: Text, Doc: "exceptions by queue key, such as cuda:0=2,cpu=8"},
		{Name: CUDAContext, Kind: Number, Default: "512", Min: 1, Doc: "MiB of a shared card that each run's CUDA context takes beside its memory budget"},
		{Name: MaxInteractive, Kind: Number, Default: "2", Min: 1, Doc: "runs at once in the interactive lane"},
		{Name: MaxParallelNodes, Kind: Number, Default: "4", Min: 1, Doc: "nodes of one graph that execute at once"},
		{Name: MaxSweepRuns, Kind: Number, Default: "32", Min: 1, Doc: "variants of one sweep"},
		{Name: MaxSweepParams, Kind: Number, Default: "4", Min: 1, Doc: "params of one sweep"},
		{Name: MaxSweepDomain, Kind: Number, Default: "32", Min: 1, Doc: "values of one param of a sweep"},
		{Name: PayloadCap, Kind: Bytes, Default: "131072", Min: -1, Doc: "largest payload of one stored event; 0 or less is no cap"},
		{Name: ResponseCap, Kind: Bytes, Default: "4194304", Min: 1, Doc: "where a page of events stops"},
		{Name: BodyCap, Kind: Bytes, Default: "64MiB", Min: 1, Doc: "largest body of a submit"},
		{Name: FolderCap, Kind: Bytes, Default: "2GiB", Doc: "most that the files of one run may come to which it brings along; 0 is no limit"},
		{Name: FileCap, Kind: Bytes, Default: "500MB", Doc: "largest file that a run brings along; 0 is no limit"},
		{Name: ArtifactCap, Kind: Bytes, Default: "20GiB", Doc: "largest file that comes back from a worker; 0 is no limit"},
		{Name: KeepRuns, Kind: Number, Default: "-1", Min: -1, Doc: "newest rows that are kept; -1 keeps all"},
		{Name: BytesMaxAge, Kind: Number, Default: "90", Doc: "days that logs and outputs of ended runs are kept; 0 keeps them"},
		{Name: BytesMaxTotal, Kind: Bytes, Default: "50GiB", Doc: "room for logs and outputs of ended runs, oldest go first; 0 is no limit"},
		{Name: CancelGrace, Kind: Seconds, Default: "30", Doc: "seconds that a cancelled run may take to end by itself"},
		{Name: AllowedHosts, Kind: Text, Doc: "host names, with commas, that requests may be addressed to beside loopback ones"},
		{Name: Isolate, Kind: Choice, Default: "auto", Choices: []string{"auto", "pidns", "userns", "keeper", "none"}, Doc: "how the processes of a run are held together"},
		{Name: Python, Kind: Path, Doc: "interpreter for runs that name none"},
		{Name: Warm, Kind: Number, Default: "0", Min: -1, Doc: "warm spares that are always kept; 0 keeps them after runs that used torch, -1 never"},
		{Name: Releases, Kind: Text, Default: version.Releases, Doc: "address below which releases lie, such as https://lab.example/cdui, for workers of another platform"},
		{Name: LogFormat, Kind: Choice, Default: "text", Choices: []string{"text", "json"}, Doc: "how control plane and agents write their log"},
		{Name: LogLevel, Kind: Choice, Default: "info", Choices: []string{"debug", "info", "warn", "error"}, Doc: "least level that is logged"},
	}
}
