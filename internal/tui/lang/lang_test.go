package lang_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/study"
	"cdui/internal/sweep"
	"cdui/internal/tui/lang"
)

// said lists every text that the screens give to T, F and N, and the names that
// reach them through a variable.
func said(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, s := range run.Statuses() {
		out = append(out, string(s))
	}
	for _, c := range []run.EndClass{run.EndUserCode, run.EndOutOfMemory, run.EndKilled, run.EndCancel, run.EndTimeout, run.EndWorkerLost, run.EndServer, run.EndBadGraph} {
		out = append(out, strings.ReplaceAll(string(c), "_", " "))
	}
	for _, s := range []api.WorkerState{api.WorkerOnline, api.WorkerDisconnected, api.WorkerOffline, api.WorkerRejected} {
		out = append(out, string(s))
	}
	out = append(out, "overview", "charts", "console", "events", "outputs", "files", "facts", "direct", "tunnel", "Runs", "Queue", "Workers", "Run", "Sweeps", "Sweep", "Study", "Actions", "sweep", "study", "missing",
		sweep.Minimize, sweep.Maximize)
	for _, s := range []sweep.State{sweep.Running, sweep.Cancelling, sweep.Finished, sweep.Failed} {
		out = append(out, string(s))
	}
	for _, o := range study.Outcomes() {
		out = append(out, strings.ReplaceAll(string(o), "_", " "))
	}
	for _, s := range []study.Stop{study.ByCancel, study.ByRunTime, study.ByActiveTime} {
		out = append(out, strings.ReplaceAll(string(s), "_", " "))
	}
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				if lit, ok := n.(*ast.KeyValueExpr); ok { // titles of groups
					if k, ok := lit.Key.(*ast.Ident); ok && k.Name == "Title" && strings.Contains(path, "screen") {
						out = append(out, text(lit.Value)...)
					}
				}
				return true
			}
			name := ""
			switch f := call.Fun.(type) {
			case *ast.SelectorExpr:
				name = f.Sel.Name
			case *ast.Ident:
				name = f.Name
			}
			switch {
			case name == "T" || name == "F", name == "add" && strings.Contains(path, "screen") && len(call.Args) == 2, name == "label" && len(call.Args) == 2:
				args := call.Args
				if name == "label" {
					args = args[1:]
				}
				out = append(out, text(args[0])...)
			case name == "N":
				out = append(out, text(call.Args[1])...)
				out = append(out, text(call.Args[2])...)
			case name == "bind":
				out = append(out, text(call.Args[2])...)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, "Move", "Everywhere")
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(s string) bool { return s == "" || strings.HasPrefix(s, "mount ") })
}

// reasonCodes are all that package run has.
func reasonCodes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "run", "reason.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Reason") && len(v.Values) == 1 {
			codes = append(codes, text(v.Values[0])...)
		}
		return true
	})
	if len(codes) < 12 {
		t.Fatalf("only %v", codes)
	}
	return codes
}

func text(e ast.Expr) []string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return nil
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return nil
	}
	return []string{s}
}

// Proves T-05: whatever a screen says has its words in Chinese, and each format
// takes what the English one does.
func TestEverythingThatIsSaidIsTranslated(t *testing.T) {
	t.Parallel()
	zh := lang.New(lang.Chinese)
	verbs := regexp.MustCompile(`%[.0-9]*[a-z]`)
	all := said(t)
	if len(all) < 150 {
		t.Fatalf("only %d texts were found", len(all))
	}
	for _, english := range all {
		if !zh.Knows(english) {
			t.Errorf("no Chinese for %q", english)
			continue
		}
		if a, b := verbs.FindAllString(english, -1), verbs.FindAllString(zh.T(english), -1); !slices.Equal(a, b) {
			t.Errorf("%q takes %v, %q takes %v", english, a, zh.T(english), b)
		}
	}
}

// Proves T-05: what the log of actions can say, as the control plane's routes have
// it.
func TestEveryDeedIsTranslated(t *testing.T) {
	t.Parallel()
	zh, en := lang.New(lang.Chinese), lang.New(lang.English)
	files, err := filepath.Glob(filepath.Join("..", "..", "server", "httpapi", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	deeds := map[string]bool{}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`act\{"([a-z ]+)", "([a-z ]+)"\}`).FindAllStringSubmatch(string(src), -1) {
			deeds[m[1]], deeds[m[2]] = true, true
		}
	}
	if len(deeds) < 25 {
		t.Fatalf("only %v", deeds)
	}
	for word := range deeds {
		if zh.Deed(word) == word || en.Deed(word) != word {
			t.Errorf("%q is %q and %q", word, zh.Deed(word), en.Deed(word))
		}
	}
}

