package store

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cdui/internal/run"
)

// Config says which database to open and how.
type Config struct {
	// Path is the database file. Its folder must exist, on a local disk.
	Path string
	// Logger may be nil.
	Logger *slog.Logger
	// BusyTimeout is how long a write waits for a lock that another program
	// holds; 0 means 60 s.
	BusyTimeout time.Duration
	// ReadOnly opens an existing database of this release for reads, Check and
	// Backup, beside whoever writes it. What is written later is seen except
	// for open tails.
	ReadOnly bool
}

const defaultBusyTimeout = time.Minute

// Store is an open database. Its methods may be called from any goroutine.
type Store struct {
	path     string
	logger   *slog.Logger
	patience time.Duration

	// db holds the write connection, read the read-only ones.
	db, read *sql.DB
	queries  sync.Map // SQL text -> *sql.Stmt of read

	writer     *writer
	writerDone chan struct{}
	artifactID atomic.Int64
	health     atomic.Pointer[failure]
	load       load

	// mu guards active and the finals of the logs in it.
	mu     sync.RWMutex
	active map[string]*runLog

	// gate is held for reading while a call enters the queue.
	gate   sync.RWMutex
	closed bool
}

// failure is why writes don't work at present.
type failure struct{ err error }

// Healthy gives the reason why the last write failed as a whole (ErrFull,
// ErrBusy, ErrReadOnly, a broken disk), nil once writes work again. While it is
// not nil the store itself tries now and then.
func (s *Store) Healthy() error {
	if f := s.health.Load(); f != nil {
		return f.err
	}
	return nil
}

// Close waits for the calls that are under way, then closes the database.
// Deletes that have not come to their end go on at the next Open.
func (s *Store) Close() error {
	s.gate.Lock()
	if s.closed {
		s.gate.Unlock()
		return nil
	}
	s.closed = true
	if s.writer != nil {
		close(s.writer.queue)
	}
	s.gate.Unlock()

	var err error
	if s.writer != nil {
		<-s.writerDone
		err = s.writer.close()
	}
	if closeErr := s.closeDatabases(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("close database %s: %w", s.path, err)
	}
	return nil
}

// closeDatabases closes the readers first: the last connection to go moves the
// write-ahead log into the database, and a read-only one can't.
func (s *Store) closeDatabases() error {
	var err error
	s.queries.Range(func(_, stmt any) bool {
		_ = stmt.(*sql.Stmt).Close()
		return true
	})
	if s.read != nil {
		err = s.read.Close()
	}
	if s.db != nil {
		if closeErr := s.db.Close(); err == nil {
			err = closeErr
		}
	}
	return err
}

// NextArtifactID gives an id for an artifact that is about to be stored, so
// that its event can name it. An id that is not stored leaves a gap.
func (s *Store) NextArtifactID() int64 { return s.artifactID.Add(1) }

// Apply stores changes in one transaction, all or none, and returns once it is
// on disk. An error means that nothing of it was stored. Calls that arrive
// together share a commit; among themselves they keep their order of arrival.
//
// When ctx ends before the writer has taken the call, the call is dropped;
// after that Apply stays until the outcome is known.
func (s *Store) Apply(ctx context.Context, changes ...Change) ([]Result, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	c := newCall()
	c.alone = len(changes) > 1
	all := make([]prepared, len(changes))
	for i, change := range changes {
		p, err := prepare(change)
		if err != nil {
			return nil, err
		}
		all[i] = p
		c.rows += p.rows
		c.records += p.records()
		c.bytes += p.bytes
		c.alone = c.alone || p.failsAlone()
	}
	results := make([]Result, len(all))
	c.do = func(v *view) error { //nolint:contextcheck // the writer's transactions are never broken off halfway
		for i := range all {
			r, err := v.apply(&all[i])
			if err != nil {
				return err
			}
			results[i] = r
		}
		return nil
	}
	if err := s.submit(ctx, c); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Insert != nil {
			all[i].Insert.Seq = results[i].Seq
		}
	}
	return results, nil
}

// submit hands a call to the writer and waits for its outcome.
func (s *Store) submit(ctx context.Context, c *call) error {
	if err := s.enqueue(ctx, c); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if c.abandon() {
		return context.Cause(ctx)
	}
	<-c.done
	return c.err
}

func (s *Store) enqueue(ctx context.Context, c *call) error {
	if s.writer == nil {
		return fmt.Errorf("%w: %s was opened for reading", ErrReadOnly, s.path)
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return fmt.Errorf("%w: %s", ErrClosed, s.path)
	}
	select {
	case s.writer.queue <- c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// published gives the log of an active run as the last commit left it.
func (s *Store) published(id string) (*runLog, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l, ok := s.active[id]
	return l, ok
}

// publish makes the outcome of a commit visible.
func (s *Store) publish(logs map[string]*runLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, l := range logs {
		if l == nil || !l.status.Active() {
			delete(s.active, id)
			continue
		}
		l.finals.add(l.pending)
		l.pending = nil
		s.active[id] = l
	}
}

// recordedSeq is the last stored spool record of a run's present attempt.
func (s *Store) recordedSeq(r *run.Row) uint64 {
	l, ok := s.published(r.ID)
	if !ok || l.recorded.attempt != r.Attempt {
		return 0
	}
	return l.recorded.seq
}
