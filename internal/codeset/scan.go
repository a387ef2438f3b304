package codeset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"cdui/internal/codeset/ignore"
	"cdui/internal/protocol"
)

// The files with rules of what stays behind. The first wins over the second.
const (
	IgnoreFile    = ".cduiignore"
	gitIgnoreFile = ".gitignore"
	gitFolder     = ".git"
	maxRulesBytes = 1 << 20
	// maxLinks is how many links may stand between a link and what it means.
	maxLinks = 40
)

// Folder is what Scan and Sum read. Paths are relative to it, "" is itself.
type Folder interface {
	// Names lists what lies in a folder, in any order.
	Names(dir protocol.Path) ([]string, error)
	// Stat looks at a file without following it when it is a link.
	Stat(p protocol.Path) (fs.FileInfo, error)
	ReadLink(p protocol.Path) (string, error)
	Open(p protocol.Path) (io.ReadCloser, error)
}

// Entry is a file or a link that is sent along.
type Entry struct {
	Path       protocol.Path
	Size       int64
	Executable bool
	// Link is what a link means, relative to the folder.
	Link protocol.Path
}

// LeftOut is something that is not sent along although no rule says so.
type LeftOut struct {
	Path   protocol.Path
	Reason string
}

// Found is what a scan has found.
type Found struct {
	Files   []Entry
	LeftOut []LeftOut
	// Ignored counts what the rules left out; a folder counts once.
	Ignored int
}

// Bytes is the size of all files.
func (f Found) Bytes() int64 {
	total := int64(0)
	for _, e := range f.Files {
		total += e.Size
	}
	return total
}

// Scan lists what a program in the folder takes along. Without listed it is
// the whole folder but for what its rules leave out; else the listed files,
// and what the rules leave of listed folders. No file is read but the rules.
func Scan(ctx context.Context, folder Folder, listed ...string) (Found, error) {
	s := &scan{folder: folder, seen: map[protocol.Path]bool{}}
	if len(listed) == 0 {
		err := s.dir(ctx, "", nil)
		return s.found, err
	}
	for _, name := range listed {
		if err := s.listed(ctx, name); err != nil {
			return Found{}, err
		}
	}
	return s.found, nil
}

type scan struct {
	folder Folder
	found  Found
	seen   map[protocol.Path]bool
}

// layer is the rules of one folder.
type layer struct {
	dir       protocol.Path
	own, gits ignore.Rules
}

func (s *scan) listed(ctx context.Context, name string) error {
	p := protocol.Path(path.Clean(name))
	if p == "." {
		return s.dir(ctx, "", nil)
	}
	if err := p.Check(); err != nil {
		return fmt.Errorf("%s can't be sent along: it must lie in the folder that is sent, and be named from there", Quote(protocol.Path(name)))
	}
	info, err := s.folder.Stat(p)
	if err != nil {
		return fmt.Errorf("send %s along: %w", Quote(p), plain(err))
	}
	if !info.IsDir() {
		return s.file(p, info)
	}
	above, err := s.enter("", nil)
	if err != nil {
		return err
	}
	for i := range len(p) {
		if p[i] == '/' {
			if above, err = s.enter(p[:i], above); err != nil {
				return err
			}
		}
	}
	return s.dir(ctx, p, above)
}

// enter adds the rules of dir.
func (s *scan) enter(dir protocol.Path, above []layer) ([]layer, error) {
	own, err := s.rules(join(dir, IgnoreFile))
	if err != nil {
		return nil, err
	}
	gits, err := s.rules(join(dir, gitIgnoreFile))
	if err != nil {
		return nil, err
	}
	return append(slices.Clip(above), layer{dir: dir, own: own, gits: gits}), nil
}

