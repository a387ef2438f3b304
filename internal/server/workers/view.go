package workers

import (
	"context"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/server/runs/board"
)

// List gives all workers by name.
func (r *Registry) List(ctx context.Context) []api.Worker {
	here := r.hashes(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []api.Worker{}
	for _, name := range r.names() {
		if w := r.workers[name]; w.listed || w.rejected != nil {
			out = append(out, r.view(w, here))
		}
	}
	return out
}

// Worker gives one worker.
func (r *Registry) Worker(ctx context.Context, name string) (api.Worker, error) {
	here := r.hashes(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[name]
	if w == nil || !w.listed && w.rejected == nil {
		return api.Worker{}, unknownWorker(name)
	}
	return r.view(w, here), nil
}

// state says how a worker stands with the control plane. The caller holds mu.
func (w *worker) state() api.WorkerState {
	switch {
	case w.session != nil:
		return api.WorkerOnline
	case w.rejected != nil:
		return api.WorkerRejected
	case w.gone:
		return api.WorkerOffline
	}
	return api.WorkerDisconnected
}

// view lays out one worker. The caller holds mu.
func (r *Registry) view(w *worker, here map[string]string) api.Worker {
	name, instance, _ := strings.Cut(w.name, ".")
	v := api.Worker{
		Name: name, Instance: instance, State: w.state(), Draining: w.isDraining(), Degraded: w.degraded,
		Version: w.known.Version, Mounts: map[string]string{}, Capabilities: protocol.Capabilities{}, Devices: []api.WorkerDevice{},
		Runs: w.runIDs(), ConnectedAt: moment(w.connectedAt), LastSeen: moment(w.lastSeen), Via: "direct",
	}
	if w.tunnel {
		v.Via = "tunnel"
	}
	if os, arch, ok := strings.Cut(w.known.Platform, "/"); ok {
		v.Platform = &protocol.Platform{OS: os, Arch: arch}
	}
	switch {
	case w.session != nil:
		v.DrainOnly = w.session.drainOnly
	case v.State == api.WorkerDisconnected:
		v.ResumeUntil = moment(w.lostAt.Add(r.cfg.ResumeGrace))
	}
	if w.rejected != nil {
		v.RejectReason = w.rejected.Reason
	}
	if w.skew != nil {
		ms := w.skew.Milliseconds()
		v.ClockSkewMS = &ms
	}
	if h := w.hello; h != nil {
		v.Version, v.OneShot, v.Platform, v.Python = h.Version, h.OneShot, &h.Platform, h.Python
		if h.Mounts != nil {
			v.Mounts = h.Mounts
		}
		if h.Capabilities != nil {
			v.Capabilities = h.Capabilities
		}
		v.Catalog = differences(h.Catalog, here)
	}
	var states map[string]board.DeviceState
	if r.placer != nil {
		states = r.placer.DeviceStates(w.name)
	}
	for _, d := range w.devices {
		v.Devices = append(v.Devices, deviceView(d, states[d.Device]))
	}
	return v
}

func deviceView(d device.Device, st board.DeviceState) api.WorkerDevice {
	v := api.WorkerDevice{
		Device: d, Slots: api.WorkerSlots{Slots: api.Slots{Cap: st.Limit, Used: len(st.Holders)}, LimitedBy: st.LimitedBy},
		Runs: []string{}, SameCard: append([]string{}, st.SameCard...),
		Shared: st.Policy.Shared, PromisedMiB: st.PromisedMiB, RoomMiB: st.RoomMiB, Strangers: string(st.Policy.Acting()),
	}
	for _, h := range st.Holders {
		v.Runs = append(v.Runs, h.RunID)
	}
	if c := st.Closed; c.Code != "" {
		v.Cordon = &api.Problem{Code: c.Code, Text: c.Why, Params: map[string]any{"device": d.Device}}
	}
	return v
}

func differences(c *protocol.Catalog, here map[string]string) *api.WorkerCatalog {
	if c == nil {
		return nil
	}
	d := catalog.Diff(here, c.Types)
	return &api.WorkerCatalog{Hash: c.Hash, MissingHere: d.MissingHere, MissingThere: d.MissingThere}
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}
