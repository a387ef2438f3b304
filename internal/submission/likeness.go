package submission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"cdui/internal/graph"
)

// likeness is the same for runs that take about the same memory: of graphs
// those with the same node types and edges, of programs those that start the
// same script or command.
func likeness(raw json.RawMessage, p graph.Program) string {
	var what any
	switch {
	case p.Script != nil:
		what = []string{"script", p.Script.Path}
	case p.Command != nil:
		argv := p.Command.Argv
		what = []any{"command", p.Command.Cwd, argv[:min(2, len(argv))]}
	default:
		what = structure(raw)
	}
	doc, err := json.Marshal(what)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:16])
}

// structure lists a graph's nodes by type and its edges, whatever their order.
func structure(raw json.RawMessage) []string {
	var g struct {
		Nodes []struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		} `json:"nodes"`
		Edges []struct {
			Source       string `json:"source"`
			SourceHandle string `json:"sourceHandle"`
			Target       string `json:"target"`
			TargetHandle string `json:"targetHandle"`
		} `json:"edges"`
	}
	if json.Unmarshal(raw, &g) != nil {
		return nil
	}
	var out []string
	for _, n := range g.Nodes {
		out = append(out, n.ID+" "+n.Type)
	}
	for _, e := range g.Edges {
		out = append(out, e.Source+"/"+e.SourceHandle+" > "+e.Target+"/"+e.TargetHandle)
	}
	slices.Sort(out)
	return out
}
