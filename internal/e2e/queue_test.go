package e2e_test

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// because waits until a run waits for this reason.
func (w *world) because(id, code string) api.Run {
	w.t.Helper()
	eventually(w.t, time.Minute, "run "+run.Short(id)+" waits for "+code, func() bool {
		v := w.show(id)
		return v.Status == run.Queued && v.QueueReasonCode == code
	})
	return w.show(id)
}

// idle tells whether no device of any worker holds a run.
func (w *world) idle() string {
	w.t.Helper()
	for _, x := range w.workers() {
		for _, d := range x.Devices {
			if d.Slots.Used > 0 || len(d.Runs) > 0 {
				return fmt.Sprintf("%s %s holds %v", x.Name, d.Device.Device, d.Runs)
			}
		}
	}
	return ""
}

// Proves CARD-05, CARD-07, CARD-09, CARD-16, SET-03, SET-07, SCHED-07: two agents that
// offer one card never use it at once, and a set of two cards starts in its turn
// beside a long queue for one of them.
func TestOneCardOfTwoAgentsAndASetInItsTurn(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		a, ma := w.cardBox("box1", 2)
		b, mb := w.cardBox("box2", 1)
		const one = "GPU-0ca4d000-0000-4000-8000-000000000001"
		ma.Set("uuid 0 "+one, "uuid 1 GPU-0ca4d111-0000-4000-8000-000000000002")
		mb.Set("uuid 0 " + one)
		a.enroll()
		b.enroll()
		first, _, open := a.gated("cuda:0")
		second := w.run("--worker", b.name, "--devices", "cuda:0", "--no-files", "--", "true")
		if v := w.because(second, run.ReasonSlotBusy); v.QueueReason != "box2/cuda:0 is busy with "+run.Short(first) {
			t.Errorf("says %q", v.QueueReason)
		}
		for _, x := range w.workers() {
			d := x.Devices[1]
			if len(d.SameCard) != 1 || d.SameCard[0] == x.Name || len(d.Runs) != 1 || d.Runs[0] != first {
				t.Errorf("%s lists the card as that of %v, with %v", x.Name, d.SameCard, d.Runs)
			}
		}
		// In line on cuda:0: three runs, the set, three more.
		log := filepath.Join(a.dir, "order")
		note := func(name string) string { return "echo " + name + " >> " + log }
		var queue []string
		for i := range 3 {
			queue = append(queue, w.run("--worker", a.name, "--devices", "cuda:0", "--no-files", "--", "sh", "-c", note(fmt.Sprint("a", i))))
		}
		set := w.run("--worker", a.name, "--devices", "cuda:0,cuda:1", "--no-files", "--", "sh", "-c", note("set")+"; echo cards $CUDA_VISIBLE_DEVICES")
		for i := range 3 {
			queue = append(queue, w.run("--worker", a.name, "--devices", "cuda:0", "--no-files", "--", "sh", "-c", note(fmt.Sprint("b", i))))
		}
		other := w.run("--worker", a.name, "--devices", "cuda:1", "--no-files", "--", "sh", "-c", note("other"))
		w.because(set, run.ReasonSetWait)
		if v := w.because(other, run.ReasonSlotBusy); v.QueueReasonParams["kept_for"] != set {
			t.Errorf("the set's other card: %s", v.QueueReason)
		}
		open()
		for _, id := range append(queue, set, other, first, second) {
			w.succeeded(id)
		}
		if shown := string(w.rawLog(set)); shown != "cards 0,1\n" {
			t.Errorf("the set's child is shown %q", shown)
		}
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		order := strings.Fields(string(raw))
		at := func(name string) int {
			for i, n := range order {
				if n == name {
					return i
				}
			}
			return -1
		}
		if at("a2") > at("set") || at("set") > at("b0") || at("set") > at("other") {
			t.Errorf("they ran in the order %v", order)
		}
		if busy := w.idle(); busy != "" {
			t.Error(busy)
		}
	})
}

