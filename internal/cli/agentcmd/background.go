package agentcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cdui/internal/agent"
	"cdui/internal/agent/folder"
	"cdui/internal/cli/env"
	"cdui/internal/scope"
)

const (
	// upTimeout covers an enrollment with a control plane that is slow to
	// answer, and interpreters that are slow to tell what they have.
	upTimeout = time.Minute
	upPoll    = 50 * time.Millisecond
)

// background starts the agent in a session and, where there are any, a scope of
// its own, which outlive the one that it is started from, and waits until it is
// up.
func background(ctx context.Context, e *env.Env, o *StartOptions, dataDir, token string) error {
	if s, err := agent.Query(ctx, dataDir, o.Name); err == nil {
		return announce(e, o, s, "runs already")
	}
	dir := folder.Path(dataDir, o.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return env.Failed("can't make the agent's folder: %v; choose another data folder with --data", err)
	}
	logPath := filepath.Join(dir, "agent.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return env.Failed("can't write %s: %v; choose another data folder with --data", logPath, errors.Unwrap(err))
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("look at %s: %w", logPath, err)
	}
	// It must live on after us, so no context ends it.
	cmd := exec.Command(e.Exe, o.foreground(e, dataDir, token != "")...) //nolint:gosec,noctx // our own program
	cmd.Env, cmd.Dir = without(e.Environ, tokenVariable), dir
	cmd.Stdout, cmd.Stderr = log, log
	if token != "" {
		cmd.Stdin = strings.NewReader(token)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", e.Exe, err)
	}
	scope.New(scope.Config{Environ: e.Environ}).Adopt(ctx, fmt.Sprintf("cdui-agent-%s-%d", o.Name, cmd.Process.Pid), cmd.Process.Pid)
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(exited)
	}()
	s, err := await(ctx, dataDir, o.Name, exited)
	if err != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-exited
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return env.Failed("the agent did not start: %s; its log is %s", lastWords(logPath, from, err), logPath)
	}
	return announce(e, o, s, "is up")
}

// foreground is the command line of the agent itself.
func (o *StartOptions) foreground(e *env.Env, dataDir string, token bool) []string {
	args := []string{"agent", "start", "--data", dataDir, "--name", o.Name, "--control", o.Control}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag+"="+value)
		}
	}
	for _, d := range o.Devices {
		add("--device", d)
	}
	for _, name := range o.PassEnv {
		add("--pass-env", name)
	}
	for label, path := range o.Mounts {
		add("--mount", label+"="+path)
	}
	add("--python", o.Python)
	add("--tunnel", o.Tunnel)
	add("--pin", o.Pin)
	add("--ca", o.CA)
	add("--isolate", e.Flags.Isolate)
	add("--warm", e.Flags.Warm)
	add("--log-format", e.Flags.LogFormat)
	if token {
		args = append(args, "--token-stdin")
	}
	return args
}

var errEnded = errors.New("it ended without a word")

// await asks until the agent answers.
func await(ctx context.Context, dataDir, name string, exited <-chan struct{}) (agent.Status, error) {
	over := time.NewTimer(upTimeout)
	defer over.Stop()
	tick := time.NewTicker(upPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-exited:
			return agent.Status{}, errEnded
		case <-over.C:
			return agent.Status{}, fmt.Errorf("it was not up within %s", upTimeout)
		case <-ctx.Done():
			return agent.Status{}, context.Cause(ctx)
		}
		if s, err := agent.Query(ctx, dataDir, name); err == nil {
			return s, nil
		}
	}
}

// lastWords is the last line that the agent wrote to its log, else err.
func lastWords(path string, from int64, err error) string {
	f, openErr := os.Open(path)
	if openErr != nil {
		return err.Error()
	}
	defer f.Close()
	raw, readErr := io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	if raw = bytes.TrimSpace(raw); readErr != nil || len(raw) == 0 {
		return err.Error()
	}
	line := string(bytes.TrimSpace(raw[bytes.LastIndexByte(raw, '\n')+1:]))
	if errors.Is(err, errEnded) {
		return line
	}
	return err.Error() + " (" + line + ")"
}

func announce(e *env.Env, o *StartOptions, s agent.Status, what string) error {
	if o.JSON {
		return e.JSON(s)
	}
	e.Print("the agent %s %s (pid %d), worker of %s", s.Name, what, s.PID, s.Control)
	return nil
}
