package store_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cdui/internal/run"
	"cdui/internal/store"
)

// The benchmarks of SPEC 15. Each stores through Apply with every commit on
// disk, then inserts the same rows into a bare table through the same driver in
// transactions of 1,000, and reports the first as a share of the second.

const bareBatch = 1000

// load is how many producers work at once and what each hands over in a call:
// one run has its whole credit of 1,024 records in flight, many have 64 each.
type load struct{ runs, producersPerRun, perCall int }

func loads() []load { return []load{{1, 4, 256}, {64, 1, 64}, {512, 1, 64}} }

func (l load) String() string { return fmt.Sprintf("runs=%d", l.runs) }

func eventPayload() json.RawMessage {
	return json.RawMessage(`{"node_id":"n1","status":"running","outputs":[{"output_kind":"progress","progress":{"epoch":3,"step":17,"loss":0.123456,"lr":0.0003}}],"pad":"` + strings.Repeat("x", 50) + `"}`)
}

// flushPayload is a flush of 64 points, as the shim sends them.
func flushPayload() json.RawMessage {
	points := make([]string, 64)
	for i := range points {
		points[i] = fmt.Sprintf(`{"name":"train/loss%d","value":0.1234567%d,"step":%d}`, i%4, i, 1000+i)
	}
	return json.RawMessage("[" + strings.Join(points, ",") + "]")
}

func BenchmarkEvents(b *testing.B) {
	e := store.Event{Type: run.EventNodeStatus, Payload: eventPayload(), TS: time.Now()}
	bare := `INSERT INTO bare (run, type, payload, ts) VALUES (?, 'node_status', ?, ?)`
	for _, l := range loads() {
		list := make([]store.Event, l.perCall)
		for i := range list {
			list[i] = e
		}
		b.Run(l.String(), func(b *testing.B) {
			throughput(b, l, bare, string(e.Payload), func(id string, seq uint64) store.Change {
				return store.Change{RunID: id, RequireActive: true, RequireAttempt: 1, Attempt: 1, RecordedSeq: seq, Events: list}
			})
		})
	}
}

func BenchmarkMetrics(b *testing.B) {
	m := store.Metrics{Points: flushPayload(), TS: time.Now()}
	bare := `INSERT INTO bare (run, type, payload, ts) VALUES (?, '', ?, ?)`
	for _, l := range loads() {
		list := make([]store.Metrics, l.perCall)
		for i := range list {
			list[i] = m
		}
		b.Run(l.String(), func(b *testing.B) {
			throughput(b, l, bare, string(m.Points), func(id string, seq uint64) store.Change {
				return store.Change{RunID: id, RequireActive: true, RequireAttempt: 1, Attempt: 1, RecordedSeq: seq, Metrics: list}
			})
		})
	}
}

// throughput stores b.N rows both ways, in turns so that a busy machine slows
// both.
func throughput(b *testing.B, l load, bareInsert, payload string, change func(id string, seq uint64) store.Change) {
	b.Helper()
	s := fresh(b)
	for n := range l.runs {
		row := newRow(n)
		row.Status, row.Attempt = run.Running, 1
		apply(b, s, store.Change{Insert: row})
	}
	bare := newBareTable(b, bareInsert)
	const rounds = 16
	var ours, theirs time.Duration
	rows := 0
	seq := atomic.Uint64{}
	b.ResetTimer()
	for range rounds {
		b.StartTimer()
		start := time.Now()
		n := produce(b, s, l, b.N/rounds+1, func(id string) store.Change { return change(id, seq.Add(1)) })
		ours += time.Since(start)
		b.StopTimer()
		start = time.Now()
		bare.insert(b, n, payload)
		theirs += time.Since(start)
		rows += n
	}
	b.ReportMetric(float64(rows)/ours.Seconds(), "rows/s")
	b.ReportMetric(float64(rows)/theirs.Seconds(), "bare/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
	b.ReportMetric(0, "ns/op")
}

// produce stores at least n rows and gives how many it were.
func produce(b *testing.B, s *store.Store, l load, n int, change func(id string) store.Change) int {
	b.Helper()
	calls := int64((n + l.perCall - 1) / l.perCall)
	var taken atomic.Int64
	var group sync.WaitGroup
	for r := range l.runs {
		for range l.producersPerRun {
			group.Go(func() {
				for taken.Add(1) <= calls {
					if _, err := s.Apply(context.Background(), change(runID(r))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
	}
	group.Wait()
	return int(calls) * l.perCall
}

type bareTable struct {
	insert func(b *testing.B, n int, payload string)
}

func newBareTable(b *testing.B, query string) bareTable {
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
	stmt, err := db.PrepareContext(ctx, query)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	ts := time.Now().UnixMicro()
	return bareTable{insert: func(b *testing.B, n int, payload string) {
		b.Helper()
		for done := 0; done < n; {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				b.Fatal(err)
			}
			in := tx.StmtContext(ctx, stmt) //nolint:sqlclosecheck // the commit does it
			for range min(bareBatch, n-done) {
				if _, err := in.ExecContext(ctx, done%512, payload, ts); err != nil {
					b.Fatal(err)
				}
				done++
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
	}}
}

// BenchmarkInsert is the latency of a single submit beside stored runs.
func BenchmarkInsert(b *testing.B) {
	s := fresh(b)
	stored := 0
	for _, size := range []int{0, 10_000, 100_000} {
		for stored < size {
			var changes []store.Change
			for range 1000 {
				c := store.Change{Insert: benchRow(stored)}
				if stored%10 != 0 {
					c.Insert.Status = run.Succeeded
				}
				changes = append(changes, c)
				stored++
			}
			apply(b, s, changes...)
		}
		b.Run(fmt.Sprintf("stored=%d", size), func(b *testing.B) {
			for b.Loop() {
				apply(b, s, store.Change{Insert: benchRow(stored)})
				stored++
			}
		})
	}
}

// benchRow spreads ids as random ones are.
func benchRow(n int) *run.Row {
	row := newRow(n)
	row.ID = fmt.Sprintf("%016x%016x", uint64(n)*0x9E3779B97F4A7C15, n)
	row.Graph = json.RawMessage(`{"nodes":[{"id":"script","type":"Script","data":{"params":{"path":"/home/x/train.py"}}}],"edges":[]}`)
	return row
}
