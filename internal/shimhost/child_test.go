package shimhost_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/unixsock"
	"cdui/internal/shimhost"
)

// childMain is the program of runs that need more than a shell: it reports as
// the Python side does.
func childMain(args []string) int {
	up, down := os.NewFile(3, "up"), bufio.NewReader(os.NewFile(4, "down"))
	line := func() map[string]any {
		b, err := down.ReadBytes('\n')
		if err != nil {
			os.Exit(9)
		}
		var m map[string]any
		if json.Unmarshal(b, &m) != nil {
			os.Exit(8)
		}
		return m
	}
	switch args[0] {
	case "report":
		assign := line()
		fmt.Fprintln(up, `{"type":"hello","watches_cancel":true}`)
		fmt.Fprintln(up, `not json`)
		fmt.Fprintf(up, `{"type":"event","event":"progress","payload":{"input":%s}}`+"\n", mustJSON(assign["input"]))
		for i := range 100 {
			fmt.Fprintf(up, `{"type":"metrics","points":[{"name":"loss","value":%d.5,"step":%d}]}`+"\n", i, i)
		}
		fmt.Fprintln(up, `{"type":"metrics","points":[{"name":"x","value":null,"step":1,"nonfinite":"nan"},{"name":"x","value":1e400,"step":2},{"name":"x","value":9007199254740993,"step":3},{"name":"x","value":"no","step":4}]}`)
		fmt.Fprintln(up, `{"type":"artifact","kind":"file","path":"model.pt","meta":{"a":1}}`)
		fmt.Fprintln(up, `{"type":"warning","kind":"careful","meta":{"n":2}}`)
		fmt.Fprintln(up, `{"type":"facts","facts":{"torch":"1.13"}}`)
		fmt.Fprintln(up, `{"type":"finished","status":"failed","error":"ValueError: bad","error_type":"ValueError","end_class":"user_code","peak_memory":{"cpu":{"mib":12,"exact":true}}}`)
		fmt.Println("printed")
		return 3
	case "limit", "unlimited", "silent":
		line()
		fmt.Fprintln(up, `{"type":"hello","watches_cancel":true}`)
		if args[0] == "limit" {
			fmt.Fprintln(up, `{"type":"memory_limit","memory_limit":{"cuda:0":2048}}`)
		}
		if args[0] != "silent" {
			fmt.Fprintln(up, `{"type":"event","event":"progress","payload":{}}`)
		}
		return 0
	case "flood":
		w := bufio.NewWriterSize(up, 1<<16)
		for i := range 60_000 {
			fmt.Fprintf(w, `{"type":"metrics","points":[{"name":"loss","value":%d,"step":%d}]}`+"\n", i, i)
			if i%100 == 0 {
				fmt.Fprintf(w, `{"type":"event","event":"progress","payload":{"text":"%s"}}`+"\n", strings.Repeat("x", 5000))
			}
		}
		if w.Flush() != nil {
			return 1
		}
		return 0
	case "spare":
		fmt.Fprintf(up, `{"type":"ready","modules":["torch"],"paths":{%s:%d}}`+"\n", mustJSON(os.Getenv("WATCHED")), modTime(os.Getenv("WATCHED")))
		told := line()
		if told["type"] != "assign" {
			return 6
		}
		return serveSpare(told)
	case "watch":
		// A Go program has a handler for every signal, and dies all the same.
		signal.Ignore(syscall.SIGTERM)
		line()
		fmt.Fprintln(up, `{"type":"hello","watches_cancel":true}`)
		fmt.Println("watching")
		if line()["type"] != "cancel" {
			return 7
		}
		fmt.Println("flag seen")
		return 0
	}
	return 1
}

// serveSpare is what the run of a spare does: the last word of its argv.
func serveSpare(told map[string]any) int {
	argv, _ := told["argv"].([]any)
	fmt.Println("serving", told["run_id"], "in", told["dir"])
	switch argv[len(argv)-1] {
	case "exit 5":
		return 5
	case "mess":
		helper := exec.Command("setsid", "sh", "-c", "trap '' TERM HUP; sleep 99 & sleep 98")
		if err := helper.Start(); err != nil {
			return 4
		}
		fmt.Println("ready")
		select {}
	}
	return 3
}

func modTime(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}

// spareHostMain is a host in a process of its own that keeps one spare until it
// is killed.
func spareHostMain(args []string) {
	h, err := shimhost.New(shimhost.Config{Dir: args[0], Isolate: args[1], Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		panic(err)
	}
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	s, err := h.StartSpare(protocol.Assignment{Kind: protocol.KindScript, Argv: []string{exe, "child", "spare"}, Env: []string{"PATH=" + os.Getenv("PATH")}}, time.Minute)
	if err != nil {
		panic(err)
	}
	<-s.Ready()
	fmt.Println(s.ID())
	select {}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// clientMain is a process of a run that is not its main one: it reports on the
// run's socket.
func clientMain(args []string) int {
	path := os.Getenv("CDUI_REPORT")
	conn, err := unixsock.Dial(filepath.Dir(path), filepath.Base(path))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer conn.Close()
	if args[0] != "wait" {
		fmt.Fprintf(conn, `{"type":"metrics","points":[{"name":"loss","value":%s,"step":1}]}`+"\n", args[0])
		return 0
	}
	signal.Ignore(syscall.SIGTERM)
	fmt.Fprintln(conn, `{"type":"hello","watches_cancel":true}`)
	fmt.Println("waiting")
	var down struct {
		Type    string `json:"type"`
		GraceMS int    `json:"grace_ms"`
	}
	if err := json.NewDecoder(conn).Decode(&down); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("told", down.Type, down.GraceMS)
	return 0
}

// hostMain is a host in a process of its own: it starts the run that it reads
// from stdin and prints each record.
func hostMain(args []string) int {
	h, err := shimhost.New(shimhost.Config{Dir: args[0], Isolate: args[1], Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var a protocol.Assignment
	if err := json.NewDecoder(os.Stdin).Decode(&a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r, err := h.Start(context.Background(), a)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		recs, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return 0
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, rec := range recs {
			fmt.Printf("%s\n", rec.Raw)
		}
	}
}
