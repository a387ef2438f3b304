package run

import (
	"path"
	"strings"
)

// Title is what people know a run by: its name, else what it starts.
func (r Row) Title() string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Options.Script != nil:
		return path.Base(r.Options.Script.Path)
	case r.Options.Command != nil:
		return strings.Join(r.Options.Command.Argv, " ")
	}
	return ""
}
