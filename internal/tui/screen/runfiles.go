package screen

import (
	"bytes"
	"encoding/json"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/console"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/widget"
)

// previewBytes is how much of a file is shown.
const previewBytes = 64 << 10

// appendArtifact adds the file that an event tells of, if it is new.
func appendArtifact(list []api.Artifact, e api.Event) []api.Artifact {
	var p struct {
		ID     int64  `json:"artifact_id"`
		ID2    int64  `json:"id"`
		Kind   string `json:"kind"`
		Path   string `json:"path"`
		NodeID string `json:"node_id"`
	}
	if json.Unmarshal(e.Payload, &p) != nil || p.Path == "" {
		return list
	}
	id := max(p.ID, p.ID2)
	for _, a := range list {
		if a.ID == id {
			return list
		}
	}
	return append(list, api.Artifact{ID: id, Kind: p.Kind, Path: p.Path, NodeID: p.NodeID, CreatedAt: e.TS})
}

// near gives where a file lies on this machine, "" when it lies elsewhere.
func (s *Run) near(a api.Artifact) string {
	if s.w.Disk == nil || s.w.MachineID == "" || s.w.Board.Machine().Server.MachineID != s.w.MachineID {
		return ""
	}
	// What a worker has put out lies there until it has come back.
	if !filepath.IsAbs(a.Path) || s.now().WorkerID != "" && a.Backend != string(protocol.BackendTransfer) {
		return ""
	}
	return a.Path
}

// runSizes are how large files are, by their path.
type runSizes struct {
	of    *Run
	sizes map[string]int64
}

// measure looks how large the files are of which nothing says so.
func (s *Run) measure() tea.Cmd {
	var paths []string
	for _, a := range s.files {
		if near := s.near(a); near != "" && s.sizes[near] == 0 && sizeOf(a.Meta) == "" {
			paths = append(paths, near)
			if s.sizes == nil {
				s.sizes = map[string]int64{}
			}
			s.sizes[near] = -1 // asked
		}
	}
	if len(paths) == 0 {
		return nil
	}
	disk := s.w.Disk
	return func() tea.Msg {
		m := runSizes{of: s, sizes: map[string]int64{}}
		for _, p := range paths {
			if n, err := disk.Size(p); err == nil {
				m.sizes[p] = n
			}
		}
		return m
	}
}

// runPreview is the beginning of a file.
type runPreview struct {
	of   *Run
	file api.Artifact
	head []byte
	err  error
}

// openFile shows what is known of the file under the cursor, and its text where
// it has one and lies on this machine.
func (s *Run) openFile() tea.Cmd {
	if s.fileTable.Cursor >= len(s.files) {
		return nil
	}
	a := s.files[s.fileTable.Cursor]
	near := s.near(a)
	if near == "" {
		return s.describeFile(runPreview{of: s, file: a})
	}
	disk := s.w.Disk
	return func() tea.Msg {
		m := runPreview{of: s, file: a}
		m.head, m.err = disk.Head(near, previewBytes)
		return m
	}
}

func (s *Run) describeFile(m runPreview) tea.Cmd {
	w, l, a := s.w, s.w.Lang, m.file
	list := []fact{{l.T("path"), a.Path}, {l.T("kind"), a.Kind}}
	if size := s.sizeText(a); size != "" {
		list = append(list, fact{l.T("size"), size})
	}
	if a.NodeID != "" {
		list = append(list, fact{l.T("node"), a.NodeID})
	}
	if meta := text.Compact(a.Meta); meta != "null" && meta != "{}" && meta != "" {
		list = append(list, fact{l.T("meta"), meta})
	}
	list = append(list, fact{l.T("made"), l.F("%s ago", text.Age(w.Now().Sub(a.CreatedAt)))})
	list = append(list, fact{l.T("command"), w.Command("runs artifacts " + run.Short(s.id))})
	content := l.F("It lies on %s.", s.machine())
	var lines []string
	switch {
	case m.err != nil:
		content = m.err.Error()
	case m.head == nil:
	case !isText(m.head):
		content = l.T("It is no text.")
	default:
		content = ""
		shown := console.NewDisplay(console.DisplayOptions{MaxLine: consoleWidth})
		lines = strings.Split(strings.TrimRight(string(shown.Write(m.head))+string(shown.Flush()), "\n"), "\n")
		if len(m.head) >= previewBytes {
			lines = append(lines, w.Theme.Paint(theme.Dim, l.F("the first %s", text.Bytes(previewBytes))))
		}
	}
	return w.Shell.Ask(dialog.NewReader(w, widget.Plain(path.Base(a.Path)), func(width int) []string {
		out := append(factLines(w, list, width), "")
		if content != "" {
			out = append(out, w.Theme.Paint(theme.Dim, widget.Plain(content)))
		}
		for _, line := range lines {
			out = append(out, widget.Chop(widget.Line(line), width)...)
		}
		return out
	}))
}

// machine is the name of the machine that the run was on.
func (s *Run) machine() string {
	if name := s.now().WorkerID; name != "" {
		return name
	}
	return s.w.Lang.T("the control plane's machine")
}

// isText tells whether a person can read it. The last character may be cut.
func isText(b []byte) bool {
	if len(b) >= previewBytes {
		for cut := 0; cut < utf8.UTFMax && !utf8.Valid(b); cut++ {
			b = b[:len(b)-1]
		}
	}
	return utf8.Valid(b) && !bytes.ContainsRune(b, 0)
}

type fileRows struct{ s *Run }

func (r fileRows) Len() int               { return len(r.s.files) }
func (fileRows) Marked(int) bool          { return false }
func (fileRows) Detail(int, int) []string { return nil }

func (r fileRows) Cells(i int) []widget.Cell {
	a := r.s.files[i]
	return []widget.Cell{
		{Text: widget.Plain(a.Kind), Role: theme.Dim},
		{Text: widget.Plain(path.Base(a.Path))},
		{Text: r.s.sizeText(a), Role: theme.Dim},
		{Text: widget.Plain(a.Path), Role: theme.Dim},
		{Text: text.Age(r.s.w.Now().Sub(a.CreatedAt)), Role: theme.Dim},
	}
}

func (s *Run) sizeText(a api.Artifact) string {
	if size := sizeOf(a.Meta); size != "" {
		return size
	}
	if n := s.sizes[a.Path]; n > 0 {
		return text.Bytes(n)
	}
	return ""
}

// sizeOf is how large a file is, where its meta says so.
func sizeOf(meta json.RawMessage) string {
	for _, name := range []string{"size", "size_bytes", "bytes"} {
		var m map[string]json.RawMessage
		var n int64
		if json.Unmarshal(meta, &m) == nil && json.Unmarshal(m[name], &n) == nil && n > 0 {
			return text.Bytes(n)
		}
	}
	return ""
}

func (s *Run) fileList(w, h int) []string {
	if len(s.files) == 0 {
		return []string{"", "  " + s.w.Theme.Paint(theme.Dim, s.w.Lang.T("It has put out no files."))}
	}
	s.fileTable.Columns = []widget.Column{
		{Title: s.w.Lang.T("KIND"), Width: 12, Drop: 2},
		{Title: s.w.Lang.T("FILE"), Width: 20, Grow: 1},
		{Title: s.w.Lang.T("SIZE"), Width: 9, Right: true, Drop: 3},
		{Title: s.w.Lang.T("PATH"), Width: 20, Grow: 3, Drop: 1},
		{Title: s.w.Lang.T("AGE"), Width: 4, Right: true, Drop: 4},
	}
	return s.fileTable.View(fileRows{s}, w, h, s.w.Theme)
}
