package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/nvml/nvmltest"
	"cdui/internal/run"
)

// cardBox makes a machine whose driver is a library that the test controls. It
// has no nvidia-smi.
func (w *world) cardBox(name string, cards int) (*box, *nvmltest.Machine) {
	w.t.Helper()
	b, m := w.box(name), nvmltest.New(w.t, cards)
	if err := os.Remove(filepath.Join(b.dir, "bin", "nvidia-smi")); err != nil {
		w.t.Fatal(err)
	}
	b.env = append(b.env, m.Environ()...)
	return b, m
}

// shownDevice is a device of `cdui workers ls --json`; values keep their text,
// so that null is told from 0.
type shownDevice struct {
	Device      string          `json:"device"`
	Name        string          `json:"name"`
	UUID        *string         `json:"uuid"`
	PCIBusID    *string         `json:"pci_bus_id"`
	Total       json.RawMessage `json:"memory_total_mib"`
	Free        json.RawMessage `json:"memory_free_mib"`
	Utilization json.RawMessage `json:"utilization_pct"`
	Temperature json.RawMessage `json:"temperature_c"`
	Power       json.RawMessage `json:"power_w"`
	Processes   json.RawMessage `json:"processes"`
	Health      device.Health   `json:"health"`
	Runs        []string        `json:"runs"`
	Slots       struct {
		Used int `json:"used"`
	} `json:"slots"`
}

// blank tells whether nothing is said of what changes from moment to moment.
func (d shownDevice) blank() bool {
	return !slices.ContainsFunc([]json.RawMessage{d.Free, d.Utilization, d.Temperature, d.Power, d.Processes}, func(v json.RawMessage) bool {
		return string(v) != "null"
	})
}

// listed is the state and the cards of the machine as the command line has
// them, without the CPU.
func (b *box) listed() (api.WorkerState, []shownDevice) {
	b.w.t.Helper()
	var list struct {
		Workers []struct {
			Name    string          `json:"name"`
			State   api.WorkerState `json:"state"`
			Devices []shownDevice   `json:"devices"`
		} `json:"workers"`
	}
	if err := json.Unmarshal([]byte(b.w.cdui("workers", "ls", "--json")), &list); err != nil {
		b.w.t.Fatal(err)
	}
	for _, w := range list.Workers {
		if w.Name == b.name {
			return w.State, slices.DeleteFunc(w.Devices, func(d shownDevice) bool { return d.Device == device.CPU })
		}
	}
	return "", nil
}

