package e2e_test

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// lab is a control plane with 10,000 runs that ended an hour ago, and 64 cards on
// eight machines.
func lab(b *testing.B) *plane {
	b.Helper()
	p := preparePlane(b, "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU=4")
	fill(b, p, 10_000)
	p.start()
	p.fleet(8).all(8)
	return p
}

const labShows = "10,000 of 10,000 runs"

// ticking is a run whose progress moves ten times a second.
const ticking = `import time, cdui
for i in range(1_000_000):
    cdui.log({"loss": 1 / (1 + i)}, step=i)
    time.sleep(0.1)
`

// BenchmarkScreen measures `cdui tui` on a terminal of 120x40 against a control
// plane with 10,000 runs and 64 cards: a key to its picture, beside the 50 ms
// that are allowed; what is sent while nothing changes, beside 2 KB a second; and
// from the start to the picture, beside that of `cdui --help`.
func BenchmarkScreen(b *testing.B) {
	p := lab(b)
	b.Run("start to first picture", func(b *testing.B) {
		const rounds = 5
		for b.Loop() {
			var first, whole, base []float64
			for range rounds {
				began := time.Now()
				x := p.screen(b, 120, 40)
				first = append(first, x.shows("Runs  Queue").Sub(began).Seconds()*1000)
				whole = append(whole, x.shows("live", labShows).Sub(began).Seconds()*1000)
				x.keys("q")
				x.gone(0)
				base = append(base, seconds(b, binary, "--help")*1000)
			}
			b.ReportMetric(median(first), "ms-first")
			b.ReportMetric(median(whole), "ms-10,000-runs")
			b.ReportMetric(median(base), "ms-help")
			b.ReportMetric(median(first)/median(base), "first/help")
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("key to paint", func(b *testing.B) {
		x := p.screen(b, 120, 40)
		x.shows("live", labShows)
		for b.Loop() {
			for _, k := range []struct {
				name string
				keys []string
			}{
				{"line", []string{"j", "j", "j", "k"}},
				{"page", []string{"\x1b[6~", "\x1b[6~", "\x1b[5~"}},
				{"end", []string{"G", "g"}},
				{"sort", []string{"N", "N", "A", "A", "A"}},
				{"screen", []string{"\t", "\t", "\t", "\t"}},
			} {
				before, _ := x.traffic()
				x.report(b, k.name, x.each(k.keys, 20))
				after, _ := x.traffic()
				b.ReportMetric(float64(after-before)/20, "B-"+k.name)
			}
			// Each letter of a filter is looked for in all 10,000.
			x.keys("/")
			x.settle()
			x.report(b, "filter", x.each([]string{"3", "f", "\x7f", "\x7f"}, 20))
			x.keys("\x1b")
			x.settle()
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("nothing changes", func(b *testing.B) {
		x := p.screen(b, 120, 40)
		x.shows("live", labShows)
		for b.Loop() {
			sent, cores := x.during(b, 20*time.Second)
			b.ReportMetric(sent, "B/s")
			b.ReportMetric(sent/2048, "of-2-KB/s")
			b.ReportMetric(cores*100, "%core")
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("64 cards change", func(b *testing.B) {
		x := p.screen(b, 120, 40)
		x.shows("live", labShows)
		x.keys("\t\t")
		x.shows("64 cards")
		for b.Loop() {
			sent, cores := x.during(b, 20*time.Second)
			b.ReportMetric(sent, "B/s")
			b.ReportMetric(cores*100, "%core")
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("four runs tick", func(b *testing.B) {
		script := p.file("tick.py", ticking)
		var ids []string
		for range 4 {
			ids = append(ids, p.run("--python", "/usr/bin/python3", script))
		}
		x := p.screen(b, 120, 40)
		x.shows("live", "4 running")
		x.settle()
		for b.Loop() {
			_, before := x.traffic()
			sent, cores := x.during(b, 20*time.Second)
			_, after := x.traffic()
			b.ReportMetric(sent, "B/s")
			b.ReportMetric(sent*20/float64(after-before), "B/paint")
			b.ReportMetric(float64(after-before)/20, "paints/s")
			b.ReportMetric(cores*100, "%core")
			// The line for commands is told from what else changes.
			var took []time.Duration
			for range 20 {
				for _, k := range []struct{ key, shows, hides string }{{":", "queue  workers", "? keys"}, {"\r", "? keys", "queue  workers"}} {
					began := time.Now()
					x.keys(k.key)
					x.shows(k.shows)
					took = append(took, x.hides(k.hides).Sub(began))
				}
			}
			x.report(b, "key", took)
		}
		b.ReportMetric(0, "ns/op")
		for _, id := range ids {
			p.cdui("cancel", "-d", "--force", id)
		}
	})
}

// settle waits until nothing was sent for a while.
func (x *glass) settle() {
	for last := int64(-1); ; {
		now, _ := x.traffic()
		if now == last {
			break
		}
		last = now
		<-time.After(60 * time.Millisecond)
	}
	select {
	case <-x.painted:
	default:
	}
}

// each presses keys in turn, n altogether, and tells how long each took until
// the picture was another. Nothing else may change meanwhile.
func (x *glass) each(keys []string, n int) []time.Duration {
	x.t.Helper()
	var took []time.Duration
	for i := range n {
		x.settle()
		look, began := x.look(), time.Now()
		x.keys(keys[i%len(keys)])
		took = append(took, x.until("another picture after "+strconv.Quote(keys[i%len(keys)]), func() bool { return x.look() != look }).Sub(began))
	}
	return took
}

func (x *glass) report(b *testing.B, name string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "ms-"+name)
	b.ReportMetric(ms(took[len(took)-1]), "ms-"+name+"-worst")
	b.ReportMetric(ms(took[len(took)*95/100])/50, "p95-"+name+"-of-50-ms")
}

// during tells what is sent in a second, and the share of a core that it takes.
func (x *glass) during(b *testing.B, long time.Duration) (bytes, cores float64) {
	b.Helper()
	x.settle()
	from, _ := x.traffic()
	cpu := processorTime(b, x.cmd.Process.Pid)
	<-time.After(long)
	to, _ := x.traffic()
	return float64(to-from) / long.Seconds(), (processorTime(b, x.cmd.Process.Pid) - cpu).Seconds() / long.Seconds()
}
