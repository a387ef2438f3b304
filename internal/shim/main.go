package shim

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"cdui/internal/console"
	"cdui/internal/shim/hosts"
	"cdui/internal/shim/isolation"
	"cdui/internal/shim/wire"
	"cdui/internal/spool"
)

// The exit codes of a shim, besides wire.ExitIsolation. How a run ended is in
// its records.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main is `cdui shim`: args are what follows the word, the result is the exit
// code.
func Main(args []string) int {
	start, err := wire.ParseStart(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cdui shim:", err)
		return exitUsage
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if start.Isolation == wire.IsolateKeeper && !start.Kept && !start.Probe {
		return keep(start, log)
	}
	iso, err := isolation.Setup(start)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cdui shim:", err)
		return wire.ExitIsolation
	}
	defer iso.Close()
	if start.Probe {
		return exitOK
	}
	if err := serve(start, iso, log); err != nil {
		log.Error("shim ends", "error", err)
		return exitFailed
	}
	return exitOK
}

// serve runs the shim proper on the inherited descriptors.
func serve(start wire.Start, iso *isolation.Group, log *slog.Logger) error {
	// The lock is held until this process is gone.
	syscall.CloseOnExec(wire.LockFD)
	note := os.NewFile(wire.LockFD, wire.NoteFile)
	defer note.Close()
	ln, err := inheritListener()
	if err != nil {
		return err
	}
	defer ln.Close()
	r := newRun(start, iso, note, log)
	r.signals = make(chan os.Signal, 1)
	signal.Notify(r.signals, syscall.SIGTERM, syscall.SIGINT)
	shrugOff(syscall.SIGHUP, syscall.SIGPIPE)
	if start.Kept {
		r.keeperGone = watchPipe(wire.KeeperFD)
	}
	if err := wire.PrepareExit(start.Dir); err != nil {
		log.Warn("no room is kept for the exit record", "error", err)
	}
	r.hosts = hosts.Accept(ln)
	defer r.hosts.Close()
	return r.loop()
}

// shrugOff makes signals harmless to this process. They are caught and not
// ignored, since children inherit what is ignored.
func shrugOff(sigs ...os.Signal) {
	signal.Notify(make(chan os.Signal, 1), sigs...)
}

func inheritListener() (*net.UnixListener, error) {
	f := os.NewFile(wire.ListenerFD, "listener")
	if f == nil {
		return nil, fmt.Errorf("take over listener: descriptor %d is missing; a shim is started by cdui itself", wire.ListenerFD)
	}
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("take over listener: %w", err)
	}
	unixLn, ok := ln.(*net.UnixListener)
	if !ok {
		ln.Close()
		return nil, fmt.Errorf("take over listener: descriptor %d is no unix socket", wire.ListenerFD)
	}
	unixLn.SetUnlinkOnClose(false)
	return unixLn, nil
}

// watchPipe closes the channel that it gives when the other end is gone. The
// goroutine ends with that, or with the process: the pipe is held for life.
func watchPipe(fd int) <-chan struct{} {
	syscall.CloseOnExec(fd)
	gone := make(chan struct{})
	f := os.NewFile(uintptr(fd), "keeper")
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, f)
	}()
	return gone
}

func consoleOptions(s wire.Start) console.Options {
	return console.Options{HeadBytes: s.ConsoleHead, CapBytes: s.ConsoleCap}
}

func spoolOptions(s wire.Start) spool.Options {
	return spool.Options{CapBytes: s.SpoolCap}
}