func TestEveryReasonAndCodeIsTranslated(t *testing.T) {
	t.Parallel()
	zh, en := lang.New(lang.Chinese), lang.New(lang.English)
	id := strings.Repeat("ab", 16)
	told := map[string]bool{}
	for _, r := range []run.Reason{
		run.SlotBusy("cuda:0", []string{id}), run.Behind(id, 3), run.SetWaiting([]string{"cuda:0"}, []string{id, id}), run.Held(),
		run.NoDevice([]string{"cuda:9"}), run.WorkerOffline("box1"), run.WorkerDraining("box1"),
		run.AllDraining([]string{"cuda"}, []string{"a", "b"}), run.NodeTypesMissing([]string{"a"}), run.CardUnhealthy("cuda:0", "Xid 79"),
		run.AfterWaits(id, run.AfterOK), run.AfterNever(id, run.AfterOK, run.Failed),
		run.SlotKept("cuda:0", id), run.KeyHeld("cuda:0", ""), run.KeyHeld("cuda:0", "paper"), run.Backoff(id, 1, 3, time.Now()),
		run.CardInUse("cuda:0", "alice"), run.Cordoned("cuda:0", ""), run.Cordoned("cuda:0", "dust"),
		run.MemoryWait("cuda:0", 9000, 100, []string{id}), run.MemoryWait("cuda:0", 9000, 100, nil), run.MemoryNever("cuda:0", 9000, 100),
		run.MemoryNoBudget("cuda:0", []string{id}), run.BudgetRaised("cuda:0", 1, 2, nil), run.StorageUnreachable("mount", []string{"a"}),
		run.OneShotStart(), run.OneShotTaken([]string{"a"}), run.OneShotRunID([]string{"a"}), run.OneShotPool([]string{"cuda"}),
	} {
		told[r.Code] = true
		got := zh.Reason(r)
		if got == r.Text || strings.Contains(got, "?") || strings.Contains(got, id) || !strings.ContainsAny(got, "等排正已狀工結須重保") {
			t.Errorf("%s: %q", r.Code, got)
		}
		if en.Reason(r) != r.Text {
			t.Errorf("%s: %q", r.Code, en.Reason(r))
		}
		// As it comes over the wire, and with nothing to fill in.
		zh.Reason(run.Reason{Code: r.Code, Params: map[string]any{"runs": []any{id, 3.5, nil}, "devices": "x", "never": true}})
		zh.Reason(run.Reason{Code: r.Code})
	}
	for _, code := range reasonCodes(t) {
		if !told[code] {
			t.Errorf("nothing here has the code %s", code)
		}
	}
	if got := zh.Reason(run.Reason{Code: "new_code", Text: "as told"}); got != "as told" {
		t.Errorf("%q", got)
	}
	for _, c := range []api.Code{
		api.Invalid, api.Unreadable, api.TooLarge, api.Unauthorized, api.Misdirected, api.NotFound, api.Conflict, api.TooMany,
		api.Unavailable, api.StorageFull, api.StorageBusy,
	} {
		if got := zh.Error(api.Errorf(c, "why")); strings.HasPrefix(got, "：") || !strings.HasSuffix(got, "：why") {
			t.Errorf("%s: %q", c, got)
		}
	}
	if got := zh.Error(errors.New("plain")); got != "plain" {
		t.Errorf("%q", got)
	}
}

func TestTheLocaleChoosesTheLanguage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{"", "", "zh_TW.UTF-8"}, lang.Chinese},
		{[]string{"zh_HK"}, lang.Chinese},
		{[]string{"zh_CN.UTF-8"}, lang.English},
		{[]string{"C.UTF-8", "", "zh_TW.UTF-8"}, lang.English},
		{nil, lang.English},
	} {
		if got := lang.FromLocale(c.values...); got != c.want {
			t.Errorf("%v: %s", c.values, got)
		}
	}
}
