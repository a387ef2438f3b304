package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// beside is an agent on the control plane's own machine, which it reaches
// over loopback.
type beside struct {
	p   *plane
	cmd *exec.Cmd
}

const besideName = "beside"

func newBeside(b *testing.B, p *plane) *beside {
	b.Helper()
	a := &beside{p: p, cmd: p.command("agent", "start", "--control", "http://"+p.addr, "--name", besideName)}
	log := &safeBuffer{}
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = a.cmd.Wait(); close(exited) }()
	b.Cleanup(func() {
		_, _ = p.try("agent", "stop", "--name", besideName, "--cancel-runs")
		_ = a.cmd.Process.Kill()
		<-exited
		if b.Failed() {
			b.Logf("log of the agent: %s", tail(log.String(), 4000))
		}
	})
	eventually(b, time.Minute, "the agent is online", func() bool { return a.row(b).State == api.WorkerOnline })
	return a
}

func (a *beside) row(b *testing.B) api.Worker {
	b.Helper()
	var list api.WorkerList
	a.p.get(api.PathWorkers, &list)
	for _, w := range list.Workers {
		if w.Name == besideName {
			return w
		}
	}
	return api.Worker{}
}

// gap is the mean time, in ms, from the end of one run's child to the start of
// the next one on its slot, of n runs that were submitted at once.
func (p *plane) gap(n int, target string) float64 {
	p.t.Helper()
	p.bulk(n, `{`+target+`"command":{"argv":["sleep","0.02"],"cwd":"/"}}`)
	var list api.RunList
	p.get(fmt.Sprintf("%s?limit=%d", api.PathRuns, n), &list)
	at := func(id, status string) time.Time {
		for _, e := range p.events(id) {
			if e.Type == run.EventNodeStatus && strings.Contains(string(e.Payload), `"`+status+`"`) {
				return e.TS
			}
		}
		p.t.Fatalf("run %s never was %s: %v", id, status, p.events(id))
		return time.Time{}
	}
	total := 0.0
	for i := range n - 1 {
		total += at(list.Runs[i].ID, "running").Sub(at(list.Runs[i+1].ID, "completed")).Seconds() * 1000
	}
	return total / float64(n-1)
}

// From the end of one run's child to the start of the next one on a worker's
// slot, over loopback, beside the same on the control plane itself and beside a
// bare start of the child.
func BenchmarkFinishToNextStartOnAWorker(b *testing.B) {
	const n = 20
	p := newPlane(b, "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU=1")
	newBeside(b, p)
	there, here, bare, rounds := 0.0, 0.0, 0.0, 0.0
	for b.Loop() {
		there += p.gap(n, `"target":{"worker":"`+besideName+`"},`)
		here += p.gap(n, "")
		bare += (seconds(b, "sh", "-c", fmt.Sprintf("for i in $(seq %d); do sleep 0.02; done", n)) - n*0.02) * 1000 / n
		rounds++
	}
	b.ReportMetric(there/rounds, "ms/gap")
	b.ReportMetric(here/rounds, "ms/gap-local")
	b.ReportMetric(bare/rounds, "ms/bare-start")
	b.ReportMetric(there/here, "ratio-to-local")
	b.ReportMetric(0, "ns/op")
}

// What an agent takes while it has nothing to do, and with a run that does
// nothing, as shares of the limits that it has: 40 MB, 1 % of a core, 15 MB for
// a shim.
func BenchmarkAgentAtRest(b *testing.B) {
	p := newPlane(b)
	a := newBeside(b, p)
	for b.Loop() {
		a.atRest(b)
	}
	b.ReportMetric(0, "ns/op")
}

func (a *beside) atRest(b *testing.B) {
	b.Helper()
	mb, percent := a.usage(b)
	b.ReportMetric(mb, "MB-idle")
	b.ReportMetric(percent, "%core-idle")
	b.ReportMetric(mb/40, "of-40MB")
	id := a.p.run("--worker", besideName, "--no-files", "--", "sleep", "1000")
	a.p.running(id)
	mb, percent = a.usage(b)
	b.ReportMetric(mb, "MB-holding")
	b.ReportMetric(percent, "%core-holding")
	for _, pid := range withArgs("agent/" + besideName + "/agent-runs/" + id) {
		b.ReportMetric(residentMB(b, pid), "MB-shim")
		b.ReportMetric(ownMB(b, pid), "MB-shim-own")
	}
	a.p.cdui("cancel", "-d", "--force", id)
	a.p.ended(id)
}

// usage is the agent's memory, and its processor time over some seconds after
// it has come to rest.
func (a *beside) usage(b *testing.B) (mb, percent float64) {
	b.Helper()
	<-time.NewTimer(5 * time.Second).C
	before, start := ticks(b, a.cmd.Process.Pid), time.Now()
	<-time.NewTimer(10 * time.Second).C
	used := float64(ticks(b, a.cmd.Process.Pid)-before) / 100
	return residentMB(b, a.cmd.Process.Pid), used / time.Since(start).Seconds() * 100
}

// ticks is the processor time of a process in hundredths of a second.
func ticks(b *testing.B, pid int) int64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	total := int64(0)
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return total
}

// One child on a worker that prints as fast as it can: every byte arrives, the
// agent is heard from all the while. Beside it, the same bytes into a file.
func BenchmarkConsoleOnAWorker(b *testing.B) {
	const size = 60_000_000 // what comes back whole at the end
	p := newPlane(b)
	a := newBeside(b, p)
	since := *a.row(b).ConnectedAt
	file := b.TempDir() + "/out"
	ours, theirs, rounds := 0.0, 0.0, 0.0
	for b.Loop() {
		ours += p.printed(size).Seconds()
		theirs += seconds(b, "sh", "-c", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a | cat > %s", size, file))
		rounds++
	}
	if row := a.row(b); row.State != api.WorkerOnline || !row.ConnectedAt.Equal(since) {
		b.Fatalf("the agent was lost: %+v", row)
	}
	b.ReportMetric(rounds*size/1e6/ours, "MB/s")
	b.ReportMetric(rounds*size/1e6/theirs, "file-MB/s")
	b.ReportMetric(theirs/ours, "ratio")
	b.ReportMetric(0, "ns/op")
}

// printed is how long a run on the agent takes to print so many bytes, all of
// which have to arrive.
func (p *plane) printed(size int) time.Duration {
	p.t.Helper()
	r := p.ended(p.run("--worker", besideName, "--no-files", "--", "sh", "-c", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' a", size)))
	if n := len(p.rawLog(r.ID)); n != size || r.Status != run.Succeeded {
		p.t.Fatalf("%d of %d bytes, %s", n, size, r.Status)
	}
	var at []time.Time
	for _, e := range p.events(r.ID) {
		if e.Type == run.EventNodeStatus {
			at = append(at, e.TS)
		}
	}
	if len(at) != 2 {
		p.t.Fatalf("run %s began and ended at %v", r.ID, at)
	}
	return at[1].Sub(at[0])
}
