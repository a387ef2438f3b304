package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"cdui/internal/api"
	"cdui/internal/protocol"
)

// Ship puts the folder that came along with a run into its assignment, and
// names the program from there.
func (k *Keeper) Ship(ctx context.Context, ref api.CodeRef, a *protocol.Assign) error {
	m, err := k.Manifest(ctx, ref.Hash)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder that came along with run %s is not here any more; submit it again", a.RunID)
	}
	if err != nil {
		return err
	}
	code, err := m.Code()
	if err != nil {
		return err
	}
	a.Code = &code
	if s := a.Script; s != nil {
		moved := *s
		moved.Path, moved.Cwd = below(ref, s.Path), below(ref, s.Cwd)
		a.Script = &moved
	}
	if c := a.Command; c != nil {
		moved := *c
		moved.Cwd, moved.Argv = below(ref, c.Cwd), Argv(ref, c.Cwd, c.Argv)
		a.Command = &moved
	}
	return nil
}

// below names a path from the folder; one that lies elsewhere stays as it is,
// and is refused by whoever lays the folder out.
func below(ref api.CodeRef, p string) string {
	if rel, ok := ref.Rel(p); ok {
		return rel
	}
	return p
}

// Argv names a program that lies in the folder from its working folder cwd, as
// a shell would.
func Argv(ref api.CodeRef, cwd string, argv []string) []string {
	if len(argv) == 0 || !path.IsAbs(argv[0]) {
		return argv
	}
	program, ok := ref.Rel(argv[0])
	if !ok {
		return argv
	}
	up := ""
	if dir, ok := ref.Rel(cwd); ok && dir != "." {
		up = strings.Repeat("../", strings.Count(dir, "/")+1)
	}
	return append([]string{"./" + up + program}, argv[1:]...)
}
