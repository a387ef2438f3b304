package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/nvml"
	"cdui/internal/shim"
)

// TestMain makes a whole program of the test binary: what a command starts in
// the background is this again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		switch os.Args[1] {
		case "shim":
			os.Exit(shim.Main(os.Args[2:]))
		case "nvml":
			os.Exit(nvml.Main(os.Args[2:]))
		}
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// world is a control plane of the real program with an agent.
type world struct {
	*clitest.Env
	t       *testing.T
	address string
	// commands are those that print documents, ran those that did.
	commands map[string][]env.Document
	ran      map[string]bool
	check    *checker
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "cdui-t-") // sockets want short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	e := clitest.New(t, 0)
	e.Exe, e.Alive, e.Now, e.Dir = exe, alive, time.Now, dir
	e.Set("CDUI_HOME", filepath.Join(dir, "d"))
	e.Set("CDUI_LISTEN", address)
	w := &world{Env: e, t: t, address: address, ran: map[string]bool{}, check: newChecker(t)}
	w.commands = documented(newRoot(e.Env))
	t.Cleanup(func() {
		// Not the test's context, which is over by now.
		for _, args := range []string{"agent stop --cancel-runs", "stop --cancel-runs"} {
			w.do(context.Background(), args)
		}
		if log, err := os.ReadFile(filepath.Join(dir, "d", "server.log")); err == nil && t.Failed() {
			t.Logf("control plane's log:\n%.4000s", log)
		}
	})
	return w
}

// do runs a command line and gives what it printed.
func (w *world) do(ctx context.Context, args string, more ...string) (string, string, int) {
	out, errs := &clitest.Buffer{}, &clitest.Buffer{}
	e := *w.Env.Env
	e.Out, e.Err = out, errs
	code := Execute(ctx, &e, append(strings.Fields(args), more...))
	return out.String(), errs.String(), code
}

// say runs a command that must end well.
func (w *world) say(args string) string {
	w.t.Helper()
	out, errs, code := w.do(w.t.Context(), args)
	if code != 0 {
		w.t.Fatalf("%s: code %d, %s%s", args, code, out, errs)
	}
	return strings.TrimSpace(out)
}

// json runs a command with --json and holds what it prints against its
// documents. It gives the last of them.
func (w *world) json(args string, more ...string) map[string]any {
	w.t.Helper()
	return w.ends(0, args, more...)
}

func (w *world) ends(want int, args string, more ...string) map[string]any {
	w.t.Helper()
	path := "cdui"
	for word := range strings.FieldsSeq(args) {
		if _, ok := w.commands[path+" "+word]; ok || w.commands[path] == nil {
			path += " " + word
		}
	}
	docs := w.commands[path]
	if docs == nil {
		w.t.Fatalf("%s: no command %s prints documents", args, path)
	}
	out, errs, code := w.do(w.t.Context(), args+" --json", more...)
	if code != want && want >= 0 {
		w.t.Fatalf("%s %q: code %d, want %d: %s%s", args, more, code, want, out, errs)
	}
	dec := json.NewDecoder(strings.NewReader(out))
	var last any
	n := 0
	for ; dec.More(); n++ {
		var v any
		if err := dec.Decode(&v); err != nil {
			w.t.Fatalf("%s: %v in %s", args, err, out)
		}
		w.check.document(path, docs, v)
		last = v
	}
	if lines := strings.Count(out, "\n"); n == 0 || lines != n {
		w.t.Errorf("%s: %d documents in %d lines: %s", args, n, lines, out)
	}
	w.ran[path] = true
	object, _ := last.(map[string]any)
	return object
}

// checker holds what was printed against what is documented.
type checker struct {
	t    *testing.T
	book *book
	seen map[string]bool // Type.field
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	return &checker{t: t, book: newBook(t), seen: map[string]bool{}}
}

// document finds which of the documents of a command v is.
func (c *checker) document(path string, docs []env.Document, v any) {
	c.t.Helper()
	var all [][]string
	for _, d := range docs {
		seen := map[string]bool{}
		wrong := c.value(seen, path, d.Of, false, v)
		if len(wrong) == 0 {
			maps.Copy(c.seen, seen)
			return
		}
		all = append(all, wrong)
	}
	for _, wrong := range all {
		if len(all) == 1 || !strings.HasPrefix(wrong[0], path+" is ") { // else it isn't even of the same kind
			c.t.Errorf("%s prints what isn't documented:\n  %s", path, strings.Join(slices.Compact(slices.Sorted(slices.Values(wrong))), "\n  "))
		}
	}
}

