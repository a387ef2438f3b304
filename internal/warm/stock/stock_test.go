//go:build linux

package stock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim"
	"cdui/internal/shim/proctree"
	"cdui/internal/shimhost"
)

// TestMain lets the test binary stand in for `cdui shim` and for Python.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.Main(os.Args[2:]))
		case "-u":
			os.Exit(pythonMain(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// pythonMain is a script's process: started for it, or ahead of it.
func pythonMain(args []string) int {
	up, down := os.NewFile(3, "up"), bufio.NewReader(os.NewFile(4, "down"))
	if args[1] == "spare" {
		if os.Getenv("OMP_BROKEN") != "" {
			return 1
		}
		fmt.Fprintln(up, `{"type":"ready","modules":["torch"]}`)
		line, err := down.ReadBytes('\n')
		var told struct{ Argv []string }
		if err != nil || json.Unmarshal(line, &told) != nil {
			return 1
		}
		fmt.Print("warm ")
		args = told.Argv[2:]
	}
	fmt.Println(args[2])
	if args[2] == "torch.py" {
		fmt.Fprintln(up, `{"type":"imported","modules":["torch"]}`)
	}
	return 0
}

// counting counts the spares that are started.
type counting struct {
	*shimhost.Host
	spares atomic.Int32
	mu     sync.Mutex
	ids    []string
}

func (c *counting) StartSpare(a protocol.Assignment, life time.Duration) (*shimhost.Spare, error) {
	c.spares.Add(1)
	s, err := c.Host.StartSpare(a, life)
	if err == nil {
		c.mu.Lock()
		c.ids = append(c.ids, s.ID())
		c.mu.Unlock()
	}
	return s, err
}

func script(t *testing.T, id, name string, env ...string) protocol.Assignment {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return protocol.Assignment{
		RunID: id, Attempt: 1, Kind: protocol.KindScript, Argv: []string{exe, "-u", "child.py", "script", name}, Dir: t.TempDir(),
		Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...), VisibleDevices: []string{"cpu"}, GraceMS: 1000,
	}
}

// keep makes a stock at work whose device has been idle for long.
func keep(t *testing.T, n int, env ...string) (*Stock, *counting) {
	t.Helper()
	host, err := shimhost.New(shimhost.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{Host: host}
	s := New(Config{
		Host: c, Keep: n, Devices: func() []string { return []string{"cpu"} },
		Usual: func(context.Context, string) (protocol.Assignment, error) {
			return script(t, "usual", "x.py", env...), nil
		},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	s.began = time.Now().Add(-time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, id := range c.ids {
			if left := proctree.ByEnv("CDUI_RUN_ID", func(have string) bool { return have == id }); len(left) > 0 {
				t.Errorf("the stock left processes: %v", left)
			}
		}
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 30s: %s", what)
		}
	}
}

func ready(s *Stock) bool {
	list := s.Spares()
	return len(list) == 1 && list[0].Ready
}

// finish reads a run to its end and gives what it printed.
func finish(t *testing.T, r *shimhost.Run) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		recs, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Ack(recs[len(recs)-1].Seq)
	}
	<-r.Done()
	out, _, err := r.Console().Tail(1000)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	return string(out)
}

func start(t *testing.T, s *Stock, a protocol.Assignment) *shimhost.Run {
	t.Helper()
	r, err := s.Start(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Proves K-04: one spare serves one run, the next run starts cold, and no
// spare is started before the device has been idle for a while.
func TestOneSpareServesOneRun(t *testing.T) {
	s, c := keep(t, 1)
	until(t, "a spare is ready", func() bool { return ready(s) })
	a, b := start(t, s, script(t, "a", "a.py")), start(t, s, script(t, "b", "b.py"))
	if got := finish(t, a) + finish(t, b); got != "warm a.py\nb.py\n" {
		t.Errorf("%q", got)
	}
	if n := c.spares.Load(); n != 1 {
		t.Errorf("%d spares were started", n)
	}
}

// Proves K-04: a drain ends the spares, and its end brings them back.
func TestADrainEndsSpares(t *testing.T) {
	s, _ := keep(t, 1)
	until(t, "a spare is ready", func() bool { return ready(s) })
	s.Close(true)
	until(t, "it is ended", func() bool { return len(s.Spares()) == 0 })
	if got := finish(t, start(t, s, script(t, "a", "a.py"))); got != "a.py\n" {
		t.Errorf("%q", got)
	}
	s.Close(false)
	until(t, "there is one again", func() bool { return ready(s) })
}

// A spare that fails is not started over and over, and runs start cold.
func TestAFailingSpareIsLeftAlone(t *testing.T) {
	s, c := keep(t, 1, "OMP_BROKEN=1")
	until(t, "it was tried", func() bool { return c.spares.Load() > 0 })
	until(t, "it has failed", func() bool { return len(s.Spares()) == 0 })
	for range 10 {
		s.Nudge()
	}
	if got := finish(t, start(t, s, script(t, "a", "a.py", "OMP_BROKEN=1"))); got != "a.py\n" {
		t.Errorf("%q", got)
	}
	if n := c.spares.Load(); n != 1 {
		t.Errorf("%d spares were started", n)
	}
}

// Proves K-04: without being asked, a spare comes after a run that imported
// torch, and is like it; after any other run none does.
func TestASpareComesAfterUse(t *testing.T) {
	s, c := keep(t, 0)
	finish(t, start(t, s, script(t, "a", "plain.py")))
	finish(t, start(t, s, script(t, "b", "torch.py", "OMP_NUM_THREADS=3")))
	until(t, "a spare is ready", func() bool { return ready(s) })
	if n := c.spares.Load(); n != 1 {
		t.Errorf("%d spares were started", n)
	}
	if got := finish(t, start(t, s, script(t, "c", "other.py", "OMP_NUM_THREADS=4"))); got != "other.py\n" {
		t.Errorf("with other threads: %q", got)
	}
	if got := finish(t, start(t, s, script(t, "d", "same.py", "OMP_NUM_THREADS=3", "LR=1"))); got != "warm same.py\n" {
		t.Errorf("with the same: %q", got)
	}
}

// Proves K-04.
func TestNoneMeansNone(t *testing.T) {
	s, c := keep(t, None)
	if got := finish(t, start(t, s, script(t, "a", "torch.py"))); got != "torch.py\n" {
		t.Errorf("%q", got)
	}
	s.Nudge()
	if n := c.spares.Load(); n != 0 || len(s.Spares()) != 0 {
		t.Errorf("%d spares were started", n)
	}
}
