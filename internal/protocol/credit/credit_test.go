package credit_test

import (
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/protocol"
	"cdui/internal/protocol/credit"
)

// W-03: 1,024 records or 4 MiB.
func TestCreditLimitsRecordsAndBytes(t *testing.T) {
	var c credit.Run
	for seq := uint64(1); seq <= protocol.CreditRecords; seq++ {
		if !c.Fits(1) {
			t.Fatalf("record %d does not fit", seq)
		}
		c.Sent(seq, 1)
	}
	if c.Fits(1) {
		t.Error("one record too many fits")
	}
	if !c.Acked(1) || !c.Fits(1) {
		t.Error("an acknowledged record made no room")
	}
	if c.Fits(protocol.CreditBytes) {
		t.Error("more bytes than the credit fit")
	}
	c.Reset()
	if records, bytes := c.Out(); records != 0 || bytes != 0 || !c.Fits(protocol.CreditBytes) {
		t.Errorf("%d records and %d bytes are on the way in a new session", records, bytes)
	}
}

func TestARecordBeyondTheCreditTravelsAlone(t *testing.T) {
	var c credit.Run
	if !c.Fits(protocol.MaxRecordBytes) {
		t.Fatal("it would wait for ever")
	}
	c.Sent(1, protocol.MaxRecordBytes)
	if c.Fits(0) {
		t.Error("another one goes with it")
	}
	c.Acked(1)
	c.Sent(2, 10)
	if c.Fits(protocol.MaxRecordBytes) {
		t.Error("it goes with another one")
	}
}

func TestCreditTakesNoHarmFromOddAcks(t *testing.T) {
	var c credit.Run
	c.Sent(5, 10)
	c.Sent(5, 10)
	c.Sent(4, 10)
	if records, bytes := c.Out(); records != 1 || bytes != 10 {
		t.Errorf("%d records, %d bytes: counted twice", records, bytes)
	}
	if c.Acked(4) {
		t.Error("an old ack made room")
	}
	if !c.Acked(1 << 60) {
		t.Error("an ack of more than was sent made no room")
	}
	if records, bytes := c.Out(); records != 0 || bytes != 0 {
		t.Errorf("%d records, %d bytes", records, bytes)
	}
}

// TestCreditHoldsInAnyHistory: never more on the way than the credit, unless
// it is one record; nothing is stuck; Take agrees with Fits one by one.
func TestCreditHoldsInAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c credit.Run
		sizes := map[uint64]int{}
		sent, acked := uint64(0), uint64(0)
		size := rapid.OneOf(rapid.IntRange(1, 200), rapid.IntRange(1, protocol.MaxRecordBytes))
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				batch := rapid.SliceOfN(size, 0, 300).Draw(t, "sizes")
				n := c.Take(batch...)
				for i, s := range batch[:n] {
					if !c.Fits(s) {
						t.Fatalf("Take gave %d, but record %d does not fit", n, i)
					}
					sent++
					sizes[sent] = s
					c.Sent(sent, s)
				}
				if n < len(batch) && c.Fits(batch[n]) {
					t.Fatalf("Take gave %d, though the next one fits", n)
				}
			},
			"ack": func(t *rapid.T) {
				acked = rapid.Uint64Range(acked, sent).Draw(t, "seq")
				c.Acked(acked)
			},
			"": func(t *rapid.T) {
				total := int64(0)
				for seq := acked + 1; seq <= sent; seq++ {
					total += int64(sizes[seq])
				}
				records, bytes := c.Out()
				if records != int(sent-acked) || bytes != total {
					t.Fatalf("counts %d records and %d bytes, %d and %d are on the way", records, bytes, sent-acked, total)
				}
				if records > 1 && (records > protocol.CreditRecords || bytes > protocol.CreditBytes) {
					t.Fatalf("%d records and %d bytes are on the way", records, bytes)
				}
				if records == 0 && !c.Fits(protocol.MaxRecordBytes) {
					t.Fatal("stuck with nothing on the way")
				}
			},
		})
	})
}
