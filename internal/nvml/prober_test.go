package nvml_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/device"
	"cdui/internal/nvml"
	"cdui/internal/nvml/nvmltest"
)

// prober makes a Prober of a machine with made-up cards, with a deadline that
// an answer meets easily and a hang exceeds soon.
func prober(t *testing.T, m *nvmltest.Machine, environ ...string) *nvml.Prober {
	t.Helper()
	p := nvml.NewProber(nvml.Config{
		Exe: os.Args[0], Environ: append(append(m.Environ(), "PATH="+t.TempDir()), environ...),
		Deadline: 3 * time.Second, Patience: 3 * time.Second, Pause: time.Millisecond,
	})
	t.Cleanup(p.Close)
	return p
}

// sound probes and expects an answer.
func sound(t *testing.T, p *nvml.Prober) device.Inventory {
	t.Helper()
	r := p.Probe(t.Context())
	if r.Fault != nil {
		t.Fatalf("fault: %v", r.Fault)
	}
	return r.Cards
}

// eventually probes until ok is content.
func eventually(t *testing.T, p *nvml.Prober, ok func(nvml.Reading) bool) nvml.Reading {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		r := p.Probe(ctx)
		if ok(r) {
			return r
		}
		if ctx.Err() != nil {
			t.Fatalf("it never came to that; the last reading is %+v", r)
		}
	}
}

// show writes a card in one line; what is unknown is a question mark.
func show(d device.Device) string {
	s := fmt.Sprintf("%s %s free=%s util=%s temp=%s power=", d.Device, d.Name, num(d.MemoryFreeMiB), num(d.UtilizationPct), num(d.TemperatureC))
	if d.PowerW == nil {
		s += "?"
	} else {
		s += fmt.Sprint(*d.PowerW)
	}
	if !d.Health.OK() {
		s += " " + d.Health.Code
	}
	return s
}

func num(n *int64) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

