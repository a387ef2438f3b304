package serverctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/config"
	"cdui/internal/scope"
)

// startTimeout covers a copy of a large database before a migration.
const startTimeout = 5 * time.Minute

// background starts a control plane in a session of its own and waits until it
// answers. A start that fails leaves nothing behind.
func background(ctx context.Context, e *env.Env, dataDir string) (api.ServerInfo, error) {
	_, statErr := os.Stat(dataDir)
	fresh := os.IsNotExist(statErr)
	if err := config.MakeFolder(dataDir); err != nil {
		return api.ServerInfo{}, env.Failed("%s", err)
	}
	logPath := filepath.Join(dataDir, "server.log")
	info, err := spawn(ctx, e, dataDir, logPath)
	if err != nil && fresh {
		os.Remove(logPath)
		removeEmpty(dataDir)
	}
	return info, err
}

// removeEmpty takes a folder away again that holds nothing but empty folders
// and the lock.
func removeEmpty(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	os.Remove(filepath.Join(dir, "lock"))
	for _, entry := range entries {
		if entry.IsDir() {
			os.Remove(filepath.Join(dir, entry.Name())) // fails when something is in it
		}
	}
	os.Remove(dir)
}

func spawn(ctx context.Context, e *env.Env, dataDir, logPath string) (api.ServerInfo, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return api.ServerInfo{}, env.Failed("can't write %s: %v; choose another data folder with --data", logPath, errors.Unwrap(err))
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return api.ServerInfo{}, fmt.Errorf("look at %s: %w", logPath, err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return api.ServerInfo{}, fmt.Errorf("make pipe: %w", err)
	}
	defer read.Close()
	args := []string{"start", "-f", "--data", dataDir}
	if e.Flags.Listen != "" {
		args = append(args, "--listen", e.Flags.Listen)
	}
	for _, f := range []struct{ flag, value string }{
		{"--tls-cert", e.Abs(e.Flags.TLSCert)}, {"--tls-key", e.Abs(e.Flags.TLSKey)}, {"--isolate", e.Flags.Isolate}, {"--warm", e.Flags.Warm}, {"--log-format", e.Flags.LogFormat},
	} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	if e.Flags.TLSSelfSigned {
		args = append(args, "--tls-self-signed")
	}
	// It must live on after us, so no context ends it.
	cmd := exec.Command(e.Exe, args...) //nolint:gosec,noctx // our own program
	cmd.Env = append(e.Environ, reportVariable+"=3")
	cmd.Dir = dataDir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return api.ServerInfo{}, fmt.Errorf("start %s: %w", e.Exe, err)
	}
	scope.New(scope.Config{Environ: e.Environ}).Adopt(ctx, fmt.Sprintf("cdui-server-%d", cmd.Process.Pid), cmd.Process.Pid)
	info, err := await(ctx, read, logPath, from)
	if err != nil {
		end(cmd)
		return info, err
	}
	return info, cmd.Process.Release()
}

// await reads the child's report and checks that this very boot answers.
func await(ctx context.Context, read *os.File, logPath string, from int64) (api.ServerInfo, error) {
	if err := read.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return api.ServerInfo{}, fmt.Errorf("wait for the control plane: %w", err)
	}
	unhook := context.AfterFunc(ctx, func() { _ = read.SetReadDeadline(time.Now()) }) // a closed pipe needs no deadline
	defer unhook()
	raw, err := io.ReadAll(read)
	if ctx.Err() != nil {
		return api.ServerInfo{}, context.Cause(ctx)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return api.ServerInfo{}, notReady(logPath, fmt.Sprintf("it did not answer within %s", startTimeout))
	}
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		return api.ServerInfo{}, notReady(logPath, lastWords(logPath, from))
	}
	if r.Info == nil {
		return api.ServerInfo{}, env.Failed("%s", r.Error)
	}
	h, err := at(*r.Info).Health(ctx)
	switch {
	case err != nil:
		return api.ServerInfo{}, notReady(logPath, err.Error())
	case h.BootID != r.Info.BootID:
		return api.ServerInfo{}, notReady(logPath, "something else answers at "+r.Info.Address)
	}
	return *r.Info, nil
}

// lastWords is the last line that the child wrote to its log.
func lastWords(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := io.ReadAll(io.NewSectionReader(f, from, 1<<20))
	if err != nil {
		return ""
	}
	raw = bytes.TrimSpace(raw)
	return strings.TrimSpace(string(raw[bytes.LastIndexByte(raw, '\n')+1:]))
}

// end stops a child that did not become a control plane.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	t := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	defer t.Stop()
	_ = cmd.Wait() // how it ended was said, or is in its log
}
