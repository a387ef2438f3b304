package mailbox_test

import (
	"context"
	"errors"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/server/workers/mailbox"
)

func records(from, to uint64) mailbox.Letter {
	var l mailbox.Letter
	for seq := from; seq <= to; seq++ {
		l.Records = append(l.Records, protocol.Record{Seq: seq, Raw: []byte("{}")})
	}
	return l
}

// TestRecordsThatWaitAreTakenTogetherAndInOrder: what came in several frames is
// stored at once, but not across something else that is to be done between.
func TestRecordsThatWaitAreTakenTogetherAndInOrder(t *testing.T) {
	var m mailbox.Mailbox
	post := func(l mailbox.Letter, wantStart bool) {
		t.Helper()
		if start, err := m.Post(l); err != nil || start != wantStart {
			t.Fatalf("start %v, %v", start, err)
		}
	}
	post(records(1, 2), true)
	post(records(3, 3), false)
	post(mailbox.Letter{Do: func(context.Context) {}}, false)
	post(records(4, 5), false)
	for _, want := range [][]uint64{{1, 2, 3}, nil, {4, 5}} {
		l, ok := m.Next()
		if !ok || (l.Do == nil) != (want != nil) || len(l.Records) != len(want) {
			t.Fatalf("%+v, %v, want %v", l, ok, want)
		}
		for i, seq := range want {
			if l.Records[i].Seq != seq {
				t.Errorf("record %d has number %d, want %d", i, l.Records[i].Seq, seq)
			}
		}
	}
	if _, ok := m.Next(); ok {
		t.Error("something is left")
	}
	post(records(6, 6), true)
}

// TestAWorkerIsHeldToItsCredit proves W-03.
func TestAWorkerIsHeldToItsCredit(t *testing.T) {
	var m mailbox.Mailbox
	for range 2 {
		if _, err := m.Post(records(1, protocol.CreditRecords)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Post(records(1, 1)); !errors.Is(err, mailbox.ErrBeyondCredit) {
		t.Errorf("got %v", err)
	}
	m.DropRecords()
	if _, err := m.Post(records(1, 1)); err != nil {
		t.Errorf("after the records were dropped: %v", err)
	}
}
