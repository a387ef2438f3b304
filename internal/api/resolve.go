package api

import "cdui/internal/run"

// Resolve picks the one of what ("run", "sweep", "study") that a shortened id
// stands for. ids are those that begin with it, in order, so that a whole id
// comes first.
func Resolve(what, id string, ids []string) (string, error) {
	switch {
	case id == "" || len(ids) == 0:
		return "", Errorf(NotFound, "no %s %q", what, id).With("id", id)
	case len(ids) == 1 || ids[0] == id:
		return ids[0], nil
	}
	many := map[string]string{"study": "studies"}[what]
	if many == "" {
		many = what + "s"
	}
	return "", Errorf(Conflict, "%q could be %d %s or more, such as %s and %s; write more of the id", id, len(ids), many, run.Short(ids[0]), run.Short(ids[1])).
		With("candidates", ids)
}
