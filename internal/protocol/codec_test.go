package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cdui/internal/protocol"
)

const runID = "3f9a7c1e5b2d4860a1c3e5f708192a3b"

// W-01: a record of the spool and one on the wire are the same bytes.
func TestEncodeKeepsTheBytesOfRecords(t *testing.T) {
	records := []json.RawMessage{
		json.RawMessage(`{"seq":1,"type":"event","payload":{"a":"<b>&\u2028","n":9007199254740993,"f":1.50e+3}}`),
		json.RawMessage(`{ "seq" : 2, "type" : "event" , "text":"é🚀" }`),
	}
	b, err := protocol.Encode(4, &protocol.Frames{Runs: []protocol.RunRecords{{RunID: runID, Attempt: 1, Records: records}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := protocol.DecodeFromAgent(b)
	if err != nil {
		t.Fatal(err)
	}
	got := e.Frame.(*protocol.Frames).Runs[0].Records
	for i := range records {
		if !bytes.Equal(got[i], records[i]) {
			t.Errorf("record %d\n got %s\nwant %s", i, got[i], records[i])
		}
	}
	if e.Epoch != 4 {
		t.Errorf("epoch %d, want 4", e.Epoch)
	}
}

func TestASingleRecordHasItsTypeAndItsBytes(t *testing.T) {
	raw := json.RawMessage(`{"seq":7,"type":"warning", "kind":"<>"}`)
	b, err := protocol.Encode(1, &protocol.SingleRecord{Type: protocol.Warning, RunID: runID, Attempt: 2, Seq: 7, Record: raw})
	if err != nil {
		t.Fatal(err)
	}
	e, err := protocol.DecodeFromAgent(b)
	if err != nil {
		t.Fatal(err)
	}
	s := e.Frame.(*protocol.SingleRecord)
	if s.Type != protocol.Warning || s.Seq != 7 || s.Attempt != 2 || !bytes.Equal(s.Record, raw) {
		t.Errorf("got %+v", s)
	}
}

// W-03: a record that can't be sent doesn't keep back the others.
func TestARecordThatCannotTravelIsToldApart(t *testing.T) {
	for name, raw := range map[string]string{
		"torn":      `{"seq":1,"type":"eve`,
		"two":       `{"seq":1}{"seq":2}`,
		"not UTF-8": "{\"seq\":1,\"text\":\"\xff\"}",
		"a list":    `[1]`,
		"empty":     ``,
		"too long":  `{"a":"` + strings.Repeat("x", protocol.MaxRecordBytes) + `"}`,
	} {
		if err := protocol.CheckRecord(json.RawMessage(raw)); !errors.Is(err, protocol.ErrBadRecord) {
			t.Errorf("%s: %v", name, err)
		}
		f := &protocol.Frames{Runs: []protocol.RunRecords{{RunID: runID, Attempt: 1, Records: []json.RawMessage{json.RawMessage(raw)}}}}
		if _, err := protocol.Encode(1, f); err == nil {
			t.Errorf("%s: was encoded, and would have broken its whole frame", name)
		}
	}
}

// W-01, PRO-01: unknown fields and unknown types harm nobody.
func TestDecodeIgnoresWhatALaterReleaseAdds(t *testing.T) {
	e, err := protocol.DecodeFromServer([]byte(`{"epoch":3,"run_id":"a1","attempt":1,"seq":9,"why":{"deep":[1]},"type":"ack"}`))
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := e.Frame.(*protocol.Ack); !ok || a.Seq != 9 || e.Epoch != 3 {
		t.Errorf("got %+v", e)
	}
	e, err = protocol.DecodeFromAgent([]byte(`{"type":"new_in_9","epoch":3,"anything":[]}`))
	if u, ok := e.Frame.(*protocol.Unknown); err != nil || !ok || u.Type != "new_in_9" || e.Epoch != 3 {
		t.Errorf("got %+v, %v", e, err)
	}
	if _, err := protocol.Encode(3, e.Frame); !errors.Is(err, protocol.ErrBadFrame) {
		t.Errorf("an unknown frame was sent on: %v", err)
	}
}

// TestAKindOfALaterReleaseIsForTheAgentToRefuse: the run must hear of it, and
// the session has nothing to do with it.
func TestAKindOfALaterReleaseIsForTheAgentToRefuse(t *testing.T) {
	e, err := protocol.DecodeFromServer([]byte(`{"type":"assign","epoch":1,"run_id":"a","attempt":1,"kind":"wasm","wasm":{}}`))
	if a, ok := e.Frame.(*protocol.Assign); err != nil || !ok || a.Kind != "wasm" {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestAFrameOfTheOtherDirectionIsUnknown(t *testing.T) {
	e, err := protocol.DecodeFromAgent([]byte(`{"type":"assign","epoch":1,"run_id":"a","attempt":1}`))
	if _, ok := e.Frame.(*protocol.Unknown); err != nil || !ok {
		t.Errorf("the control plane takes orders from an agent: %+v, %v", e, err)
	}
	e, err = protocol.DecodeFromServer([]byte(`{"type":"run_alive","epoch":1}`))
	if _, ok := e.Frame.(*protocol.Unknown); err != nil || !ok {
		t.Errorf("got %+v, %v", e, err)
	}
}

// FRM-11, FRM-15, W-09: what a missing field means.
func TestMissingFieldsMeanTheirDefaults(t *testing.T) {
	for raw, ok := range map[string]func(protocol.Frame) bool{
		`{"type":"drain"}`:             func(f protocol.Frame) bool { return f.(*protocol.Drain).On },
		`{"type":"drain","on":false}`:  func(f protocol.Frame) bool { return !f.(*protocol.Drain).On },
		`{"type":"welcome"}`:           func(f protocol.Frame) bool { return f.(*protocol.Welcome).HeartbeatS == 10 },
		`{"type":"welcome","epoch":1}`: func(f protocol.Frame) bool { return f.(*protocol.Welcome).GraceS == 30 },
		`{"type":"assign","run_id":"a","attempt":1,"kind":"command","command":{"argv":["x"]}}`: func(f protocol.Frame) bool { return f.(*protocol.Assign).GraceS == 30 },
		`{"type":"assign","run_id":"a","attempt":1,"kind":"command","command":{},"grace_s":0}`: func(f protocol.Frame) bool { return f.(*protocol.Assign).GraceS == 0 },
		`{"type":"cancel","run_id":"a","attempt":1}`:                                           func(f protocol.Frame) bool { return f.(*protocol.Cancel).GraceS == nil },
		`{"type":"cancel","run_id":"a","attempt":1,"grace_s":0}`:                               func(f protocol.Frame) bool { return *f.(*protocol.Cancel).GraceS == 0 },
	} {
		e, err := protocol.DecodeFromServer([]byte(raw))
		if err != nil || !ok(e.Frame) {
			t.Errorf("%s: %+v, %v", raw, e.Frame, err)
		}
	}
}

// ST-02: paths that leave their folder; and what else is damage or an attack.
func TestDecodeRefusesWhatNoPeerMaySend(t *testing.T) {
	hash := strings.Repeat("a", 64)
	assign := func(rest string) string {
		return `{"type":"assign","epoch":1,"run_id":"a","attempt":1,"kind":"command","command":{"argv":["x"]},` + rest + `}`
	}
	file := func(path string) string {
		return assign(fmt.Sprintf(`"code":{"files":[{"path":%q,"sha256":%q,"size":1}]}`, path, hash))
	}
	server := map[string]string{
		"a run id that leaves its folder":  `{"type":"ack","epoch":1,"run_id":"../x","attempt":1,"seq":1}`,
		"a run id that looks like a flag":  `{"type":"ack","epoch":1,"run_id":"-rf","attempt":1,"seq":1}`,
		"no run id":                        `{"type":"drop_outputs","epoch":1}`,
		"a long run id":                    `{"type":"drop_outputs","epoch":1,"run_id":"` + strings.Repeat("a", 65) + `"}`,
		"no attempt":                       `{"type":"cancel","epoch":1,"run_id":"a"}`,
		"a negative seq":                   `{"type":"ack","epoch":1,"run_id":"a","attempt":1,"seq":-1}`,
		"nothing to execute":               `{"type":"assign","epoch":1,"run_id":"a","attempt":1,"kind":"graph"}`,
		"two things to execute":            assign(`"script":{"path":"a.py"}`),
		"a file outside the code's folder": file("../a"),
		"a file in the middle of it":       file("a/../../b"),
		"an absolute file":                 file("/etc/passwd"),
		"a file without a name":            file("a//b"),
		"a file with a zero byte":          file("a\x00b"),
		"a file with a name too long":      file(strings.Repeat("a", 256)),
		"a link out of the code's folder":  assign(`"code":{"files":[{"path":"a","link":"../../etc"}]}`),
		"an input without a hash":          assign(`"storage":{"backend":"transfer","inputs":[{"path":"a","size":1}]}`),
		"a hash that is a path":            assign(`"storage":{"inputs":[{"path":"a","sha256":"../x","size":1}]}`),
		"no request id":                    `{"type":"fetch_log","epoch":1,"run_id":"a"}`,
		"a negative credit":                `{"type":"credit","epoch":1,"request_id":"a","bytes":-1}`,
		"part 0":                           `{"type":"part","epoch":1,"id":1,"n":0,"of":2,"data":"YQ=="}`,
		"a part beyond the last":           `{"type":"part","epoch":1,"id":1,"n":3,"of":2,"data":"YQ=="}`,
		"a billion parts":                  `{"type":"part","epoch":1,"id":1,"n":1,"of":1000000000,"data":"YQ=="}`,
		"no JSON":                          `{"type":"ack","epoch":1`,
		"a list":                           `[]`,
		"null":                             `null`,
		"nothing":                          ``,
		"no type":                          `{"epoch":1}`,
		"a type of another kind":           `{"type":1}`,
		"a long type":                      `{"type":"` + strings.Repeat("a", 100) + `"}`,
	}
	for what, raw := range server {
		if e, err := protocol.DecodeFromServer([]byte(raw)); !errors.Is(err, protocol.ErrBadFrame) {
			t.Errorf("%s: %+v, %v", what, e.Frame, err)
		}
	}
	agent := map[string]string{
		"a record that is none":       `{"type":"frames","epoch":1,"runs":[{"run_id":"a","attempt":1,"records":[null]}]}`,
		"a record that is a number":   `{"type":"frames","epoch":1,"runs":[{"run_id":"a","attempt":1,"records":[1]}]}`,
		"records beyond all credit":   `{"type":"frames","epoch":1,"runs":[{"run_id":"a","attempt":1,"records":[{}` + strings.Repeat(",{}", protocol.CreditRecords) + `]}]}`,
		"a single record without seq": `{"type":"event","epoch":1,"run_id":"a","attempt":1,"record":{}}`,
		"a name that fills memory":    `{"type":"hello","epoch":0,"protocol_version":3,"name":"` + strings.Repeat("a", 300) + `"}`,
		"a status that is none":       `{"type":"output_answer","epoch":1,"request_id":"a","status":7}`,
		"a heartbeat of no run":       `{"type":"heartbeat","epoch":1,"runs":["a/b"]}`,
		"a run alive without attempt": `{"type":"run_alive","epoch":1,"runs":[{"run_id":"a"}]}`,
	}
	for what, raw := range agent {
		if e, err := protocol.DecodeFromAgent([]byte(raw)); !errors.Is(err, protocol.ErrBadFrame) {
			t.Errorf("%s: %+v, %v", what, e.Frame, err)
		}
	}
}

// ST-02: any legal file name survives.
func TestNamesThatAnyFileSystemAllowsSurvive(t *testing.T) {
	names := []protocol.Path{
		"a b", "new\nline", "tab\t", `back\slash`, "emoji 🚀", "-rf", "...", "..a/b..", "con:*?\"<>|", "\x01\x7f", "latin1\xe9.txt", "\xff\xfe",
		protocol.Path(strings.Repeat("é", 127)), "\u2028 <&>", `{"bytes":"YQ=="}`,
	}
	a := &protocol.Assign{RunID: runID, Attempt: 1, Kind: protocol.KindCommand, Command: &protocol.Command{Argv: []string{"true"}}, Code: &protocol.Code{}}
	for _, name := range names {
		a.Code.Files = append(a.Code.Files, protocol.File{Path: name, SHA256: strings.Repeat("0", 64)}, protocol.File{Path: "link", Link: name})
	}
	b, err := protocol.Encode(1, a)
	if err != nil {
		t.Fatal(err)
	}
	e, err := protocol.DecodeFromServer(b)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range e.Frame.(*protocol.Assign).Code.Files {
		want := names[i/2]
		if got := f.Path; i%2 == 0 && got != want || i%2 == 1 && f.Link != want {
			t.Errorf("%q came back as %q, %q", want, f.Path, f.Link)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	a := &protocol.Assign{
		RunID: runID, Attempt: 1, Secrets: protocol.Secrets{"TOKEN": "hunter2"},
		Graph:   &protocol.Graph{Prepared: json.RawMessage(`"hunter2"`)},
		Storage: &protocol.Storage{S3: &protocol.S3{Credentials: protocol.S3Credentials{SecretKey: "hunter2"}}},
	}
	for _, v := range []any{a, a.Secrets, a.Storage.S3.Credentials, *a.Storage.S3, &protocol.Credentials{S3: a.Storage.S3.Credentials}, protocol.Envelope{Frame: a}} {
		for _, verb := range []string{"%v", "%+v", "%s"} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, "hunter2") {
				t.Errorf("%T with %s: %s", v, verb, s)
			}
		}
	}
}

// SEC-07: another protocol version is told so, whatever else it changed.
func TestAHelloOfAnotherProtocolCanBeRejectedByName(t *testing.T) {
	e, err := protocol.DecodeFromAgent([]byte(`{"type":"hello","epoch":0,"name":"box","version":"9.0.0","protocol_version":4,"devices":"none"}`))
	if err != nil {
		t.Fatal(err)
	}
	if h := e.Frame.(*protocol.Hello); h.Name != "box" || h.Version != "9.0.0" || h.Protocol != 4 {
		t.Errorf("got %+v", h)
	}
	if _, err := protocol.DecodeFromAgent([]byte(`{"type":"hello","epoch":0,"name":"box","protocol_version":3,"devices":"none"}`)); !errors.Is(err, protocol.ErrBadFrame) {
		t.Errorf("garbage under our own version was taken: %v", err)
	}
}

func TestTooLargeFrames(t *testing.T) {
	a := &protocol.Assign{RunID: "a", Attempt: 1, Kind: protocol.KindGraph, Graph: &protocol.Graph{Prepared: json.RawMessage(`"` + strings.Repeat("x", protocol.MaxMessageBytes) + `"`)}}
	if _, err := protocol.Encode(1, a); !errors.Is(err, protocol.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if _, err := protocol.DecodeFromServer(make([]byte, protocol.MaxMessageBytes+1)); !errors.Is(err, protocol.ErrBadFrame) {
		t.Errorf("got %v", err)
	}
}

func FuzzDecodeFromAgent(f *testing.F) {
	fuzzDecode(f, "agent", protocol.DecodeFromAgent)
}

func FuzzDecodeFromServer(f *testing.F) {
	fuzzDecode(f, "server", protocol.DecodeFromServer)
}

// fuzzDecode: whatever comes is refused or understood, and what is understood
// is said again in the same words.
func fuzzDecode(f *testing.F, from string, decode func([]byte) (protocol.Envelope, error)) {
	f.Helper()
	for _, lines := range transcripts(f) {
		for _, l := range lines {
			if l.From == from && l.Frame != nil {
				f.Add([]byte(l.Frame))
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := decode(raw)
		if err != nil {
			if !errors.Is(err, protocol.ErrBadFrame) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		switch e.Frame.(type) {
		case nil:
			t.Fatal("neither frame nor error")
		case *protocol.Unknown:
			return
		}
		first, err := protocol.Encode(e.Epoch, e.Frame)
		if errors.Is(err, protocol.ErrBadRecord) {
			return // a record that is not UTF-8 is taken and never sent
		}
		if err != nil {
			t.Fatalf("understood but not sayable: %v", err)
		}
		again, err := decode(first)
		if err != nil || again.Epoch != e.Epoch {
			t.Fatalf("said but not understood: %v: %s", err, first)
		}
		if second, err := protocol.Encode(again.Epoch, again.Frame); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("said twice, differently: %v\n%s\n%s", err, first, second)
		}
	})
}

func BenchmarkFrames(b *testing.B) {
	f := &protocol.Frames{}
	size := 0
	for range 8 {
		r := protocol.RunRecords{RunID: runID, Attempt: 1}
		for seq := range 64 {
			raw, err := protocol.EncodeRecord(&protocol.Record{Seq: uint64(seq + 1), Type: protocol.Event, Event: "node_status", Payload: json.RawMessage(`{"node_id":"loop","status":"running","progress":0.25}`)})
			if err != nil {
				b.Fatal(err)
			}
			size += len(raw)
			r.Records = append(r.Records, raw)
		}
		f.Runs = append(f.Runs, r)
	}
	raw, err := protocol.Encode(1, f)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			if _, err := protocol.Encode(1, f); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			if _, err := protocol.DecodeFromAgent(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
