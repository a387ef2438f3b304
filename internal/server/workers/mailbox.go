package workers

import (
	"context"
	"errors"
	"sync"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/server/runs"
)

// mailbox holds what is still to be told of one run, in order. One goroutine
// at a time works it off, and none while it is empty.
type mailbox struct {
	mu      sync.Mutex
	letters []letter
	busy    bool
	// waiting and size count the records that nobody has begun to store.
	waiting int
	size    int
}

// letter is records, or something else to do.
type letter struct {
	records []protocol.Record
	do      func(ctx context.Context)
}

// errBeyondCredit: a worker sends more than it may have on the way.
var errBeyondCredit = errors.New("more records than its credit")

// The most that may wait for one run: what an agent may have on the way, twice,
// since a credit is counted anew with each session.
const (
	maxWaiting = 2 * protocol.CreditRecords
	maxSize    = 2*protocol.CreditBytes + protocol.MaxRecordBytes
)

// post adds a letter and tells whether the caller must start work.
func (m *mailbox) post(l letter) (start bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(l.records) > 0 {
		size := sizeOf(l.records)
		if m.waiting+len(l.records) > maxWaiting || m.size+size > maxSize {
			return false, errBeyondCredit
		}
		m.waiting += len(l.records)
		m.size += size
		if n := len(m.letters); n > 0 && m.letters[n-1].do == nil {
			m.letters[n-1].records = append(m.letters[n-1].records, l.records...)
			l.records = nil
		}
	}
	if l.do != nil || len(l.records) > 0 {
		m.letters = append(m.letters, l)
	}
	start = !m.busy && len(m.letters) > 0
	m.busy = m.busy || start
	return start, nil
}

// next takes the first letter; false when there is none, and then the work is
// over.
func (m *mailbox) next() (letter, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.letters) == 0 {
		m.busy = false
		return letter{}, false
	}
	l := m.letters[0]
	m.letters = m.letters[1:]
	m.waiting -= len(l.records)
	m.size -= sizeOf(l.records)
	return l, true
}

func sizeOf(records []protocol.Record) int {
	size := 0
	for _, rec := range records {
		size += len(rec.Raw)
	}
	return size
}

// dropRecords forgets the records that nobody has begun to store: the next
// session brings them again.
func (m *mailbox) dropRecords() {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.letters[:0]
	for _, l := range m.letters {
		if l.do != nil {
			kept = append(kept, l)
		}
	}
	m.letters, m.waiting, m.size = kept, 0, 0
}

const (
	retryFirst = 250 * time.Millisecond
	retryMost  = 10 * time.Second
)

// insist calls deliver until the sink has taken it, or never will: nil, ErrGone
// or the end of ctx.
func (r *Registry) insist(ctx context.Context, what, runID string, deliver func(ctx context.Context) error) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := deliver(ctx)
		if err == nil || errors.Is(err, runs.ErrGone) || ctx.Err() != nil {
			return err
		}
		r.log.Warn("report delayed", "what", what, "run_id", runID, "error", err)
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
