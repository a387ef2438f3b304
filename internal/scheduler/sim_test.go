package scheduler_test

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"cdui/internal/device"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fifo"
	"cdui/internal/scheduler/fleet"
)

// cluster is a simulated lab: machines with cards, lines of runs, and a clock.
type cluster struct {
	*rand.Rand
	fleet *fleet.Fleet
	lines *fifo.Lines
	runs  map[string]*job
	seq   int64

	now     float64 // seconds
	ends    endHeap
	busy    float64 // card seconds
	waits   []float64
	passes  int
	passing time.Duration
}

type job struct {
	key     string
	w       scheduler.Waiting
	slots   []scheduler.Slot
	at, dur float64
}

type ending struct {
	at float64
	id string
}

type endHeap []ending

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h endHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endHeap) Push(x any)        { *h = append(*h, x.(ending)) }
func (h *endHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func newCluster(workers, cards int) *cluster {
	c := &cluster{
		Rand: rand.New(rand.NewPCG(1, 2)), fleet: fleet.New(scheduler.Limits{GPU: 1, CPU: 2}), lines: fifo.NewLines(), //nolint:gosec // repeatable on purpose
		runs: map[string]*job{},
	}
	c.fleet.Set(scheduler.Local, fleet.Machine{Connected: true, Inventory: device.Inventory{{Device: "cpu", Kind: "cpu"}}})
	for w := range workers {
		var inv device.Inventory
		for i := range cards {
			uuid := fmt.Sprintf("GPU-%d-%d", w, i)
			inv = append(inv, device.Device{Device: fmt.Sprint("cuda:", i), Kind: device.CUDA, Index: i, UUID: &uuid})
		}
		c.fleet.Set(fmt.Sprintf("box%05d", w), fleet.Machine{Connected: true, Inventory: inv})
	}
	return c
}

// mix is what people submit: half of it goes anywhere, the rest to a machine, a
// card or a set of cards; trainings last minutes to hours.
func (c *cluster) mix(workers, cards int) *job {
	c.seq++
	j := &job{at: c.now, dur: math.Exp(6 + 1.5*c.NormFloat64())}
	box := fmt.Sprintf("box%05d", c.IntN(workers))
	a := &scheduler.Ask{Worker: scheduler.Any, Kind: device.CUDA, Program: true}
	j.key = "any/cuda"
	switch n := c.IntN(10); {
	case n < 5:
	case n < 8:
		a.Worker, j.key = box, box+"/cuda"
	case n < 9:
		a = &scheduler.Ask{Worker: box, Devices: []string{fmt.Sprint("cuda:", c.IntN(cards))}, Program: true}
		j.key = box + "/" + a.Devices[0]
	default:
		a = &scheduler.Ask{Worker: box, Program: true}
		for i := range cards / 2 {
			a.Devices = append(a.Devices, fmt.Sprint("cuda:", i))
		}
		j.key = box + "/" + fmt.Sprint(a.Devices)
	}
	j.w = scheduler.Waiting{RunID: fmt.Sprint("r", c.seq), Seq: c.seq, Ask: a}
	return j
}

func (c *cluster) submit(j *job) {
	c.runs[j.w.RunID] = j
	c.lines.Join(j.key, j.w)
}

// plan makes one pass and starts what may start.
func (c *cluster) plan() int {
	began := processorTime()
	s := c.fleet.Snapshot()
	s.Queues = c.lines.Queues()
	p := scheduler.Decide(s)
	c.passing += processorTime() - began
	c.passes++
	c.lines.Explain(p, func(id string) (string, scheduler.Waiting) { return c.runs[id].key, c.runs[id].w })
	for _, start := range p.Starts {
		j := c.runs[start.RunID]
		c.lines.Leave(j.key, j.w)
		c.fleet.Take(start.RunID, start.Slots, 0)
		j.slots = start.Slots
		c.waits = append(c.waits, c.now-j.at)
		c.busy += j.dur * float64(len(start.Slots))
		heap.Push(&c.ends, ending{c.now + j.dur, start.RunID})
	}
	return len(p.Starts)
}

// processorTime is what this process has used, which on a busy machine says more
// than a clock.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// next goes to the next end and frees its slots.
func (c *cluster) next() bool {
	if len(c.ends) == 0 {
		return false
	}
	e, _ := heap.Pop(&c.ends).(ending)
	c.now = e.at
	c.fleet.Release(e.id, c.runs[e.id].slots)
	delete(c.runs, e.id)
	return true
}

// scales are the sizes that are gone through; the largest takes minutes and is
// asked for with CDUI_SCALE=full.
func scales() [][3]int {
	out := [][3]int{{3, 4, 100}, {64, 8, 10_000}}
	if os.Getenv("CDUI_SCALE") == "full" {
		out = append(out, [3]int{1000, 8, 100_000}, [3]int{10_000, 8, 1_000_000})
	}
	return out
}

// BenchmarkPass measures one pass over a cluster that is full, after one run has
// ended: what each end of a run costs.
func BenchmarkPass(b *testing.B) {
	for _, size := range scales() {
		workers, cards, queued := size[0], size[1], size[2]
		b.Run(fmt.Sprintf("%dx%d_%d", workers, cards, queued), func(b *testing.B) {
			c := newCluster(workers, cards)
			for range queued + workers*cards {
				c.submit(c.mix(workers, cards))
			}
			c.plan()
			c.passing, c.passes = 0, 0
			for b.Loop() {
				if !c.next() {
					b.Fatal("nothing is left to end")
				}
				c.submit(c.mix(workers, cards))
				c.plan()
			}
			b.ReportMetric(float64(c.passing.Microseconds())/float64(c.passes), "cpu-µs/pass")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkDay runs a lab for a day in which people submit as much as its cards
// can do, and tells how busy these were and how long runs waited.
func BenchmarkDay(b *testing.B) {
	const day = 24 * 3600
	for _, size := range scales()[:2] {
		workers, cards := size[0], size[1]
		b.Run(fmt.Sprintf("%dx%d", workers, cards), func(b *testing.B) {
			for b.Loop() {
				c := newCluster(workers, cards)
				load := 0.0
				var jobs []*job
				for load < 0.95*float64(workers*cards)*day {
					j := c.mix(workers, cards)
					j.at = c.Float64() * day
					load += j.dur * float64(max(1, len(j.w.Ask.Devices)))
					jobs = append(jobs, j)
				}
				slices.SortFunc(jobs, func(x, y *job) int { return int(math.Copysign(1, x.at-y.at)) })
				for i, j := range jobs {
					j.w.Seq = int64(i)
					for len(c.ends) > 0 && c.ends[0].at <= j.at {
						c.next()
						c.plan()
					}
					c.now = j.at
					c.submit(j)
					c.plan()
				}
				used := min(1, c.busy/(float64(workers*cards)*day))
				slices.Sort(c.waits)
				b.ReportMetric(100*used, "%busy")
				b.ReportMetric(c.waits[len(c.waits)/2], "s-median-wait")
				b.ReportMetric(c.waits[len(c.waits)*95/100], "s-p95-wait")
				b.ReportMetric(float64(c.passing.Microseconds())/float64(c.passes), "cpu-µs/pass")
				b.ReportMetric(float64(len(jobs)), "runs")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
