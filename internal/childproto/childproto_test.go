package childproto_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/childproto"
)

// lines reads a fixture that the Python package is held to as well.
func lines(t testing.TB, name string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

// Proves W-07, EVT-06.
func TestUpLinesOfTheFixtureDecode(t *testing.T) {
	want := []string{
		childproto.UpHello, childproto.UpMetrics, childproto.UpMetrics, childproto.UpMetrics, childproto.UpMetrics,
		childproto.UpMetrics, childproto.UpArtifact, childproto.UpArtifact, childproto.UpWarning, childproto.UpEvent,
		childproto.UpFacts, childproto.UpMemoryLimit, childproto.UpFinished, childproto.UpFinished,
		childproto.UpReady, childproto.UpImported, "invented_later",
	}
	got := lines(t, "up.jsonl")
	if len(got) != len(want) {
		t.Fatalf("up.jsonl has %d lines, want %d", len(got), len(want))
	}
	for i, line := range got {
		up, err := childproto.DecodeUp(line)
		if err != nil {
			t.Errorf("line %d: %v", i+1, err)
		}
		if up.Type == childproto.UpReady && up.Paths["/venv/lib/é"] != 1796004856310038348 {
			t.Errorf("a time of change lost digits: %v", up.Paths)
		}
		if up.Type != want[i] {
			t.Errorf("line %d is a %s line, want %s", i+1, up.Type, want[i])
		}
	}
}

// TestD4_ValuesKeepTheirBytes: a number is passed on as the child wrote it, so
// that no conversion can change it.
func TestD4_ValuesKeepTheirBytes(t *testing.T) {
	want := map[string]childproto.Point{
		"loss":        {Value: json.RawMessage("0.25"), Step: json.RawMessage("0")},
		"nan":         {Value: json.RawMessage("null"), Step: json.RawMessage("1"), Nonfinite: "nan"},
		"inf":         {Value: json.RawMessage("null"), Step: json.RawMessage("1"), Nonfinite: "inf"},
		"minus inf":   {Value: json.RawMessage("null"), Step: json.RawMessage("1"), Nonfinite: "-inf"},
		"minus zero":  {Value: json.RawMessage("-0.0"), Step: json.RawMessage("2")},
		"beyond 2^53": {Value: json.RawMessage("9007199254740993"), Step: json.RawMessage("2")},
		"2^80":        {Value: json.RawMessage("-1208925819614629174706176"), Step: json.RawMessage("2")},
		"small":       {Value: json.RawMessage("5e-324"), Step: json.RawMessage("3")},
		"large":       {Value: json.RawMessage("1.7976931348623157e+308"), Step: json.RawMessage("3")},
		"quote \" back\\slash <html> é 漢 😀 \n": {Value: json.RawMessage("1"), Step: json.RawMessage("100000000000000000000")},
	}
	got := map[string]childproto.Point{}
	for _, line := range lines(t, "up.jsonl") {
		up, err := childproto.DecodeUp(line)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range up.Points {
			got[p.Name] = p
		}
	}
	for name, w := range want {
		g, ok := got[name]
		if !ok {
			t.Errorf("no point %q", name)
			continue
		}
		if string(g.Value) != string(w.Value) || string(g.Step) != string(w.Step) || g.Nonfinite != w.Nonfinite {
			t.Errorf("%q: got %s at %s %q, want %s at %s %q", name, g.Value, g.Step, g.Nonfinite, w.Value, w.Step, w.Nonfinite)
		}
	}
}

func TestFinishedLineCarriesTheWords(t *testing.T) {
	var ends []childproto.Up
	for _, line := range lines(t, "up.jsonl") {
		if up, err := childproto.DecodeUp(line); err == nil && up.Type == childproto.UpFinished {
			ends = append(ends, up)
		}
	}
	if len(ends) != 2 {
		t.Fatalf("got %d finished lines, want 2", len(ends))
	}
	if e := ends[0]; e.Status != "failed" || e.Error != "ValueError: bad" || e.ErrorType != "ValueError" || e.EndClass != "user_code" {
		t.Errorf("got %+v", e)
	}
	if got := string(ends[1].PeakMemory); got != `{"cuda:0":{"mib":512,"exact":true}}` {
		t.Errorf("peak memory is %s", got)
	}
}

func TestBadLinesAreRefused(t *testing.T) {
	for name, line := range map[string]string{
		"empty":        "",
		"no JSON":      "loss=0.5",
		"cut":          `{"type":"metrics","points":[{"na`,
		"a list":       `[1]`,
		"no type":      `{"points":[]}`,
		"NaN token":    `{"type":"metrics","points":[{"name":"a","value":NaN,"step":0}]}`,
		"two in one":   `{"type":"hello"}{"type":"hello"}`,
		"beyond limit": `{"type":"warning","kind":"` + strings.Repeat("x", childproto.MaxLineBytes) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			up, err := childproto.DecodeUp([]byte(line))
			if !errors.Is(err, childproto.ErrBadLine) {
				t.Errorf("got %+v, %v, want ErrBadLine", up, err)
			}
		})
	}
}

// Proves W-07.
func TestDownLinesMatchTheFixture(t *testing.T) {
	downs := []childproto.Down{
		{
			Type:  childproto.DownAssign,
			RunID: "0123456789abcdef0123456789abcdef",
			Input: json.RawMessage(`{"lr": 0.0003, "big": 9007199254740993, "text": "a \"b\" <c> é"}`),
		},
		{Type: childproto.DownCancel, GraceMS: 30000},
		{
			Type: childproto.DownAssign, RunID: "0123456789abcdef0123456789abcdef", Input: json.RawMessage(`{"lr":1}`),
			Argv: []string{"/venv/bin/python", "-u", "/rt/cdui/child.py", "script", "a b.py"}, Dir: "/srv/é", Env: []string{"LR=3", "PATH=/bin"},
		},
	}
	want := lines(t, "down.jsonl")
	if len(want) != len(downs) {
		t.Fatalf("down.jsonl has %d lines, want %d", len(want), len(downs))
	}
	for i, d := range downs {
		got, err := childproto.EncodeDown(d)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want[i])+"\n" {
			t.Errorf("line %d is %s, want %s", i+1, got, want[i])
		}
	}
}

func TestDownLineWithBrokenInputIsAnError(t *testing.T) {
	if b, err := childproto.EncodeDown(childproto.Down{Type: childproto.DownAssign, Input: json.RawMessage("{")}); err == nil {
		t.Errorf("got %s, want an error", b)
	}
}

func FuzzDecodeUp(f *testing.F) {
	for _, line := range lines(f, "up.jsonl") {
		f.Add(line)
	}
	f.Add([]byte(`{"type":"metrics","points":null}`))
	f.Add([]byte("\xff\x00{"))
	f.Fuzz(func(t *testing.T, line []byte) {
		up, err := childproto.DecodeUp(line)
		if err != nil {
			if !errors.Is(err, childproto.ErrBadLine) {
				t.Fatalf("error %v is no ErrBadLine", err)
			}
			return
		}
		if up.Type == "" {
			t.Fatal("a line without type was taken")
		}
		// What was taken can be passed on, and means the same then.
		again, err := json.Marshal(up)
		if err != nil {
			t.Fatalf("marshal what was decoded: %v", err)
		}
		if _, err := childproto.DecodeUp(again); err != nil {
			t.Fatalf("decode %s again: %v", again, err)
		}
	})
}
