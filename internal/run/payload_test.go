package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/run"
)

// Proves EVT-03.
func TestCanonicalGivesPythonsBytes(t *testing.T) {
	for in, want := range map[string]string{
		`{ "a" : [1, 2.50, "é😀"] }`: `{"a":[1,2.50,"\u00e9\ud83d\ude00"]}`,
		`"\u0041\/\u007f<>&"`:       `"A/\u007f<>&"`,
		`"\ud800 alone"`:            `"\ud800 alone"`,
		"\"tab\\t nl\\n\"":          `"tab\t nl\n"`,
		`{"b":1,"a":2}`:             `{"b":1,"a":2}`,
		`12345678901234567890`:      `12345678901234567890`,
	} {
		got, err := run.Canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("Canonical(%s) = %s, %v; want %s", in, got, err, want)
		}
	}
	if _, err := run.Canonical([]byte(`{"a":NaN}`)); err == nil {
		t.Error("NaN passed as JSON")
	}
}

// D.4: outputs are elided, then strings cut, then all of it collapses.
func TestCapPayloadSteps(t *testing.T) {
	big := strings.Repeat("x", 400)
	cases := []struct{ name, in, want string }{
		{"small enough", `{"a": 1}`, `{"a":1}`},
		{
			"output over its share is elided",
			`{"node_id":"n","outputs":[{"output_kind":"text","text":"` + big + `","port":"p"},{"output_kind":"text","text":"ok"}]}`,
			`{"node_id":"n","outputs":[{"output_kind":"text","elided":true,"bytes":443,"cap_bytes":200,"port":"p"},{"output_kind":"text","text":"ok"}]}`,
		},
		{
			"longest string is cut",
			`{"node_id":"n","error":"` + big + `"}`,
			`{"node_id":"n","error":"` + strings.Repeat("x", 159) + run.Truncated + `"}`,
		},
		{
			"collapse keeps what it was about",
			`{"node_id":"n","status":"error","rows":[` + strings.Repeat("1,", 300) + `1]}`,
			`{"elided":true,"bytes":643,"cap_bytes":200,"node_id":"n","status":"error"}`,
		},
		{"a list collapses", `[` + strings.Repeat("1,", 300) + `1]`, `{"elided":true,"bytes":603,"cap_bytes":200}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := string(run.CapPayload(json.RawMessage(c.in), 200))
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if got := run.CapPayload(json.RawMessage(`{"e":"`+big+`"}`), 0); len(got) < 400 {
		t.Error("a cap of 0 cut the payload")
	}
}

// Proves EVT-09, D.4.
func TestCapPayloadIsIdempotentAndKeepsItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := map[string]any{}
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			key := rapid.SampledFrom([]string{"node_id", "status", "error", "outputs", "text", "é"}).Draw(t, "key")
			if key == "outputs" {
				n := rapid.IntRange(0, 5).Draw(t, "outputs")
				list := make([]any, n)
				for i := range list {
					list[i] = map[string]any{"output_kind": "text", "text": strings.Repeat(rapid.String().Draw(t, "s"), 8)}
				}
				doc[key] = list
				continue
			}
			doc[key] = strings.Repeat(rapid.String().Draw(t, "s"), rapid.IntRange(0, 40).Draw(t, "times"))
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		limit := rapid.IntRange(1, 2000).Draw(t, "limit")
		once := run.CapPayload(raw, limit)
		if !json.Valid(once) {
			t.Fatalf("not JSON: %s", once)
		}
		if limit > 1000 && len(once) > limit && !strings.HasPrefix(string(once), `{"elided":true`) {
			t.Fatalf("%d bytes over a limit of %d: %s", len(once), limit, once)
		}
		if twice := run.CapPayload(once, limit); string(twice) != string(once) {
			t.Fatalf("second cap changed it:\n%s\n%s", once, twice)
		}
	})
}

// Proves EVT-03, D.4.
func TestPayloadBuilders(t *testing.T) {
	for want, got := range map[string]json.RawMessage{
		`{"run_id":"ab"}`: run.ExecutionStart("ab"),
		`{"node_id":"n","status":"error","error":"boom \u00e9","error_type":"ValueError"}`: run.NodeStatus("n", run.NodeError, "boom é", "ValueError"),
		`{"kind":"dropped","count":3,"node_id":"n"}`:                                       run.Warning("dropped", json.RawMessage(`{"count":3,"kind":"x"}`), "n"),
		`{"error":"x"}`: run.ExecutionError("x", "", nil),
		`{"error":"x","code":"c","params":{"a":1}}`:                             run.ExecutionError("x", "c", map[string]any{"a": 1}),
		`{"reason":"cancelled"}`:                                                run.ExecutionStopped(run.Cancelled),
		`{"points":[{"name":"loss","value":1}]}`:                                run.MetricEvent(json.RawMessage(`[{"name":"loss","value":1}]`)),
		`{"artifact_id":7,"kind":"file","path":"a b","meta":null,"node_id":""}`: run.ArtifactEvent(7, "file", "a b", nil, ""),
	} {
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
