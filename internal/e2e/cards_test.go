package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Proves G1: the driver lists the fast card first though it stands on a later
// bus. cuda:0 is the slow one then, everywhere: in the list of workers, in the
// run's row, in what its child is shown and in its facts. CUDA itself would call
// the fast one 0, so the child is told to count by bus.
func TestG1_OneNumberForOneCard(t *testing.T) {
	inWorld(t, 3*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, m := w.cardBox("box1", 2)
		slow, fast := "GPU-51000000-0000-4000-8000-000000000001", "GPU-fa570000-0000-4000-8000-000000000002"
		state := []string{"name 0 NVIDIA H100", "uuid 0 " + fast, "bus 0 193", "name 1 NVIDIA T4", "uuid 1 " + slow, "bus 1 5", "total 1 16384"}
		m.Set(state...)
		b.enroll()
		_, cards := b.listed()
		if len(cards) != 2 || cards[0].Name != "NVIDIA T4" || *cards[0].UUID != slow || *cards[0].PCIBusID != "00000000:05:00.0" || cards[1].Name != "NVIDIA H100" {
			t.Fatalf("cards %+v", cards)
		}
		for i, card := range cards {
			name := fmt.Sprintf("cuda:%d", i)
			gate := b.dir + "/open-" + fmt.Sprint(i)
			id := w.run("--worker", b.name, "--devices", name, "--no-files", "--", "sh", "-c",
				"echo $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES $CDUI_DEVICE; while [ ! -e "+gate+" ]; do sleep 0.1; done")
			pid := w.running(id)
			// The driver's own list has the child on this card, and nowhere else.
			where := 1 - i // the driver's index runs the other way
			m.Set(append(slices.Clone(state), fmt.Sprintf("card %d 10 500 40 30 %d:500", where, pid))...)
			eventually(t, time.Minute, "the child is on the card", func() bool {
				_, now := b.listed()
				return strings.Contains(string(now[i].Processes), fmt.Sprintf(`"pid":%d,`, pid)) && string(now[1-i].Processes) == "[]"
			})
			_, now := b.listed()
			if !slices.Equal(now[i].Runs, []string{id}) || len(now[1-i].Runs) != 0 || *now[i].UUID != *card.UUID {
				t.Errorf("%s: the slots are %+v", name, now)
			}
			sh(t, "touch", gate)
			r := w.succeeded(id)
			var told struct {
				Visible []string          `json:"visible_devices"`
				Aliases map[string]string `json:"device_aliases"`
			}
			if err := json.Unmarshal(r.Facts, &told); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.Devices, []string{name}) || r.QueueKey != b.name+"/"+name || !slices.Equal(told.Visible, []string{name}) || told.Aliases["cuda:0"] != name {
				t.Errorf("%s: devices %v, key %s, facts %s", name, r.Devices, r.QueueKey, r.Facts)
			}
			if log, want := string(w.rawLog(id)), fmt.Sprintf("PCI_BUS_ID %d cuda:0\n", i); log != want {
				t.Errorf("%s: the child is shown %q, not %q", name, log, want)
			}
		}
	})
}

