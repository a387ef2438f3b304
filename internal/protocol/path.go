package protocol

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Path is a slash-separated path relative to a folder. Names are whatever the
// file system allows: one that is not UTF-8 travels as {"bytes": base64}.
type Path string

type pathBytes struct {
	Bytes []byte `json:"bytes"`
}

// MarshalJSON implements json.Marshaler.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(pathBytes{[]byte(p)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Path) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*p = Path(s)
		return nil
	}
	var pb pathBytes
	if err := json.Unmarshal(b, &pb); err != nil {
		return err
	}
	*p = Path(pb.Bytes)
	return nil
}

const (
	maxPath = 4096
	maxName = 255
)

// Check refuses a path that leaves its folder or that no file can have.
// Whether a link on the way leads out only the disk can tell.
func (p Path) Check() error {
	switch {
	case p == "":
		return badFrame("an empty path")
	case len(p) > maxPath:
		return badFrame("a path of %d bytes, the limit is %d", len(p), maxPath)
	case p[0] == '/':
		return badFrame("the path %q is not relative", p)
	case strings.IndexByte(string(p), 0) >= 0:
		return badFrame("the path %q holds a zero byte", p)
	}
	for name := range strings.SplitSeq(string(p), "/") {
		switch {
		case name == "" || name == "." || name == "..":
			return badFrame("the path %q holds the element %q", p, name)
		case len(name) > maxName:
			return badFrame("the path %.40q… holds a name of %d bytes, the limit is %d", p, len(name), maxName)
		}
	}
	return nil
}

func checkFiles(files []File) error {
	for _, f := range files {
		if err := f.Path.Check(); err != nil {
			return err
		}
		if f.Link != "" {
			if err := f.Link.Check(); err != nil {
				return badFrame("the link %q: %v", f.Path, err)
			}
			continue
		}
		if !validSHA256(f.SHA256) || f.Size < 0 {
			return badFrame("the file %q has no content hash or size", f.Path)
		}
	}
	return nil
}

func validSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
