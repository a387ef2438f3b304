package tui_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/client/live"
	"cdui/internal/tui"
)

// shelf is a disk with one file.
type shelf struct{}

func (shelf) Size(path string) (int64, error) {
	if !strings.HasSuffix(path, "報告.txt") {
		return 0, errors.New("no such file")
	}
	return 4711, nil
}

func (shelf) Head(string, int) ([]byte, error) {
	return []byte("損失 0.12\n\x1b[31mevil\x07\tand a line that is far longer than a dialog is wide, so that it has to go on in the next one and then goes on again\n"), nil
}

// actionsOf gives a source a log that fits a frame.
func actionsOf(s *source, f api.LiveFrame) {
	add := func(age time.Duration, user, from, verb, kind, id, detail string) {
		s.actions = append(s.actions, api.Action{Seq: int64(10000 - len(s.actions)), TS: *ago(age), User: user, From: from, Verb: verb, Kind: kind, ID: id, Detail: detail})
	}
	switch n := len(f.Runs); {
	case n > 100:
		for i := range 3000 {
			add(time.Duration(i)*time.Hour, []string{"ada", "local", "工作站使用者"}[i%3], "192.168.100.200", "submit", "run", f.Runs[i%n].ID, f.Runs[i%n].Name)
		}
	case n > 0:
		add(3*time.Second, "ada", "192.168.1.20", "cancel", "run", clitest.ID("81d00200"), "grace 30 s")
		add(time.Minute, "local", "127.0.0.1", "submit", "run", clitest.ID("81d00200"), "digits")
		add(18*time.Minute, "ada", "fd00::1234:5678:9abc", "submit", "run", idSweep, "resnet epoch sweep #3")
		add(20*time.Minute, "ada", "192.168.1.20", "submit", "sweep", clitest.ID("51ee9000"), "學習率 lr × width 🔍")
		add(26*time.Hour, "local", "127.0.0.1", "set", "device", "box2 cuda:1", "cap 1, cordoned: Xid 79")
		add(50*time.Hour, "local", "127.0.0.1", "drain", "worker", "工作站", "")
		add(51*time.Hour, "", "127.0.0.1", "add", "worker", "evil\x1b[31m\nname", "valid until 2026-03-01T12:00:00Z")
	}
}

func (s *source) Actions(_ context.Context, before int64, limit int) (api.ActionList, error) {
	s.reads = append(s.reads, fmt.Sprintf("actions %d", limit))
	var out api.ActionList
	for _, a := range s.actions {
		if (before == 0 || a.Seq < before) && len(out.Actions) < limit {
			out.Actions = append(out.Actions, a)
		}
	}
	return out, s.err
}

// Proves T-02 and M-02: who did what to what, when and from where, filtered,
// sorted, copied, described, and led on from to the run.
func TestTheLogOfActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 30, small())
		s.press(":")
		s.write("actions")
		s.press("enter")
		s.shows("WHEN", "192.168.1.20", "cancel", "run 81d00200", "grace 30 s", "7 actions")
		s.press("down", "down", "enter")
		s.shows("resnet epoch sweep #3", "1 overview")
		s.press("esc", "/")
		s.write("!run|sweep")
		s.press("enter")
		s.shows("3 actions", "worker 工作站", "cordoned: Xid 79")
		s.hides("resnet")
		s.press("esc", "U")
		if text := s.text(); strings.Index(text, "valid until") > strings.Index(text, "grace 30 s") || !strings.Contains(text, "USER↑") {
			t.Errorf("not by user:\n%s", text)
		}
		s.press("U", "U", "home", "d")
		s.shows("An action", clitest.ID("81d00200"), "192.168.1.20", "cdui actions")
		s.press("esc", "y")
		if got := s.copied(); got != clitest.ID("81d00200") {
			t.Errorf("copied %s", got)
		}
	})
}

