package codeset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"cdui/internal/protocol"
	"cdui/internal/sorting"
)

// What a list of files may hold.
const (
	MaxFiles         = 100_000
	MaxManifestBytes = 32 << 20
)

// ErrBadManifest is the cause of every refusal of a list of files.
var ErrBadManifest = errors.New("bad list of files")

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadManifest, fmt.Sprintf(format, args...))
}

// Manifest is a checked list of files, ordered by path.
type Manifest struct {
	files []protocol.File
}

// version is that of the document's format.
const version = 1

type document struct {
	Version int             `json:"version"`
	Files   []protocol.File `json:"files"`
}

// New checks files and orders them.
func New(files []protocol.File) (Manifest, error) {
	if len(files) > MaxFiles {
		return Manifest{}, bad("%d files, the limit is %d", len(files), MaxFiles)
	}
	m := Manifest{files: slices.Clone(files)}
	sorting.Sort(m.files, func(a, b protocol.File) int { return cmp.Compare(a.Path, b.Path) })
	paths := make(map[protocol.Path]bool, len(files))
	sizes := map[string]int64{}
	total := int64(0)
	for _, f := range m.files {
		if err := checkFile(f); err != nil {
			return Manifest{}, err
		}
		if paths[f.Path] {
			return Manifest{}, bad("%q is there twice", f.Path)
		}
		paths[f.Path] = true
		if known, ok := sizes[f.SHA256]; ok && f.Link == "" && known != f.Size {
			return Manifest{}, bad("%q has a content that is %d bytes long elsewhere", f.Path, known)
		}
		sizes[f.SHA256] = f.Size
		if total > math.MaxInt64-f.Size {
			return Manifest{}, bad("its sizes are beyond all measure")
		}
		total += f.Size
	}
	for _, f := range m.files {
		for i := range len(f.Path) {
			if f.Path[i] == '/' && paths[f.Path[:i]] {
				return Manifest{}, bad("%q lies below %q, which is no folder", f.Path, f.Path[:i])
			}
		}
	}
	return m, nil
}

func checkFile(f protocol.File) error {
	if err := f.Path.Check(); err != nil {
		return bad("%v", err)
	}
	if f.Key != "" {
		return bad("%q names an object", f.Path)
	}
	if f.Link != "" {
		if f.SHA256 != "" || f.Size != 0 || f.Executable {
			return bad("the link %q has a content", f.Path)
		}
		if err := f.Link.Check(); err != nil {
			return bad("the link %q: %v", f.Path, err)
		}
		return nil
	}
	if !ValidSum(f.SHA256) || f.Size < 0 {
		return bad("the file %q has no content hash or size", f.Path)
	}
	return nil
}

// ValidSum tells whether s is a SHA-256 in lower-case hex.
func ValidSum(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// Decode reads a manifest that another machine wrote.
func Decode(raw []byte) (Manifest, error) {
	if len(raw) > MaxManifestBytes {
		return Manifest{}, bad("%d bytes, the limit is %d", len(raw), MaxManifestBytes)
	}
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		return Manifest{}, bad("%v", err)
	}
	if d.Version != version {
		return Manifest{}, bad("it has version %d, this release reads %d", d.Version, version)
	}
	return New(d.Files)
}

// Encode gives the bytes of the manifest. Equal lists give equal bytes.
func (m Manifest) Encode() ([]byte, error) {
	raw, err := json.Marshal(document{Version: version, Files: append([]protocol.File{}, m.files...)})
	if err != nil {
		return nil, fmt.Errorf("encode list of files: %w", err)
	}
	if len(raw) > MaxManifestBytes {
		return nil, bad("its %d files take %d bytes to name, the limit is %d", len(m.files), len(raw), MaxManifestBytes)
	}
	return raw, nil
}

// Hash is over the bytes of Encode: equal hashes are equal folders.
func Hash(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// Code is the manifest as an assignment carries it.
func (m Manifest) Code() (protocol.Code, error) {
	raw, err := m.Encode()
	if err != nil {
		return protocol.Code{}, err
	}
	return protocol.Code{Hash: Hash(raw), Files: m.Files()}, nil
}

// Files lists files and links by path.
func (m Manifest) Files() []protocol.File { return slices.Clone(m.files) }

// Bytes is the size of all files.
func (m Manifest) Bytes() int64 {
	total := int64(0)
	for _, f := range m.files {
		total += f.Size
	}
	return total
}

// Contents lists each content once, by its hash.
func (m Manifest) Contents() []Content {
	sizes := map[string]int64{}
	for _, f := range m.files {
		if f.Link == "" {
			sizes[f.SHA256] = f.Size
		}
	}
	out := make([]Content, 0, len(sizes))
	for _, sum := range slices.Sorted(maps.Keys(sizes)) {
		out = append(out, Content{SHA256: sum, Size: sizes[sum]})
	}
	return out
}

// Content is what one or more files hold.
type Content struct {
	SHA256 string
	Size   int64
}

// Limits bound a folder; 0 is no limit.
type Limits struct {
	// Total is for all files together, File for each.
	Total, File int64
}

// Check refuses what is beyond the limits, and names the largest files.
func (l Limits) Check(files []Entry) error {
	total := int64(0)
	for _, f := range files {
		if l.File > 0 && f.Size > l.File {
			return fmt.Errorf("%s has %s, and no file may have more than %s: leave it out with a line in %s", Quote(f.Path), Size(f.Size), Size(l.File), IgnoreFile)
		}
		total += f.Size
	}
	if l.Total > 0 && total > l.Total {
		return fmt.Errorf("the folder has %s, and %s may be sent along; leave out what the program doesn't need with lines in %s. The largest: %s",
			Size(total), Size(l.Total), IgnoreFile, describe(Largest(files, 3)))
	}
	return nil
}

func describe(files []Entry) string {
	var parts []string
	for _, f := range files {
		parts = append(parts, fmt.Sprintf("%s (%s)", Quote(f.Path), Size(f.Size)))
	}
	return strings.Join(parts, ", ")
}

// Largest gives the n largest files, the largest first.
func Largest(files []Entry, n int) []Entry {
	out := slices.Clone(files)
	sorting.Sort(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Path, b.Path))
	})
	return out[:min(n, len(out))]
}

// Size writes a number of bytes for people.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	f, i := float64(n)/unit, 0
	for ; f >= unit && i < 4; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[i])
}

// Quote writes a path for people: as it is when it is plain, else quoted.
func Quote(p protocol.Path) string {
	if q := fmt.Sprintf("%q", string(p)); q[1:len(q)-1] != string(p) || strings.Contains(string(p), " ") {
		return q
	}
	return string(p)
}
