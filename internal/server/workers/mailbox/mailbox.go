// Package mailbox keeps, in order, what is still to be told of one run: records,
// and other things to do. How much may wait is bounded by the credit that a
// worker has.
package mailbox

import (
	"context"
	"errors"
	"slices"
	"sync"

	"cdui/internal/protocol"
)

// Mailbox holds what is still to be told of one run, in order. One goroutine
// at a time works it off, and none while it is empty.
type Mailbox struct {
	mu      sync.Mutex
	letters []Letter
	busy    bool
	// waiting and size count the records that nobody has begun to store.
	waiting int
	size    int
}

// Letter is records, or something else to do.
type Letter struct {
	Records []protocol.Record
	Do      func(ctx context.Context)
}

// ErrBeyondCredit means that a worker sends more than it may have on the way.
var ErrBeyondCredit = errors.New("more records than its credit")

// The most that may wait for one run: what an agent may have on the way, twice,
// since a credit is counted anew with each session.
const (
	maxWaiting = 2 * protocol.CreditRecords
	maxSize    = 2*protocol.CreditBytes + protocol.MaxRecordBytes
)

// Post adds a letter and tells whether the caller must start work.
func (m *Mailbox) Post(l Letter) (start bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(l.Records) > 0 {
		size := sizeOf(l.Records)
		if m.waiting+len(l.Records) > maxWaiting || m.size+size > maxSize {
			return false, ErrBeyondCredit
		}
		m.waiting += len(l.Records)
		m.size += size
	}
	if l.Do != nil || len(l.Records) > 0 {
		m.letters = append(m.letters, l)
	}
	start = !m.busy && len(m.letters) > 0
	m.busy = m.busy || start
	return start, nil
}

// Next takes the first letter, with the records of those that follow it at
// once; false when there is none, and then the work is over.
func (m *Mailbox) Next() (Letter, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.letters) == 0 {
		m.busy = false
		return Letter{}, false
	}
	l := m.letters[0]
	together, n := 1, len(l.Records)
	for l.Do == nil && together < len(m.letters) && m.letters[together].Do == nil {
		n += len(m.letters[together].Records)
		together++
	}
	if together > 1 {
		l.Records = make([]protocol.Record, 0, n)
		for _, part := range m.letters[:together] {
			l.Records = append(l.Records, part.Records...)
		}
	}
	m.letters = slices.Delete(m.letters, 0, together) // and lets go of them
	m.waiting -= len(l.Records)
	m.size -= sizeOf(l.Records)
	return l, true
}

func sizeOf(records []protocol.Record) int {
	size := 0
	for _, rec := range records {
		size += len(rec.Raw)
	}
	return size
}

// DropRecords forgets the records that nobody has begun to store: the next
// session brings them again.
func (m *Mailbox) DropRecords() {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.letters[:0]
	for _, l := range m.letters {
		if l.Do != nil {
			kept = append(kept, l)
		}
	}
	m.letters, m.waiting, m.size = kept, 0, 0
}
