package graph

import (
	"fmt"
	"slices"
	"strings"

	"cdui/internal/graph/finding"
	"cdui/internal/graph/flat"
)

// entryPoints lists the nodes that a trigger edge leads to.
func (l *layout) entryPoints() []string {
	var entries []string
	seen := map[string]bool{}
	for _, e := range l.Edges {
		if e.Trigger && l.byID[e.Target] != nil && !seen[e.Target] {
			seen[e.Target] = true
			entries = append(entries, e.Target)
		}
	}
	return entries
}

// reached gives the nodes that run: what follows the entry points along data
// edges, the sources of triggers into these, and then, until nothing is added,
// whatever feeds one of them and all nodes of a container of which one runs.
func (l *layout) reached() map[string]bool {
	set := map[string]bool{}
	queue := l.entryPoints()
	for _, id := range queue {
		set[id] = true
	}
	grow := func(ids []string) {
		for _, id := range ids {
			if l.byID[id] != nil && !set[id] {
				set[id] = true
				queue = append(queue, id)
			}
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		grow(l.after[queue[0]])
	}
	for _, e := range l.Edges {
		if e.Trigger && set[e.Target] && l.byID[e.Source] != nil {
			set[e.Source] = true
		}
	}
	members := map[string][]string{}
	for _, n := range l.Nodes {
		if n.Container != "" {
			members[n.Container] = append(members[n.Container], n.ID)
		}
		if set[n.ID] {
			queue = append(queue, n.ID)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		id := queue[0]
		grow(l.before[id])
		if container := l.byID[id].Container; container != "" {
			grow(members[container])
			delete(members, container)
		}
	}
	return set
}

// levels sorts the nodes of a set so that each comes after what feeds it:
// level n holds what waits for level n-1. rest holds the nodes that wait for
// each other and so never come up.
func (l *layout) levels(set map[string]bool) (levels [][]string, rest map[string]bool) {
	waits := map[string]int{}
	levels = [][]string{}
	rest = map[string]bool{}
	depth := map[string]int{}
	var ready []string
	for _, n := range l.Nodes {
		if !set[n.ID] {
			continue
		}
		rest[n.ID] = true
		for _, id := range l.before[n.ID] {
			if set[id] {
				waits[n.ID]++
			}
		}
		if waits[n.ID] == 0 {
			ready = append(ready, n.ID)
		}
	}
	for ; len(ready) > 0; ready = ready[1:] {
		id := ready[0]
		delete(rest, id)
		for _, next := range l.after[id] {
			if !set[next] {
				continue
			}
			depth[next] = max(depth[next], depth[id]+1)
			if waits[next]--; waits[next] == 0 {
				ready = append(ready, next)
			}
		}
	}
	for _, n := range l.Nodes {
		if !set[n.ID] || rest[n.ID] {
			continue
		}
		for len(levels) <= depth[n.ID] {
			levels = append(levels, nil)
		}
		levels[depth[n.ID]] = append(levels[depth[n.ID]], n.ID)
	}
	return levels, rest
}

// cycle reports one ring of nodes that wait for each other.
func (l *layout) cycle(rest map[string]bool, f *finding.List) {
	start := slices.IndexFunc(l.Nodes, func(n *flat.Node) bool { return rest[n.ID] })
	if start < 0 {
		return
	}
	// Each node of rest waits for another one of it, so going back meets a
	// node again in the end.
	at := map[string]int{}
	var path []string
	id := l.Nodes[start].ID
	for {
		if i, ok := at[id]; ok {
			path = path[i:]
			break
		}
		at[id] = len(path)
		path = append(path, id)
		back := slices.IndexFunc(l.before[id], func(x string) bool { return rest[x] })
		if back < 0 {
			return
		}
		id = l.before[id][back]
	}
	slices.Reverse(path)
	path = append(path, path[0])
	blocks := l.byID[path[0]].Blocks
	for _, id := range path {
		blocks = commonPrefix(blocks, l.byID[id].Blocks)
	}
	text := "the nodes wait for each other: " + strings.Join(path, " → ")
	if len(blocks) > 0 {
		text += fmt.Sprintf(" (in %s)", strings.Join(blocks, ", in it "))
	}
	f.Add(finding.StageCycles, finding.CodeCycle, path[0], text, map[string]any{"path": path, "subgraphs": slices.Clone(blocks)})
}

func commonPrefix(a, b []string) []string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
