package api

// Paths of the REST API, as http.ServeMux patterns without their method.
const (
	PathHealth         = "/api/health"
	PathStatus         = "/api/status"
	PathOpenAPI        = "/api/openapi.json"
	PathMeasures       = "/metrics" // for Prometheus
	PathRuns           = "/api/runs"
	PathRunsBulk       = "/api/runs/bulk"
	PathRun            = "/api/runs/{id}"
	PathRunEvents      = "/api/runs/{id}/events"
	PathRunMetrics     = "/api/runs/{id}/metrics"
	PathRunArtifacts   = "/api/runs/{id}/artifacts"
	PathRunFingerprint = "/api/runs/{id}/fingerprint"
	PathRunProvenance  = "/api/runs/{id}/provenance"
	PathRunGraph       = "/api/runs/{id}/graph"
	PathRunLog         = "/api/runs/{id}/log"
	PathRunLogIndex    = "/api/runs/{id}/log/index"
	PathRunCancel      = "/api/runs/{id}/cancel"
	PathRunHold        = "/api/runs/{id}/hold"
	PathRunRelease     = "/api/runs/{id}/release"
	PathRunRerun       = "/api/runs/{id}/rerun"
	PathRunPin         = "/api/runs/{id}/pin"
	PathQueue          = "/api/queue"
	PathQueueHold      = "/api/queue/hold"
	PathQueueRelease   = "/api/queue/release"
	PathDBCheck        = "/api/db/check"
	PathDBBackup       = "/api/db/backup"
	PathExecution      = "/ws/execution"
	PathShutdown       = "/api/shutdown"
)

// Headers of the API.
const (
	// HeaderToken carries a token; Authorization: Bearer does too.
	HeaderToken = "X-CodefyUI-Token"
	// The log route answers with raw bytes and says in these where they lie:
	// the offset of the first byte, the offset after the last, the log's
	// current end, the first offset still kept after the head, and whether
	// the run has ended.
	HeaderLogOffset = "X-Cdui-Log-Offset"
	HeaderLogNext   = "X-Cdui-Log-Next"
	HeaderLogSize   = "X-Cdui-Log-Size"
	HeaderLogEnded  = "X-Cdui-Log-Ended"
	// HeaderLogCut is the number of bytes before this chunk that the cap cost.
	HeaderLogCut = "X-Cdui-Log-Cut"
)
