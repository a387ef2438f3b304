package httpapi

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/exposition"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/store"
)

// Outcome is how a run ended.
type Outcome struct {
	Status run.Status
	Class  run.EndClass
}

// maxMeasured bounds the series of the queue: keys and reasons are as many as
// people make. What is beyond is added up under "other".
const maxMeasured = 200

// measures serves what Prometheus reads.
func (s *Server) measures(w http.ResponseWriter, r *http.Request) error {
	p := &exposition.Page{}
	status := s.cfg.Host.Status(r.Context())
	p.Family("cdui_build_info", exposition.Gauge, "The release of the control plane; always 1.")
	p.Sample(1, "version", s.cfg.Host.Info().Version, "goversion", runtime.Version())
	p.Family("cdui_uptime_seconds", exposition.Gauge, "Time since the control plane started.")
	p.Sample(status.UptimeS)
	measureProblems(p, status.Problems)
	p.Family("cdui_runs", exposition.Gauge, "Runs that have not ended, by status.")
	p.Sample(float64(status.Waiting), "status", string(run.Queued))
	p.Sample(float64(status.Running), "status", string(run.Running))
	if s.cfg.Outcomes != nil {
		measureOutcomes(p, s.cfg.Outcomes())
	}
	measureQueue(p, s.cfg.Runs.Lines(math.MaxInt))
	var workers []api.Worker
	if s.cfg.Workers != nil {
		workers = s.cfg.Workers.List(r.Context())
	}
	measureWorkers(p, workers)
	measureDevices(p, places(status.Devices, workers))
	measureStore(p, s.cfg.Store.Load())
	w.Header().Set("Content-Type", exposition.ContentType)
	_, _ = w.Write(p.Bytes()) // the caller is gone; nobody to tell
	return nil
}

func measureProblems(p *exposition.Page, problems []api.Problem) {
	count := map[string]float64{}
	for _, b := range problems {
		count[b.Code]++
	}
	p.Family("cdui_problems", exposition.Gauge, "What a person should mend, by code.")
	for _, code := range slices.Sorted(maps.Keys(count)) {
		p.Sample(count[code], "code", code)
	}
}

func measureOutcomes(p *exposition.Page, outcomes map[Outcome]uint64) {
	p.Family("cdui_runs_ended_total", exposition.Counter, "Runs that ended since the control plane started, by status and class.")
	order := func(a, b Outcome) int { return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Class, b.Class)) }
	for _, o := range slices.SortedFunc(maps.Keys(outcomes), order) {
		p.Sample(float64(outcomes[o]), "status", string(o.Status), "end_class", string(o.Class))
	}
}

// waiting is one series of the queue.
type waiting struct{ key, reason string }

func measureQueue(p *exposition.Page, lines []api.LiveKey) {
	count := map[waiting]float64{}
	for _, l := range lines {
		for _, e := range l.Waiting {
			w := waiting{key: l.Key}
			if e.Reason != nil {
				w.reason = e.Reason.Code
			}
			count[w]++
		}
	}
	p.Family("cdui_queue_waiting", exposition.Gauge, "Waiting runs by queue key and reason code.")
	for i, w := range slices.SortedFunc(maps.Keys(count), func(a, b waiting) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a.key, b.key), strings.Compare(a.reason, b.reason))
	}) {
		if i == maxMeasured {
			break
		}
		p.Sample(count[w], "key", w.key, "reason", w.reason)
		delete(count, w)
	}
	rest := 0.0
	for _, n := range count {
		rest += n
	}
	if rest > 0 {
		p.Sample(rest, "key", "other", "reason", "other")
	}
}

func measureWorkers(p *exposition.Page, workers []api.Worker) {
	count := map[api.WorkerState]float64{api.WorkerOnline: 0, api.WorkerDisconnected: 0, api.WorkerOffline: 0, api.WorkerRejected: 0}
	for _, w := range workers {
		count[w.State]++
	}
	p.Family("cdui_workers", exposition.Gauge, "Workers by state.")
	for _, state := range slices.Sorted(maps.Keys(count)) {
		p.Sample(count[state], "state", string(state))
	}
	p.Family("cdui_worker_up", exposition.Gauge, "Whether a worker is connected.")
	for _, w := range workers {
		p.Sample(truth(w.State == api.WorkerOnline), "worker", w.Name)
	}
}

// place is a device of a machine.
type place struct {
	worker string
	device device.Device
	slots  api.Slots
}

func places(local []api.Device, workers []api.Worker) []place {
	var out []place
	for _, d := range local {
		out = append(out, place{scheduler.Local, d.Device, d.Slots})
	}
	for _, w := range workers {
		for _, d := range w.Devices {
			out = append(out, place{w.Name, d.Device, d.Slots.Slots})
		}
	}
	return out
}

const mib = 1 << 20

func measureDevices(p *exposition.Page, all []place) {
	measure := func(name, help string, value func(place) *float64) {
		p.Family(name, exposition.Gauge, help)
		for _, at := range all {
			// What a driver doesn't say is left out, never 0.
			if v := value(at); v != nil {
				p.Sample(*v, "worker", at.worker, "device", at.device.Device)
			}
		}
	}
	of := func(n *int64, unit float64) *float64 {
		if n == nil {
			return nil
		}
		return new(float64(*n) * unit)
	}
	p.Family("cdui_device_info", exposition.Gauge, "The devices with their models; always 1.")
	for _, at := range all {
		uuid := ""
		if at.device.UUID != nil {
			uuid = *at.device.UUID
		}
		p.Sample(1, "worker", at.worker, "device", at.device.Device, "name", at.device.Name, "uuid", uuid)
	}
	measure("cdui_device_slots", "How many runs a device takes at once.", func(at place) *float64 { return new(float64(at.slots.Cap)) })
	measure("cdui_device_slots_used", "How many runs it has.", func(at place) *float64 { return new(float64(at.slots.Used)) })
	measure("cdui_device_healthy", "Whether it takes runs as far as its health goes.", func(at place) *float64 { return new(truth(at.device.Health.OK())) })
	measure("cdui_device_memory_bytes", "Memory of a card.", func(at place) *float64 { return of(at.device.MemoryTotalMiB, mib) })
	measure("cdui_device_memory_free_bytes", "Memory of a card that nobody uses.", func(at place) *float64 { return of(at.device.MemoryFreeMiB, mib) })
	measure("cdui_device_utilization_ratio", "How busy a card is, 0 to 1.", func(at place) *float64 { return of(at.device.UtilizationPct, 0.01) })
	measure("cdui_device_temperature_celsius", "Temperature of a card.", func(at place) *float64 { return of(at.device.TemperatureC, 1) })
	measure("cdui_device_power_watts", "What a card draws.", func(at place) *float64 { return at.device.PowerW })
}

func measureStore(p *exposition.Page, l store.Load) {
	var bounds []float64
	for _, b := range store.CommitBounds() {
		bounds = append(bounds, b.Seconds())
	}
	p.Histogram("cdui_store_commit_seconds", "How long the commits of the database took.", bounds, l.Commits, l.Took.Seconds())
	p.Family("cdui_store_records_total", exposition.Counter, "Events, flushes of metrics and artifacts that were stored since the control plane started.")
	p.Sample(float64(l.Records))
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
