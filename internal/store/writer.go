package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// queueCalls is how many calls wait for the writer before Apply itself
	// waits to get in line.
	queueCalls = 1024
	// maxBatchRows and maxBatchBytes bound what one commit takes along; one
	// call alone may be larger.
	maxBatchRows  = 8192
	maxBatchBytes = 8 << 20
	// sliceEvery is how many commits go before a slice of a delete while
	// writers are waiting all the time.
	sliceEvery = 16
	// retryPause is the time between tries while writes don't work.
	retryPause = time.Second
)

// call is one unit of work for the writer.
type call struct {
	// do may be called again after a failed commit: what it keeps outside of
	// its view it must set anew.
	do func(v *view) error
	// alone calls run in a savepoint, since they may fail alone.
	alone       bool
	rows, bytes int
	// records are for counting alone.
	records int

	state atomic.Int32
	err   error
	done  chan struct{}
}

const (
	callWaiting int32 = iota
	callTaken
	callAbandoned
)

func newCall() *call { return &call{done: make(chan struct{})} }

// abandon takes a call back; false when the writer has it already.
func (c *call) abandon() bool { return c.state.CompareAndSwap(callWaiting, callAbandoned) }

func (c *call) take() bool { return c.state.CompareAndSwap(callWaiting, callTaken) }

func (c *call) finish(err error) {
	c.err = err
	close(c.done)
}

// writer owns the write connection. All of it belongs to the goroutine that
// runs loop, but for queue.
type writer struct {
	store *Store
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	queue chan *call
	// args is what the present statement is given, kept for the next.
	args []any

	// last is the id of the last row of each log, openAfter its stored mark.
	last, openAfter [logKinds]int64

	sweeps []*sweep
	// paused holds sweeps back after one failed; the retry timer ends it.
	paused bool
	retry  *time.Timer
}

func newWriter(s *Store, conn *sql.Conn) *writer {
	retry := time.NewTimer(retryPause)
	retry.Stop()
	return &writer{
		store: s,
		conn:  conn,
		stmts: map[string]*sql.Stmt{},
		queue: make(chan *call, queueCalls),
		retry: retry,
	}
}

// loop serves the queue until it is closed and empty. Deletes go on when
// nobody waits, and now and then when somebody always does.
func (w *writer) loop() {
	since := 0
	for {
		if w.sweepable() && since >= sliceEvery {
			w.sweepSlice()
			since = 0
		}
		select {
		case c, open := <-w.queue:
			if !open {
				return
			}
			w.serve(c)
			since++
			continue
		default:
		}
		if w.sweepable() {
			w.sweepSlice()
			since = 0
			continue
		}
		select {
		case c, open := <-w.queue:
			if !open {
				return
			}
			w.serve(c)
			since++
		case <-w.retry.C:
			w.paused = false
			if w.store.Healthy() != nil {
				w.commit(nil)
			}
		}
	}
}

// serve commits first and whatever else waits by now.
func (w *writer) serve(first *call) {
	calls := make([]*call, 0, 64)
	rows, bytes := 0, 0
	add := func(c *call) {
		if c.take() {
			calls = append(calls, c)
			rows += c.rows
			bytes += c.bytes
		}
	}
	add(first)
	// Whoever was told of the last commit gets to hand over its next call.
	runtime.Gosched()
	for rows < maxBatchRows && bytes < maxBatchBytes {
		select {
		case c, open := <-w.queue:
			if open {
				add(c)
				continue
			}
		default:
		}
		break
	}
	if len(calls) > 0 {
		w.commit(calls)
	}
}

// commit brings calls to disk together and tells each its outcome. Without
// calls it only tries whether writing works.
func (w *writer) commit(calls []*call) {
	start := time.Now()
	savepoints := false
	for {
		b, err := w.attempt(calls, start, savepoints)
		if err == nil {
			w.last, w.openAfter = b.last, b.openAfter
			w.store.publish(b.logs)
			w.sweeps = append(w.sweeps, b.swept...)
			w.recovered()
			records := 0
			for i, c := range calls {
				if b.errs[i] == nil {
					records += c.records
				}
			}
			w.store.load.committed(time.Since(start), records)
			for i, c := range calls {
				c.finish(b.errs[i])
			}
			return
		}
		if errors.Is(err, errNeedsSavepoint) && !savepoints {
			savepoints = true
			continue
		}
		if isBusy(err) && time.Since(start) < w.store.patience {
			time.Sleep(retryEvery)
			continue
		}
		err = explain(err, w.store.path, w.store.patience)
		w.failed(err)
		for _, c := range calls {
			c.finish(err)
		}
		return
	}
}

