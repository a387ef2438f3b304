package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/store"
)

// bulk submits n copies of a command at once and waits until all have ended.
func (p *plane) bulk(n int, options string) time.Duration {
	p.t.Helper()
	entry := `{"options":` + options + `}`
	start := time.Now()
	for left := n; left > 0; left -= api.MaxBulk {
		k := min(left, api.MaxBulk)
		code, raw, err := p.post(api.PathRunsBulk, `{"runs":[`+strings.TrimSuffix(strings.Repeat(entry+",", k), ",")+`]}`)
		if err != nil || code != 200 {
			p.t.Fatalf("bulk: %d %.200s %v", code, raw, err)
		}
	}
	eventually(p.t, 10*time.Minute, "all runs end", func() bool {
		var st api.ServerStatus
		p.get(api.PathStatus, &st)
		return st.Running+st.Waiting == 0
	})
	return time.Since(start)
}

func seconds(b *testing.B, name string, args ...string) float64 {
	b.Helper()
	start := time.Now()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v %s", name, err, out)
	}
	return time.Since(start).Seconds()
}

// No-op commands end to end, durable, on two slots, beside xargs -P2 true and,
// where it is installed, task-spooler, which keeps nothing on disk: at least a
// quarter of the latter.
func BenchmarkNoOpCommands(b *testing.B) {
	const n = 300
	p := newPlane(b)
	p.bulk(20, `{"command":{"argv":["true"],"cwd":"/"}}`)
	for b.Loop() {
		took := p.bulk(n, `{"command":{"argv":["true"],"cwd":"/"}}`).Seconds()
		base := seconds(b, "sh", "-c", fmt.Sprintf("seq %d | xargs -P2 -n1 true", n))
		b.ReportMetric(n/took, "runs/s")
		b.ReportMetric(n/base, "xargs/s")
		b.ReportMetric(base/took, "ratio")
		if spooler := spoolerSeconds(b, n); spooler > 0 {
			b.ReportMetric(n/spooler, "task-spooler/s")
			b.ReportMetric(spooler/took, "ratio-task-spooler")
		}
	}
}

// spoolerSeconds is how long task-spooler takes for n no-ops on two slots, 0
// where it is not installed.
func spoolerSeconds(b *testing.B, n int) float64 {
	b.Helper()
	if _, err := exec.LookPath("tsp"); err != nil {
		return 0
	}
	script := fmt.Sprintf(`export TS_SOCKET=$PWD/s TMPDIR=$PWD TS_MAXFINISHED=1000000; tsp -S 2
for i in $(seq %d); do tsp -n true; done; while tsp | grep -qE 'queued|running'; do :; done; tsp -K`, n)
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = b.TempDir()
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("task-spooler: %v %s", err, out)
	}
	return time.Since(start).Seconds()
}

