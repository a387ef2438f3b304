package archtest_test

import (
	"slices"
	"strings"
	"testing"
)

// rule forbids imports. A pattern is a path of the module or the standard
// library; one that ends in /... covers the folders below it too.
type rule struct {
	name string
	from []string
	// to is what the packages of from must not import; except is what of it
	// they may.
	to, except []string
	// deep counts what an import of the module drags in, too.
	deep bool
	// but lists packages of from that the rule spares.
	but    []string
	reason string
}

// domain is the pure core: values and functions from values to values.
var domain = []string{
	"internal/device", "internal/graph/...", "internal/catalog", "internal/run", "internal/scheduler/...",
	"internal/sweep/...", "internal/study", "internal/sheet", "internal/batch", "internal/pool", "internal/token", "internal/retention",
	"internal/jsonscan", "internal/sorting",
}

// contracts say what crosses a process boundary.
var contracts = []string{"internal/api", "internal/protocol", "internal/childproto"}

var rules = []rule{
	{
		name:   "pure core",
		from:   slices.Concat(domain, contracts),
		to:     []string{"os/...", "net", "net/http", "syscall", "database/sql/...", "log/...", "sync/...", "context", "math/rand/..."},
		but:    []string{"internal/api"},
		reason: "the core is values and pure functions: no I/O, no clock, no lock, no log, so that its tests are tables and its answers repeat",
	},
	{
		name:   "api is types",
		from:   []string{"internal/api"},
		to:     []string{"os/...", "net", "database/sql/...", "log/...", "sync/..."},
		reason: "api holds types and the codes' HTTP status; server and client do the I/O",
	},
	{
		name:   "the core stands alone",
		from:   slices.Concat(domain, contracts),
		to:     []string{"internal/..."},
		except: slices.Concat(domain, contracts),
		deep:   true,
		reason: "the core must not know who calls it; hand it a value instead",
	},
	{
		name:   "runs know no control plane",
		from:   []string{"internal/agent/...", "internal/shim/...", "internal/shimhost/...", "internal/spool", "internal/console"},
		to:     []string{"internal/server/...", "internal/store/...", "internal/scheduler/...", "internal/client/..."},
		deep:   true,
		reason: "what executes a run outlives the control plane and may be of another version; it speaks protocol, nothing else",
	},
	{
		name: "a small shim",
		from: []string{"internal/shim/..."},
		to: []string{
			"internal/cli/...", "internal/tui/...", "net/http", "database/sql",
			"github.com/spf13/cobra", "github.com/gorilla/websocket", "modernc.org/sqlite",
		},
		deep:   true,
		reason: "there is a shim for each run: it must start in milliseconds and stay below 15 MB",
	},
	{
		name:   "server stays below its callers",
		from:   []string{"internal/server/..."},
		to:     []string{"internal/agent/...", "internal/tui/...", "internal/cli/...", "internal/client/..."},
		deep:   true,
		reason: "orders go down, facts come back as records; the server never calls upward",
	},
	{
		name:   "feed is a leaf",
		from:   []string{"internal/server/feed"},
		to:     []string{"internal/..."},
		reason: "whoever may know feed relies on it knowing nobody",
	},
	{
		name:   "front ends are clients",
		from:   []string{"internal/client/...", "internal/tui/...", "internal/cli/..."},
		to:     []string{"internal/server/...", "internal/store/...", "internal/agent/..."},
		but:    starters,
		reason: "a front end does what anyone can do over the API; only the commands that start a control plane or an agent may link it",
	},
	{
		name:   "one database",
		from:   []string{"internal/..."},
		to:     []string{"database/sql/...", "modernc.org/sqlite/..."},
		but:    []string{"internal/store/..."},
		reason: "SQLite has one writer and it is package store",
	},
	{
		name:   "one command tree",
		from:   []string{"internal/..."},
		to:     []string{"github.com/spf13/cobra/...", "github.com/spf13/pflag/..."},
		but:    []string{"internal/cli/..."},
		reason: "flags and commands are parsed in cli; everything below takes values",
	},
	{
		name:   "adapters don't know each other's users",
		from:   []string{"internal/store/...", "internal/pyruntime/...", "internal/fsinfo", "internal/shimhost", "internal/config", "internal/version", "internal/release"},
		to:     []string{"internal/server/...", "internal/cli/...", "internal/client/...", "internal/scheduler/..."},
		deep:   true,
		reason: "an adapter hides one outside thing and serves whoever asks",
	},
	{
		name:   "ssh knows no workers",
		from:   []string{"internal/sshtunnel/...", "internal/bootstrap"},
		to:     []string{"internal/..."},
		except: []string{"internal/sshtunnel/..."},
		deep:   true,
		reason: "the control plane and the command both hand values in; who is asked, and what is served at a tunnel's end, is theirs",
	},
	{
		name:   "no test code in the program",
		from:   []string{"cmd/..."},
		to:     []string{"testing/...", "net/http/httptest", "pgregory.net/rapid", "internal/e2e/...", "internal/archtest"},
		deep:   true,
		reason: "what only tests need belongs into test files, or into a package that only they import",
	},
}

