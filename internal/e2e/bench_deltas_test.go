package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

// deltas is a control plane that has nothing but a feed: a snapshot of 10,000
// runs, then as many deltas as it is told to send, as fast as they are taken.
type deltas struct {
	more chan int
	// sent has the number of deltas that were sent, each time that all were.
	sent chan int
}

const deltaRuns = 10_000

func (d *deltas) row(i, tick int) api.LiveRun {
	at := time.Now().Add(-time.Hour)
	r := api.LiveRun{
		ID: fmt.Sprintf("%08x%024x", uint32(i)*2654435761, i), Order: int64(i), Name: fmt.Sprint("run ", i), Kind: "script", QueueKey: "cpu", //nolint:gosec // small
		Status: run.Succeeded, CreatedAt: at, StartedAt: &at, FinishedAt: &at,
	}
	if i%100 == 0 {
		r.Status, r.FinishedAt = run.Running, nil
		r.Progress = map[string]json.RawMessage{"epoch": json.RawMessage(fmt.Sprint(tick % 10)), "total_epochs": json.RawMessage("10")}
		r.Final = map[string]json.RawMessage{"loss": json.RawMessage(fmt.Sprint(1 / float64(tick+1)))}
	}
	return r
}

// delta moves the progress of one run; each tenth brings a new run and takes an
// old one away.
func (d *deltas) delta(n int) api.LiveFrame {
	f := api.LiveFrame{Type: api.LiveDelta, Boot: "b", Cursor: int64(n + 1), Runs: []api.LiveRun{d.row(n%100*100, n)}}
	if n%10 == 0 {
		f.Runs = append(f.Runs, d.row(deltaRuns+n/10*100+1, n))
		if old := n/10*100 + 1 - 100; n >= 10 {
			f.GoneRuns = []string{d.row(deltaRuns+old, n).ID}
		}
	}
	return f
}

func (d *deltas) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != api.PathLive {
		http.NotFound(w, r)
		return
	}
	up := websocket.Upgrader{}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	defer conn.Close()
	f := api.LiveFrame{Type: api.LiveSnapshot, Boot: "b", Cursor: 1, Complete: true, Counts: &api.LiveCounts{Runs: deltaRuns, Running: deltaRuns / 100}, Machine: &api.LiveMachine{}}
	for i := range deltaRuns {
		f.Runs = append(f.Runs, d.row(i, 0))
	}
	if conn.WriteJSON(f) != nil {
		return
	}
	n := 0
	for many := range d.more {
		for range many {
			if conn.WriteJSON(d.delta(n)) != nil {
				return
			}
			n++
		}
		last := api.LiveFrame{Type: api.LiveDelta, Boot: "b", Cursor: int64(n + 1), Counts: &api.LiveCounts{Runs: deltaRuns + n, Running: deltaRuns / 100}}
		if conn.WriteJSON(last) != nil {
			return
		}
		d.sent <- n
	}
}

// BenchmarkDeltasOnTheScreen hands the program 5,000 deltas, and with
// CDUI_SCALE=full 100,000, as many as can come in three hours: what it holds then,
// beside what it held after a tenth of them, and what one costs.
func BenchmarkDeltasOnTheScreen(b *testing.B) {
	tenth := 500
	if os.Getenv("CDUI_SCALE") == "full" {
		tenth = 10_000
	}
	for b.Loop() {
		d := &deltas{more: make(chan int), sent: make(chan int)}
		server := httptest.NewServer(d)
		cmd := exec.Command(binary, "tui", "--theme", "dark", "--server", server.URL)
		home := shortTemp(b)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CDUI_HOME=" + home + "/d", "LANG=C.UTF-8", "TERM=xterm-256color", "CDUI_TOKEN=none"}
		x := newGlass(b, 120, 40, cmd)
		x.shows("live", "10,000 of 10,000 runs")
		pid := x.cmd.Process.Pid
		take := func(n int) float64 {
			const atOnce = 500 // what waits in sockets is taken before the next
			for range n / atOnce {
				d.more <- atOnce
				x.shows("of " + text.Count(deltaRuns+<-d.sent) + " runs")
			}
			return ownMB(b, pid)
		}
		fresh := ownMB(b, pid)
		early := take(tenth)
		cpu := processorTime(b, pid)
		late := take(9 * tenth)
		b.ReportMetric((processorTime(b, pid)-cpu).Seconds()*1000/float64(9*tenth), "cpu-ms/delta")
		b.ReportMetric(fresh, "MB-fresh")
		b.ReportMetric(late, "MB")
		b.ReportMetric(late/early, "MB-all/a-tenth")
		x.keys("q")
		x.gone(0)
		close(d.more)
		server.Close()
	}
	b.ReportMetric(0, "ns/op")
}
