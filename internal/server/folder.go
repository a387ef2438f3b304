package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cdui/internal/api"
	"cdui/internal/fsinfo"
	"cdui/internal/portinfo"
	"cdui/internal/token"
)

// folder is the data folder, locked for one control plane.
type folder struct {
	dir  string
	lock *os.File
}

// openFolder makes the data folder (0700) and takes its lock.
func openFolder(dir string) (*folder, error) {
	if kind, yes := fsinfo.Network(dir); yes {
		return nil, fmt.Errorf("the data folder %s lies on a network file system (%s), where a database and locks can't be trusted; choose a local one with --data or CDUI_HOME", dir, kind)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the data folder %s can't be made: %w; choose another with --data or CDUI_HOME", dir, plain(err))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the data folder %s is not ours: %w; choose another with --data or CDUI_HOME", dir, plain(err))
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the data folder %s can't be written: %w; choose another with --data or CDUI_HOME", dir, plain(err))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another control plane%s holds the data folder %s; stop it with cdui stop, or choose another folder with --data", holder(dir), dir)
	}
	for _, sub := range []string{"graphs", "presets", "nodes", "models", "images", "data", "agent-runs", "runs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			f.Close()
			return nil, fmt.Errorf("the data folder %s can't be written: %w", dir, plain(err))
		}
	}
	return &folder{dir: dir, lock: f}, nil
}

// plain takes the operation and the path off an error of package os, where the
// sentence around it names them.
func plain(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func holder(dir string) string {
	raw, err := os.ReadFile(filepath.Join(dir, "server.json"))
	var info api.ServerInfo
	if err != nil || json.Unmarshal(raw, &info) != nil || info.PID == 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d at %s)", info.PID, info.Address)
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) close() { f.lock.Close() }

// token reads the session token, or mints it at the first start.
func (f *folder) token() (string, error) {
	path := f.path("token")
	raw, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(raw)) != "" {
		if err := os.Chmod(path, 0o600); err != nil {
			return "", fmt.Errorf("guard the token %s: %w", path, plain(err))
		}
		return strings.TrimSpace(string(raw)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read the token %s: %w", path, plain(err))
	}
	secret := token.New()
	if err := writeFile(path, []byte(secret+"\n")); err != nil {
		return "", fmt.Errorf("keep the token %s: %w", path, plain(err))
	}
	return secret, nil
}

// announce writes server.json, which local clients find the address in.
func (f *folder) announce(info api.ServerInfo) error {
	raw, err := json.Marshal(info)
	if err != nil {
		return fmt.Errorf("write server.json: %w", err)
	}
	return writeFile(f.path("server.json"), append(raw, '\n'))
}

func (f *folder) retract(info api.ServerInfo) {
	raw, err := os.ReadFile(f.path("server.json"))
	var now api.ServerInfo
	if err == nil && json.Unmarshal(raw, &now) == nil && now.BootID == info.BootID {
		_ = os.Remove(f.path("server.json")) // a stale one names a dead pid and is ignored
	}
}

// writeFile replaces a file of mode 0600 in one step.
func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// listen opens the address; when it is taken the error names the holder where
// the system tells.
func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		who := "another program"
		if name := portinfo.Holder(address); name != "" {
			who = name
		}
		return nil, fmt.Errorf("%s is taken by %s; choose another address with --listen", address, who)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listening on %s is not permitted; choose a port above 1023 with --listen", address)
	}
	return nil, fmt.Errorf("listen on %s: %w; --listen takes HOST:PORT", address, err)
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
