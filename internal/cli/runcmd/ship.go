package runcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
)

// away tells whether the run may leave the control plane's machine.
func (o *Options) away() bool { return o.Worker != "" && o.Worker != protocol.NameLocal }

// lookAway finds out what a program for another machine is: its interpreter,
// its environment and the programs in its PATH are that machine's, so nothing
// of what this shell would take is passed on.
func lookAway(ctx context.Context, e *env.Env, o *Options, f found) (found, error) {
	for _, there := range []struct{ flag, path string }{{"--python", o.Python}, {"--venv", o.Venv}} {
		if there.path != "" && !filepath.IsAbs(there.path) {
			return f, env.Usagef("%s %s: on a worker it must be an absolute path of that machine; without it the worker's own Python is used", there.flag, there.path)
		}
	}
	if o.Conda != "" {
		return f, env.Usagef("--conda is looked up on this machine; for a worker name the interpreter there: --python /opt/conda/envs/%s/bin/python", filepath.Base(o.Conda))
	}
	f.venv, f.interpreter = o.Venv, o.Python
	if o.File != "" {
		f.path = absolute(e.Dir, o.File)
		var err error
		if f.kind, f.graph, err = inspect(f.path, o.File); err != nil {
			return f, err
		}
		f.git = gitState(ctx, filepath.Dir(f.path))
		if f.kind == isGraph {
			return f, nil
		}
		if !o.NoFiles && o.Cwd == "" && !below(f.cwd, f.path) {
			f.cwd = filepath.Dir(f.path)
		}
	} else {
		if o.Python != "" {
			return f, env.Usagef("--python is for scripts; a command names its own program")
		}
		f.kind, f.program, f.git = isCommand, o.Args[0], gitState(ctx, f.cwd)
		// One that comes along can be looked at; others are the worker's.
		if strings.ContainsRune(f.program, filepath.Separator) && !filepath.IsAbs(f.program) && !o.NoFiles {
			if _, err := program(f.program, f.cwd, ""); err != nil {
				return f, err
			}
		}
	}
	if !o.NoFiles {
		f.ship = f.cwd
	}
	return f, f.mayShip(e, o)
}

// mayShip refuses folders that nobody means to send as a whole, and programs
// outside of the folder that is sent.
func (f *found) mayShip(e *env.Env, o *Options) error {
	if f.ship == "" {
		if len(o.Files) > 0 {
			return env.Usagef("--files and --no-files can't be given together")
		}
		return nil
	}
	if f.kind == isScript && !below(f.ship, f.path) {
		return env.Usagef("%s does not lie in %s, the folder that goes along; change into the folder that has both, or name it with --cwd", o.File, f.ship)
	}
	if len(o.Files) == 0 && (f.ship == "/" || f.ship == filepath.Clean(e.Getenv("HOME"))) {
		return env.Usagef("%s would go along as a whole; change into the program's own folder, or name what it needs with --files", f.ship)
	}
	return nil
}

// below tells whether path lies in dir.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// shipped sends the program's folder along and says what goes.
func shipped(ctx context.Context, e *env.Env, control Control, o *Options, f *found) error {
	if f.ship == "" {
		return nil
	}
	if o.Worker != protocol.NameAny {
		// For a worker that nobody knows nothing is sent: the submit is refused.
		if _, err := control.Worker(ctx, o.Worker); api.CodeOf(err) == api.NotFound && err != nil {
			return nil
		}
	}
	files := make([]string, len(o.Files))
	for i, name := range o.Files {
		files[i] = name
		if filepath.IsAbs(name) || f.ship != e.Dir {
			rel, err := filepath.Rel(f.ship, absolute(e.Dir, name))
			if err != nil {
				return env.Usagef("--files %s: it does not lie in %s", name, f.ship)
			}
			files[i] = rel
		}
	}
	if len(files) > 0 && f.kind == isScript {
		rel, err := filepath.Rel(f.ship, f.path)
		if err != nil {
			return fmt.Errorf("find the script in its folder: %w", err)
		}
		files = append(files, rel)
	}
	ref, err := control.UploadCode(ctx, f.ship, client.CodeOptions{Files: files, Preview: func(found codeset.Found) error {
		if !o.Watch.Quiet && !o.Watch.JSON {
			preview(e, o.Worker, f.ship, found)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	f.code = &ref
	return nil
}

const (
	// previewFrom is how much is sent along without its largest files being
	// named.
	previewFrom  = 10 << 20
	previewFiles = 10
)

// preview says what goes along, and why not what doesn't.
func preview(e *env.Env, worker, folder string, found codeset.Found) {
	where := "to " + worker
	if worker == protocol.NameAny {
		where = "to the worker"
	}
	e.Say("sends %s (%s) of %s %s", text.Plural(len(found.Files), "file"), text.Bytes(found.Bytes()), phrase.Clean(folder), where)
	if found.Bytes() >= previewFrom {
		for _, f := range codeset.Largest(found.Files, previewFiles) {
			e.Say("  %8s  %s", text.Bytes(f.Size), phrase.Clean(codeset.Quote(f.Path)))
		}
		e.Say("  what it doesn't need can be left out with lines in %s", codeset.IgnoreFile)
	}
	for i, l := range found.LeftOut {
		if i == previewFiles && len(found.LeftOut) > previewFiles+1 {
			e.Say("  %s more are left out", text.Count(len(found.LeftOut)-i))
			break
		}
		e.Say("  left out: %s: %s", phrase.Clean(codeset.Quote(l.Path)), phrase.Clean(l.Reason))
	}
}

// codeFits refuses the flags of what goes along where they mean nothing.
func (o *Options) codeFits() error {
	given := len(o.Files) > 0 || o.NoFiles
	switch {
	case !given:
		return nil
	case !o.away():
		return env.Usagef("--files and --no-files go with --worker: on this machine a run works in its folder")
	case o.File != "" && isGraphFile(o.File):
		return env.Usagef("--files and --no-files are for scripts and commands; a graph names its files itself")
	}
	return nil
}
