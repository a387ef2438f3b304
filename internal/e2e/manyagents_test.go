package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/protocol/pieces"
)

// fleet is many agents of eight cards each that do no more than stay connected.
type fleet struct {
	p              *plane
	token, version string
	stop           context.CancelFunc
	wg             sync.WaitGroup
	// up is how many are welcome now, failed how often one was not let in.
	up, failed atomic.Int64

	mu    sync.Mutex
	conns map[string]*websocket.Conn
}

// fleet starts n agents; they end with the test.
func (p *plane) fleet(n int) *fleet {
	p.t.Helper()
	secret, err := os.ReadFile(filepath.Join(p.dir, "token"))
	if err != nil {
		p.t.Fatal(err)
	}
	var health api.Health
	p.get(api.PathHealth, &health)
	ctx, cancel := context.WithCancel(context.Background())
	f := &fleet{p: p, token: strings.TrimSpace(string(secret)), version: health.Version, stop: cancel, conns: map[string]*websocket.Conn{}}
	for i := range n {
		f.wg.Go(func() { f.member(ctx, fmt.Sprintf("box-%03d", i)) })
	}
	p.t.Cleanup(func() {
		cancel()
		f.drop()
		f.wg.Wait()
	})
	return f
}

// member is one agent. It comes back as agents do, at once and not quite.
func (f *fleet) member(ctx context.Context, name string) {
	for ctx.Err() == nil {
		if err := f.session(ctx, name); err != nil && ctx.Err() == nil {
			f.failed.Add(1)
		}
		timer := time.NewTimer(rand.N(time.Second))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// session is one connection; an error means that it did not come about.
func (f *fleet) session(ctx context.Context, name string) error {
	ws, resp, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+f.p.addr+"/ws/worker", http.Header{api.HeaderToken: {f.token}})
	if err != nil {
		return err
	}
	resp.Body.Close()
	defer ws.Close()
	ws.SetPongHandler(func(string) error { return ws.SetReadDeadline(time.Now().Add(40 * time.Second)) })
	say := func(epoch uint64, frame protocol.Frame) error {
		raw, err := protocol.Encode(epoch, frame)
		if err != nil {
			return err
		}
		return pieces.Write(ws, raw, func() time.Time { return time.Now().Add(30 * time.Second) })
	}
	hear := func() ([]byte, error) {
		return pieces.Read(ws, func() error { return ws.SetReadDeadline(time.Now().Add(40 * time.Second)) })
	}
	if err := say(0, &protocol.Hello{
		Name: name, Version: f.version, Protocol: protocol.Version, Nonce: "nonce of " + name, TS: time.Now(), MachineID: name,
		Platform: protocol.Platform{OS: "linux", Arch: "amd64", Cores: 64, MemoryMiB: 500_000}, Devices: eightCards(name),
		Capabilities: protocol.Capabilities{protocol.CapAck, protocol.CapFrames, protocol.CapParts, protocol.CapLogs},
	}); err != nil {
		return err
	}
	raw, err := hear()
	if err != nil {
		return err
	}
	env, err := protocol.DecodeFromServer(raw)
	if err != nil {
		return err
	}
	welcome, ok := env.Frame.(*protocol.Welcome)
	if !ok {
		return fmt.Errorf("%s is answered with %s", name, raw)
	}
	if err := say(env.Epoch, &protocol.RunAlive{Runs: []protocol.AliveRun{}}); err != nil {
		return err
	}
	f.mu.Lock()
	f.conns[name] = ws
	f.mu.Unlock()
	f.up.Add(1)
	defer f.up.Add(-1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := hear(); err != nil {
				return
			}
		}
	}()
	beat := time.NewTicker(welcome.HeartbeatS.Duration())
	defer beat.Stop()
	for {
		// What fails here is what was welcome and is over.
		if say(env.Epoch, &protocol.Heartbeat{Devices: eightCards(name), Runs: []string{}}) != nil || ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(30*time.Second)) != nil {
			ws.Close()
		}
		select {
		case <-beat.C:
		case <-ended:
			return nil
		}
	}
}