// starters are the commands that start a control plane or an agent.
var starters = []string{"internal/cli/serverctl", "internal/cli/agentcmd"}

func TestForbiddenImports(t *testing.T) {
	packages := loadPackages(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, path := range sortedPaths(packages) {
				if !matchesAny(path, r.from) || matchesAny(path, r.but) {
					continue
				}
				for _, chain := range forbiddenChains(packages, path, r) {
					t.Errorf("%s must not import %s: %s\n\t%s", path, chain[len(chain)-1], r.reason, strings.Join(chain, " → "))
				}
			}
		})
	}
}

// forbiddenChains gives the shortest chain of imports from path to each
// package that r forbids.
func forbiddenChains(packages map[string]*pkg, path string, r rule) [][]string {
	var found [][]string
	seen := map[string]bool{path: true}
	for queue := [][]string{{path}}; len(queue) > 0; queue = queue[1:] {
		chain := queue[0]
		p := packages[chain[len(chain)-1]]
		if p == nil {
			continue
		}
		for _, imported := range p.imports {
			if seen[imported] {
				continue
			}
			seen[imported] = true
			next := append(slices.Clone(chain), imported)
			if matchesAny(imported, r.to) && !matchesAny(imported, r.except) {
				found = append(found, next)
			} else if r.deep {
				queue = append(queue, next)
			}
		}
	}
	return found
}

// meetings lists which part of the control plane imports which other one, and
// why it may.
var meetings = map[string]string{
	"runs → execution":    "execution is the contract between it and those that carry runs out",
	"local → execution":   "it implements the Executor of that contract",
	"workers → execution": "it implements the Executor of that contract for runs on workers",
	"workers → runs":      "it says how workers are in the words of runs",
	"httpapi → feed":      "feed is a leaf: it knows no other package and carries no payload, only that there is news",
}

// TestServerPartsMeetThroughInterfaces holds the parts of the control plane
// apart: only package server, which wires them, imports more than one.
func TestServerPartsMeetThroughInterfaces(t *testing.T) {
	packages := loadPackages(t)
	part := func(path string) (string, bool) {
		rest, ok := strings.CutPrefix(path, "internal/server/")
		name, _, _ := strings.Cut(rest, "/")
		return name, ok
	}
	seen := map[string]bool{}
	for _, path := range sortedPaths(packages) {
		mine, ok := part(path)
		if !ok {
			continue
		}
		for _, imported := range packages[path].imports {
			other, ok := part(imported)
			if !ok || other == mine {
				continue
			}
			meeting := mine + " → " + other
			seen[meeting] = true
			if meetings[meeting] == "" {
				t.Errorf("%s must not import %s: a part of the control plane declares the interface that it needs, and package server hands it in", path, imported)
			}
		}
	}
	for meeting := range meetings {
		if !seen[meeting] {
			t.Errorf("%s is allowed but doesn't happen any more: remove it", meeting)
		}
	}
}

func TestNoCatchAllPackages(t *testing.T) {
	forbidden := []string{"util", "utils", "common", "helper", "helpers", "shared", "types", "manager", "misc", "base"}
	packages := loadPackages(t)
	for _, path := range sortedPaths(packages) {
		for _, name := range append(strings.Split(path, "/"), packages[path].name) {
			if slices.Contains(forbidden, name) {
				t.Errorf("package %s: %q says nothing of what it is for and will gather everything; name it after the one thing that it does", path, name)
				break
			}
		}
	}
}

func matchesAny(path string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		base, below := strings.CutSuffix(pattern, "/...")
		return path == base || below && strings.HasPrefix(path, base+"/")
	})
}
