package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cdui/internal/graph"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/submission"
)

// codeDir is where the folder that a program brought along is laid out, below
// the run's own.
const codeDir = "code"

// laidOut gives the program of a run, which lies in a folder of its own when it
// brought one along: what was submitted runs, not what has become of it since.
func (s *Surroundings) laidOut(ctx context.Context, job execution.Job, kept string) (graph.Program, error) {
	p, ref := job.Program, submission.FactsOf(job.Row).Code
	if ref == nil || p.Script == nil && p.Command == nil {
		return p, nil
	}
	if s.Unpack == nil {
		return p, errors.New("this control plane takes no folders of programs")
	}
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return p, fmt.Errorf("make folder of run %s: %w", run.Short(job.Row.ID), err)
	}
	dir := filepath.Join(kept, codeDir)
	err := s.Unpack(ctx, ref.Hash, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return p, &unfit{fmt.Errorf("the folder that came along with run %s is not here any more; submit it again", run.Short(job.Row.ID))}
	}
	if err != nil {
		return p, err
	}
	move := func(path string) string {
		if rel, ok := ref.Rel(path); ok {
			return filepath.Join(dir, rel)
		}
		return path
	}
	if p.Script != nil {
		moved := *p.Script
		moved.Path, moved.Cwd = move(moved.Path), move(moved.Cwd)
		p.Script = &moved
	} else {
		moved := *p.Command
		moved.Cwd, moved.Argv = move(moved.Cwd), append([]string{}, moved.Argv...)
		moved.Argv[0] = move(moved.Argv[0])
		p.Command = &moved
	}
	return p, nil
}