// No-op scripts beside xargs -P2 python3 -c pass; at least a third.
func BenchmarkNoOpScripts(b *testing.B) {
	const n = 100
	p := newPlane(b)
	dir := filepath.Dir(p.dir)
	if err := os.WriteFile(filepath.Join(dir, "pass.py"), []byte("pass\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	options := fmt.Sprintf(`{"script":{"path":%q,"interpreter":"/usr/bin/python3"}}`, filepath.Join(dir, "pass.py"))
	p.bulk(10, options)
	for b.Loop() {
		took := p.bulk(n, options).Seconds()
		base := seconds(b, "sh", "-c", fmt.Sprintf("seq %d | xargs -P2 -I{} /usr/bin/python3 -c pass", n))
		b.ReportMetric(n/took, "runs/s")
		b.ReportMetric(n/base, "xargs/s")
		b.ReportMetric(base/took, "ratio")
	}
}

// From the end of one run's child to the start of the next one on its slot, by
// the times that their shims noted.
func BenchmarkFinishToNextStart(b *testing.B) {
	p := newPlane(b, "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU=1")
	total, n := 0.0, 0
	for b.Loop() {
		p.bulk(20, `{"command":{"argv":["sleep","0.02"],"cwd":"/"}}`)
		var list api.RunList
		p.get(api.PathRuns+"?limit=20", &list)
		for i := 0; i+1 < len(list.Runs); i++ {
			next, before := p.events(list.Runs[i].ID), p.events(list.Runs[i+1].ID)
			total += next[1].TS.Sub(before[2].TS).Seconds() * 1000
			n++
		}
	}
	b.ReportMetric(total/float64(n), "ms/gap")
}

// Submit latency, one at a time over REST, with many runs stored before and
// 10,000 queued; flat means a ratio to the empty database of at most 1.3.
func BenchmarkSubmitLatency(b *testing.B) {
	for _, stored := range []int{0, 10_000, 100_000} {
		b.Run(strconv.Itoa(stored)+" stored", func(b *testing.B) {
			p := preparePlane(b)
			if stored > 0 {
				fill(b, p, stored)
			}
			p.start()
			if stored > 0 {
				for range 10 {
					code, _, err := p.post(api.PathRunsBulk, `{"runs":[`+strings.TrimSuffix(strings.Repeat(`{"options":{"hold":true,"command":{"argv":["true"],"cwd":"/"}}},`, 1000), ",")+`]}`)
					if err != nil || code != 200 {
						b.Fatal(code, err)
					}
				}
			}
			for b.Loop() {
				if code, raw, err := p.post(api.PathRuns, `{"options":{"hold":true,"command":{"argv":["true"],"cwd":"/"}}}`); err != nil || code != 200 {
					b.Fatal(code, string(raw), err)
				}
			}
		})
	}
}

// fill stores ended runs before the control plane starts.
func fill(b *testing.B, p *plane, n int) {
	b.Helper()
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		b.Fatal(err)
	}
	st, err := store.Open(context.Background(), store.Config{Path: filepath.Join(p.dir, "cdui.db")})
	if err != nil {
		b.Fatal(err)
	}
	for done := 0; done < n; done += 1000 {
		if _, err := st.Apply(context.Background(), endedRuns(done, 1000)...); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
}

// One child that prints as fast as it can.
func BenchmarkConsole(b *testing.B) {
	const size = 200_000_000
	p := newPlane(b)
	for b.Loop() {
		r := p.ended(p.run("--", "sh", "-c", fmt.Sprintf("head -c %d /dev/zero", size)))
		if len(p.rawLog(r.ID)) != size {
			b.Fatal("bytes were lost")
		}
		b.ReportMetric(size/1e6/r.FinishedAt.Sub(*r.StartedAt).Seconds(), "MB/s")
	}
}

// The size of the program and how soon it answers, beside the limits: 25 MB for
// a release, 30 ms.
func BenchmarkHelp(b *testing.B) {
	for b.Loop() {
		if out, err := exec.Command(binary, "--help").CombinedOutput(); err != nil {
			b.Fatal(err, string(out))
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/0.030, "of-30ms")
	info, err := os.Stat(binary)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/1e6, "MB-binary")
	b.ReportMetric(float64(info.Size())/25e6, "of-25MB")
}

// What a shim keeps in memory while its run does nothing.
func BenchmarkShimMemory(b *testing.B) {
	p := newPlane(b)
	for b.Loop() {
		id := p.run("--", "sleep", "1000")
		p.running(id)
		for _, pid := range supervisors(p, id) {
			b.ReportMetric(residentMB(b, pid), "MB")
			b.ReportMetric(residentMB(b, pid)/15, "of-15MB")
			b.ReportMetric(ownMB(b, pid), "MB-own")
		}
		p.cdui("cancel", "-d", "--force", id)
		p.ended(id)
	}
}

// residentMB is what a process has in memory, with the pages of the program
// itself that it shares with others.
func residentMB(b *testing.B, pid int) float64 { b.Helper(); return memoryMB(b, pid, "VmRSS:") }

// ownMB is what a process has in memory for itself.
func ownMB(b *testing.B, pid int) float64 { b.Helper(); return memoryMB(b, pid, "RssAnon:") }

func memoryMB(b *testing.B, pid int, kind string) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if text, ok := strings.CutPrefix(line, kind); ok {
			kb, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb / 1024
		}
	}
	b.Fatalf("process %d has no %s", pid, kind)
	return 0
}

