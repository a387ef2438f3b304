package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"cdui/internal/cli/env"
	"cdui/internal/version"
)

// Main runs the command line and gives its exit code.
func Main(args []string) int {
	e, err := realEnv()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	ctx, stop := signals(context.Background())
	defer stop()
	return Execute(ctx, e, args)
}

// Execute runs the command line in given surroundings.
func Execute(ctx context.Context, e *env.Env, args []string) int {
	root := newRoot(e)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var stopped *env.Interrupted
	if err != nil && errors.As(context.Cause(ctx), &stopped) && errors.Is(err, context.Canceled) {
		err = stopped
	}
	if err != nil && !errors.As(err, &stopped) {
		report(e.Err, err)
	}
	return exitCode(err)
}

// signals ends the context at the first SIGINT or SIGTERM, with the signal as
// its cause. The second one ends the process at once.
func signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	caught := make(chan os.Signal, 2)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case sig := <-caught:
			cancel(&env.Interrupted{Signal: sig})
		case <-done:
			return
		}
		select {
		case sig := <-caught:
			os.Exit((&env.Interrupted{Signal: sig}).ExitCode())
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		close(done)
		<-finished
		cancel(nil)
	}
}

func realEnv() (*env.Env, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("the working folder is gone: %w; change into one that exists", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	return &env.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		OutTTY: term.IsTerminal(int(os.Stdout.Fd())), ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
		Columns: columns, Rows: rows, Environ: os.Environ(), Dir: dir, UID: os.Getuid(), Now: time.Now,
		Exe: exe, Argv: os.Args, Alive: alive, UserAgent: "cdui/" + version.String(),
	}, nil
}

// columns is the width of the terminal that stdout or stderr is.
func columns() int {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}

// rows is the height of the terminal that stdout or stderr is.
func rows() int {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if _, h, err := term.GetSize(int(f.Fd())); err == nil && h > 0 {
			return h
		}
	}
	return 0
}

// alive tells whether a process exists and is no zombie: in a container whose
// first process doesn't reap, the dead stay.
func alive(pid int) bool {
	err := unix.Kill(pid, 0)
	return (err == nil || errors.Is(err, unix.EPERM)) && !zombie(pid)
}
