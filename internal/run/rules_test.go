package run_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cdui/internal/run"
)

// D.1: what stands in a row's options when nothing was asked for.
func TestOptionsHaveTheDefaultsOfTheFormat(t *testing.T) {
	o, err := run.ParseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"seed": "null", "deterministic": "false", "record_outputs": "false", "verbose": "false",
		"weights_persistent": "false", "backward_mode": "false", "auto_backward": "false", "lane": `"queued"`, "graph_id": `""`,
		"error_mode": `"fail_fast"`, "max_retries": "0", "target": "null", "provenance": "false",
	} {
		if string(got[key]) != want {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
}

// D.1, A.1: the ends of each option's range.
func TestOptionsTakeTheirWholeRange(t *testing.T) {
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for option, values := range map[string]struct{ good, bad []string }{
		"seed":        {[]string{"0", "4294967295", "null"}, []string{"-1", "4294967296", "true", `"1"`}},
		"max_retries": {[]string{"0", "10"}, []string{"-1", "11", "1.5"}},
		"lane":        {[]string{text(1), text(64), `"interactive"`}, []string{`""`, text(65)}},
		"graph_id":    {[]string{`""`, text(128)}, []string{text(129), "1"}},
		"error_mode":  {[]string{`"fail_fast"`, `"continue"`, `"retry"`}, []string{`""`, `"stop"`}},
		"device":      {[]string{`"cpu"`, `" AUTO "`, `"cuda"`, `"cuda:3"`, `"mps"`, `"mps:0"`}, []string{`"gpu"`, `"cuda:"`, `"cuda:-1"`, `"cuda:x"`, "null", `"cpu:0"`}},
	} {
		for _, v := range values.good {
			if _, err := run.ParseOptions(json.RawMessage(fmt.Sprintf(`{%q:%s}`, option, v))); err != nil {
				t.Errorf("%s %.40s is refused: %v", option, v, err)
			}
		}
		for _, v := range values.bad {
			if _, err := run.ParseOptions(json.RawMessage(fmt.Sprintf(`{%q:%s}`, option, v))); err == nil {
				t.Errorf("%s %.40s is taken", option, v)
			}
		}
	}
}

// SCHED-04: what stands before the / of a queue key is a worker, and neither a
// worker's name nor a device has a / of its own.
func TestNoDeviceAndNoWorkerHasASlash(t *testing.T) {
	for _, options := range []string{
		`{"device":"box/cuda:0"}`, `{"device":"/"}`, `{"target":{"devices":["box/cuda:0"]}}`, `{"target":{"worker":"box/cuda"}}`,
	} {
		if _, err := run.ParseOptions(json.RawMessage(options)); err == nil {
			t.Errorf("%s is taken", options)
		}
	}
}