// value lists what is wrong with a value of a type.
func (c *checker) value(seen map[string]bool, path string, typ reflect.Type, null bool, v any) []string {
	c.t.Helper()
	if text, ok := written[typ]; ok {
		if text != "time" {
			return nil
		}
		if s, ok := v.(string); ok {
			if _, err := time.Parse(time.RFC3339Nano, s); err == nil {
				return nil
			}
		}
		if v == nil && null {
			return nil
		}
		return []string{fmt.Sprintf("%s is no time: %v", path, v)}
	}
	if v == nil {
		if null {
			return nil
		}
		return []string{path + " is null"}
	}
	var wrong []string
	is := false
	switch typ.Kind() {
	case reflect.Pointer:
		return c.value(seen, path, typ.Elem(), true, v)
	case reflect.Struct:
		var object map[string]any
		if object, is = v.(map[string]any); is {
			wrong = c.object(seen, path, typ, object)
		}
	case reflect.Slice, reflect.Array:
		var list []any
		list, is = v.([]any)
		for _, item := range list {
			wrong = append(wrong, c.value(seen, path+"[]", typ.Elem(), false, item)...)
		}
	case reflect.Map:
		var object map[string]any
		object, is = v.(map[string]any)
		for _, item := range object {
			wrong = append(wrong, c.value(seen, path+".*", typ.Elem(), false, item)...)
		}
	case reflect.Bool:
		_, is = v.(bool)
	case reflect.String:
		_, is = v.(string)
	default:
		_, is = v.(float64)
	}
	if !is {
		return []string{fmt.Sprintf("%s is %T where %s is documented", path, v, typ.Kind())}
	}
	return wrong
}

func (c *checker) object(seen map[string]bool, path string, typ reflect.Type, object map[string]any) []string {
	c.t.Helper()
	var wrong []string
	fields := fieldsOf(typ)
	known := map[string]bool{}
	for _, f := range fields {
		known[f.name] = true
		v, ok := object[f.name]
		if !ok {
			if !f.optional {
				wrong = append(wrong, path+"."+f.name+" is missing")
			}
			continue
		}
		seen[c.book.name(typ)+"."+f.name] = true
		wrong = append(wrong, c.value(seen, path+"."+f.name, f.typ, f.nullable(c.book.src.meaning(c.t, f, fields)), v)...)
	}
	for name := range object {
		if !known[name] {
			wrong = append(wrong, path+"."+name+" is not documented")
		}
	}
	return wrong
}

const reporting = `import cdui, pathlib
for step in range(3):
    cdui.log({"loss": 1.0 / (step + 1), "bad": float("nan")}, step=step)
pathlib.Path("out.txt").write_text("x")
cdui.artifact("out.txt", kind="text", meta={"n": 1})
`