// Proves T-01: the log is read when the feed says that it has grown, and of what
// is known already nothing is read again.
func TestTheLogIsReadWhenTheFeedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := clitest.Now()
		s := newScreen(t, 120, 30, small(), func(c *tui.Config) {
			c.Now = func() time.Time { return now }
			c.Dial = func(context.Context, string, int64) (live.Conn, error) { return quiet{}, nil }
		})
		s.src.reads = nil
		count := int64(0)
		grow := func(n int) {
			for range n {
				s.src.actions = append([]api.Action{{Seq: s.src.actions[0].Seq + 1, TS: now, User: "bob", Verb: "submit", Kind: "run", ID: idLong, Detail: fmt.Sprintf("number %d", count)}}, s.src.actions...)
				count++
			}
			s.send(tui.Fed(api.LiveFrame{Type: api.LiveDelta, Boot: "b", Counts: &api.LiveCounts{Actions: count}}))
			for range 3 {
				now = now.Add(time.Second)
				s.press("x")
			}
		}
		grow(1) // nobody looks
		s.press("5")
		for range 5 {
			now = now.Add(time.Second)
			s.press("x")
		}
		s.shows("number 0", "8 actions")
		s.press("down")
		grow(2)
		s.shows("number 2", "number 1", "10 actions")
		s.press("d")
		s.shows(clitest.ID("81d00200")) // the cursor is where it was
		s.press("esc", "home")          // at the top it stays there
		grow(150)                       // more than one read of news holds
		s.shows("number 152", "160 actions")
		if got := strings.Join(s.src.reads, ", "); got != "actions 1000, actions 100, actions 100, actions 1000" {
			t.Errorf("read %s", got)
		}
	})
}

func TestCardsAreCordonedAndShared(t *testing.T) {
	card := []string{"3", "down", "down", "down"} // cuda:0 of box1
	at := func(more ...string) []string { return append(append([]string{}, card...), more...) }
	for name, c := range map[string]struct {
		keys []string
		did  string
		said []string
	}{
		"cordon": {
			append(at(), append(typedKeys("x", "fan is loud"), "enter")...), `[set box1 cuda:0 {"cordoned":true,"reason":"fan is loud"}]`,
			[]string{"box1/cuda:0 takes no new runs", "cdui workers cordon box1 cuda:0 --reason 'fan is loud'"},
		},
		"without a reason":  {at("x", "enter"), `[set box1 cuda:0 {"cordoned":true,"reason":""}]`, []string{"cdui workers cordon box1 cuda:0"}},
		"not after all":     {at("x", "esc"), `[]`, nil},
		"uncordon":          {at("down", "down", "down", "down", "x"), `[set box2 cuda:1 {"cordoned":false}]`, []string{"cdui workers uncordon box2 cuda:1"}},
		"this machine's":    {[]string{"3", "down", "x", "enter"}, `[set local cpu {"cordoned":true,"reason":""}]`, []string{"cdui workers cordon local cpu"}},
		"a machine is none": {[]string{"3", "x"}, `[]`, []string{"choose one of its devices first"}},
		"share":             {at("m"), `[set box1 cuda:0 {"shared":true}]`, []string{"box1/cuda:0 is shared by memory", "cdui workers share box1 cuda:0 on"}},
		"share no more":     {at("down", "m"), `[set box1 cuda:1 {"shared":false}]`, []string{"cdui workers share box1 cuda:1 off"}},
		"queue here":        {at("down", "s"), `[]`, []string{"(•) box1", "[x] cuda:1", "cdui run --worker box1 --devices cuda:1"}},
		"logs":              {at("l"), `[]`, []string{"resnet epoch sweep #3", "following"}},
		"no logs":           {[]string{"3", "end", "l"}, `[]`, []string{"nothing runs there"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScreen(t, 120, 30, small())
				s.press(c.keys...)
				if got := fmt.Sprint(s.src.did); got != c.did {
					t.Errorf("did %s, want %s", got, c.did)
				}
				s.shows(c.said...)
			})
		})
	}
}

