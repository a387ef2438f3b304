package serverctl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/serverctl"
	"cdui/internal/config"
)

// TestMain stands in for the program: called as a control plane, the test
// binary runs one that answers health and shutdown, or fails as FAKE says.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "start" {
		os.Exit(fakeProgram(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func fakeProgram(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	e := &env.Env{
		Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), UID: os.Getuid(), Now: time.Now, Columns: func() int { return 80 },
		Alive: alive, Exe: os.Args[0],
	}
	for i, a := range args {
		if a == "--data" {
			e.Flags.Data = args[i+1]
		}
	}
	err := serverctl.Start(ctx, e, serverctl.Deps{Serve: fakeServe}, &serverctl.StartOptions{Foreground: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil && !zombie(pid) }

func zombie(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(b), ") Z ")
}

func fakeServe(ctx context.Context, e *env.Env, dataDir string, _ config.Values, ready func(api.ServerInfo)) error {
	switch e.Getenv("FAKE") {
	case "taken":
		return errors.New("127.0.0.1:8000 is taken by python3 (pid 2214); choose another address with --listen")
	case "crash":
		fmt.Fprintln(os.Stderr, "fatal error: all goroutines are asleep")
		os.Exit(2)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	info := api.ServerInfo{PID: os.Getpid(), Address: "http://" + l.Addr().String(), BootID: "b1", Version: "1"}
	raw, _ := json.Marshal(info)
	if err := os.WriteFile(filepath.Join(dataDir, "server.json"), raw, 0o600); err != nil {
		return err
	}
	done := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.PathHealth, func(w http.ResponseWriter, _ *http.Request) {
		boot := info.BootID
		if e.Getenv("FAKE") == "stranger" {
			boot = "another"
		}
		_ = json.NewEncoder(w).Encode(api.Health{Status: "ok", BootID: boot})
	})
	mux.HandleFunc("POST "+api.PathShutdown, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.ShutdownReply{Left: 2})
		close(done)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() {
		select {
		case <-done:
		case <-ctx.Done():
		}
		_ = srv.Shutdown(context.Background())
	}()
	ready(info)
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-time.After(50 * time.Millisecond) // stop must wait for the process, not for the answer
	return os.Remove(filepath.Join(dataDir, "server.json"))
}

func start(t *testing.T, e *clitest.Env) error {
	t.Helper()
	return serverctl.Start(t.Context(), e.Env, serverctl.Deps{Serve: fakeServe}, &serverctl.StartOptions{})
}

func newEnv(t *testing.T) (*clitest.Env, string) {
	t.Helper()
	e := clitest.New(t, 0)
	e.Alive = alive
	data := filepath.Join(e.Dir, "cdui")
	e.Flags.Data = data
	return e, data
}

func TestStartInTheBackgroundThenStop(t *testing.T) {
	t.Parallel()
	e, data := newEnv(t)
	if err := start(t, e); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(data, "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	var info api.ServerInfo
	if err := json.Unmarshal(raw, &info); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(info.PID, syscall.SIGKILL) })
	if want := fmt.Sprintf("the control plane is up at %s (pid %d)\n", info.Address, info.PID); e.Stdout.String() != want {
		t.Errorf("said %q", e.Stdout)
	}
	if sid, err := unix.Getsid(info.PID); err != nil || sid != info.PID {
		t.Errorf("it has no session of its own: %d, %v", sid, err)
	}
	if st, err := os.Stat(data); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the data folder: %v, %v", st.Mode(), err)
	}
	e.Stdout = &clitest.Buffer{}
	e.Out = e.Stdout
	if err := start(t, e); err != nil || !strings.HasPrefix(e.Stdout.String(), "the control plane runs already at "+info.Address) {
		t.Errorf("a second start: %v, %q", err, e.Stdout)
	}
	e.Stdout = &clitest.Buffer{}
	e.Out = e.Stdout
	if err := serverctl.Stop(t.Context(), e.Env, &serverctl.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if e.Stdout.String() != "stopped; 2 trainings go on without it, and cdui start takes them up again\n" {
		t.Errorf("said %q", e.Stdout)
	}
	if alive(info.PID) {
		t.Error("stop returned before the process was gone")
	}
	if err := serverctl.Stop(t.Context(), e.Env, &serverctl.StopOptions{}); err != nil || e.Stderr.String() != "no control plane is running here\n" {
		t.Errorf("a second stop: %v, %q", err, e.Stderr)
	}
}

func TestAStartThatFailsSaysWhyAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for fake, says := range map[string]string{
		"taken":    "127.0.0.1:8000 is taken by python3 (pid 2214); choose another address with --listen",
		"crash":    "the control plane did not start: fatal error: all goroutines are asleep; its log is ",
		"stranger": "something else answers at",
	} {
		e, data := newEnv(t)
		e.Set("FAKE", fake)
		err := start(t, e)
		var exit *env.Exit
		if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(exit.Text, says) {
			t.Errorf("%s: %v", fake, err)
		}
		if entries, err := os.ReadDir(data); err == nil {
			t.Errorf("%s: left %v", fake, entries)
		}
	}
}

func TestAFolderThatCannotBeMade(t *testing.T) {
	t.Parallel()
	e, data := newEnv(t)
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.Flags.Data = filepath.Join(data, "below")
	var exit *env.Exit
	if err := start(t, e); !errors.As(err, &exit) || !strings.Contains(exit.Text, "choose another with --data or CDUI_HOME") {
		t.Errorf("%v", err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	power := 511.6
	st := api.ServerStatus{
		Server: api.ServerInfo{PID: 77, Address: "http://127.0.0.1:8000", Version: "0.1.0"}, DataDir: "/home/ada/.local/share/cdui",
		UptimeS: 6 * 86400, Isolation: "keeper", Running: 2, Waiting: 1203,
		Problems: []api.Problem{{Code: "database", Text: "the disk of /home/ada is full; free some space"}},
		Devices:  make([]api.Device, 3),
	}
	st.Devices[0].Device.Device, st.Devices[0].Slots = "cpu", api.Slots{Cap: 2, Used: 1}
	st.Devices[0].Runs = []string{clitest.ID("81d00211")}
	d := &st.Devices[1]
	d.Device.Device, d.Name, d.MemoryTotalMiB, d.MemoryFreeMiB = "cuda:0", "NVIDIA H100 80GB HBM3", n(81559), n(39575)
	d.UtilizationPct, d.TemperatureC, d.PowerW = n(83), n(64), &power
	d.Slots, d.Runs = api.Slots{Cap: 1, Used: 1}, []string{clitest.ID("3f1c9ab2")}
	st.Devices[2].Device.Device, st.Devices[2].Slots = "cuda:1", api.Slots{Cap: 1}
	workers := api.WorkerList{Workers: []api.Worker{{Name: "a", State: api.WorkerDisconnected}, {Name: "b", State: api.WorkerOnline}, {Name: "c", State: api.WorkerOnline}}}
	for _, columns := range []int{0, 40, 80, 120} {
		e := clitest.New(t, columns)
		e.Serve(t, map[string]clitest.Reply{"GET /api/status": {Body: st}, "GET /api/workers": {Body: workers}})
		cmd := serverctl.NewStatus(e.Env)
		cmd.SetArgs([]string{})
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, fmt.Sprintf("status-%d", columns), e.Stdout.String())
	}
}
