package server

import (
	"context"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// Info implements httpapi.Host.
func (s *server) Info() api.ServerInfo { return s.info }

// Forget implements httpapi.Host.
func (s *server) Forget(runID string) { s.exec.Forget(runID) }

// Shutdown implements httpapi.Host.
func (s *server) Shutdown(cancelRuns bool) int {
	left := s.runs.Executing()
	if cancelRuns {
		left = 0
	}
	s.stopOnce.Do(func() {
		s.cancelRuns.Store(cancelRuns)
		close(s.stopping)
	})
	return left
}

// Problems implements httpapi.Host.
func (s *server) Problems(ctx context.Context) []api.Problem {
	out := []api.Problem{}
	if err := s.store.Healthy(); err != nil {
		out = append(out, api.Problem{Code: "database", Text: err.Error()})
	}
	if err := s.cards.problem(); err != nil {
		out = append(out, api.Problem{Code: "driver", Text: err.Error()})
	}
	for _, d := range s.inventory() {
		if !d.Health.OK() {
			r := run.CardUnhealthy(d.Device, d.Health.String())
			out = append(out, api.Problem{Code: r.Code, Text: r.Text, Params: r.Params})
		}
	}
	_, bad := s.catalog.Current(ctx)
	for _, p := range bad {
		out = append(out, api.Problem{Code: "user_file", Text: p.File + ": " + p.Error, Params: map[string]any{"file": p.File}})
	}
	return out
}

// Status implements httpapi.Host.
func (s *server) Status(ctx context.Context) api.ServerStatus {
	executing, queued := s.runs.Counts()
	st := api.ServerStatus{
		Server: s.info, DataDir: s.cfg.DataDir, UptimeS: time.Since(s.started).Seconds(),
		Isolation: s.host.Isolation(), Running: executing, Waiting: queued,
		Devices: []api.Device{}, Problems: s.Problems(ctx), Spares: s.spares(),
	}
	states := s.runs.Board().DeviceStates(scheduler.Local)
	for _, d := range s.inventory() {
		slot := states[d.Device]
		runs := []string{}
		for _, h := range slot.Holders {
			runs = append(runs, h.RunID)
		}
		dev := api.Device{Device: d, Slots: api.Slots{Cap: slot.Limit, Used: len(runs)}, Runs: runs}
		if c := slot.Closed; c.Code != "" {
			dev.Cordon = &api.Problem{Code: c.Code, Text: c.Why, Params: map[string]any{"device": d.Device}}
		}
		st.Devices = append(st.Devices, dev)
	}
	return st
}
