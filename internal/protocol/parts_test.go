package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cdui/internal/protocol"
)

// W-03: frames over 8 MiB travel in parts.
func TestALongFrameTravelsInParts(t *testing.T) {
	frame := &protocol.Assign{
		RunID: runID, Attempt: 1, Kind: protocol.KindGraph,
		Graph: &protocol.Graph{Prepared: json.RawMessage(`"` + strings.Repeat("x", 20<<20) + `"`)},
	}
	whole, err := protocol.Encode(5, frame)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := protocol.Split(1, whole)
	if err != nil {
		t.Fatal(err)
	}
	var j protocol.Joiner
	for i, p := range parts {
		raw, err := protocol.Encode(5, p)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > protocol.MaxFrameBytes {
			t.Fatalf("part %d has %d bytes", p.N, len(raw))
		}
		e, err := protocol.DecodeFromServer(raw)
		if err != nil {
			t.Fatal(err)
		}
		got, err := j.Add(e.Frame.(*protocol.Part))
		if err != nil {
			t.Fatal(err)
		}
		if (got != nil) != (i == len(parts)-1) {
			t.Fatalf("part %d of %d gave %d bytes", p.N, p.Of, len(got))
		}
		if got != nil && !bytes.Equal(got, whole) {
			t.Fatal("the frame has changed on the way")
		}
	}
}

func TestPartsOfSeveralFramesMayMix(t *testing.T) {
	var j protocol.Joiner
	a, b := bytes.Repeat([]byte("a"), 2*protocol.PartBytes+1), bytes.Repeat([]byte("b"), protocol.PartBytes+1)
	pa, errA := protocol.Split(1, a)
	pb, errB := protocol.Split(2, b)
	if errA != nil || errB != nil || len(pa) != 3 || len(pb) != 2 {
		t.Fatalf("%d and %d parts: %v, %v", len(pa), len(pb), errA, errB)
	}
	for _, p := range []*protocol.Part{pa[0], pb[0], pa[1], pb[1]} {
		got, err := j.Add(p)
		if err != nil {
			t.Fatal(err)
		}
		if p == pb[1] && !bytes.Equal(got, b) {
			t.Fatal("the second frame did not come")
		}
	}
	if got, err := j.Add(pa[2]); err != nil || !bytes.Equal(got, a) {
		t.Fatalf("the first frame did not come: %v", err)
	}
}

func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	part := func(id uint64, n, of int) *protocol.Part {
		return &protocol.Part{ID: id, N: n, Of: of, Data: []byte("x")}
	}
	for name, parts := range map[string][]*protocol.Part{
		"doubled":              {part(1, 1, 3), part(1, 2, 3), part(1, 2, 3)},
		"the first, twice":     {part(1, 1, 3), part(1, 1, 3)},
		"a gap":                {part(1, 1, 3), part(1, 3, 3)},
		"no beginning":         {part(1, 2, 3)},
		"another count":        {part(1, 1, 3), part(1, 2, 4)},
		"number 0":             {part(1, 0, 3)},
		"beyond the last":      {part(1, 4, 3)},
		"no data":              {{ID: 1, N: 1, Of: 1}},
		"after it was whole":   {part(1, 1, 2), part(1, 2, 2), part(1, 2, 2)},
		"a count of a billion": {part(1, 1, 1_000_000_000)},
		"too many at once":     {part(1, 1, 2), part(2, 1, 2), part(3, 1, 2), part(4, 1, 2), part(5, 1, 2)},
	} {
		var j protocol.Joiner
		for i, p := range parts {
			_, err := j.Add(p)
			if last := i == len(parts)-1; (err != nil) != last || last && !errors.Is(err, protocol.ErrBadFrame) {
				t.Errorf("%s: part %d: %v", name, i, err)
			}
		}
	}
}

// W-03: reassembled up to 80 MiB, all of them together.
func TestJoinedFramesAreBoundedTogether(t *testing.T) {
	var j protocol.Joiner
	big := make([]byte, protocol.MaxFrameBytes)
	held, of := 0, 100
	for n := 1; n <= of; n++ {
		var failed bool
		for id := uint64(1); id <= 2; id++ {
			_, err := j.Add(&protocol.Part{ID: id, N: n, Of: of, Data: big})
			if err != nil {
				failed = true
				break
			}
			held += len(big)
		}
		if held > protocol.MaxMessageBytes {
			t.Fatalf("holds %d bytes", held)
		}
		if failed {
			if held != protocol.MaxMessageBytes {
				t.Fatalf("refused at %d bytes already", held)
			}
			return
		}
	}
	t.Fatal("never refused")
}

// FuzzJoiner: any sequence of parts is joined or refused within the bound, and
// a refused or finished frame can begin anew.
func FuzzJoiner(f *testing.F) {
	f.Add([]byte{0, 1, 2, 9, 0, 2, 2, 9})
	f.Add([]byte{0, 1, 3, 1, 1, 1, 1, 1, 0, 2, 3, 1, 0, 3, 3, 1})
	f.Add([]byte{0, 1, 3, 1, 0, 3, 3, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		var j protocol.Joiner
		// want is a slow model: what has come of each frame.
		want := map[uint64][]byte{}
		next := map[uint64]int{}
		for len(script) >= 4 {
			id, n, of, size := uint64(script[0]%6), int(script[1]), int(script[2]), int(script[3])
			script = script[4:]
			data := bytes.Repeat([]byte{byte(n)}, size)
			got, err := j.Add(&protocol.Part{ID: id, N: n, Of: of, Data: data})
			if err != nil {
				if !errors.Is(err, protocol.ErrBadFrame) || got != nil {
					t.Fatalf("%v with %d bytes", err, len(got))
				}
				if next[id] != 0 && n >= 1 && n <= of && size > 0 {
					delete(want, id)
					delete(next, id)
				}
				continue
			}
			if n != next[id]+1 {
				t.Fatalf("part %d of frame %d was taken after %d", n, id, next[id])
			}
			want[id], next[id] = append(want[id], data...), n
			if (got != nil) != (n == of) || got != nil && !bytes.Equal(got, want[id]) {
				t.Fatalf("part %d of %d gave %d bytes, want %d", n, of, len(got), len(want[id]))
			}
			if got != nil {
				delete(want, id)
				delete(next, id)
			}
		}
	})
}
