package workers_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

const (
	// window is a run's credit, flush what a shim hands over at once, and most
	// what one frame takes.
	window, flush, most = 1024, 64, 1024
	perRound            = 32_768
	bareBatch           = 1000
)

// BenchmarkFrames sends records of many runs as an agent does, within their
// credit, and waits until the last one is acknowledged, which it is once its
// transaction is on disk. Then it inserts rows with the same payloads into a
// bare table, through the same driver, with the same sync, in transactions of
// 1,000. The ratio is the first as a share of the second; what an agent does
// before it has a frame is not in it.
func BenchmarkFrames(b *testing.B) {
	event := protocol.Record{Type: protocol.Event, Event: run.EventNodeStatus, Payload: json.RawMessage(
		`{"node_id":"n1","status":"running","outputs":[{"output_kind":"progress","progress":{"epoch":3,"step":17,"loss":0.123456,"lr":0.0003}}],"pad":"` + strings.Repeat("x", 50) + `"}`)}
	points := make([]string, flush)
	for i := range points {
		points[i] = fmt.Sprintf(`{"name":"train/loss%d","value":0.1234567%d,"step":%d}`, i%4, i, 1000+i)
	}
	metrics := protocol.Record{Type: protocol.Metrics, Points: json.RawMessage("[" + strings.Join(points, ",") + "]")}
	for _, c := range []struct {
		name    string
		record  protocol.Record
		payload string
		n       int
	}{
		{"events", event, string(event.Payload), perRound},
		{"metrics", metrics, string(metrics.Points), perRound / 8},
	} {
		for _, runs := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("%s/runs=%d", c.name, runs), func(b *testing.B) {
				f := newFleet(b, runs, c.record)
				bare := newBare(b)
				var ours, theirs time.Duration
				rows := 0
				for b.Loop() {
					ours += f.round(c.n)
					theirs += bare(c.n, c.payload)
					rows += c.n
				}
				b.ReportMetric(float64(rows)/ours.Seconds(), "frames/s")
				b.ReportMetric(float64(rows)/theirs.Seconds(), "bare/s")
				b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// fleet is one worker with many runs that report the same record again and
// again.
type fleet struct {
	b      *testing.B
	a      *agent
	runs   []*protocol.Assign
	record protocol.Record

	mu          sync.Mutex
	moved       *sync.Cond
	sent, acked []uint64
	place       map[string]int
}

func newFleet(b *testing.B, n int, record protocol.Record) *fleet {
	b.Helper()
	p := newPlane(b, nil)
	p.cpus = n
	p.restart()
	f := &fleet{b: b, record: record, sent: make([]uint64, n), acked: make([]uint64, n), place: map[string]int{}}
	f.moved = sync.NewCond(&f.mu)
	f.a = p.connect(p.enrolled("box"), "box", nil)
	one := api.SubmitRequest{Options: json.RawMessage(`{"target":{"worker":"box"},"command":{"argv":["true"],"cwd":"/"}}`)}
	all := make([]api.SubmitRequest, n)
	for i := range all {
		all[i] = one
	}
	if _, err := p.svc.Submit(context.Background(), "", all...); err != nil {
		b.Fatal(err)
	}
	for range n {
		as := take[*protocol.Assign](f.a)
		f.place[as.RunID] = len(f.runs)
		f.runs = append(f.runs, as)
	}
	f.a.mu.Lock()
	f.a.heard = f.hear
	f.a.mu.Unlock()
	for i, as := range f.runs {
		f.sent[i] = 1
		f.a.report(as, 1, started())
	}
	f.settle()
	return f
}

// hear takes the acknowledgements out of what comes.
func (f *fleet) hear(frame protocol.Frame) bool {
	ack, ok := frame.(*protocol.Ack)
	if ok {
		f.mu.Lock()
		f.acked[f.place[ack.RunID]] = ack.Seq
		f.moved.Broadcast()
		f.mu.Unlock()
	}
	return ok
}

// settle waits until all that was sent is acknowledged.
func (f *fleet) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.runs {
		for f.acked[i] < f.sent[i] {
			f.moved.Wait()
		}
	}
}

// round sends n records in all and gives how long it took to have them stored.
func (f *fleet) round(n int) time.Duration {
	f.b.Helper()
	// What an agent sends are bytes of its spool, which are there already.
	spools := make([][]json.RawMessage, len(f.runs))
	for i := range n {
		k := i / flush % len(f.runs)
		spools[k] = append(spools[k], record(f.b, f.sent[k]+uint64(len(spools[k]))+1, f.record)) //nolint:gosec // small
	}
	start := time.Now()
	for left := n; left > 0; {
		frame := &protocol.Frames{}
		size := 0
		f.mu.Lock()
		for {
			for k := range f.runs {
				take := min(flush, len(spools[k]), window-int(f.sent[k]-f.acked[k]), most-size) //nolint:gosec // small
				if take <= 0 {
					continue
				}
				frame.Runs = append(frame.Runs, protocol.RunRecords{RunID: f.runs[k].RunID, Attempt: 1, Records: spools[k][:take]})
				spools[k] = spools[k][take:]
				f.sent[k] += uint64(take) //nolint:gosec // small
				size += take
			}
			if size > 0 {
				break
			}
			f.moved.Wait()
		}
		f.mu.Unlock()
		f.a.send(frame)
		left -= size
	}
	f.settle()
	return time.Since(start)
}

// newBare gives a function that inserts n rows and tells how long it took.
func newBare(b *testing.B) func(n int, payload string) time.Duration {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { _ = db.Close() })
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, `CREATE TABLE bare (id INTEGER PRIMARY KEY, run INTEGER, type TEXT, payload TEXT, ts INTEGER)`); err != nil {
		b.Fatal(err)
	}
	stmt, err := db.PrepareContext(ctx, `INSERT INTO bare (run, type, payload, ts) VALUES (?, 'node_status', ?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	return func(n int, payload string) time.Duration {
		b.Helper()
		start := time.Now()
		for done := 0; done < n; done += bareBatch {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				b.Fatal(err)
			}
			inTx := tx.StmtContext(ctx, stmt) //nolint:sqlclosecheck // it ends with its transaction
			for i := range min(bareBatch, n-done) {
				if _, err := inTx.ExecContext(ctx, i, payload, start.UnixMicro()); err != nil {
					b.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start)
	}
}