func want(t *testing.T, cards device.Inventory, lines ...string) {
	t.Helper()
	var got []string
	for _, c := range cards {
		got = append(got, show(c))
	}
	if strings.Join(got, "\n") != strings.Join(lines, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

const a100 = "NVIDIA A100-SXM4-80GB"

// Proves W-02 and Q-05 for what the driver says: values, and processes with
// their host pid, user and memory.
func TestTheProberReadsWhatTheDriverSays(t *testing.T) {
	m := nvmltest.New(t, 2)
	p := prober(t, m)
	me := os.Getpid()
	m.Set(fmt.Sprintf("card 1 95 41000 71 350 %d:40000 %d:200 4194305:12", me, me))
	cards := sound(t, p)
	want(t, cards,
		"cuda:0 "+a100+" free=81317 util=0 temp=30 power=60",
		"cuda:1 "+a100+" free=40320 util=95 temp=71 power=350")
	d := cards[1]
	if *d.UUID != "GPU-00000000-0000-4000-8000-000000000002" || *d.PCIBusID != "00000000:08:00.0" || *d.MemoryTotalMiB != 81920 || d.MIG != nil {
		t.Errorf("wrong: %+v", d)
	}
	if cards[0].Processes == nil || len(cards[0].Processes) != 0 {
		t.Errorf("an idle card has the processes %+v", cards[0].Processes)
	}
	// Each process once; one that the system doesn't know keeps its number.
	if len(d.Processes) != 2 || d.Processes[0].PID != int64(me) || num(d.Processes[0].MemoryMiB) != "40000" ||
		d.Processes[1].User != nil || d.Processes[1].Name != nil || num(d.Processes[1].MemoryMiB) != "12" {
		t.Fatalf("processes %+v", d.Processes)
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil && ns == "pid:[4026531836]" {
		who, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		if p := d.Processes[0]; p.User == nil || *p.User != who.Username || p.Name == nil || *p.Name == "" {
			t.Errorf("the process of this test is %+v, want user %s", p, who.Username)
		}
	}

	m.Set("card 1 5 100 40 80")
	want(t, sound(t, p)[1:], "cuda:1 "+a100+" free=81220 util=5 temp=40 power=80")
}

// Proves W-02: what the driver does not say is null.
func TestWhatTheDriverDoesNotKnowIsNull(t *testing.T) {
	m := nvmltest.New(t, 2)
	p := prober(t, m)
	m.Set("na 0")
	cards := sound(t, p)
	want(t, cards,
		"cuda:0 "+a100+" free=? util=? temp=? power=?",
		"cuda:1 "+a100+" free=81317 util=0 temp=31 power=60")
	if cards[0].MemoryTotalMiB != nil || cards[0].Processes != nil {
		t.Errorf("values out of nowhere: %+v", cards[0])
	}
}

// Proves Q-05 for a library that lacks symbols.
func TestAnOldDriverLacksValuesAndKillsNobody(t *testing.T) {
	m := nvmltest.New(t, 1, nvmltest.OldDriver)
	m.Set("card 0 7 1000 40 80 1:5")
	cards := sound(t, prober(t, m))
	want(t, cards, "cuda:0 "+a100+" free=80320 util=7 temp=40 power=?")
	if len(cards[0].Processes) != 1 {
		t.Errorf("processes %+v", cards[0].Processes)
	}
}

// Proves Q-05 for a driver that hangs.
func TestADriverThatHangsIsKilledAndAskedAgain(t *testing.T) {
	m := nvmltest.New(t, 2)
	p := prober(t, m)
	sound(t, p)

	m.Set("hang 30")
	start := time.Now()
	r := p.Probe(t.Context())
	if r.Fault == nil || !strings.Contains(r.Fault.Error(), "did not answer") {
		t.Fatalf("fault %v", r.Fault)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it kept its caller waiting for %s", took)
	}
	// The cards are known, their values are not.
	want(t, r.Cards, "cuda:0 "+a100+" free=? util=? temp=? power=?", "cuda:1 "+a100+" free=? util=? temp=? power=?")

	m.Set()
	r = eventually(t, p, func(r nvml.Reading) bool { return r.Fault == nil })
	want(t, r.Cards[:1], "cuda:0 "+a100+" free=81317 util=0 temp=30 power=60")
}

func TestADriverThatStaysSilentMakesItsCardsUnhealthy(t *testing.T) {
	m := nvmltest.New(t, 1)
	p := prober(t, m)
	sound(t, p)
	m.Set("die")
	r := eventually(t, p, func(r nvml.Reading) bool { return !r.Cards[0].Health.OK() })
	if h := r.Cards[0].Health; h.Code != device.UnhealthyNoAnswer || !strings.Contains(h.Text, "no answer from the driver since") {
		t.Errorf("health %+v", h)
	}
	m.Set()
	r = eventually(t, p, func(r nvml.Reading) bool { return r.Fault == nil })
	want(t, r.Cards, "cuda:0 "+a100+" free=81317 util=0 temp=30 power=60")
}

// Proves Q-05 for a driver that crashes.
func TestTheDeathOfTheReaderIsSurvived(t *testing.T) {
	m := nvmltest.New(t, 1)
	p := prober(t, m)
	sound(t, p)
	m.Set("die")
	if r := p.Probe(t.Context()); r.Fault == nil || !strings.Contains(r.Fault.Error(), "ended") {
		t.Fatalf("fault %v", r.Fault)
	}
	m.Set()
	eventually(t, p, func(r nvml.Reading) bool { return r.Fault == nil })
}

func TestACardThatVanishesIsListedAndTheOthersKeepTheirNames(t *testing.T) {
	m := nvmltest.New(t, 3)
	p := prober(t, m)
	m.Set("card 2 50 1000 60 200")
	sound(t, p)

	// The library now lists two cards; the third is at the second's place.
	m.Set("count 2", "uuid 1 GPU-00000000-0000-4000-8000-000000000003", "bus 1 9", "card 1 50 1000 60 200")
	cards := sound(t, p)
	want(t, cards,
		"cuda:0 "+a100+" free=81317 util=0 temp=30 power=60",
		"cuda:1 "+a100+" free=? util=? temp=? power=? gone",
		"cuda:2 "+a100+" free=80320 util=50 temp=60 power=200")

	m.Set()
	cards = sound(t, p)
	want(t, cards[1:2], "cuda:1 "+a100+" free=81317 util=0 temp=31 power=60")
}

// Proves Q-06 for what makes a card unhealthy.
func TestUnhealthyCards(t *testing.T) {
	uuid := "GPU-00000000-0000-4000-8000-000000000002"
	for name, c := range map[string]struct{ line, code, says string }{
		"lost":        {"lost 1", device.UnhealthyLost, "fallen off the bus"},
		"shut":        {"shut 1", device.UnhealthyUnreadable, "stub error 999"},
		"xid":         {"xid 1 79", device.UnhealthyXid, "Xid 79"},
		"ecc":         {"ecc 1 3", device.UnhealthyECC, "reset the card"},
		"remap":       {"remap 1", device.UnhealthyECC, "could not be replaced"},
		"program bug": {"xid 1 31", "", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := nvmltest.New(t, 3)
			p := prober(t, m)
			sound(t, p)
			m.Set(c.line)
			cards := sound(t, p)
			if len(cards) != 3 || !cards[0].Health.OK() || !cards[2].Health.OK() {
				t.Fatalf("the others suffer: %+v", cards)
			}
			d := cards[1]
			if d.Device != "cuda:1" || d.UUID == nil || *d.UUID != uuid || d.Health.Code != c.code || !strings.Contains(d.Health.String(), c.says) {
				t.Errorf("card %+v, health %q", d, d.Health)
			}
		})
	}
}

func TestAnXidIsRememberedBeyondTheProcessThatHeardIt(t *testing.T) {
	m := nvmltest.New(t, 2)
	p := prober(t, m)
	m.Set("xid 0 48")
	if h := sound(t, p)[0].Health; h.Code != device.UnhealthyXid {
		t.Fatalf("health %v", h)
	}
	m.Set("die")
	p.Probe(t.Context())
	m.Set()
	r := eventually(t, p, func(r nvml.Reading) bool { return r.Fault == nil })
	if h := r.Cards[0].Health; h.Code != device.UnhealthyXid {
		t.Errorf("health %v", h)
	}
}

func TestMIGInstancesAreListed(t *testing.T) {
	m := nvmltest.New(t, 2)
	m.Set("mig 1 2")
	cards := sound(t, prober(t, m))
	if cards[0].MIG != nil || cards[1].MIG == nil || len(cards[1].MIG.Instances) != 2 {
		t.Fatalf("cards %+v", cards)
	}
	i := cards[1].MIG.Instances[1]
	if i.Index != 1 || i.UUID != "MIG-00000002-0000-4000-8000-000000000002" || *i.Profile != "1g.10gb" || num(i.MemoryTotalMiB) != "10240" {
		t.Errorf("instance %+v", i)
	}
}

// The fast card stands on a later bus and the library lists it first: what is
// called cuda:0 is the first by bus, as it is for children, which count with
// CUDA_DEVICE_ORDER=PCI_BUS_ID.
func TestG1_CardsAreNumberedByBusWhateverTheDriversOrder(t *testing.T) {
	m := nvmltest.New(t, 2)
	m.Set("name 0 NVIDIA H100", "bus 0 193", "name 1 NVIDIA T4", "bus 1 5", fmt.Sprintf("card 1 0 100 30 20 %d:50", os.Getpid()))
	cards := sound(t, prober(t, m))
	want(t, cards,
		"cuda:0 NVIDIA T4 free=81220 util=0 temp=30 power=20",
		"cuda:1 NVIDIA H100 free=81317 util=0 temp=30 power=60")
	if len(cards[0].Processes) != 1 || len(cards[1].Processes) != 0 || cards[0].Index != 0 {
		t.Errorf("the process is on the wrong card: %+v", cards)
	}
	seen, err := cards.Visible(device.EnvironMask([]string{"CUDA_VISIBLE_DEVICES=0"}))
	if err != nil || len(seen) != 1 || seen[0].Name != "NVIDIA T4" || seen.CUDAVisible([]string{"cuda:0"}) != "0" {
		t.Errorf("card 0 is %+v, %v", seen, err)
	}
}

func TestADriverThatIsNotLoadedSaysHowToMendIt(t *testing.T) {
	m := nvmltest.New(t, 1)
	r := prober(t, m, "NVML_STUB_INIT_ERR=9").Probe(t.Context())
	if r.Fault == nil || !strings.Contains(r.Fault.Error(), "modprobe nvidia") || len(r.Cards) != 0 {
		t.Errorf("cards %v, fault %v", r.Cards, r.Fault)
	}
}

func TestALibraryThatEndsItsCallerLeavesTheTool(t *testing.T) {
	m := nvmltest.New(t, 1)
	m.Set("die")
	bin := fakeTool(t, "0, Card, GPU-x, 00000000:01:00.0, 10, 9, 0, 30, 20")
	p := prober(t, m, "PATH="+bin)
	for range 2 {
		want(t, sound(t, p), "cuda:0 Card free=9 util=0 temp=30 power=20")
	}
}

func TestWithoutDriverAndToolThereAreNoCards(t *testing.T) {
	p := nvml.NewProber(nvml.Config{Exe: os.Args[0], Environ: []string{"PATH=" + t.TempDir()}, Pause: time.Millisecond})
	t.Cleanup(p.Close)
	for range 2 {
		if cards := sound(t, p); len(cards) != 0 {
			t.Errorf("cards %+v", cards)
		}
	}
}

func TestTheToolIsTheSecondWay(t *testing.T) {
	bin := fakeTool(t, "0, Card, GPU-x, 00000000:01:00.0, 10, 9, 0, 30, 20")
	p := nvml.NewProber(nvml.Config{Exe: os.Args[0], Environ: []string{"PATH=" + bin}, Pause: time.Millisecond})
	t.Cleanup(p.Close)
	want(t, sound(t, p), "cuda:0 Card free=9 util=0 temp=30 power=20")
	if err := os.Remove(filepath.Join(bin, "nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	want(t, sound(t, p), "cuda:0 Card free=? util=? temp=? power=? gone")
}

// fakeTool makes an nvidia-smi that prints lines whatever it is asked.
func fakeTool(t *testing.T, lines ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := "#!/bin/sh\necho '" + strings.Join(lines, "\n") + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheReadersEnvironmentHoldsNoSecretAndLoadsLazily(t *testing.T) {
	dir := t.TempDir()
	exe := filepath.Join(dir, "exe")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\n/usr/bin/env >"+dir+"/env\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := nvml.Look(t.Context(), nvml.Config{Exe: exe, Environ: []string{
		"PATH=/usr/bin", "LD_BIND_NOW=1", "CDUI_TOKEN=secret", "LD_LIBRARY_PATH=/lib/nvidia", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
	}})
	if r.Fault == nil {
		t.Error("a program that answers nothing has answered")
	}
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(env); strings.Contains(s, "BIND_NOW") || strings.Contains(s, "secret") || !strings.Contains(s, "/lib/nvidia") || !strings.Contains(s, "PCI_BUS_ID") {
		t.Errorf("environment\n%s", s)
	}
}

func TestWhatIsNoAnswerIsAFault(t *testing.T) {
	for name, body := range map[string]string{
		"garbage":    "echo hello; exec sleep 60",
		"endless":    "head -c 9000000 /dev/zero; exec sleep 60",
		"unasked":    `while :; do echo '{"way":"library","cards":[]}'; done`,
		"ends":       "echo 'symbol lookup error' >&2; exit 127",
		"reads none": "exec <&-; exec sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exe := filepath.Join(t.TempDir(), "exe")
			if err := os.WriteFile(exe, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			p := nvml.NewProber(nvml.Config{Exe: exe, Environ: []string{"PATH=/usr/bin:/bin"}, Deadline: time.Second, Patience: time.Second, Pause: time.Millisecond})
			t.Cleanup(p.Close)
			eventually(t, p, func(r nvml.Reading) bool { return r.Fault != nil })
		})
	}
}

func TestOncePrintsOneAnswerAndEnds(t *testing.T) {
	m := nvmltest.New(t, 1)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "nvml", "--once")
	cmd.Env = m.Environ()
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), `{"way":"library","driver":"550.54.15","cards":[{"device":"cuda:0"`) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}
