package shimhost_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shimhost"
)

func cancel(t *testing.T, r *shimhost.Run, grace time.Duration, force bool) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	if err := r.Cancel(ctx, grace, force); err != nil {
		t.Fatal(err)
	}
}

// saver is a program that takes a while to save when it is told to end.
const saver = `
trap 'for i in 1 2 3 4 5; do echo saving $i; sleep 0.1; done; touch "$SAVED"; echo done; exit 0' TERM
echo ready
while :; do sleep 0.05; done
`

func TestC1_TheRunStopsWhenItsLastProcessHasSaved(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		saved := filepath.Join(t.TempDir(), "saved")
		prog := filepath.Join(t.TempDir(), "t.sh")
		if err := os.WriteFile(prog, []byte(saver), 0o600); err != nil {
			t.Fatal(err)
		}
		// The shell around it has no trap and dies at once.
		a := shell("sh " + prog + "; true")
		a.Env = append(a.Env, "SAVED="+saved)
		r := launch(t, h, a)
		waitOutput(t, r, "ready")
		cancel(t, r, 20*time.Second, false)
		f := finished(t, toEnd(t, r))
		if f.Status != "cancelled" || f.EndClass != "cancelled" || f.Error != "" {
			t.Fatalf("%+v", f)
		}
		if _, err := os.Stat(saved); err != nil {
			t.Fatal(err)
		}
		// The shell that waits for its sleep says that it was terminated.
		if got := strings.ReplaceAll(output(t, r), "Terminated\n", ""); got != "ready\nsaving 1\nsaving 2\nsaving 3\nsaving 4\nsaving 5\ndone\n" {
			t.Fatalf("%q", got)
		}
	})
}

func TestC1_WhatNeverEndsIsKilledAtTheEndOfTheGrace(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		r := launch(t, h, shell(`sh -c 'trap "echo no" TERM; echo ready; while :; do sleep 0.05; done'; true`))
		waitOutput(t, r, "ready")
		cancel(t, r, 300*time.Millisecond, false)
		if s := r.Status(); s.Dead {
			t.Fatal("the run did not wait for its grace")
		}
		f := finished(t, toEnd(t, r))
		if f.Status != "cancelled" || f.Error != "did not stop within 300ms and was killed" {
			t.Fatalf("%+v", f)
		}
		if s := r.Status(); s.StopReason != "cancel" || s.Stopping.IsZero() {
			t.Fatalf("%+v", s)
		}
	})
}

// Proves K-07, CAN-01.
func TestAScriptReadsTheFlag(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		r := launch(t, h, script(t, "watch"))
		waitOutput(t, r, "watching")
		cancel(t, r, 20*time.Second, false)
		recs := toEnd(t, r)
		f := finished(t, recs)
		if f.Status != "cancelled" || f.Exit.Code == nil || *f.Exit.Code != 0 || !strings.HasSuffix(output(t, r), "flag seen\n") {
			t.Fatalf("%+v %q", f, output(t, r))
		}
		if got := words(recs); got != "run_started running interrupted run_finished" {
			t.Fatal(got)
		}
	})
}

func TestAScriptThatCatchesSIGTERMIsToldAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	a := shell(`trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done`)
	a.Kind = protocol.KindScript
	r := launch(t, h, a)
	waitOutput(t, r, "ready")
	cancel(t, r, 30*time.Second, false)
	if f := finished(t, toEnd(t, r)); f.Status != "cancelled" || *f.Exit.Code != 0 {
		t.Fatalf("%+v", f)
	}
	if !strings.HasSuffix(output(t, r), "saved\n") {
		t.Fatalf("%q", output(t, r))
	}
}

// Proves K-07, CAN-02.
func TestAScriptThatIgnoresSIGTERMIsKilledAfterItsGrace(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	a := shell(`trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	a.Kind = protocol.KindScript
	r := launch(t, h, a)
	waitOutput(t, r, "ready")
	cancel(t, r, 100*time.Millisecond, false)
	// A later wish for a shorter end counts, one for a longer end does not.
	cancel(t, r, time.Hour, false)
	recs := toEnd(t, r)
	if f := finished(t, recs); f.Status != "cancelled" || f.Error != "did not stop within 100ms and was killed" {
		t.Fatalf("%+v", f)
	}
}

func TestForceEndsAStopUnderWay(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		r := launch(t, h, shell(`trap '' TERM; echo ready; while :; do sleep 0.05; done`))
		waitOutput(t, r, "ready")
		cancel(t, r, time.Hour, false)
		cancel(t, r, 0, true)
		if f := finished(t, toEnd(t, r)); f.Status != "cancelled" || f.Exit.Signal == nil || *f.Exit.Signal != 9 {
			t.Fatalf("%+v", f)
		}
	})
}

func TestATimeLimitEndsTheRun(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	a := shell(`echo begun; sleep 999`)
	a.MaxRunMS = 300
	r := launch(t, h, a)
	f := finished(t, toEnd(t, r))
	if f.Status != "failed" || f.EndClass != "timeout" || f.Error != "ran longer than its time limit of 300ms" || f.ActiveMS < 300 {
		t.Fatalf("%+v", f)
	}
}

func TestACancelAfterTheEndChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	r := launch(t, h, shell("exit 4"))
	recs, err := follow(t, r, func(rec protocol.Record) bool { return rec.Type == protocol.RunFinished })
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Cancel(t.Context(), time.Second, false)
	if f := finished(t, recs); f.Status != "failed" || f.Error != "exit code 4" {
		t.Fatalf("%+v", f)
	}
}