func (w *writer) recovered() {
	if f := w.store.health.Swap(nil); f != nil {
		w.store.logger.Info("database writes work again", "path", w.store.path)
	}
}

func (w *writer) failed(err error) {
	if f := w.store.health.Swap(&failure{err}); f == nil || f.err.Error() != err.Error() {
		w.store.logger.Error("database write failed", "path", w.store.path, "error", err)
	}
	w.retry.Reset(retryPause)
}

// errNeedsSavepoint: a call that ran without a savepoint failed alone after
// its first statement, so that the batch must start over with savepoints.
var errNeedsSavepoint = errors.New("call failed outside of a savepoint")

// attempt runs one transaction. On an error nothing of it is stored.
func (w *writer) attempt(calls []*call, start time.Time, savepoints bool) (*batch, error) {
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	b := &batch{
		w:         w,
		logs:      map[string]*runLog{},
		last:      w.last,
		openAfter: w.openAfter,
		errs:      make([]error, len(calls)),
	}
	err := b.fill(calls, savepoints)
	for err == nil {
		err = w.exec("COMMIT")
		if err == nil {
			return b, nil
		}
		// A busy COMMIT leaves the transaction open, to be tried again.
		if isBusy(err) && time.Since(start) < w.store.patience {
			time.Sleep(retryEvery)
			err = nil
		}
	}
	// SQLite may have rolled back by itself, then this fails and may.
	_ = w.exec("ROLLBACK")
	return nil, err
}

// batch is the transaction under way and what memory looks like once it is on
// disk. A nil log is a run that was deleted.
type batch struct {
	w               *writer
	logs            map[string]*runLog
	last, openAfter [logKinds]int64
	errs            []error
	// swept are the runs that calls deleted.
	swept []*sweep
}

func (b *batch) fill(calls []*call, savepoints bool) error {
	for i, c := range calls {
		guarded := savepoints || c.alone
		if guarded {
			if err := b.w.exec("SAVEPOINT call"); err != nil {
				return err
			}
		}
		v := &view{batch: b, last: b.last}
		switch err := c.do(v); {
		case err == nil:
			v.keep()
		case !contained(err):
			return err
		case !v.wrote:
			b.errs[i] = err
		case !guarded:
			return errNeedsSavepoint
		default:
			b.errs[i] = err
			if err := b.w.exec("ROLLBACK TO call"); err != nil {
				return err
			}
		}
		if guarded {
			if err := b.w.exec("RELEASE call"); err != nil {
				return err
			}
		}
	}
	if len(calls) == 0 {
		return b.w.exec(`UPDATE exec_log_marks SET open_after = open_after`)
	}
	return b.trim()
}

// exec runs a statement, prepared once, on the write connection. It takes no
// context: a commit is never broken off halfway.
func (w *writer) exec(query string, args ...any) error {
	_, err := w.execResult(query, args...)
	return err
}

func (w *writer) execResult(query string, args ...any) (sql.Result, error) {
	stmt, err := w.stmt(query) //nolint:sqlclosecheck // close does it
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(context.Background(), args...)
}

// queryRow reads one row inside the transaction, sql.ErrNoRows when there is
// none.
func (w *writer) queryRow(query string, args []any, dest ...any) error {
	stmt, err := w.stmt(query) //nolint:sqlclosecheck // close does it
	if err != nil {
		return err
	}
	return stmt.QueryRowContext(context.Background(), args...).Scan(dest...)
}

func (w *writer) stmt(query string) (*sql.Stmt, error) {
	if stmt, ok := w.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	w.stmts[query] = stmt
	return stmt, nil
}

// close ends the waiting for deletes and gives the connection back.
func (w *writer) close() error {
	w.retry.Stop()
	for _, sw := range w.sweeps {
		sw.finish(ErrClosed)
	}
	w.storeMarks()
	var err error
	for _, stmt := range w.stmts {
		if closeErr := stmt.Close(); err == nil {
			err = closeErr
		}
	}
	if closeErr := w.conn.Close(); err == nil {
		err = closeErr
	}
	return err
}
