package workers_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/protocol/credit"
	"cdui/internal/run"
)

const (
	// flush is what one run adds to a frame at most, as an agent's flows do.
	flush, flushBytes = 64, 64 << 10
	perRound, rounds  = 32_768, 5
	bareBatch         = 1000
)

// load is a record that runs report again and again, and the rows that it
// becomes.
type load struct {
	name   string
	record protocol.Record
	rows   []string
	n      int
}

func loads() []load {
	event := protocol.Record{Type: protocol.Event, Event: run.EventNodeStatus, Payload: json.RawMessage(
		`{"node_id":"n1","status":"running","outputs":[{"output_kind":"progress","progress":{"epoch":3,"step":17,"loss":0.123456,"lr":0.0003}}],"pad":"` + strings.Repeat("x", 50) + `"}`)}
	points := make([]string, protocol.MaxPoints)
	for i := range points {
		points[i] = fmt.Sprintf(`{"name":"train/loss%d","value":0.1234567%d,"step":%d}`, i%4, i, 1000+i)
	}
	metrics := protocol.Record{Type: protocol.Metrics, Points: json.RawMessage("[" + strings.Join(points, ",") + "]")}
	return []load{
		{"events", event, []string{string(event.Payload)}, perRound},
		// Points are stored, and announced in an event that has them, too.
		{"metrics", metrics, []string{string(metrics.Points), string(run.MetricEvent(metrics.Points))}, perRound / 8},
	}
}