// shown reads a run by `cdui runs show --json`.
func (w *world) shown(id string) api.Run {
	w.t.Helper()
	var r api.Run
	if err := json.Unmarshal([]byte(w.cdui("runs", "show", id, "--json")), &r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

// gated starts a run on a card that ends when its gate is opened.
func (b *box) gated(card string) (id string, pid int, open func()) {
	b.w.t.Helper()
	gate := filepath.Join(b.dir, "gate-"+strings.ReplaceAll(card, ":", ""))
	id = b.w.run("--worker", b.name, "--devices", card, "--no-files", "--", "sh", "-c", "while [ ! -e "+gate+" ]; do sleep 0.1; done; echo done")
	return id, b.w.running(id), func() {
		b.w.t.Helper()
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			b.w.t.Fatal(err)
		}
	}
}

// fault is one way in which a driver fails while a run is on card cuda:1 of
// two, and what is then said of the cards.
type fault struct {
	name, line string
	// dark: nothing is known of either card for as long as the fault lasts.
	// blank: nothing is known of cuda:1.
	dark, blank bool
	// code is what closes cuda:1; empty leaves it open. says is a part of the
	// reason.
	code, says string
	// sticks: it stays closed until the agent starts anew.
	sticks bool
}

// W-02, Q-05, Q-06: whatever the driver does in the middle of a run, the agent lives, the run goes
// on, what isn't known is null, a card in no state to work takes no runs and
// says why, and takes them again once it is well.
func TestADriverThatFailsInMidRun(t *testing.T) {
	inWorld(t, 6*time.Minute, func(t *testing.T, w *world) {
		w.start()
		type arm struct {
			fault
			b                *box
			m                *nvmltest.Machine
			uuid             string
			set              func(lines ...string)
			held, next, free string
			pid              int
			open             func()
		}
		var arms []*arm
		for _, f := range []fault{
			{name: "hangs", line: "hang 30", dark: true, blank: true, code: device.UnhealthyNoAnswer, says: "no answer from the driver since"},
			{name: "dies", line: "die", dark: true, blank: true, code: device.UnhealthyNoAnswer, says: "no answer from the driver since"},
			{name: "na", line: "na 1", blank: true},
			{name: "fewer", line: "count 1", blank: true, code: device.UnhealthyGone, says: "lists the card no more"},
			{name: "lost", line: "lost 1", blank: true, code: device.UnhealthyLost, says: "fallen off the bus"},
			{name: "ecc", line: "ecc 1 3", code: device.UnhealthyECC, says: "memory errors that could not be corrected"},
			{name: "xid", line: "xid 1 79", code: device.UnhealthyXid, says: "Xid 79", sticks: true},
		} {
			a := &arm{fault: f}
			a.b, a.m = w.cardBox(f.name, 2)
			// Cards of one UUID would be one card, whoever has it.
			a.uuid = fmt.Sprintf("GPU-%08d-0000-4000-8000-00000000000", len(arms)+1)
			a.set = func(lines ...string) {
				a.m.Set(append([]string{"uuid 0 " + a.uuid + "0", "uuid 1 " + a.uuid + "1"}, lines...)...)
			}
			a.set()
			a.b.launch("--token", w.enrollment(f.name))
			arms = append(arms, a)
		}
		for _, a := range arms {
			a.b.online()
			if _, cards := a.b.listed(); len(cards) != 2 || cards[1].blank() || string(cards[1].Power) != "60" || !cards[1].Health.OK() {
				t.Fatalf("%s: before: %+v", a.name, cards)
			}
			a.held, a.pid, a.open = a.b.gated("cuda:1")
		}
		for _, a := range arms {
			a.set(a.line)
		}
		for _, a := range arms {
			if a.dark {
				// Before they count as ill, the cards are unknown.
				eventually(t, time.Minute, a.name+": nothing is known of the cards", func() bool {
					_, cards := a.b.listed()
					return len(cards) == 2 && cards[0].blank() && cards[1].blank()
				})
			}
		}
		for _, a := range arms {
			eventually(t, 2*time.Minute, a.name+": the card shows its fault", func() bool {
				state, cards := a.b.listed()
				return state == api.WorkerOnline && len(cards) == 2 && cards[1].blank() == a.blank &&
					cards[1].Health.Code == a.code && strings.Contains(cards[1].Health.Text, a.says)
			})
			_, cards := a.b.listed()
			if other := cards[0]; other.blank() != a.dark || other.Health.OK() == a.dark {
				t.Errorf("%s: the other card is %+v", a.name, other)
			}
			if hurt := cards[1]; hurt.UUID == nil || *hurt.UUID != a.uuid+"1" || !slices.Equal(hurt.Runs, []string{a.held}) || hurt.Slots.Used != 1 {
				t.Errorf("%s: the card is %+v", a.name, hurt)
			}
			if string(cards[1].Total) == "null" != (a.name == "na") {
				t.Errorf("%s: its memory is %s", a.name, cards[1].Total)
			}
			if r := w.shown(a.held); r.Status != run.Running || r.PID == nil || *r.PID != a.pid || !alive(a.pid) {
				t.Errorf("%s: the run on the card: %s %s", a.name, r.Status, r.Error)
			}
			a.next = w.run("--worker", a.b.name, "--devices", "cuda:1", "--no-files", "--", "true")
			if a.code == "" {
				continue
			}
			eventually(t, 20*time.Second, a.name+": a run for the card says why it waits", func() bool {
				r := w.shown(a.next)
				return r.Status == run.Queued && r.QueueReasonCode == run.ReasonCardUnhealthy && strings.Contains(r.QueueReason, a.says)
			})
			if !a.dark {
				a.free = w.run("--worker", a.b.name, "--devices", "cuda:0", "--no-files", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
			}
		}
		// The end of the run on it doesn't open a closed card. The run is told as
		// it went, whatever its card said meanwhile.
		for _, a := range arms {
			if a.free != "" {
				w.succeeded(a.free)
				want := "0\n"
				if a.code == device.UnhealthyGone || a.code == device.UnhealthyLost {
					want = a.uuid + "0\n" // the others move up in CUDA's count
				}
				if log := string(w.rawLog(a.free)); log != want {
					t.Errorf("%s: the other card is shown as %q, not %q", a.name, log, want)
				}
			}
			a.open()
			w.succeeded(a.held)
			for _, e := range w.events(a.held) {
				if e.Type == run.EventRunWarning {
					t.Errorf("%s: the run was warned: %s", a.name, e.Payload)
				}
			}
			if a.code == "" {
				w.succeeded(a.next)
			} else if r := w.shown(a.next); r.Status != run.Queued || r.QueueReasonCode != run.ReasonCardUnhealthy {
				t.Errorf("%s: the next run is %s, %s", a.name, r.Status, r.QueueReasonCode)
			}
		}
		for _, a := range arms {
			a.set()
			if a.sticks {
				a.b.kill9()
				a.b.launch()
			}
		}
		for _, a := range arms {
			if a.code != "" {
				w.succeeded(a.next)
			}
			eventually(t, time.Minute, a.name+": the card is well", func() bool {
				_, cards := a.b.listed()
				return len(cards) == 2 && !cards[0].blank() && !cards[1].blank() && cards[1].Health.OK() && cards[1].Slots.Used == 0
			})
		}
	})
}
