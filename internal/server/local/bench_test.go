package local_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/local"
	"cdui/internal/server/runs"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost"
	"cdui/internal/spool"
	"cdui/internal/store"
)

const (
	perRound, rounds = 32_768, 5
	bareBatch        = 1000
)

// BenchmarkSpools takes in what runs of this machine left in their spools, as a
// control plane does that starts again: from the files to the commit of the
// last end. Then it inserts the same rows into a bare table, through the same
// driver, with the same sync, in transactions of 1,000. The ratio is the first
// as a share of the second, the median of rounds that take turns.
func BenchmarkSpools(b *testing.B) {
	event := protocol.Record{Type: protocol.Event, Event: run.EventNodeStatus, Payload: json.RawMessage(
		`{"node_id":"n1","status":"running","outputs":[{"output_kind":"progress","progress":{"epoch":3,"step":17,"loss":0.123456,"lr":0.0003}}],"pad":"` + strings.Repeat("x", 50) + `"}`)}
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("events/runs=%d", n), func(b *testing.B) {
			var ours, theirs, ratios []float64
			for b.Loop() {
				for range rounds {
					o, t := spools(b, n, event).Seconds(), bare(b, string(event.Payload)).Seconds()
					ours, theirs, ratios = append(ours, perRound/o), append(theirs, perRound/t), append(ratios, t/o)
				}
			}
			b.ReportMetric(median(ours), "records/s")
			b.ReportMetric(median(theirs), "bare/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// spools gives how long n runs took that left perRound records together.
func spools(b *testing.B, n int, record protocol.Record) time.Duration {
	b.Helper()
	ctx := context.Background()
	dir := b.TempDir()
	shims := filepath.Join(dir, "shims")
	st, err := store.Open(ctx, store.Config{Path: filepath.Join(dir, "cdui.db")})
	must(b, err)
	defer st.Close()
	for i := range n {
		id := fmt.Sprintf("%032x", i+1)
		leave(b, filepath.Join(shims, id), id, perRound/n, record)
		now := time.Now().UTC()
		_, err := st.Apply(ctx, store.Change{Insert: &run.Row{
			ID: id, Status: run.Running, Attempt: 1, QueueKey: "cpu", CreatedAt: now, StartedAt: &now, Devices: []string{"cpu"},
			Graph: json.RawMessage(`{"nodes":[{"id":"n","type":"Command","data":{"params":{"argv":["true"],"cwd":"/"}}}],"edges":[]}`),
		}})
		must(b, err)
	}
	host, err := shimhost.New(shimhost.Config{Dir: shims, Isolate: "none"})
	must(b, err)
	x := local.New(local.Config{Host: host, ShimDir: shims, RunsDir: filepath.Join(dir, "runs")})
	cat, err := catalog.Builtin()
	must(b, err)
	var all sync.WaitGroup
	all.Add(n)
	svc := runs.New(runs.Config{
		Store: st, Executor: x, Limits: scheduler.Limits{GPU: 1, CPU: n}, PayloadCap: 1 << 17, Grace: time.Second, Interactive: 1,
		Devices: func() device.Inventory { return device.Inventory{{Device: "cpu", Kind: "cpu"}} },
		Catalog: func(context.Context) *catalog.Catalog { return cat },
		Ended: func(row run.Row) {
			if row.Status != run.Succeeded {
				b.Errorf("run %s is %s: %s", row.ID, row.Status, row.Error)
			}
			all.Done()
		},
	})
	start := time.Now()
	must(b, svc.Load(ctx))
	all.Wait()
	took := time.Since(start)
	svc.Close()
	x.Wait()
	return took
}

// leave makes the folder of a run that has ended.
func leave(b *testing.B, dir, id string, n int, record protocol.Record) {
	b.Helper()
	must(b, os.MkdirAll(dir, 0o700))
	note, err := os.Create(filepath.Join(dir, wire.NoteFile))
	must(b, err)
	must(b, wire.WriteNote(note, wire.Note{RunID: id, Attempt: 1, State: wire.Ended, Shim: wire.Identity{BootID: proctree.BootID()}}))
	must(b, note.Close())
	w, err := spool.OpenWriter(dir, spool.Options{})
	must(b, err)
	put := func(r protocol.Record) {
		r.Seq, r.TS = w.Next(), time.Now().UTC()
		raw, err := protocol.EncodeRecord(&r)
		must(b, err)
		must(b, w.Append(raw, r.Seq, false))
	}
	put(protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 7}})
	for range n {
		put(record)
	}
	code := 0
	put(protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: string(run.Succeeded), Exit: protocol.Exit{Code: &code}}})
	must(b, w.Close())
}

func bare(b *testing.B, payload string) time.Duration {
	b.Helper()
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	must(b, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `CREATE TABLE bare (id INTEGER PRIMARY KEY, run INTEGER, type TEXT, payload TEXT, ts INTEGER)`)
	must(b, err)
	stmt, err := db.PrepareContext(ctx, `INSERT INTO bare (run, type, payload, ts) VALUES (?, 'node_status', ?, ?)`)
	must(b, err)
	defer stmt.Close()
	start := time.Now()
	for done := 0; done < perRound; done += bareBatch {
		tx, err := db.BeginTx(ctx, nil)
		must(b, err)
		inTx := tx.StmtContext(ctx, stmt) //nolint:sqlclosecheck // it ends with its transaction
		for i := range min(bareBatch, perRound-done) {
			_, err := inTx.ExecContext(ctx, i, payload, start.UnixMicro())
			must(b, err)
		}
		must(b, tx.Commit())
	}
	return time.Since(start)
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