// BenchmarkFrames brings records of many runs to a control plane over a
// WebSocket, within their credit, and takes the time from the first frame to
// the commit of the last one. The frames are made before. Then it inserts the
// same rows into a bare table, through the same driver, with the same sync, in
// transactions of 1,000. The ratio is the first as a share of the second, the
// median of rounds that take turns; the one of processor time has the agent's
// sending in it.
func BenchmarkFrames(b *testing.B) {
	for _, l := range loads() {
		for _, n := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("%s/runs=%d", l.name, n), func(b *testing.B) {
				f := newFleet(b, n, l.record)
				bare := newBare(b)
				var ours, theirs, ratios, cpu []float64
				for b.Loop() {
					for range rounds {
						o, t := f.round(l.n), bare(l.n, l.rows)
						ours, theirs = append(ours, float64(l.n)/o.wall), append(theirs, float64(l.n)/t.wall)
						ratios, cpu = append(ratios, t.wall/o.wall), append(cpu, t.cpu/o.cpu)
					}
				}
				b.ReportMetric(median(ours), "records/s")
				b.ReportMetric(median(theirs), "bare/s")
				b.ReportMetric(median(ratios), "ratio")
				b.ReportMetric(median(cpu), "cpu-ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// spent is what something took, in seconds.
type spent struct{ wall, cpu float64 }

// cpuTime is what this process has had of the processors: unlike the clock it
// doesn't see what else the machine does.
func cpuTime() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// fleet is one worker with many runs.
type fleet struct {
	b      *testing.B
	a      *agent
	runs   []*protocol.Assign
	record protocol.Record

	mu     sync.Mutex
	moved  *sync.Cond
	sent   []uint64
	credit []credit.Run
	place  map[string]int
	// stored is when the last commit was told.
	stored time.Time
}

func newFleet(b *testing.B, n int, record protocol.Record) *fleet {
	b.Helper()
	f := &fleet{b: b, record: record, sent: make([]uint64, n), credit: make([]credit.Run, n), place: map[string]int{}}
	f.moved = sync.NewCond(&f.mu)
	p := newPlane(b, nil)
	p.cpus = n
	p.notify = func(string) {
		f.mu.Lock()
		f.stored = time.Now()
		f.mu.Unlock()
	}
	p.restart()
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
		f.credit[i].Sent(1, 1)
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
		f.credit[f.place[ack.RunID]].Acked(ack.Seq)
		f.moved.Broadcast()
		f.mu.Unlock()
	}
	return ok
}

// settle waits until all that was sent is acknowledged.
func (f *fleet) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.credit {
		for out := 1; out > 0; {
			if out, _ = f.credit[i].Out(); out > 0 {
				f.moved.Wait()
			}
		}
	}
}

// piece are records of one run.
type piece struct {
	run, n, size int
	last         uint64
}

// batch is a frame as it travels, and whose credit it takes.
type batch struct {
	wire   []byte
	pieces []piece
}

// batches makes the frames of a round: runs take turns, and a frame is closed
// where an agent closes it.
func (f *fleet) batches(n int) []batch {
	f.b.Helper()
	var out []batch
	frame, pieces, bytes := &protocol.Frames{}, []piece{}, 0
	closeFrame := func() {
		raw, err := protocol.Encode(f.a.epoch, frame)
		if err != nil {
			f.b.Fatal(err)
		}
		out = append(out, batch{wire(raw), pieces})
		frame, pieces, bytes = &protocol.Frames{}, nil, 0
	}
	share := (n + len(f.runs) - 1) / len(f.runs)
	given := make([]int, len(f.runs))
	for left := n; left > 0; {
		for k, as := range f.runs {
			p := piece{run: k}
			records := protocol.RunRecords{RunID: as.RunID, Attempt: 1}
			for p.n < min(flush, share-given[k], left) && p.size < flushBytes {
				f.sent[k]++
				raw := record(f.b, f.sent[k], f.record)
				records.Records = append(records.Records, raw)
				p.n, p.size, p.last = p.n+1, p.size+len(raw), f.sent[k]
			}
			if p.n == 0 {
				continue
			}
			given[k], left, bytes = given[k]+p.n, left-p.n, bytes+p.size
			frame.Runs, pieces = append(frame.Runs, records), append(pieces, p)
			if bytes >= protocol.BatchBytes {
				closeFrame()
			}
		}
	}
	if bytes > 0 {
		closeFrame()
	}
	return out
}

// wire makes a client's WebSocket message. Its mask is 0, which changes nothing
// for the server and spares the sender the masking.
func wire(payload []byte) []byte {
	const finalText, masked64 = 0x81, 0x80 | 127
	b := binary.BigEndian.AppendUint64([]byte{finalText, masked64}, uint64(len(payload)))
	return append(append(b, 0, 0, 0, 0), payload...)
}

// round sends n records in all and gives what it took to have them stored.
func (f *fleet) round(n int) spent {
	f.b.Helper()
	batches := f.batches(n)
	runtime.GC() // what was made for the round isn't paid for in it
	cpu, start := cpuTime(), time.Now()
	for _, b := range batches {
		f.mu.Lock()
		for _, p := range b.pieces {
			for !f.fits(p) {
				f.moved.Wait()
			}
		}
		for _, p := range b.pieces {
			for i := range p.n {
				f.credit[p.run].Sent(p.last-uint64(p.n-1-i), p.size/p.n) //nolint:gosec // small
			}
		}
		f.mu.Unlock()
		if _, err := f.a.conn.NetConn().Write(b.wire); err != nil {
			f.b.Fatal(err)
		}
	}
	f.settle()
	f.mu.Lock()
	defer f.mu.Unlock()
	return spent{f.stored.Sub(start).Seconds(), cpuTime() - cpu}
}

// fits tells whether a piece is within its run's credit. The caller holds mu.
func (f *fleet) fits(p piece) bool {
	records, bytes := f.credit[p.run].Out()
	return records == 0 || records+p.n <= protocol.CreditRecords && bytes+int64(p.size) <= protocol.CreditBytes
}

// newBare gives a function that inserts n times the same rows and tells what it
// took.
func newBare(b *testing.B) func(n int, rows []string) spent {
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
	return func(n int, rows []string) spent {
		b.Helper()
		cpu, start := cpuTime(), time.Now()
		for done, all := 0, n*len(rows); done < all; done += bareBatch {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				b.Fatal(err)
			}
			inTx := tx.StmtContext(ctx, stmt) //nolint:sqlclosecheck // it ends with its transaction
			for i := range min(bareBatch, all-done) {
				if _, err := inTx.ExecContext(ctx, i, rows[i%len(rows)], start.UnixMicro()); err != nil {
					b.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		return spent{time.Since(start).Seconds(), cpuTime() - cpu}
	}
}
