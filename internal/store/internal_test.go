package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRowidsSurviveTheirCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfDistinct(rapid.Int64Range(1, math.MaxInt64), rapid.ID[int64]).Draw(t, "ids")
		slices.Sort(ids)
		got, err := decodeRowids(encodeRowids(ids), len(ids))
		if err != nil || !slices.Equal(got, ids) {
			t.Fatalf("%v became %v, %v", ids, got, err)
		}
	})
}

func FuzzDecodeRowids(f *testing.F) {
	f.Add(encodeRowids([]int64{1, 2, 300, 1 << 40}), 4)
	f.Add([]byte{0}, 1)
	f.Add([]byte{}, 1<<40)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		ids, err := decodeRowids(b, n)
		switch {
		case err != nil && !errors.Is(err, ErrDamaged):
			t.Errorf("got %v", err)
		case err == nil && (len(ids) != n || !slices.IsSorted(ids)):
			t.Errorf("%d ids: %v", n, ids)
		}
	})
}

// FuzzPoints holds the scanner to encoding/json on whatever that accepts.
func FuzzPoints(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[{}]`, ` [ { "name" : "a" , "value" : -1.5e3 } , {"value":1,"name":"b\u0061"} ] `,
		`[{"name":"a","value":null,"nonfinite":"nan"},{"name":"a","value":1e400}]`,
		`[{"name":"a","value":01}]`, `[{"name":"x","value":1},`, `{"name":"a","value":1}`, `[{"name":"a","extra":[{"name":"b","value":2}],"value":3}]`,
		`[{"name":"é","value":9007199254740993},{"name":"a","value":"1"},{"name":1,"value":1}]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := finals{}
		got.add(addPoints(nil, json.RawMessage(text)))
		if _, err := got.encode(nil); err != nil {
			t.Errorf("no JSON: %v", err)
		}
		want, ok := reference(text)
		if !ok {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%s: got %s, want %s", text, got, want)
		}
		for name, value := range want {
			if string(got[name]) != value {
				t.Errorf("%s: %s is %s, want %s", text, name, got[name], value)
			}
			if !mentions(json.RawMessage(text), name) {
				t.Errorf("%s: doesn't mention %s", text, name)
			}
		}
	})
}

// reference reads a flush with encoding/json; false when it is not one, or
// when the two may rightly differ: members twice or in another case.
func reference(text string) (map[string]string, bool) {
	var points []map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &points) != nil || strings.Count(text, "\"name\"") > len(points) ||
		strings.Count(text, "\"value\"") > len(points) || strings.Contains(text, `\`) || !json.Valid([]byte(text)) {
		return nil, false
	}
	last := map[string]string{}
	for _, p := range points {
		var name string
		var f float64
		if p == nil || len(p["name"]) == 0 || p["name"][0] != '"' || json.Unmarshal(p["name"], &name) != nil ||
			!strings.Contains(string(p["name"]), name) {
			return nil, false
		}
		value := p["value"]
		if len(value) > 0 && value[0] != '"' && string(value) != "null" && json.Unmarshal(value, &f) == nil {
			last[name] = string(value)
		}
	}
	return last, true
}

func TestFiniteIsANumberThatAFloatHolds(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-0.0": true, "1e3": true, "1E+3": true, "1.5e-400": true, "9007199254740993": true,
		"1e400": false, "-1e309": false, strings.Repeat("9", 400): false, strings.Repeat("9", 299): true,
		"null": false, "NaN": false, "Infinity": false, "-": false, "01": false, "1.": false, ".5": false,
		"1e": false, "0x10": false, "1_000": false, `"1"`: false, "": false, "true": false, "+1": false,
	} {
		if got := addPoints(nil, json.RawMessage(`[{"name":"a","value":`+text+`}]`)); (len(got) == 1) != want {
			t.Errorf("%.20q: %v", text, got)
		}
	}
}

func TestErrorsNameTheThingAndTheMend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	for _, c := range []struct {
		err, want error
		word      string
	}{
		{syscall.ENOSPC, ErrFull, "free some space"},
		{syscall.EROFS, ErrReadOnly, "owner and mode"},
		{&os.PathError{Op: "open", Path: path, Err: syscall.EACCES}, ErrReadOnly, "owner and mode"},
		{networkError(path, "nfs"), ErrNetworkFS, "--data"},
	} {
		got := explain(c.err, path, time.Second)
		if !errors.Is(got, c.want) || !strings.Contains(got.Error(), path) || !strings.Contains(got.Error(), c.word) {
			t.Errorf("%v became %v", c.err, got)
		}
	}
}

// An upgrade keeps what was there and a copy of it from before.
func TestAnUpgradeTakesACopyFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), Change{Insert: testRow()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	known, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	next, copied := len(known)+1, fmt.Sprintf("%s.v%d.copy", path, len(known))
	upgrade := func(sql string) (*Store, error) {
		s := &Store{path: path, logger: s.logger, patience: time.Second, active: map[string]*runLog{}}
		err := s.open(t.Context(), func() ([]migration, error) {
			return append(slices.Clip(known), migration{next, "next", sql}), nil
		})
		if err != nil {
			_ = s.closeDatabases()
		}
		return s, err
	}
	// One that fails leaves the old schema whole.
	if _, err := upgrade(`ALTER TABLE exec_runs ADD COLUMN mood TEXT; SELECT nonsense`); err == nil {
		t.Fatal("a broken migration came through")
	}
	up, err := upgrade(`ALTER TABLE exec_runs ADD COLUMN mood TEXT`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := up.Run(t.Context(), testRow().ID); err != nil {
		t.Error(err)
	}
	if err := up.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Path: path}); !errors.Is(err, ErrNewerSchema) || !strings.Contains(err.Error(), copied) {
		t.Errorf("the older release said %v", err)
	}
	old, err := Open(t.Context(), Config{Path: copied})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Run(t.Context(), testRow().ID); err != nil {
		t.Error(err)
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(path + "*.partial*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Tails that fall behind are written out, so that Open never searches far.
func TestTheSearchForOpenTailsStaysShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	idle, busy := testRow(), testRow()
	busy.ID = "b"
	list := make([]Metrics, 1024)
	for i := range list {
		list[i] = Metrics{Points: []byte(`[]`), TS: time.UnixMicro(1)}
	}
	if _, err := s.Apply(t.Context(), Change{Insert: idle, Metrics: list[:3]}, Change{Insert: busy}); err != nil {
		t.Fatal(err)
	}
	for range 4 * metricLog.lag() / int64(len(list)) {
		if _, err := s.Apply(t.Context(), Change{RunID: busy.ID, Metrics: list}); err != nil {
			t.Fatal(err)
		}
		if behind := s.writer.last[metricLog] - s.writer.openAfter[metricLog]; behind > 3*metricLog.lag() {
			t.Fatalf("the mark lies %d rows behind", behind)
		}
	}
	if l, _ := s.published(idle.ID); len(l.tails[metricLog].ids) != 0 || l.tails[metricLog].first != 4 {
		t.Errorf("the idle run's tail is %+v", l.tails[metricLog])
	}
	if got, err := s.Metrics(t.Context(), idle.ID, ""); err != nil || len(got) != 3 {
		t.Errorf("%d flushes, %v", len(got), err)
	}
	report, err := s.Check(t.Context())
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("check: %v, %v", report.Findings, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
