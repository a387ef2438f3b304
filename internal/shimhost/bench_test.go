package shimhost_test

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shimhost"
)

// BenchmarkNoop measures a command that does nothing, from Start to the record
// of its end, on two slots. CDUI_BENCH_EXE names a real binary to use.
func BenchmarkNoop(b *testing.B) {
	for _, way := range ways() {
		b.Run(way, func(b *testing.B) {
			h := newHost(b, shimhost.Config{Isolate: way, Exe: os.Getenv("CDUI_BENCH_EXE")})
			work := make(chan protocol.Assignment)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for a := range work {
						r, err := h.Start(b.Context(), a)
						if err != nil {
							b.Error(err)
							continue
						}
						recs, err := follow(b, r, func(rec protocol.Record) bool { return rec.Type == protocol.RunFinished })
						if err != nil || finished(b, recs).Status != "succeeded" {
							b.Error(err)
						}
						r.Close()
						if err := h.Remove(a.RunID); err != nil {
							b.Error(err)
						}
					}
				})
			}
			before := cpuTime()
			b.ResetTimer()
			for b.Loop() {
				work <- command("/bin/true")
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/run")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// BenchmarkTrue is the bare program, for comparison.
func BenchmarkTrue(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// cpuTime is what this process and its ended children have used.
func cpuTime() time.Duration {
	sum := time.Duration(0)
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}
