package shimhost_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost"
)

// spare starts a spare of the test's own child and waits until it is ready.
func spare(t *testing.T, h *shimhost.Host, env ...string) *shimhost.Spare {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.StartSpare(protocol.Assignment{
		Kind: protocol.KindScript, Argv: []string{exe, "child", "spare"}, Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...),
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.End)
	select {
	case <-s.Ready():
	case <-s.Gone():
		t.Fatalf("the spare is gone: %s", s.Why())
	case <-time.After(30 * time.Second):
		t.Fatal("the spare does not get ready")
	}
	return s
}

// served gives a spare the run a.
func served(t *testing.T, s *shimhost.Spare, a protocol.Assignment) *shimhost.Run {
	t.Helper()
	r, err := s.Assign(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// A run that a spare serves has the folder, the records and the end of any
// other, tells that it was warm, and leaves nothing; the spare serves no other.
// Proves K-04, P-04.
func TestASpareServesOneRun(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		dir := t.TempDir()
		h := newHost(t, shimhost.Config{Dir: dir, Isolate: way})
		s := spare(t, h)
		if found, err := h.Find(t.Context()); err != nil || len(found) != 0 {
			t.Errorf("the spare is taken for a run: %+v %v", found, err)
		}
		a := script(t, "exit 5")
		a.VisibleDevices = []string{"cpu"}
		r := served(t, s, a)
		recs := toEnd(t, r)
		if got := words(recs); got != "run_started run_facts running error run_finished" {
			t.Error(got)
		}
		if f := finished(t, recs); f.Error != "exit code 5" || recs[0].Started.Isolation != way || string(recs[1].Facts) != `{"warm":true}` {
			t.Errorf("%+v %s", f, recs[1].Facts)
		}
		if got := output(t, r); got != "serving "+a.RunID+" in /\n" {
			t.Errorf("it printed %q", got)
		}
		found, err := h.Find(t.Context())
		if err != nil || len(found) != 1 || found[0].RunID != a.RunID || found[0].Attempt != 1 {
			t.Errorf("%+v %v", found, err)
		}
		if _, err := os.Stat(filepath.Join(dir, s.ID())); !os.IsNotExist(err) {
			t.Errorf("the spare's folder is still there: %v", err)
		}
		if _, err := s.Assign(t.Context(), script(t, "exit 5")); err == nil {
			t.Error("it serves a second run")
		}
		wantNoProcess(t, a.RunID)
		wantNoProcess(t, s.ID())
	})
}

// Proves P-04: what the process of a served spare leaves goes with its run,
// though its own environment still bears the spare's name.
func TestNothingOutlivesARunOfASpare(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		s := spare(t, h)
		r := served(t, s, script(t, "mess"))
		waitOutput(t, r, "ready")
		if err := r.Cancel(t.Context(), 0, true); err != nil {
			t.Fatal(err)
		}
		if f := finished(t, toEnd(t, r)); f.Status != "cancelled" {
			t.Errorf("%+v", f)
		}
		wantNoProcess(t, s.ID())
	})
}

// Proves P-04.
func TestKill9OfBothOfAServedSpareIsSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHost(t, shimhost.Config{Dir: dir, Isolate: wire.IsolateKeeper})
	s := spare(t, h)
	a := script(t, "mess")
	r := served(t, s, a)
	waitOutput(t, r, "ready")
	shim, keeper := shimOf(t, r)
	kill(t, keeper, syscall.SIGSTOP)
	for _, wait := range []func(){kill(t, shim, syscall.SIGKILL), kill(t, keeper, syscall.SIGKILL)} {
		wait()
	}
	again := newHost(t, shimhost.Config{Dir: dir, Isolate: wire.IsolateKeeper})
	wantNoProcess(t, s.ID())
	found, err := again.Find(t.Context())
	if err != nil || len(found) != 1 || found[0].State != shimhost.Lost || len(found[0].Swept) == 0 {
		t.Errorf("%+v %v", found, err)
	}
}

// Proves P-04: a keeper finds the folder of its run though it has moved.
func TestKill9OfTheShimOfAServedSpareIsRecorded(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{Isolate: wire.IsolateKeeper})
	s := spare(t, h)
	r := served(t, s, script(t, "mess"))
	waitOutput(t, r, "ready")
	shim, _ := shimOf(t, r)
	if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if f := finished(t, toEnd(t, r)); f.Code != "supervisor_killed" {
		t.Errorf("%+v", f)
	}
	wantNoProcess(t, s.ID())
}

// Proves K-04, P-04: a spare is nobody's orphan.
func TestSparesGoWithTheirHost(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		dir := t.TempDir()
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), exe, "sparehost", dir, way)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		id, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		h := newHost(t, shimhost.Config{Dir: dir, Isolate: way})
		wantNoProcess(t, strings.TrimSpace(id))
		if found, err := h.Find(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("%+v %v", found, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	})
}

// Proves P-04.
func TestAnEndedSpareLeavesNothing(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		dir := t.TempDir()
		h := newHost(t, shimhost.Config{Dir: dir, Isolate: way})
		s := spare(t, h)
		s.End()
		<-s.Gone()
		wantNoProcess(t, s.ID())
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	})
}

// What a spare can't serve is started from scratch, where it says what is
// wrong; neither leaves anything.
func TestASpareThatRefusesLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHost(t, shimhost.Config{Dir: dir})
	s := spare(t, h)
	a := script(t, "exit 5")
	a.Dir = filepath.Join(dir, "missing")
	if _, err := s.Assign(t.Context(), a); err == nil || !strings.Contains(err.Error(), "no such directory") {
		t.Errorf("%v", err)
	}
	wantNoProcess(t, s.ID())
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	s = spare(t, h)
	b := command("sleep", "99")
	launch(t, h, b)
	a.RunID = b.RunID
	if _, err := s.Assign(t.Context(), a); !errors.Is(err, shimhost.ErrExists) {
		t.Errorf("a run that is there already: %v", err)
	}
}

// Proves K-04: a change of what the interpreter imports from shows.
func TestASpareKnowsWhenItsEnvironmentChanges(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	folder := t.TempDir()
	s := spare(t, h, "WATCHED="+folder)
	if s.Stale() {
		t.Fatal("it is stale from the start")
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(folder, later, later); err != nil {
		t.Fatal(err)
	}
	if !s.Stale() {
		t.Error("a changed folder does not show")
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if !s.Stale() {
		t.Error("a folder that is gone does not show")
	}
}

// A control plane can't name a run so that its folder is taken for a spare's.
func TestNoRunIsNamedLikeASpare(t *testing.T) {
	h := newHost(t, shimhost.Config{})
	a := command("true")
	a.RunID = "spare-1"
	if _, err := h.Start(t.Context(), a); err == nil {
		t.Error("it starts")
	}
}
