package phrase_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/phrase"
	"cdui/internal/run"
)

func TestTitle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row  run.Row
		want string
	}{
		{run.Row{Name: "resnet\x1b[31m\nsweep\u202e"}, "resnet sweep"},
		{run.Row{Options: run.Options{Script: &run.ScriptSpec{Path: "/a/train.py", Args: []string{"--lr", "3e-4"}}}}, "train.py --lr 3e-4"},
		{run.Row{Options: run.Options{Command: &run.CommandSpec{Argv: []string{"/usr/bin/torchrun", "t.py"}}}}, "torchrun t.py"},
		{run.Row{}, "graph"},
	} {
		if got := phrase.Title(c.row); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestWhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row  run.Row
		want string
	}{
		{run.Row{Devices: []string{"cuda:0", "cuda:1"}, QueueKey: "x"}, "cuda:0,cuda:1"},
		{run.Row{QueueKey: "box1/cuda"}, "box1/cuda"},
		{run.Row{Options: run.Options{Device: "cpu"}}, "cpu"},
		{run.Row{WorkerID: "box1", Devices: []string{"cuda:0"}}, "box1/cuda:0"},
		{run.Row{WorkerID: "local", Devices: []string{"cpu"}}, "cpu"},
	} {
		if got := phrase.Where(c.row); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestResult(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	deadline := now.Add(26600 * time.Millisecond)
	two := 2
	for name, c := range map[string]struct {
		run  api.Run
		want string
	}{
		"queued":   {api.Run{Row: run.Row{Status: run.Queued}, QueuePosition: &two, QueueReason: "behind 5b90cc12"}, "2nd  behind 5b90cc12"},
		"held":     {api.Run{Row: run.Row{Status: run.Queued}, QueueReason: "held; release it to let it queue"}, "held; release it to let it queue"},
		"stopping": {api.Run{Row: run.Row{Status: run.Running, CancelRequestedAt: &now}, StoppingDeadline: &deadline}, "stopping, 27 s left"},
		"running": {api.Run{Row: run.Row{Status: run.Running}, FinalMetrics: map[string]json.RawMessage{
			"lr": json.RawMessage("0.001"), "accuracy": json.RawMessage("0.9781234"), "train_loss": json.RawMessage("0.05"), "z": json.RawMessage("1"),
		}}, "train_loss 0.05  accuracy 0.9781  lr 0.001"},
		"failed":             {api.Run{Row: run.Row{Status: run.Failed, Error: "ValueError: bad\nshape"}}, "ValueError: bad shape"},
		"failed, no words":   {api.Run{Row: run.Row{Status: run.Failed, EndClass: run.EndOutOfMemory}}, "out of memory"},
		"cancelled, waiting": {api.Run{Row: run.Row{Status: run.Cancelled}}, "cancelled before it started"},
	} {
		if got := phrase.Result(c.run, now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row  run.Row
		code int
		ok   bool
	}{
		{run.Row{Status: run.Succeeded}, 0, true},
		{run.Row{Status: run.Failed, Facts: json.RawMessage(`{"exit":{"code":3,"signal":null}}`)}, 3, true},
		{run.Row{Status: run.Failed, Facts: json.RawMessage(`{"exit":{"code":null,"signal":9}}`)}, 137, true},
		{run.Row{Status: run.Failed, Error: "exit code 137"}, 137, true},
		{run.Row{Status: run.Failed, Error: "killed by signal 9 (SIGKILL)"}, 137, true},
		{run.Row{Status: run.Failed, Error: "no Python at /x"}, 0, false},
	} {
		if code, ok := phrase.ExitCode(c.row); code != c.code || ok != c.ok {
			t.Errorf("%+v: %d, %v", c.row, code, ok)
		}
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	two := 2
	if got := phrase.Waiting(&two, "cuda:0", "behind 5b90cc12"); got != "2nd on cuda:0, behind 5b90cc12" {
		t.Errorf("%q", got)
	}
	if got := phrase.Waiting(nil, "cuda:0", "held"); got != "held" {
		t.Errorf("%q", got)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[2Jb\n\xff\u202e")
	f.Fuzz(func(t *testing.T, in string) {
		if got := phrase.Clean(in); strings.ContainsAny(got, "\x1b\n\r\x00\u009b\u202e") {
			t.Errorf("%q", got)
		}
	})
}
