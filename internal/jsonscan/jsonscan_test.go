package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"cdui/internal/jsonscan"
)

var texts = []string{
	`{}`, `[]`, ` { "a" : [ 1 , 2.5e-3 , -0 , true , false , null ] } `, `"é\u00e9\n\ud800"`, "\"\xff\"",
	``, ` `, `{`, `[1,]`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `[1 2]`, `01`, `-`, `1.`, `1e`, `+1`, `.5`, `tru`, `nullx`,
	`"a`, "\"\t\"", `"\x"`, `"\u12g4"`, `"\u12`, `{"a":1}{}`, `[,1]`, `{,}`, `{"a"}`, `[}`, `{]`, `NaN`, `"\u@@@@"`,
	strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
}

func TestValidIsWhatEncodingJSONTakes(t *testing.T) {
	for _, text := range texts {
		if got, want := jsonscan.Valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("Valid(%.60q) = %v, want %v", text, got, want)
		}
	}
}

func TestWhatIsPlain(t *testing.T) {
	for text, want := range map[string]bool{
		`{"a":[1,-2.5e3,"x y",null]}`: true, `"/~"`: true,
		`{"a": 1}`: false, ` 1`: false, "1\n": false, `"\n"`: false, `"é"`: false, "\"\x7f\"": false, `[1`: false,
	} {
		if _, got := jsonscan.Check([]byte(text)); got != want {
			t.Errorf("%q is plain: %v", text, got)
		}
	}
}

func TestMembersAreGivenAsTheyStand(t *testing.T) {
	s := jsonscan.New([]byte(` {"a" : {"b":[1,{}]}, "c\n":[ 1, "x" ],"e":{} } `))
	var got []string
	for ok := s.Enter('{'); ok && s.More('}'); {
		name := string(s.Name())
		if s.Kind() == '[' {
			for ok := s.Enter('['); ok && s.More(']'); {
				got = append(got, name+" has "+string(s.Value()))
			}
			continue
		}
		got = append(got, name+" is "+string(s.Value()))
	}
	want := `a is {"b":[1,{}]}; c\n has 1; c\n has "x"; e is {}`
	if strings.Join(got, "; ") != want || !s.End() {
		t.Errorf("got %s, want %s; failed %v", strings.Join(got, "; "), want, s.Failed())
	}
}

// FuzzValid holds the scanner to encoding/json.
func FuzzValid(f *testing.F) {
	for _, text := range texts {
		if len(text) < 1000 {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := jsonscan.Valid(text), json.Valid(text); got != want {
			t.Fatalf("Valid(%q) = %v, want %v", text, got, want)
		}
		s := jsonscan.New(text)
		if value := s.Value(); s.End() && !bytes.Equal(value, bytes.Trim(text, " \t\r\n")) {
			t.Fatalf("the value of %q is %q", text, value)
		}
		if _, plain := jsonscan.Check(text); plain {
			var compact bytes.Buffer
			if err := json.Compact(&compact, text); err != nil || !bytes.Equal(compact.Bytes(), text) {
				t.Fatalf("%q is not plain: %v", text, err)
			}
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text := []byte(`[` + strings.TrimSuffix(strings.Repeat(`{"name":"train/loss3","value":0.12345673,"step":1003},`, 64), ",") + `]`)
	for name, valid := range map[string]func([]byte) bool{"scan": jsonscan.Valid, "encoding-json": json.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if !valid(text) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
