package shimhost_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cdui/internal/shimhost"
)

// A shim lives as long as its run, so it must stay small, also while its run
// prints and reports much.
func TestAShimStaysSmall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		r := launch(t, h, shell("head -c 100000000 /dev/zero | tr '\\0' a; echo ready; sleep 99"))
		waitOutput(t, r, "ready")
		shim, _ := shimOf(t, r)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", shim))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			if !strings.HasPrefix(line, "RssAnon") {
				continue
			}
			var kb int
			if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &kb); err != nil || kb > 12<<10 {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
			t.Log(strings.TrimSpace(line))
		}
	})
}

// BenchmarkConsole measures how fast a child's output is stored.
func BenchmarkConsole(b *testing.B) {
	h := newHost(b, shimhost.Config{Exe: os.Getenv("CDUI_BENCH_EXE")})
	const size = 200_000_000
	b.SetBytes(size)
	for b.Loop() {
		begun := time.Now()
		r := launch(b, h, shell(fmt.Sprintf("head -c %d /dev/zero", size)))
		recs := toEnd(b, r)
		if n, err := r.Console().Size(); err != nil || n != size || finished(b, recs).Status != "succeeded" {
			b.Fatal(n, err)
		}
		b.ReportMetric(size/1e6/time.Since(begun).Seconds(), "MB/s-last")
	}
}