// Proves G2, K-10: an agent that is started with a mask, in whatever form,
// offers exactly the cards that the mask permits, under the machine's numbers.
// A mask that can't be read is refused with the entry named. What a run asks
// of its own cards is plain integers.
func TestG2_AnAgentBehindAMask(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, m := w.cardBox("box1", 4)
		m.Set("uuid 0 GPU-aaaa1111-0000-4000-8000-000000000001", "uuid 1 GPU-aaaa2222-0000-4000-8000-000000000002",
			"uuid 2 GPU-bbbb3333-0000-4000-8000-000000000003", "mig 3 2")
		const instance = "MIG-00000002-0000-4000-8000-000000000004"
		plain := b.env
		b.enroll()
		for _, c := range []struct {
			name, value, want string
			instances         int
		}{
			{"CUDA_VISIBLE_DEVICES", "GPU-aaaa2222-0000-4000-8000-000000000002", "cuda:1", 0},
			{"CUDA_VISIBLE_DEVICES", "GPU-b", "cuda:2", 0},
			{"CUDA_VISIBLE_DEVICES", instance, "cuda:3", 1},
			{"CUDA_VISIBLE_DEVICES", "2,GPU-aaaa1," + instance, "cuda:0 cuda:2 cuda:3", 1},
			{"CUDA_VISIBLE_DEVICES", "1,1,GPU-aaaa2", "cuda:1", 0},
			{"CUDA_VISIBLE_DEVICES", "", "", 0},
			{"CUDA_VISIBLE_DEVICES", "-1", "", 0},
			{"SLURM_JOB_GPUS", "0,2", "cuda:0 cuda:2", 0},
			{"SLURM_STEP_GPUS", "1", "cuda:1", 0},
		} {
			b.kill9()
			b.env = append(slices.Clone(plain), c.name+"="+c.value)
			b.start()
			var names []string
			for _, d := range b.row().Devices[1:] {
				names = append(names, d.Device.Device)
				if d.MIG != nil && len(d.MIG.Instances) != c.instances {
					t.Errorf("%s=%s: %d instances", c.name, c.value, len(d.MIG.Instances))
				}
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%s=%s offers %q, want %q", c.name, c.value, got, c.want)
				continue
			}
			if len(names) == 0 {
				out, code := w.try("run", "--detach", "--worker", b.name, "--devices", "cuda:0", "--no-files", "--", "true")
				if code != 1 || !strings.Contains(out, "worker box1 has no cuda:0; it offers cpu") {
					t.Errorf("%s=%s: a run for a card: exit %d, %s", c.name, c.value, code, out)
				}
				continue
			}
			last := names[len(names)-1]
			id := w.run("--worker", b.name, "--devices", last, "--no-files", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
			want := "GPU-aaaa2222-0000-4000-8000-000000000002\n"
			switch last {
			case "cuda:2":
				want = "GPU-bbbb3333-0000-4000-8000-000000000003\n"
			case "cuda:3":
				want = instance + "\n"
			}
			w.succeeded(id)
			if log := string(w.rawLog(id)); log != want {
				t.Errorf("%s=%s: a run on %s is shown %q, want %q", c.name, c.value, last, log, want)
			}
		}
		// Without a divided card among them, a child reads plain integers.
		b.kill9()
		m.Set("uuid 0 GPU-aaaa1111-0000-4000-8000-000000000001", "uuid 2 GPU-bbbb3333-0000-4000-8000-000000000003")
		b.env = append(slices.Clone(plain), "CUDA_VISIBLE_DEVICES=GPU-b,GPU-aaaa1")
		b.start()
		id := w.run("--worker", b.name, "--devices", "cuda:2,cuda:0", "--no-files", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
		w.succeeded(id)
		if log := string(w.rawLog(id)); log != "2,0\n" {
			t.Errorf("the cards of a set are shown as %q", log)
		}
		b.kill9()
		for value, says := range map[string]string{
			"GPU-dead": "there is no card GPU-dead", "0,9": "there is no card 9", "0,,1": "an entry is empty",
			"all": `"all" is neither a number nor a UUID`, "GPU-": "is the beginning of 4 UUIDs",
		} {
			b.env = append(slices.Clone(plain), "CUDA_VISIBLE_DEVICES="+value)
			out, code := b.try("agent", "start", "--control", w.control(), "--name", b.name)
			if code != 1 || !strings.Contains(out, "CUDA_VISIBLE_DEVICES="+value) || !strings.Contains(out, says) || !strings.Contains(out, "GPU-bbbb3333") {
				t.Errorf("CUDA_VISIBLE_DEVICES=%s: exit %d, %s", value, code, out)
			}
		}
	})
}