func (s *scan) dir(ctx context.Context, dir protocol.Path, above []layer) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	names, err := s.folder.Names(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && dir != "":
		return nil // it went while we looked
	case err != nil && dir != "":
		s.leave(dir, "it can't be read: "+plain(err).Error())
		return nil
	case err != nil:
		return fmt.Errorf("read the folder: %w", plain(err))
	}
	if holdsTokens(names) {
		if dir == "" {
			return errors.New("the folder is a data folder of cdui and holds its tokens, so it is not sent; put the program into a folder of its own")
		}
		s.leave(dir, "it is a data folder of cdui and holds its tokens")
		return nil
	}
	layers, err := s.enter(dir, above)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		p := join(dir, name)
		info, err := s.folder.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			s.leave(p, "it can't be looked at: "+plain(err).Error())
			continue
		}
		if name == gitFolder || ignored(layers, p, info.IsDir()) {
			s.found.Ignored++
			continue
		}
		if info.IsDir() {
			err = s.dir(ctx, p, layers)
		} else {
			err = s.file(p, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holdsTokens tells whether a folder of these names is where a control plane or
// an agent keeps its token. Such a folder goes nowhere, whatever the rules say.
func holdsTokens(names []string) bool {
	has := func(name string) bool { return slices.Contains(names, name) }
	return has("cdui.db") && has("token") || has("agent.json") && has("lock")
}

func (s *scan) leave(p protocol.Path, reason string) {
	s.found.LeftOut = append(s.found.LeftOut, LeftOut{Path: p, Reason: reason})
}

func (s *scan) file(p protocol.Path, info fs.FileInfo) error {
	if s.seen[p] {
		return nil
	}
	s.seen[p] = true
	if !fits(p) {
		s.leave(p, "its path is too long")
		return nil
	}
	e := Entry{Path: p}
	switch mode := info.Mode(); mode.Type() {
	case 0:
		e.Size, e.Executable = info.Size(), mode&0o111 != 0
	case fs.ModeSymlink:
		var reason string
		if e.Link, reason = s.link(p); reason != "" {
			s.leave(p, reason)
			return nil
		}
	case fs.ModeNamedPipe:
		s.leave(p, "it is a named pipe")
		return nil
	case fs.ModeSocket:
		s.leave(p, "it is a socket")
		return nil
	default:
		s.leave(p, "it is a device")
		return nil
	}
	if len(s.found.Files) == MaxFiles {
		return fmt.Errorf("the folder has more than %d files, which is the limit; leave out what the program doesn't need with lines in %s", MaxFiles, IgnoreFile)
	}
	s.found.Files = append(s.found.Files, e)
	return nil
}

// fits tells whether a path that was found on this disk can be made on another.
func fits(p protocol.Path) bool { return p.Check() == nil }

// rules reads a file of rules; one that isn't there has none.
func (s *scan) rules(p protocol.Path) (ignore.Rules, error) {
	info, err := s.folder.Stat(p)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil // as git does: no plain file, no rules
	}
	f, err := s.folder.Open(p)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Quote(p), plain(err))
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxRulesBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", Quote(p), plain(err))
	}
	if len(raw) > maxRulesBytes {
		return nil, fmt.Errorf("%s has more than %s", Quote(p), Size(maxRulesBytes))
	}
	return ignore.Parse(raw), nil
}

// ignored asks our own rules first, then git's; of each the nearest first.
func ignored(layers []layer, p protocol.Path, isDir bool) bool {
	for _, of := range []func(layer) ignore.Rules{
		func(l layer) ignore.Rules { return l.own },
		func(l layer) ignore.Rules { return l.gits },
	} {
		for _, l := range slices.Backward(layers) {
			below := strings.TrimPrefix(string(p[len(l.dir):]), "/")
			if v := of(l).Match(below, isDir); v != ignore.Silent {
				return v == ignore.Ignored
			}
		}
	}
	return false
}

func join(dir protocol.Path, name string) protocol.Path {
	if dir == "" {
		return protocol.Path(name)
	}
	return dir + "/" + protocol.Path(name)
}

// plain takes the operation and the path off an error, where the sentence
// around it names them.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
