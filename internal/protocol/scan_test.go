package protocol_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"cdui/internal/protocol"
)

// recordForms are records as this release writes them, in other forms, and
// what is none.
var recordForms = []string{
	`{"seq":1,"type":"event","ts":"2026-03-01T10:00:00.123Z","event":"node_status","payload":{"node_id":"n","status":"running"}}`,
	`{"seq":2,"type":"metrics","ts":"2026-03-01T10:00:00Z","points":[{"name":"loss","value":0.5,"step":1}]}`,
	`{"seq":3,"type":"artifact","ts":"2026-03-01T10:00:00Z","kind":"file","path":"a/\u00e9 b","meta":{"x":[1]},"node_id":"n"}`,
	`{"seq":4,"type":"run_facts","ts":"2026-03-01T10:00:00+02:00","facts":{"a":1}}`,
	`{"seq":5,"type":"run_started","ts":"2026-03-01T10:00:00Z","started":{"pid":7,"visible_devices":["cpu"]}}`,
	`{"seq":6,"type":"run_finished","ts":"2026-03-01T10:00:00Z","finished":{"status":"failed","exit":{"code":1,"signal":null}}}`,
	` { "seq" : 7 , "type":"of_a_later_release","ts":null,"more":{"deep":[1]}} `,
	`{"SEQ":8,"Type":"event","payload":null,"event":null}`,
	`{"seq":9,"seq":10,"type":"event","type":"warning","started":{"pid":1},"started":{"isolation":"x"}}`,
	`{"seq":11,"type":"event","kind":"` + "\xff" + `"}`,
	`{"seq":0,"type":"event"}`, `{"seq":1}`, `{"seq":-1,"type":"event"}`, `{"seq":1.0,"type":"event"}`, `{"seq":"1","type":"event"}`,
	`{"seq":18446744073709551615,"type":"event"}`, `{"seq":18446744073709551616,"type":"event"}`,
	`{"seq":1,"type":"run_finished"}`, `{"seq":1,"type":"run_started","started":null}`, `{"seq":1,"type":"event","ts":"today"}`,
	`{"seq":1,"type":"event"`, `{"seq":1,"type":"event"}}`, `[]`, `null`, ``,
}

// FuzzDecodeRecord proves W-01: a record read in one pass is the record that encoding/json
// reads, alone and inside a frame.
func FuzzDecodeRecord(f *testing.F) {
	for _, form := range recordForms {
		f.Add([]byte(form))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want protocol.Record
		wrong := json.Unmarshal(raw, &want) != nil || want.Seq == 0 || want.Type == "" ||
			want.Type == protocol.RunStarted && want.Started == nil || want.Type == protocol.RunFinished && want.Finished == nil
		got, err := protocol.DecodeRecord(raw)
		if wrong != (err != nil) || err != nil && !errors.Is(err, protocol.ErrBadRecord) {
			t.Fatalf("%q: %v, want an error: %v", raw, err, wrong)
		}
		if err == nil {
			want.Raw = raw
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%q\n got %+v\nwant %+v", raw, got, want)
			}
		}
		inFrame(t, raw, want, wrong)
	})
}

func inFrame(t *testing.T, raw []byte, want protocol.Record, wrong bool) {
	t.Helper()
	frame := append([]byte(`{"type":"frames","epoch":1,"runs":[{"run_id":"a","attempt":2,"records":[`), raw...)
	frame = append(frame, `,{"seq":77,"type":"event"}]}]}`...)
	e, err := protocol.DecodeFromAgent(frame)
	if err != nil {
		var list []json.RawMessage
		object := json.Unmarshal(append(append([]byte{'['}, raw...), ']'), &list) == nil && len(list) == 1 && list[0][0] == '{'
		if object {
			t.Fatalf("%q: its frame was refused: %v", raw, err)
		}
		return
	}
	r := &e.Frame.(*protocol.Frames).Runs[0]
	bad := 0
	records := r.Decode(func(error) { bad++ })
	if len(records)+bad != len(r.Records) {
		t.Fatalf("%q: %d records and %d that are none of %d", raw, len(records), bad, len(r.Records))
	}
	if last := records[len(records)-1]; last.Seq != 77 || string(last.Raw) != `{"seq":77,"type":"event"}` {
		t.Fatalf("%q spoils the record after it: %+v", raw, last)
	}
	if len(r.Records) > 2 {
		return // it was more than one value
	}
	if wrong != (bad == 1) {
		t.Fatalf("%q: %d are no records, want one: %v", raw, bad, wrong)
	}
	if !wrong {
		want.Raw = r.Records[0]
		if !reflect.DeepEqual(records[0], want) {
			t.Fatalf("%q in a frame\n got %+v\nwant %+v", raw, records[0], want)
		}
	}
}

// TestFramesInAnotherFormAreUnderstood: another implementation may order, space
// and escape as it likes.
func TestFramesInAnotherFormAreUnderstood(t *testing.T) {
	const one = `{"seq":1,"type":"event","event":"x"}`
	for _, raw := range []string{
		`{"type":"frames","epoch":1,"runs":[{"run_id":"a","attempt":1,"records":[` + one + `]}]}`,
		`{ "epoch":1, "runs" : [ { "records" : [ ` + one + ` ] , "attempt":1,"run_id":"\u0061" } ] , "type":"frames" }`,
		`{"type":"frames","epoch":1,"later":[1],"runs":[{"run_id":"a","attempt":1,"later":{},"records":[` + one + `]}]}`,
		`{"type":"frames","epoch":1,"RUNS":[{"Run_ID":"a","attempt":1,"records":[` + one + `]}]}`,
	} {
		e, err := protocol.DecodeFromAgent([]byte(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		r := &e.Frame.(*protocol.Frames).Runs[0]
		records := r.Decode(func(err error) { t.Errorf("%s: %v", raw, err) })
		if e.Epoch != 1 || r.RunID != "a" || r.Attempt != 1 || len(records) != 1 || records[0].Event != "x" || string(records[0].Raw) != one {
			t.Errorf("%s: %+v", raw, records)
		}
	}
}
