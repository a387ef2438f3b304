package protocol

import (
	"errors"
	"fmt"
	"strings"
)

// The faults of a worker's name.
var (
	ErrBadName      = errors.New("bad worker name")
	ErrReservedName = errors.New("reserved worker name")
)

// The names that options.target gives a meaning of their own.
const (
	NameLocal = "local"
	NameAny   = "any"
)

const maxWorkerName = 63

// ValidName says whether a worker may go by name: lower-case letters, digits
// and hyphens, at most 63, no hyphen first, and neither local nor any.
func ValidName(name string) error {
	if name == NameLocal || name == NameAny {
		return fmt.Errorf("%w: %s has a meaning of its own in targets; take another", ErrReservedName, name)
	}
	if !namePattern(name) {
		return fmt.Errorf("%w: %.80q; lower-case letters, digits and hyphens, at most %d, no hyphen first", ErrBadName, name, maxWorkerName)
	}
	return nil
}

// ValidRegisteredName is ValidName for a name that may be <name>.<instance>.
func ValidRegisteredName(name string) error {
	base, instance, dotted := strings.Cut(name, ".")
	if err := ValidName(base); err != nil {
		return err
	}
	if dotted && !namePattern(instance) {
		return fmt.Errorf("%w: the instance in %.80q; lower-case letters, digits and hyphens, at most %d, no hyphen first", ErrBadName, name, maxWorkerName)
	}
	return nil
}

func namePattern(s string) bool {
	if len(s) == 0 || len(s) > maxWorkerName || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// NameFrom makes a worker's name of a machine's; empty where none can be made.
func NameFrom(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	var b strings.Builder
	for _, c := range host {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteRune(c)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
		if b.Len() == maxWorkerName {
			break
		}
	}
	name := strings.TrimRight(b.String(), "-")
	if ValidName(name) != nil {
		return ""
	}
	return name
}