// Proves S2, MEM-01, MEM-02, MEM-03, Q-04, Q-05, Q-06: a run that waits starts
// within one poll once what it waits for is there, whatever that is: memory that
// an outsider held, a cordon, strangers, another run, a held queue, its worker.
func TestS2_ABlockedRunStartsOnceItCan(t *testing.T) {
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, m := w.cardBox("box1", 2)
		b.enroll()
		starts := func(what, id string) {
			t.Helper()
			began := time.Now()
			w.succeeded(id)
			t.Logf("%s: over %.1f s after it was freed", what, time.Since(began).Seconds())
		}
		submit := func(card string, more ...string) string {
			return w.run(append(more, "--worker", b.name, "--devices", card, "--no-files", "--", "true")...)
		}
		w.cdui("workers", "share", b.name, "cuda:0", "on")
		m.Set("total 0 24576", "card 0 50 20000 60 200 7:20000")
		eventually(t, time.Minute, "the outsider is seen", func() bool {
			_, cards := b.listed()
			return strings.Contains(string(cards[0].Processes), `"pid":7`)
		})
		short := submit("cuda:0", "--memory", "20GiB")
		if v := w.because(short, run.ReasonMemoryWait); !strings.HasPrefix(v.QueueReason, "waits for 20.5 GiB on box1/cuda:0, ") || !strings.HasSuffix(v.QueueReason, ": the rest is in use by others") {
			t.Errorf("says %q", v.QueueReason)
		}
		m.Set("total 0 24576", "card 0 0 0 40 60")
		starts("memory", short)

		w.cdui("workers", "cordon", b.name, "cuda:1", "--reason", "fan")
		cordoned := submit("cuda:1")
		if v := w.because(cordoned, run.ReasonCordoned); v.QueueReason != "box1/cuda:1 is cordoned: fan" {
			t.Errorf("says %q", v.QueueReason)
		}
		if out := w.cdui("workers", "ls"); !strings.Contains(out, "cordoned: fan") {
			t.Errorf("the list of workers says nothing of it:\n%s", out)
		}
		w.cdui("workers", "uncordon", b.name, "cuda:1")
		starts("cordon", cordoned)

		w.cdui("workers", "set", b.name, "cuda:1", "--strangers", "refuse")
		m.Set("total 0 24576", "card 1 50 9000 60 200 7:9000")
		eventually(t, time.Minute, "the stranger closes the card", func() bool {
			d := b.row().Devices[2]
			return d.Cordon != nil && d.Cordon.Code == run.ReasonCardInUse
		})
		strange := submit("cuda:1")
		w.because(strange, run.ReasonCardInUse)
		m.Set("total 0 24576")
		starts("strangers", strange)

		first, _, open := b.gated("cuda:1")
		after := submit("cuda:0", "--after", first)
		w.because(after, run.ReasonAfter)
		open()
		starts("another run", after)

		w.cdui("queue", "hold", "box1/cuda:1", "--note", "lunch")
		held := submit("cuda:1")
		if v := w.because(held, run.ReasonHeld); v.QueueReason != "the queue box1/cuda:1 is held: lunch" {
			t.Errorf("says %q", v.QueueReason)
		}
		// What people decided outlives the control plane.
		w.kill9()
		w.start()
		w.because(held, run.ReasonHeld)
		w.cdui("queue", "release", "box1/cuda:1")
		starts("a held queue", held)

		b.kill9()
		away := submit("cuda:1")
		w.because(away, run.ReasonWorkerOffline)
		b.start()
		starts("its worker", away)
		w.cdui("workers", "drain", b.name)
		drained := submit("cuda:1")
		w.because(drained, run.ReasonWorkerDraining)
		w.cdui("workers", "undrain", b.name)
		starts("draining", drained)
		if out, code := w.try("run", "--immediate", "--worker", b.name, "--devices", "cuda:0", "--no-files", "--", "true"); code != 0 {
			t.Errorf("a run that may not wait, on an idle card: exit %d, %s", code, out)
		}
		busy, _, open := b.gated("cuda:0")
		out, code := w.try("run", "--immediate", "--worker", b.name, "--devices", "cuda:0", "--memory", "23GiB", "--no-files", "--", "true")
		if code != 1 || !strings.Contains(out, "it could not start now") {
			t.Errorf("a run that may not wait, on a busy card: exit %d, %s", code, out)
		}
		open()
		w.succeeded(busy)
		if busy := w.idle(); busy != "" {
			t.Error(busy)
		}
	})
}

// The control plane is killed at random moments between a run's submit and its
// first line; it is cancelled at random moments of its life. Each run is started
// once or, where it was told to stop, at most once; no slot stays held.
// Proves SCHED-08, CAN-04.
func TestKilledAndCancelledBetweenPlacementAndStart(t *testing.T) {
	inWorld(t, 10*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, _ := w.cardBox("box1", 1)
		b.enroll()
		random := rand.New(rand.NewSource(time.Now().UnixNano())) //nolint:gosec // moments to strike at
		kills := faults(t, 5)
		log := filepath.Join(b.dir, "starts")
		var ids []string
		for i := range kills {
			ids = append(ids, w.run("--worker", b.name, "--devices", "cuda:0", "--no-files", "--", "sh", "-c", fmt.Sprintf("echo n%d >> %s; sleep 0.1", i, log)))
			wait := time.NewTimer(time.Duration(random.Intn(80)) * time.Millisecond)
			<-wait.C
			w.kill9()
			w.start()
		}
		for _, id := range ids {
			w.succeeded(id)
		}
		raw, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for i := range kills {
			if n := strings.Count(string(raw), fmt.Sprintf("n%d\n", i)); n != 1 {
				t.Errorf("run %d was started %d times", i, n)
			}
		}
		cancelled := 0
		for range 2 * kills {
			id := w.run("--worker", b.name, "--devices", "cuda:0", "--no-files", "--", "sleep", "0.2")
			wait := time.NewTimer(time.Duration(random.Intn(400)) * time.Millisecond)
			<-wait.C
			w.cdui("cancel", id)
			if v := w.ended(id); v.Status == run.Cancelled {
				cancelled++
			}
		}
		eventually(t, time.Minute, "all slots are free", func() bool { return w.idle() == "" })
		t.Logf("killed %d times, cancelled %d of %d runs before their end: started once each, stuck slots 0", kills, cancelled, 2*kills)
	})
}
