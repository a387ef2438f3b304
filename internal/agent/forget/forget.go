// Package forget takes away what an agent leaves on its machine once it is not
// wanted there any more. It touches nothing of an agent that runs, and nothing
// that others have in the same data folder.
package forget

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cdui/internal/agent/folder"
	"cdui/internal/shimhost"
)

// ofAgents are what agents share in a data folder, and no control plane has.
var ofAgents = []string{"agent-cache", "runtime"}

// Agent removes the folder of an agent that doesn't run, with the files of its
// runs. Where it was the last one, what agents share goes too, and the data
// folder itself if nothing else is in it.
func Agent(ctx context.Context, dataDir, name string) error {
	dir := folder.Path(dataDir, name)
	if _, err := os.Stat(dir); err == nil {
		f, err := folder.Open(dataDir, name)
		if err != nil {
			return err
		}
		if n := alive(ctx, f.RunsDir()); n > 0 {
			f.Close()
			return fmt.Errorf("%d trainings of %s still run; stop them first", n, name)
		}
		err = os.RemoveAll(dir)
		f.Close()
		if err != nil {
			return fmt.Errorf("forget %s: %w", name, err)
		}
	}
	if err := os.Remove(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // others are in it
	}
	entries, err := os.ReadDir(dataDir)
	if err != nil {
		return nil //nolint:nilerr // nothing is left to remove
	}
	for _, e := range entries {
		if !slices.Contains(ofAgents, e.Name()) {
			return nil // a control plane's, or somebody's own files
		}
	}
	if err := os.RemoveAll(dataDir); err != nil {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}

// alive counts the trainings of a folder that go on without their agent.
func alive(ctx context.Context, runsDir string) int {
	host, err := shimhost.New(shimhost.Config{Dir: runsDir, Isolate: "none"})
	if err != nil {
		return 0
	}
	defer host.Close()
	found, err := host.Find(ctx)
	if err != nil {
		return 0
	}
	n := 0
	for _, f := range found {
		if f.State == shimhost.Live {
			n++
		}
	}
	return n
}