// Each command prints with --json what docs/json.md says, no more and
// no less, as the real program has it against a real control plane and agent.
func TestCommandsPrintWhatIsDocumented(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, text := range map[string]string{
		"train.py": reporting,
		"fine.json": `{"nodes":[{"id":"s","type":"Start"},{"id":"x","type":"TensorCreate","data":{"params":{"shape":"2"}}}],
			"edges":[{"source":"s","sourceHandle":"trigger","target":"x","type":"trigger"}]}`,
		"bad.json":   `{"nodes":[{"id":"x","type":"Nonsense"}],"edges":[]}`,
		"sweep.yaml": "command: [sh, -c, 'exit $2', sh]\nparams: [{arg: --code, values: [0, 3]}]\nobjective: {metric: loss, direction: minimize}\n",
		"graph.yaml": "graph: fine.json\nparams: [{node: x, param: fill, values: [zeros, ones]}]\nobjective: {metric: loss, direction: minimize}\n",
		"train.yaml": "script: train.py\nparams: [{arg: --n, values: [1, 2]}]\nobjective: {metric: loss, direction: minimize}\n",
	} {
		if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.json("start")
	for _, args := range []string{"status", "nodes", "nodes Start", "presets", "validate fine.json", "config explain", "db check"} {
		w.json(args)
	}
	presets := w.say("presets -q")
	preset, _, _ := strings.Cut(presets, "\n")
	w.json("presets", preset)
	w.ends(1, "validate bad.json")
	w.ends(-1, "doctor")
	w.json("db backup", filepath.Join(w.Dir, "backup.db"))

	w.say("hooks add chat --on lost --url http://127.0.0.1:1/ --token-env TOKEN")
	w.say("hooks add other --on lost --url http://127.0.0.1:1/ --token-file " + filepath.Join(w.Dir, "secret"))
	for _, args := range []string{
		"tokens add ada --role submit", "tokens", "tokens ls", "tokens rm ada",
		"hooks add mail --on failed", "hooks", "hooks ls", "hooks test mail", "hooks rm mail",
	} {
		if args == "hooks add mail --on failed" {
			w.json(args, "--", "true")
			continue
		}
		w.json(args)
	}

	for _, args := range []string{
		"context add lab http://127.0.0.1:1", "context use lab", "context", "context ls", "context current", "context rm lab",
	} {
		w.json(args)
	}

	enroll := w.json("workers add box1")
	w.say("agent start -d --name box1 --control " + w.address + " --token " + enroll["token"].(string))
	w.json("agent start -d --name box1")
	for _, args := range []string{"agent status", "workers", "workers ls", "workers show box1"} {
		w.json(args)
	}

	first := w.json("run -d --name first --tag a --note b --key k train.py")["run_id"].(string)
	w.json("runs wait " + first)
	w.json("run --tag a", "--", "true")
	w.ends(1, "run", "--", "false")
	far := w.json("run -d --worker box1 --no-files", "--", "true")["run_id"].(string)
	w.json("runs wait " + far)
	long := w.json("run -d --worker box1 --devices cpu --no-files --env A=b", "--", "sleep", "600")["run_id"].(string)
	behind := w.json("run -d --after "+long, "--", "true")["run_id"].(string)
	w.json("queue hold cpu")
	w.json("run -d --retry 1", "--", "true")
	for _, args := range []string{
		"runs", "runs ls", "ls", "runs show " + first, "runs show " + far, "runs show " + behind, "runs facts " + first, "runs facts " + far, "runs events " + first,
		"runs metrics " + first, "runs artifacts " + first, "queue", "runs hold " + behind, "runs release " + behind, "runs pin " + first, "runs unpin " + first,
		"queue release cpu", "agent status", "cancel --force " + behind, "runs cancel --force " + long,
	} {
		w.json(args)
	}
	w.ends(1, "runs wait "+long)
	w.json("runs rerun --detach " + far)
	w.json("runs rm " + first)

	swept := w.ends(1, "sweep run sweep.yaml")["sweep_id"].(string)
	scored := w.json("sweep run train.yaml")["sweep_id"].(string)
	w.json("sweep run graph.yaml -d")
	for _, args := range []string{"sweep", "sweep ls", "sweep show " + swept, "sweep show " + scored, "sweep wait " + scored[:12], "sweep rerun --failed " + swept, "sweep cancel " + swept[:12]} {
		w.json(args)
	}
	studied := w.json("study run -n 2 train.py")["study_id"].(string)
	for _, args := range []string{"study", "study ls", "study run -d -n 1 --sweep " + scored[:12], "study show " + studied[:12], "study wait " + studied[:12], "study resume " + studied[:12], "study cancel " + studied[:12]} {
		w.json(args)
	}

	for _, args := range []string{
		"workers drain box1", "workers undrain box1", "workers cordon box1 cpu", "workers ls", "workers uncordon box1 cpu", "workers set box1 cpu --cap 2", "workers share box1 cpu off",
		"workers rekey box1", "agent stop", "workers rm box1", "actions", "agent ssh --status", "stop",
	} {
		w.json(args)
	}
	w.Set("CDUI_CANCEL_GRACE_S", "soon")
	w.json("config explain")
	for path := range w.commands {
		if !w.ran[path] {
			t.Errorf("nothing holds what %s prints with --json against its documents", path)
		}
	}
	w.check.complete(w.commands)
}

// complete compares the documented fields that were not seen with
// testdata/json-unseen.txt: those that this world can't show.
func (c *checker) complete(commands map[string][]env.Document) {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "json-unseen.txt"))
	if err != nil {
		c.t.Fatal(err)
	}
	excused := map[string]bool{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		_, names, _ := strings.Cut(line, ":")
		for name := range strings.FieldsSeq(names) {
			excused[name] = true
		}
	}
	c.book.write(c.t, commands)
	for _, typ := range c.book.order {
		for _, f := range fieldsOf(typ) {
			all, name := c.book.names[typ]+".*", c.book.names[typ]+"."+f.name
			if !c.seen[name] && !excused[name] && !excused[all] {
				c.t.Errorf("%s is documented, but no command printed it", name)
			}
		}
	}
}
