package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/agent"
	"cdui/internal/shim"
	"cdui/internal/shim/proctree"
)

// TestMain lets the test binary stand in for `cdui shim`, for an agent that is
// killed, and for the Python of a script.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.Main(os.Args[2:]))
		case "agent":
			os.Exit(agentMain(os.Args[2]))
		case "-u":
			os.Exit(childMain(os.Args[5:]))
		}
	}
	// The tests mostly wait for other processes.
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	code := m.Run()
	proctreeEnd()
	os.Exit(code)
}

// runPrefix begins the id of every run of this test process.
var runPrefix = fmt.Sprintf("agenttest-%d-", os.Getpid())

// proctreeEnd kills what failed tests left.
func proctreeEnd() {
	for range 50 {
		left := proctree.ByEnv("CDUI_RUN_ID", func(id string) bool { return strings.HasPrefix(id, runPrefix) })
		if len(left) == 0 {
			return
		}
		for _, list := range left {
			for _, p := range list {
				proctree.Signal(p, syscall.SIGKILL)
			}
		}
	}
}

// agentMain is an agent in a process of its own.
func agentMain(config string) int {
	var cfg agent.Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return 2
	}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg.Cards = noCards{}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := agent.Run(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childMain is the program of a script run. It reports as the Python side does.
func childMain(args []string) int {
	up := bufio.NewWriter(os.NewFile(3, "up"))
	say := func(format string, a ...any) {
		fmt.Fprintf(up, format+"\n", a...)
		if up.Flush() != nil {
			os.Exit(9)
		}
	}
	number := func(i int) int {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			os.Exit(8)
		}
		return n
	}
	say(`{"type":"hello","watches_cancel":false}`)
	switch args[0] {
	case "count": // n, pause in ms: one event and one line for each number
		for i := range number(1) {
			say(`{"type":"event","event":"count","payload":{"n":%d}}`, i)
			fmt.Println(i)
			wait(time.Duration(number(2)) * time.Millisecond)
		}
	case "until": // a file is there: numbers, 2 ms apart
		for i := 0; ; i++ {
			say(`{"type":"event","event":"count","payload":{"n":%d}}`, i)
			fmt.Println(i)
			if _, err := os.Stat(args[1]); err == nil {
				break
			}
			wait(2 * time.Millisecond)
		}
	case "flood": // n, bytes: events as fast as they go
		text := strings.Repeat("x", number(2))
		for i := range number(1) {
			say(`{"type":"event","event":"count","payload":{"n":%d,"text":%q}}`, i, text)
		}
	case "hold": // until a file is there, or until it is stopped
		say(`{"type":"artifact","kind":"file","path":"model.pt"}`)
		fmt.Println("holding")
		for {
			if _, err := os.Stat(args[1]); err == nil {
				break
			}
			wait(5 * time.Millisecond)
		}
		fmt.Println("released")
	}
	return 0
}

// wait is a child's own way to pass time.
func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