// A file of a run is looked into where it lies on this machine; what it holds
// can't do anything to the terminal.
func TestFilesOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 30, small())
		s.press("down", "enter", "6")
		s.shows("44 MiB", "報告.txt", "4.6 KiB")
		s.press("enter")
		s.shows("models/resnet.pt", "It lies on box1.", "cdui runs artifacts 3f1c9ab2", "trainer")
		s.press("esc", "end", "enter")
		s.shows("損失 0.12", "evil", "on again")
		s.press("esc", "y")
		if got := s.copied(); got != "/runs/3f1c9ab2/報告.txt" {
			t.Errorf("copied %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 30, small(), func(c *tui.Config) { c.MachineID = "another" })
		s.press("down", "enter", "6")
		s.hides("4.6 KiB")
		s.press("end", "enter")
		s.shows("It lies on box1.")
		s.hides("損失 0.12")
	})
}

// Proves T-02: curves of the best variants, or of those that are marked, over one
// axis of steps.
func TestCurvesOfASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 40, small())
		s.press(sweepKeys("enter")...)
		s.shows("val_accuracy", "#2  lr=0.001 width=64", "step 0…59")
		s.press("v")
		s.hides("step 0…59")
		s.press("v", "down", "space")
		s.shows("step 0…59", "#1  lr=0.0001 width=64")
		s.hides("#2  lr=0.001 width=64")
		s.press("esc")
		s.shows("#2  lr=0.001 width=64")
		s.press("esc", "down", "enter") // a study: its first metric, which no run of it logged
		s.shows("acc", "#1  seed 7")
		s.resize(80, 24)
		s.hides("seed 7")
		s.press("v")
		s.shows("seed 7")
	})
}

// What d tells of a key of the queue, of a sweep and of a study.
func TestKeysAndGroupsAreDescribed(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		said []string
	}{
		"key":        {[]string{"2", "down", "d"}, []string{"1 run at a time", "2 waiting", "5b90cc12 finetune-7b, 0c11d400", "cuda:1 is busy with 7aa01e00", "cdui queue"}},
		"run of one": {[]string{"2", "enter", "down", "d"}, []string{"resnet epoch sweep #3", "submitted"}},
		"sweep":      {sweepKeys("d"), []string{"grid", "maximize val_accuracy", "1 queued, 1 running", "val_accuracy 0.9313 (#2)", "cdui sweep show 51ee9000"}},
		"study":      {sweepKeys("down", "d"), []string{"0.9125 ± 0.0125, n 2", "cdui study show 57d40000"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScreen(t, 120, 30, small())
				s.press(c.keys...)
				s.shows(c.said...)
			})
		})
	}
}

// Proves T-01: a curve is read again when the feed has another value of its run,
// and never for the sake of time that passes.
func TestCurvesAreReadWhenTheFeedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := clitest.Now()
		s := newScreen(t, 120, 40, small(), func(c *tui.Config) {
			c.Now = func() time.Time { return now }
			c.Dial = func(context.Context, string, int64) (live.Conn, error) { return quiet{}, nil }
		})
		s.press(sweepKeys("enter")...)
		pass := func(want string) {
			t.Helper()
			for range 6 {
				now = now.Add(time.Second)
				s.text()
			}
			if got := strings.Join(s.src.curves, " "); got != want {
				t.Errorf("read the curves of %q, want %q", got, want)
			}
			s.src.curves = nil
		}
		pass("3f1c9ab2 abc00000 abc00001 abc00004 abc00005")
		pass("")
		r := small().Runs[6]
		r.Final = raw("val_accuracy", "0.92")
		s.send(tui.Fed(api.LiveFrame{Type: api.LiveDelta, Boot: "b", Runs: []api.LiveRun{r}}))
		pass("3f1c9ab2")
		s.press("v")
		r.Final = raw("val_accuracy", "0.93")
		s.send(tui.Fed(api.LiveFrame{Type: api.LiveDelta, Boot: "b", Runs: []api.LiveRun{r}}))
		pass("") // nobody looks
	})
}
