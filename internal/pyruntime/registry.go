package pyruntime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// registryTimeout ends a user's file that hangs while it is imported.
const registryTimeout = 60 * time.Second

// UserNodes lists the node types that the Python files in dir define, as
// catalog.ParseDefinitions reads them, in a child of its own.
func UserNodes(ctx context.Context, root, interpreter, dir string, env []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, "-I", "-B", filepath.Join(root, "cdui", "registry.py"), "--user", dir)
	cmd.Env, cmd.Dir = env, root
	cmd.WaitDelay = killDelay
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("list the nodes of %s: a file took longer than %s to import", dir, registryTimeout)
	}
	if err != nil {
		words := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("list the nodes of %s with %s: %w: %.300s", dir, interpreter, err, words[strings.LastIndexByte(words, '\n')+1:])
	}
	return out, nil
}