// From submit to the first line of a script, beside the bare interpreter.
func BenchmarkFirstLine(b *testing.B) {
	p := newPlane(b)
	dir := filepath.Dir(p.dir)
	if err := os.WriteFile(filepath.Join(dir, "hello.py"), []byte("print('hello', flush=True)\nimport time; time.sleep(0.05)\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	body := fmt.Sprintf(`{"options":{"script":{"path":%q,"interpreter":"/usr/bin/python3"}}}`, filepath.Join(dir, "hello.py"))
	total, base, n := 0.0, 0.0, 0
	for b.Loop() {
		start := time.Now()
		_, raw, err := p.post(api.PathRuns, body)
		var reply api.SubmitReply
		if err != nil || json.Unmarshal(raw, &reply) != nil {
			b.Fatal(err, string(raw))
		}
		for len(p.rawLog(reply.RunID)) == 0 {
			continue
		}
		total += time.Since(start).Seconds()
		p.ended(reply.RunID)
		base += seconds(b, "/usr/bin/python3", "-c", "print('hello')")
		n++
	}
	b.ReportMetric(total/float64(n)*1000, "ms")
	b.ReportMetric(total/base, "x-python")
}

// From submit to the first line of a script that imports torch, started cold
// and from a warm spare, beside `python -c 'import torch'`: warm at most 1/40.
func BenchmarkFirstLineTorch(b *testing.B) {
	needTorch(b)
	const rounds = 5
	cold, warm := newPlane(b, "CDUI_WARM=-1"), newPlane(b, "CDUI_WARM=1")
	script := warm.file("hello.py", "import torch\nprint('hello', flush=True)\nimport time; time.sleep(0.05)\n")
	body := fmt.Sprintf(`{"options":{"script":{"path":%q}}}`, script)
	for b.Loop() {
		var base, colds, warms []float64
		var before []api.Spare
		for range rounds {
			before = warm.spareReady(before...)
			took, id := warm.firstLine(body)
			if !warm.warm(id) {
				b.Fatal("the run was not warm")
			}
			warms = append(warms, took)
			took, _ = cold.firstLine(body)
			colds = append(colds, took)
			base = append(base, seconds(b, python, "-c", "import torch"))
		}
		w, c, p := median(warms), median(colds), median(base)
		b.ReportMetric(w*1000, "ms-warm")
		b.ReportMetric(c*1000, "ms-cold")
		b.ReportMetric(p*1000, "ms-python")
		b.ReportMetric(p/w, "python/warm")
		b.ReportMetric(c/w, "cold/warm")
	}
}

// firstLine submits a run and gives the seconds until it has printed.
func (p *plane) firstLine(body string) (float64, string) {
	p.t.Helper()
	start := time.Now()
	_, raw, err := p.post(api.PathRuns, body)
	var reply api.SubmitReply
	if err != nil || json.Unmarshal(raw, &reply) != nil {
		p.t.Fatal(err, string(raw))
	}
	for len(p.rawLog(reply.RunID)) == 0 {
		continue
	}
	took := time.Since(start).Seconds()
	p.ended(reply.RunID)
	return took, reply.RunID
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// endedRuns builds n runs that ended an hour ago, numbered from first.
func endedRuns(first, n int) []store.Change {
	at := time.Now().UTC().Add(-time.Hour)
	out := make([]store.Change, n)
	for i := range out {
		status := run.Succeeded
		n := uint32(first + i + 1) //nolint:gosec // small
		out[i] = store.Change{Insert: &run.Row{
			ID: fmt.Sprintf("%08x%024x", n*2654435761, n), Name: fmt.Sprint("old ", n), Status: status, QueueKey: "cpu", CreatedAt: at, StartedAt: &at, FinishedAt: &at,
			Options: run.Options{Device: "cpu", Lane: "queued", ErrorMode: "fail_fast"}, Graph: json.RawMessage(`{"nodes":[{"id":"command","type":"Command","data":{"params":{"argv":["true"],"cwd":"/"}}}],"edges":[]}`),
		}}
	}
	return out
}
