package serverctl

import (
	"context"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/config"
	"cdui/internal/retention"
	"cdui/internal/scheduler"
	"cdui/internal/server"
	"cdui/internal/server/files"
	"cdui/internal/sweep"
)

// Serve runs a control plane until ctx is over. ready is called once it
// answers.
func Serve(ctx context.Context, e *env.Env, dataDir string, vs config.Values, ready func(api.ServerInfo)) error {
	log := e.Logger(vs)
	overrides, warnings := config.ParseOverrides(vs.Text(config.MaxConcurrent))
	for _, w := range warnings {
		log.WarnContext(ctx, "setting is partly ignored", "setting", config.MaxConcurrent, "error", w)
	}
	for _, v := range vs.All() {
		if v.Err != nil {
			log.WarnContext(ctx, "setting is faulty, its default holds", "setting", v.Name, "default", v.Default, "error", v.Err)
		}
	}
	return server.Run(ctx, server.Config{
		DataDir:      dataDir,
		Listen:       vs.Text(config.Listen),
		AllowedHosts: vs.List(config.AllowedHosts),
		Limits: scheduler.Limits{
			GPU: int(vs.Int(config.MaxConcurrentGPU)), CPU: int(vs.Int(config.MaxConcurrentCPU)), Override: overrides,
			ContextMiB: vs.Int(config.CUDAContext),
		},
		PayloadCap:  int(vs.Int(config.PayloadCap)),
		ResponseCap: int(vs.Int(config.ResponseCap)),
		BodyCap:     vs.Int(config.BodyCap),
		Grace:       vs.Duration(config.CancelGrace),
		MaxParallel: int(vs.Int(config.MaxParallelNodes)),
		Sweeps: sweep.Limits{
			Runs: int(vs.Int(config.MaxSweepRuns)), Params: int(vs.Int(config.MaxSweepParams)), Domain: int(vs.Int(config.MaxSweepDomain)),
		},
		Interactive: int(vs.Int(config.MaxInteractive)),
		Isolate:     vs.Text(config.Isolate),
		Python:      vs.Text(config.Python),
		Warm:        int(vs.Int(config.Warm)),
		Environ:     e.Environ,
		ResumeGrace: vs.Duration(config.ResumeGrace),
		TLSCert:     vs.Text(config.TLSCert), TLSKey: vs.Text(config.TLSKey), TLSSelfSigned: vs.Text(config.TLSSelfSigned) == "yes",
		Retention: kept(vs),
		Files:     files.Limits{Folder: vs.Int(config.FolderCap), File: vs.Int(config.FileCap), Artifact: vs.Int(config.ArtifactCap)},
		Logger:    log,
		Ready:     ready,
	})
}

func kept(vs config.Values) server.Retention {
	return server.Retention{
		KeepRuns: int(vs.Int(config.KeepRuns)),
		Bytes:    policy(vs.Int(config.BytesMaxAge), vs.Int(config.BytesMaxTotal)),
	}
}

func policy(days, total int64) retention.Policy {
	return retention.Policy{MaxAge: time.Duration(days) * 24 * time.Hour, MaxBytes: total}
}
