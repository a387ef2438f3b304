package codeset

import (
	"io/fs"
	"strings"

	"cdui/internal/protocol"
)

const (
	leadsOut = "it is a link that leads out of the folder"
	circles  = "it is a link that leads back to itself"
)

// link gives what a link means, relative to the folder, or the reason why it
// can't be kept. What it means need not be there.
func (s *scan) link(p protocol.Path) (protocol.Path, string) {
	w := linkWalk{folder: s.folder, left: maxLinks}
	means, reason := w.target(p)
	if reason != "" {
		return "", reason
	}
	// The link is kept as it is, one step; but all that follows must be sound.
	end := means
	for range maxLinks {
		info, err := s.folder.Stat(end)
		if err != nil {
			break // nothing there
		}
		if info.Mode().Type() == fs.ModeSymlink {
			if end, reason = w.target(end); reason != "" {
				return "", reason
			}
			continue
		}
		if info.IsDir() && within(p, end) {
			return "", circles
		}
		break
	}
	return means, ""
}

// linkWalk goes the way of links as the system does: names one by one, and
// each link on the way is followed. It never asks for a path behind one.
type linkWalk struct {
	folder Folder
	left   int
}

// target gives the path that the link at p names. Its last name is not
// followed; folders on the way are.
func (w *linkWalk) target(p protocol.Path) (protocol.Path, string) {
	if w.left--; w.left < 0 {
		return "", circles
	}
	text, err := w.folder.ReadLink(p)
	if err != nil {
		return "", "it is a link that can't be read: " + plain(err).Error()
	}
	dir := protocol.Path("")
	if i := strings.LastIndexByte(string(p), '/'); i >= 0 {
		dir = p[:i]
	}
	at, reason := w.walk(dir, text)
	switch {
	case reason != "":
		return "", reason
	case at == "" || within(p, at):
		return "", circles
	case at.Check() != nil:
		return "", "it is a link to a path that no file can have"
	}
	return at, ""
}

func (w *linkWalk) walk(dir protocol.Path, text string) (protocol.Path, string) {
	if strings.HasPrefix(text, "/") {
		return "", leadsOut
	}
	names := strings.Split(strings.TrimRight(text, "/"), "/")
	at := dir
	for i, name := range names {
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return "", leadsOut
			}
			at = at[:max(0, strings.LastIndexByte(string(at), '/'))]
			continue
		}
		at = join(at, name)
		if i == len(names)-1 {
			break
		}
		for {
			info, err := w.folder.Stat(at)
			if err != nil || info.Mode().Type() != fs.ModeSymlink {
				break
			}
			var reason string
			if at, reason = w.target(at); reason != "" {
				return "", reason
			}
		}
	}
	return at, ""
}

// within tells whether p is dir or lies below it.
func within(p, dir protocol.Path) bool {
	return p == dir || strings.HasPrefix(string(p), string(dir)+"/")
}