// eightCards is what a large machine says of itself.
func eightCards(name string) device.Inventory {
	list := device.Inventory{{Device: device.CPU, Kind: "cpu", Name: "cpu"}}
	total, user := int64(81_559), "ada"
	for i := range 8 {
		uuid, bus := fmt.Sprintf("GPU-%s-%d", name, i), fmt.Sprintf("00000000:%02X:00.0", i)
		free, busy, heat, power := rand.Int64N(total), rand.Int64N(100), 30+rand.Int64N(50), 100+rand.Float64()*500
		used := total - free
		list = append(list, device.Device{
			Device: fmt.Sprintf("cuda:%d", i), Kind: "cuda", Index: i, Name: "NVIDIA H100 80GB HBM3", UUID: &uuid, PCIBusID: &bus,
			MemoryTotalMiB: &total, MemoryFreeMiB: &free, UtilizationPct: &busy, TemperatureC: &heat, PowerW: &power,
			Processes: []device.Process{{PID: 1000 + int64(i), User: &user, MemoryMiB: &used}},
		})
	}
	return list
}

// drop cuts all connections at once.
func (f *fleet) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ws := range f.conns {
		ws.NetConn().Close()
	}
	clear(f.conns)
}

// all waits until n agents are there, by their own and by the control plane's
// account.
func (f *fleet) all(n int) {
	t := f.p.t
	t.Helper()
	eventually(t, 3*time.Minute, fmt.Sprintf("%d agents are welcome", n), func() bool { return f.up.Load() == int64(n) })
	var list api.WorkerList
	f.p.get(api.PathWorkers, &list)
	online := 0
	for _, w := range list.Workers {
		if w.State == api.WorkerOnline && len(w.Devices) == 9 {
			online++
		}
	}
	if online != n || len(list.Workers) != n {
		t.Errorf("%d of %d workers are online, not %d", online, len(list.Workers), n)
	}
}

// dropped drops all, and waits until they are back.
func (f *fleet) dropped(n int) time.Duration {
	f.drop()
	began := time.Now()
	eventually(f.p.t, time.Minute, "the connections are gone", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.up.Load() < int64(n) || len(f.conns) == n
	})
	f.all(n)
	return time.Since(began)
}

// complaints are the errors in the control plane's log.
func (p *plane) complaints() (lines []string) {
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
	}
	return lines
}

// fleetSize is how many agents there are; make soak has them all.
func fleetSize() int {
	if os.Getenv("CDUI_SOAK") != "" {
		return 300
	}
	return 60
}

// W-02, W-06, DSC-08: agents that are dropped together come back together, and
// no one is turned away; nor when it was the control plane that went.
func TestAFleetComesBack(t *testing.T) {
	t.Parallel()
	n := fleetSize()
	p := newPlane(t)
	f := p.fleet(n)
	f.all(n)
	f.dropped(n)
	if failed := f.failed.Load(); failed > 0 {
		t.Errorf("%d connections were refused or broken", failed)
	}
	if lines := p.complaints(); len(lines) > 0 {
		t.Errorf("the control plane complains: %q", lines)
	}
	p.kill9()
	p.start()
	f.all(n)
	if lines := p.complaints(); len(lines) > 0 {
		t.Errorf("after its restart the control plane complains: %q", lines)
	}
}

// The control plane's share of a core under 300 agents of eight cards with
// their heartbeats, at most a half of one; and how long it takes until all are
// back after all were dropped at once, at most 30 s.
func BenchmarkThreeHundredAgents(b *testing.B) {
	const n, window = 300, 30 * time.Second
	p := newPlane(b)
	f := p.fleet(n)
	f.all(n)
	cores, back := 0.0, 0.0
	for b.Loop() {
		before, began := p.cpu(), time.Now()
		<-time.NewTimer(window).C
		cores += (p.cpu() - before).Seconds() / time.Since(began).Seconds()
		before = p.cpu()
		back += f.dropped(n).Seconds()
		b.ReportMetric((p.cpu() - before).Seconds(), "cpu-s/return")
	}
	b.ReportMetric(cores/float64(b.N), "cores")
	b.ReportMetric(back/float64(b.N), "s/return")
	b.ReportMetric(float64(f.failed.Load()), "refused")
	if failed := f.failed.Load(); failed > 0 {
		b.Errorf("%d connections were refused or broken", failed)
	}
}

// cpu is the processor time that the control plane has taken.
func (p *plane) cpu() time.Duration { p.t.Helper(); return processorTime(p.t, p.cmd.Process.Pid) }

// processorTime is what a process has taken so far.
func processorTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	ticks := 0
	for _, at := range []int{11, 12} { // utime and stime
		n, err := strconv.Atoi(fields[at])
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}
