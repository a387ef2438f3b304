package protocol_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cdui/internal/protocol"
)

// line is one line of a transcript: a frame, a close or a note.
type line struct {
	Note  string          `json:"note"`
	From  string          `json:"from"`
	Frame json.RawMessage `json:"frame"`
	Close int             `json:"close"`
	// Unknown: this release has no such frame. Foreign: it can read no more of
	// it than its rejection needs.
	Unknown bool `json:"unknown"`
	Foreign bool `json:"foreign"`
}

func (l line) decode() (protocol.Envelope, error) {
	if l.From == "agent" {
		return protocol.DecodeFromAgent(l.Frame)
	}
	return protocol.DecodeFromServer(l.Frame)
}

func transcripts(tb testing.TB) map[string][]line {
	tb.Helper()
	files, err := filepath.Glob("testdata/transcripts/*.jsonl")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no transcripts: %v", err)
	}
	all := map[string][]line{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		s := bufio.NewScanner(bytes.NewReader(content))
		s.Buffer(nil, protocol.MaxFrameBytes)
		for n := 1; s.Scan(); n++ {
			var l line
			d := json.NewDecoder(bytes.NewReader(s.Bytes()))
			d.DisallowUnknownFields()
			if err := d.Decode(&l); err != nil {
				tb.Fatalf("%s:%d: %v", file, n, err)
			}
			all[filepath.Base(file)] = append(all[filepath.Base(file)], l)
		}
	}
	return all
}

// session holds a transcript to the rules that no single frame shows.
type session struct {
	epoch              uint64
	hello, welcomed    bool
	aliveSent, refused bool
	parts              protocol.Joiner
	recorded           map[string]uint64
}

func (s *session) see(from string, e protocol.Envelope) error {
	if e.Epoch != s.epoch {
		if _, ok := e.Frame.(*protocol.Welcome); !ok || e.Epoch == 0 {
			return fmt.Errorf("epoch %d in session %d", e.Epoch, s.epoch)
		}
	}
	switch f := e.Frame.(type) {
	case *protocol.Hello:
		if s.hello {
			return fmt.Errorf("a second hello")
		}
		s.hello = true
	case *protocol.Welcome:
		s.epoch, s.welcomed = e.Epoch, true
		for _, r := range f.Runs {
			s.recorded[r.RunID] = r.RecordedSeq
		}
	case *protocol.Reject:
		s.refused = true
	case *protocol.RunAlive:
		s.aliveSent = true
	case *protocol.Frames:
		for _, r := range f.Runs {
			for _, raw := range r.Records {
				if err := s.record(r.RunID, raw); err != nil {
					return err
				}
			}
		}
	case *protocol.SingleRecord:
		return s.record(f.RunID, f.Record)
	case *protocol.Ack:
		if f.Seq > s.recorded[f.RunID] {
			return fmt.Errorf("ack %d of run %s, which has sent %d", f.Seq, f.RunID, s.recorded[f.RunID])
		}
	case *protocol.Part:
		whole, err := s.parts.Add(f)
		if err != nil || whole == nil {
			return err
		}
		inner, err := (line{From: from, Frame: whole}).decode()
		if err != nil {
			return err
		}
		return s.see(from, inner)
	}
	if !s.hello || (from == "agent" && s.welcomed && !s.aliveSent) {
		return fmt.Errorf("%s comes too early", e.Frame.FrameType())
	}
	return nil
}

func (s *session) record(runID string, raw json.RawMessage) error {
	r, err := protocol.DecodeRecord(raw)
	if err != nil {
		return err
	}
	if !s.aliveSent {
		return fmt.Errorf("record %d of run %s before run_alive", r.Seq, runID)
	}
	if last, ok := s.recorded[runID]; ok && r.Seq != last+1 {
		return fmt.Errorf("record %d of run %s after %d", r.Seq, runID, last)
	}
	s.recorded[runID] = r.Seq
	return nil
}

func newSession() *session { return &session{recorded: map[string]uint64{}} }

// TestTranscriptsReplay: FRM-01, FRM-02, FRM-03, FRM-04, FRM-05, FRM-07, FRM-08,
// FRM-09, FRM-10, FRM-11, FRM-12, FRM-13, FRM-14: whole sessions, each frame
// with the fields that the statement names.
func TestTranscriptsReplay(t *testing.T) {
	closes := map[int]bool{1000: true, 1001: true}
	for code := range closeCodes(t) {
		closes[code] = true
	}
	for name, lines := range transcripts(t) {
		t.Run(name, func(t *testing.T) {
			s := newSession()
			for n, l := range lines {
				switch {
				case l.Note != "":
					continue
				case l.Close != 0:
					if !closes[l.Close] || s.refused != (l.Close == protocol.CloseRejected) {
						t.Errorf("line %d: close code %d", n+1, l.Close)
					}
					s = newSession()
					continue
				}
				e, err := l.decode()
				if err != nil {
					t.Errorf("line %d: %v", n+1, err)
					continue
				}
				if err := s.see(l.From, e); err != nil {
					t.Errorf("line %d: %v", n+1, err)
				}
				if _, unknown := e.Frame.(*protocol.Unknown); unknown != l.Unknown {
					t.Errorf("line %d: %s is known: %v", n+1, e.Frame.FrameType(), !unknown)
				}
				if !l.Unknown && !l.Foreign {
					checkEncodes(t, n+1, l, e)
				}
			}
		})
	}
}

// checkEncodes: what was decoded says everything again that the transcript
// says. It may say more: frames grow.
func checkEncodes(t *testing.T, n int, l line, e protocol.Envelope) {
	t.Helper()
	b, err := protocol.Encode(e.Epoch, e.Frame)
	if err != nil {
		t.Errorf("line %d: %v", n, err)
		return
	}
	if missing := lacks("", parse(t, l.Frame), parse(t, b)); missing != "" {
		t.Errorf("line %d: %s got lost: %s", n, missing, b)
	}
	if f, ok := e.Frame.(*protocol.Frames); ok {
		for _, r := range f.Runs {
			for _, raw := range r.Records {
				if !bytes.Contains(l.Frame, raw) || !bytes.Contains(b, raw) {
					t.Errorf("line %d: the bytes of a record have changed: %s", n, raw)
				}
			}
		}
	}
}

func parse(t *testing.T, b []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

// lacks names what of want is not in got, "" if nothing.
func lacks(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return path
		}
		for k, v := range want {
			g, there := object[k]
			if !there {
				return path + "." + k
			}
			if missing := lacks(path+"."+k, v, g); missing != "" {
				return missing
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return path
		}
		for i, v := range want {
			if missing := lacks(fmt.Sprintf("%s[%d]", path, i), v, list[i]); missing != "" {
				return missing
			}
		}
	default:
		if want != got {
			return path
		}
	}
	return ""
}

// TestTranscriptsShowEveryFrame: a frame that no transcript holds is pinned by
// nothing.
func TestTranscriptsShowEveryFrame(t *testing.T) {
	shown := map[protocol.FrameType]bool{}
	for _, lines := range transcripts(t) {
		for _, l := range lines {
			if l.Frame == nil {
				continue
			}
			if e, err := l.decode(); err == nil {
				shown[e.Frame.FrameType()] = true
			}
		}
	}
	for _, ft := range frameTypes(t) {
		if !shown[ft] {
			t.Errorf("no transcript holds %s", ft)
		}
	}
}
