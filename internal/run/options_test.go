package run_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cdui/internal/run"
)

// D.1: stored options hold every key.
func TestParseOptionsDefaultsAndEveryKey(t *testing.T) {
	for _, in := range []string{"", "null", "{}"} {
		o, err := run.ParseOptions(json.RawMessage(in))
		if err != nil {
			t.Fatal(err)
		}
		if o.Lane != "queued" || o.ErrorMode != "fail_fast" || o.Seed != nil {
			t.Errorf("defaults of %q: %+v", in, o)
		}
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var stored map[string]json.RawMessage
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		for _, k := range run.OptionKeys() {
			if _, ok := stored[k]; !ok {
				t.Errorf("stored options lack %s", k)
			}
		}
		if len(stored) != len(run.OptionKeys()) {
			t.Errorf("stored options hold %d keys, %d are known", len(stored), len(run.OptionKeys()))
		}
	}
}

// Proves D.1, TGT-03, TGT-05, REF-09.
func TestParseOptionsRefusals(t *testing.T) {
	id := strings.Repeat("a", 32)
	for in, want := range map[string]string{
		`[]`:                       "must be an object",
		`{"colour":1}`:             `option "colour": unknown; supported: after, auto_backward`,
		`{"device":null}`:          "must be a string",
		`{"device":"gpu"}`:         "no device",
		`{"seed":true}`:            "whole number",
		`{"seed":4294967296}`:      "whole number",
		`{"seed":1.5}`:             "whole number",
		`{"verbose":1}`:            "true or false",
		`{"verbose":null}`:         "true or false",
		`{"lane":""}`:              "must not be empty",
		`{"max_retries":11}`:       "from 0 to 10",
		`{"error_mode":"panic"}`:   "fail_fast, continue, retry",
		`{"after":[{"run":"zz"}]}`: "no run id",
		`{"after":[{"run":"` + id + `","condition":"never"}]}`:                   "ok, any or failed",
		`{"target":{"worker":"Box"}}`:                                            "no worker name",
		`{"target":{"devices":["cuda"]}}`:                                        "no single device",
		`{"target":{"devices":["cuda:0","cuda:0"]}}`:                             "twice",
		`{"target":{"devices":["cuda:0","cpu"]}}`:                                "mixes",
		`{"target":{"gpu":1}}`:                                                   "unknown key",
		`{"max_run_seconds":-1}`:                                                 "seconds",
		`{"tags":["` + strings.Repeat("x", 65) + `"]}`:                           "1 to 64",
		`{"script":{"path":"a.py"}}`:                                             "absolute path",
		`{"command":{"argv":[],"cwd":"/"}}`:                                      "argv must name",
		`{"command":{"argv":["a\u0000"],"cwd":"/"}}`:                             "NUL",
		`{"script":{"path":"/a.py"},"command":{"argv":["x"],"cwd":"/"}}`:         "together",
		`{"command":{"argv":["x"],"cwd":"/","env":{"A=B":"1"}}}`:                 "must not be empty or hold",
		`{"command":{"argv":["` + strings.Repeat("x", 131072) + `"],"cwd":"/"}}`: "argument 1 is too large",
	} {
		_, err := run.ParseOptions(json.RawMessage(in))
		var oe *run.OptionError
		if !errors.As(err, &oe) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", in, err, want)
		}
	}
}

func TestC6_EnvironmentTooLargeIsRefusedByName(t *testing.T) {
	command := func(env map[string]string) json.RawMessage {
		raw, err := json.Marshal(map[string]any{"command": map[string]any{"argv": []string{"true"}, "cwd": "/", "env": env}})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	_, err := run.ParseOptions(command(map[string]string{"FOO": strings.Repeat("x", 200<<10), "BAR": "y"}))
	if err == nil || !strings.Contains(err.Error(), "environment too large: FOO") {
		t.Errorf("one variable of 200 KiB: %v", err)
	}
	many := map[string]string{}
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCD" {
		many[string(c)] = strings.Repeat("x", 100<<10)
	}
	if _, err = run.ParseOptions(command(many)); err == nil || !strings.Contains(err.Error(), "environment too large") {
		t.Errorf("3 MiB in all: %v", err)
	}
	if _, err = run.ParseOptions(command(map[string]string{"FOO": strings.Repeat("x", 100<<10)})); err != nil {
		t.Errorf("100 KiB: %v", err)
	}
}

func FuzzParseOptions(f *testing.F) {
	f.Add([]byte(`{"device":"cuda:0","seed":7,"tags":["a"],"after":[{"run":"x"}],"script":{"path":"/a"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := run.ParseOptions(raw); err != nil {
			var oe *run.OptionError
			if !errors.As(err, &oe) {
				t.Fatalf("not an option error: %v", err)
			}
		}
	})
}
