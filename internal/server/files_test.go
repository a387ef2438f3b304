package server

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/files"
	"cdui/internal/server/workers/assign"
	"cdui/internal/store"
	"cdui/internal/token"
)

// book is a registry and a store of two workers with a run each.
type book struct {
	rows map[string]run.Row
	runs map[string][]string
}

func (b book) Worker(_ context.Context, name string) (api.Worker, error) {
	return api.Worker{Name: name, Runs: b.runs[name]}, nil
}

func (b book) Workers(context.Context) ([]store.Worker, error) {
	return []store.Worker{
		{Name: "w1", TokenHash: token.Hash("one")},
		{Name: "w2", TokenHash: token.Hash("two")},
		{Name: "rekeyed"},
	}, nil
}

func (b book) Run(_ context.Context, id string) (run.Row, error) {
	row, ok := b.rows[id]
	if !ok {
		return row, errors.New("gone")
	}
	return row, nil
}

func keeperWith(t *testing.T, contents ...string) (*files.Keeper, []api.CodeReply) {
	t.Helper()
	dir := t.TempDir()
	kept, err := blobs.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	k := files.New(files.Config{Blobs: kept, RunsDir: filepath.Join(dir, "runs")})
	var replies []api.CodeReply
	for _, content := range contents {
		m, err := codeset.New([]protocol.File{{Path: "sub/train.py", SHA256: codeset.Hash([]byte(content)), Size: int64(len(content))}})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := k.PutContent(t.Context(), codeset.Hash([]byte(content)), strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		reply, err := k.AddCode(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, reply)
	}
	return k, replies
}

// XFER-04: a worker reads with its own token, for the runs that it has now.
func TestPeersSeeTheirOwnRunsAlone(t *testing.T) {
	keeper, code := keeperWith(t, "first", "second")
	row := func(hash string) run.Row {
		return run.Row{Facts: []byte(`{"pid":7,"code":{"hash":"` + hash + `","root":"/p","files":1,"bytes":5}}`)}
	}
	b := book{
		rows: map[string]run.Row{"r1": row(code[0].Hash), "r2": row(code[1].Hash), "plain": {}},
		runs: map[string][]string{"w1": {"gone", "plain", "r1"}, "w2": {"r2"}},
	}
	p, ctx := peers{roster: b, ledger: b, files: keeper}, t.Context()
	for given, want := range map[string]string{"one": "w1", "two": "w2", "three": "", "": "", token.Hash("one"): ""} {
		if got, ok := p.Worker(ctx, given); got != want || ok != (want != "") {
			t.Errorf("%q is %q", given, got)
		}
	}
	first, second := codeset.Hash([]byte("first")), codeset.Hash([]byte("second"))
	if !p.MayRead(ctx, "w1", first) || p.MayRead(ctx, "w1", second) || !p.MayRead(ctx, "w2", second) || p.MayRead(ctx, "rekeyed", first) || p.MayRead(ctx, "w1", "") {
		t.Error("the wrong contents are readable")
	}
	if !p.Holds(ctx, "w1", "r1") || p.Holds(ctx, "w1", "r2") || p.Holds(ctx, "", "r1") || p.Holds(ctx, "w1", "") {
		t.Error("the wrong runs are held")
	}
}

// ST-01: paths of a program are named from its folder.
func TestAProgramIsNamedFromItsFolder(t *testing.T) {
	keeper, code := keeperWith(t, "content")
	job := execution.Job{Row: run.Row{Facts: []byte(`{"code":{"hash":"` + code[0].Hash + `","root":"/home/ada/p"}}`)}}
	for name, c := range map[string]struct{ given, want protocol.Assign }{
		"script": {
			protocol.Assign{Script: &protocol.Script{Path: "/home/ada/p/sub/train.py", Cwd: "/home/ada/p"}},
			protocol.Assign{Script: &protocol.Script{Path: "sub/train.py", Cwd: "."}},
		},
		"command": {
			protocol.Assign{Command: &protocol.Command{Argv: []string{"/home/ada/p/run.sh", "/home/ada/p/x"}, Cwd: "/home/ada/p/sub/deep"}},
			protocol.Assign{Command: &protocol.Command{Argv: []string{"./../../run.sh", "/home/ada/p/x"}, Cwd: "sub/deep"}},
		},
		"program elsewhere": {
			protocol.Assign{Command: &protocol.Command{Argv: []string{"torchrun", "a"}, Cwd: "/home/ada/p"}},
			protocol.Assign{Command: &protocol.Command{Argv: []string{"torchrun", "a"}, Cwd: "."}},
		},
	} {
		a := c.given
		if err := (shipper{files: keeper}).Ship(t.Context(), job, assign.Destination{}, &a); err != nil {
			t.Fatal(err)
		}
		if a.Code == nil || a.Code.Hash != code[0].Hash || len(a.Code.Files) != 1 {
			t.Errorf("%s: %+v", name, a.Code)
		}
		if s, w := a.Script, c.want.Script; s != nil && (s.Path != w.Path || s.Cwd != w.Cwd) {
			t.Errorf("%s: %+v", name, s)
		}
		if s, w := a.Command, c.want.Command; s != nil && (strings.Join(s.Argv, " ") != strings.Join(w.Argv, " ") || s.Cwd != w.Cwd) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	plain := protocol.Assign{Script: &protocol.Script{Path: "/x"}}
	if err := (shipper{files: keeper}).Ship(t.Context(), execution.Job{}, assign.Destination{}, &plain); err != nil || plain.Code != nil || plain.Script.Path != "/x" {
		t.Errorf("%+v %v", plain, err)
	}
}
