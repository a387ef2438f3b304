package shimhost

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"cdui/internal/console"
	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
	"cdui/internal/spool"
)

const (
	// batchRecords and batchBytes bound what one Next gives.
	batchRecords = 512
	batchBytes   = 1 << 20
)

// Run is one run as this host follows it. Next must be called from one
// goroutine at a time; everything else is safe for concurrent use.
type Run struct {
	host    *Host
	dir     string
	id      string
	attempt int
	// shimPID is the process that this host started, 0 when it found the run.
	shimPID int
	devices []string

	reader *spool.Reader
	// finished is set once run_finished was given.
	finished bool

	cancelFollow context.CancelFunc
	done         chan struct{}

	mu      sync.Mutex
	changed chan struct{}
	link    *link
	dead    bool
	failed  error
	status  Status
}

// Status is what the shim last said of itself.
type Status struct {
	// Seq is the last record, Console the size of the output.
	Seq     uint64
	Console int64
	// Stopping is when the run will be killed; zero while it is not asked to
	// stop. StopReason is cancel, timeout or killed.
	Stopping   time.Time
	StopReason string
	// Dead tells that the shim is gone.
	Dead bool
	// Torch tells that the run's main process has imported torch; it is known
	// at the end.
	Torch bool
}

func newRun(h *Host, dir, id string, attempt, shimPID int) *Run {
	return &Run{
		host: h, dir: dir, id: id, attempt: attempt, shimPID: shimPID,
		reader: spool.NewReader(dir, 0),
		done:   make(chan struct{}), changed: make(chan struct{}),
	}
}

// Attach follows a run that has a folder: live, ended or lost.
func (h *Host) Attach(ctx context.Context, runID string) (*Run, error) {
	if _, err := h.runDir(runID); err != nil {
		return nil, fmt.Errorf("attach to run: %w", err)
	}
	f, err := h.look(runID)
	if err != nil {
		return nil, fmt.Errorf("attach to run %s: %w", runID, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := newRun(h, filepath.Join(h.dir, runID), runID, f.Attempt, 0)
	if note, _ := h.note(runID); note.RunID == runID {
		r.devices = note.Devices
	}
	r.follow(nil, nil)
	return r, nil
}

// ID is the run's id.
func (r *Run) ID() string { return r.id }

// Attempt tells which placement of the run this is.
func (r *Run) Attempt() int { return r.attempt }

// Devices are the run's own, so far as its shim has noted them.
func (r *Run) Devices() []string { return r.devices }

// Done is closed when the shim is gone or is not followed any more.
func (r *Run) Done() <-chan struct{} { return r.done }

// Dir is the run's folder.
func (r *Run) Dir() string { return r.dir }

// From makes Next start after record seq. Call it while no Next waits; records
// that were given before are given again.
func (r *Run) From(seq uint64) {
	r.finished = false
	r.reader.Close()
	r.reader = spool.NewReader(r.dir, seq)
}

// Console reads what the run printed.
func (r *Run) Console() *console.Reader { return console.NewReader(r.dir) }

// Status gives what the shim last said of itself.
func (r *Run) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Changed gives a channel that is closed at the next change of Status: the
// nudge to look for records or output.
func (r *Run) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// update changes the state under the lock and wakes who waits for a change.
func (r *Run) update(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Next waits for the records after the last ones that it gave. It gives io.EOF
// once run_finished was given, and an error that is ErrLost, ErrNeverStarted or
// ErrReplaced when there will be no end.
func (r *Run) Next(ctx context.Context) ([]protocol.Record, error) {
	for {
		if r.finished {
			return nil, io.EOF
		}
		// What the shim wrote before it died is read after that is known.
		r.mu.Lock()
		changed, dead, failed := r.changed, r.dead, r.failed
		r.mu.Unlock()
		recs, err := r.read()
		if err != nil || len(recs) > 0 {
			return recs, err
		}
		switch {
		case failed != nil:
			return nil, fmt.Errorf("follow run %s: %w", r.id, failed)
		case dead:
			return r.lastWord()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// read gives what the spool holds. A record that can't be understood is left
// out; its number shows as a gap.
func (r *Run) read() ([]protocol.Record, error) {
	for {
		raw, err := r.reader.Next(batchRecords, batchBytes)
		if err != nil {
			return nil, fmt.Errorf("read records of run %s: %w", r.id, err)
		}
		out := make([]protocol.Record, 0, len(raw))
		for _, rec := range raw {
			dec, err := protocol.DecodeRecord(rec.Data)
			if err != nil || dec.Seq != rec.Seq {
				r.host.log.Error("record is damaged", "run_id", r.id, "seq", rec.Seq, "error", err)
				continue
			}
			out = append(out, dec)
			r.finished = r.finished || dec.Type == protocol.RunFinished
		}
		if len(out) > 0 || len(raw) == 0 {
			return out, nil
		}
	}
}

// lastWord decides what a dead shim's spool without run_finished means.
func (r *Run) lastWord() ([]protocol.Record, error) {
	last, ok, err := spool.Last(r.dir)
	if err != nil {
		return nil, fmt.Errorf("read records of run %s: %w", r.id, err)
	}
	next := r.reader.Seq()
	if ok {
		next = max(next, last.Seq+1)
		if rec, err := protocol.DecodeRecord(last.Data); err == nil && rec.Type == protocol.RunFinished {
			r.finished = true
			return nil, io.EOF
		}
	}
	exit, ok, err := wire.ReadExit(r.dir)
	if err != nil {
		r.host.log.Error("exit record is damaged", "run_id", r.id, "error", err)
	}
	if err == nil && ok {
		rec := protocol.Record{Seq: next, Type: protocol.RunFinished, TS: exit.TS, Finished: &exit.Finished}
		if _, err := protocol.EncodeRecord(&rec); err != nil {
			return nil, err
		}
		r.finished = true
		return []protocol.Record{rec}, nil
	}
	note, noted := r.host.note(r.id)
	if !noted || note.State == wire.Waiting {
		return nil, fmt.Errorf("follow run %s: %w", r.id, ErrNeverStarted)
	}
	return nil, &LostError{
		RunID: r.id, BootChanged: note.Shim.BootID != proctree.BootID(), Swept: r.host.sweepRun(r.id),
	}
}

// Ack tells the shim that every record up to seq is stored for good. The shim
// deletes whole segments by it; one that does not hear it loses nothing.
func (r *Run) Ack(seq uint64) {
	if l := r.current(); l != nil {
		_ = l.send(wire.Message{Op: wire.OpAck, Seq: seq})
	}
}

func (r *Run) current() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link
}

// Close stops following. The run goes on.
func (r *Run) Close() {
	r.cancelFollow()
	<-r.done
	r.reader.Close()
}
