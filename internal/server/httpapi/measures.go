package httpapi

import (
	"cmp"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/sorting"
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

// measures serves what Prometheus reads: what the control plane knows at this
// moment, and the process. What can't be told is left out and logged; the rest
// is served.
func (s *Server) measures(w http.ResponseWriter, r *http.Request) error {
	p := &scrape{}
	status := s.cfg.Host.Status(r.Context())
	p.gauge("cdui_build_info", "The release of the control plane; always 1.", "version", "goversion").
		sample(1, s.cfg.Host.Info().Version, runtime.Version())
	p.gauge("cdui_uptime_seconds", "Time since the control plane started.").sample(status.UptimeS)
	measureProblems(p, status.Problems)
	runs := p.gauge("cdui_runs", "Runs that have not ended, by status.", "status")
	runs.sample(float64(status.Waiting), string(run.Queued))
	runs.sample(float64(status.Running), string(run.Running))
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
	registry := prometheus.NewRegistry()
	registry.MustRegister(p, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	}).ServeHTTP(w, r)
	return nil
}

// scrape is a prometheus.Collector of what was read for one scrape.
type scrape struct{ metrics []prometheus.Metric }

// Describe says nothing: what there is depends on the moment.
func (*scrape) Describe(chan<- *prometheus.Desc) {}

// Collect gives what was read.
func (p *scrape) Collect(to chan<- prometheus.Metric) {
	for _, m := range p.metrics {
		to <- m
	}
}

// family is the metrics of one name.
type family struct {
	scrape *scrape
	kind   prometheus.ValueType
	desc   *prometheus.Desc
}

func (p *scrape) gauge(name, help string, labels ...string) family {
	return family{p, prometheus.GaugeValue, prometheus.NewDesc(name, help, labels, nil)}
}

func (p *scrape) counter(name, help string, labels ...string) family {
	return family{p, prometheus.CounterValue, prometheus.NewDesc(name, help, labels, nil)}
}

// sample adds a value, with one value for each label.
func (f family) sample(value float64, labels ...string) {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD") // names of devices and workers are others' bytes
	}
	f.scrape.metrics = append(f.scrape.metrics, prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...))
}

func measureProblems(p *scrape, problems []api.Problem) {
	count := map[string]float64{}
	for _, b := range problems {
		count[b.Code]++
	}
	f := p.gauge("cdui_problems", "What a person should mend, by code.", "code")
	for _, code := range slices.Sorted(maps.Keys(count)) {
		f.sample(count[code], code)
	}
}

func measureOutcomes(p *scrape, outcomes map[Outcome]uint64) {
	f := p.counter("cdui_runs_ended_total", "Runs that ended since the control plane started, by status and class.", "status", "end_class")
	order := func(a, b Outcome) int { return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Class, b.Class)) }
	for _, o := range sorting.Sorted(maps.Keys(outcomes), order) {
		f.sample(float64(outcomes[o]), string(o.Status), string(o.Class))
	}
}

// waiting is one series of the queue.
type waiting struct{ key, reason string }

func measureQueue(p *scrape, lines []api.LiveKey) {
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
	f := p.gauge("cdui_queue_waiting", "Waiting runs by queue key and reason code.", "key", "reason")
	for i, w := range sorting.Sorted(maps.Keys(count), func(a, b waiting) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(a.key, b.key), strings.Compare(a.reason, b.reason))
	}) {
		if i == maxMeasured {
			break
		}
		f.sample(count[w], w.key, w.reason)
		delete(count, w)
	}
	rest := 0.0
	for _, n := range count {
		rest += n
	}
	if rest > 0 {
		f.sample(rest, "other", "other")
	}
}

func measureWorkers(p *scrape, workers []api.Worker) {
	count := map[api.WorkerState]float64{api.WorkerOnline: 0, api.WorkerDisconnected: 0, api.WorkerOffline: 0, api.WorkerRejected: 0}
	for _, w := range workers {
		count[w.State]++
	}
	states := p.gauge("cdui_workers", "Workers by state.", "state")
	for _, state := range slices.Sorted(maps.Keys(count)) {
		states.sample(count[state], string(state))
	}
	up := p.gauge("cdui_worker_up", "Whether a worker is connected.", "worker")
	for _, w := range workers {
		up.sample(truth(w.State == api.WorkerOnline), w.Name)
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

func measureDevices(p *scrape, all []place) {
	measure := func(name, help string, value func(place) *float64) {
		f := p.gauge(name, help, "worker", "device")
		for _, at := range all {
			// What a driver doesn't say is left out, never 0.
			if v := value(at); v != nil {
				f.sample(*v, at.worker, at.device.Device)
			}
		}
	}
	of := func(n *int64, unit float64) *float64 {
		if n == nil {
			return nil
		}
		return new(float64(*n) * unit)
	}
	info := p.gauge("cdui_device_info", "The devices with their models; always 1.", "worker", "device", "name", "uuid")
	for _, at := range all {
		uuid := ""
		if at.device.UUID != nil {
			uuid = *at.device.UUID
		}
		info.sample(1, at.worker, at.device.Device, at.device.Name, uuid)
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

func measureStore(p *scrape, l store.Load) {
	// Of l.Commits the last are those beyond all bounds; Prometheus adds up.
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, n := range l.Commits {
		total += n
		if i < len(store.CommitBounds()) {
			buckets[store.CommitBounds()[i].Seconds()] = total
		}
	}
	took := prometheus.NewDesc("cdui_store_commit_seconds", "How long the commits of the database took.", nil, nil)
	p.metrics = append(p.metrics, prometheus.MustNewConstHistogram(took, total, l.Took.Seconds(), buckets))
	p.counter("cdui_store_records_total", "Events, flushes of metrics and artifacts that were stored since the control plane started.").
		sample(float64(l.Records))
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
