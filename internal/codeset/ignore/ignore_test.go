package ignore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/codeset/ignore"
)

func TestTheLastMatchingRuleWins(t *testing.T) {
	const rules = `# comment
*.pt
!best.pt
/build/
logs/*.txt
**/cache
a/**/z
data/**
foo[0-9!x].py
[!a]only
\#hash
\!bang
keep\ 
`
	rs := ignore.Parse([]byte("\ufeff" + strings.ReplaceAll(rules, "\n", "\r\n")))
	for _, c := range []struct {
		path string
		dir  bool
		want ignore.Verdict
	}{
		{"x.pt", false, ignore.Ignored},
		{"deep/x.pt", false, ignore.Ignored},
		{"deep/best.pt", false, ignore.Kept},
		{"build", true, ignore.Ignored},
		{"build", false, ignore.Silent},
		{"sub/build", true, ignore.Silent},
		{"logs/a.txt", false, ignore.Ignored},
		{"logs/sub/a.txt", false, ignore.Silent},
		{"x/logs/a.txt", false, ignore.Silent},
		{"cache", true, ignore.Ignored},
		{"q/w/cache", false, ignore.Ignored},
		{"a/z", false, ignore.Ignored},
		{"a/b/c/z", false, ignore.Ignored},
		{"data", true, ignore.Silent},
		{"data/x/y", false, ignore.Ignored},
		{"foo7.py", false, ignore.Ignored},
		{"foo!.py", false, ignore.Ignored},
		{"foo-.py", false, ignore.Silent},
		{"bonly", false, ignore.Ignored},
		{"aonly", false, ignore.Silent},
		{"#hash", false, ignore.Ignored},
		{"!bang", false, ignore.Ignored},
		{"keep ", false, ignore.Ignored},
		{"keep", false, ignore.Silent},
		{"bad\xff.pt", false, ignore.Ignored},
		{"line\nbreak.pt", false, ignore.Ignored},
	} {
		if got := rs.Match(c.path, c.dir); got != c.want {
			t.Errorf("%q (folder %v): %v, want %v", c.path, c.dir, got, c.want)
		}
	}
}

// A pattern with many stars takes no longer than it must.
func TestManyStarsAreQuick(t *testing.T) {
	rs := ignore.Parse([]byte(strings.Repeat("*a", 60) + "b"))
	if rs.Match(strings.Repeat("a", 250), false) != ignore.Silent {
		t.Error("it matches")
	}
}

// The rules mean what git says they mean. Its answers are asked in one go.
func TestRulesMeanWhatGitMeans(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git here")
	}
	dir := t.TempDir()
	run := func(input []byte, args ...string) []byte {
		cmd := exec.Command(git, append([]string{"-C", dir, "-c", "core.excludesFile=", "-c", "core.ignoreCase=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		cmd.Stdin = bytes.NewReader(input)
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); err != nil && code != 1 {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	run(nil, "init", "-q")
	rnd := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "ab", "*", "**", "?", "/", "[ab]", "[!a]", "[^b-c]", "[]a]", "[a-", `\a`, `\*`, " ", `\ `, "[[:alpha:]]", "[[:digit:]x]", "[[:nope:]]", "[a", ".", "-", "!", "#", "[\\]]", "]"}
	// Only paths without folders that git would have to look at: check-ignore
	// takes names of files that are not there.
	names := []string{"a", "b", "ab", "c", "aa", "a-", "a*", "]", "[", " ", "a ", "#", "!", ".", "x1", "-"}
	var paths []string
	for _, n := range names {
		if n == "." {
			continue
		}
		paths = append(paths, n)
		for _, m := range names {
			if m != "." {
				paths = append(paths, n+"/"+m, "a/"+n+"/"+m)
			}
		}
	}
	input := []byte(strings.Join(paths, "\x00") + "\x00")
	for round := range 60 {
		var file strings.Builder
		for range 1 + rnd.IntN(3) {
			for range 1 + rnd.IntN(5) {
				file.WriteString(pieces[rnd.IntN(len(pieces))])
			}
			file.WriteString("\n")
		}
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(file.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		ignored := map[string]bool{}
		for name := range bytes.SplitSeq(run(input, "check-ignore", "--no-index", "-z", "--stdin"), []byte{0}) {
			ignored[string(name)] = true
		}
		rs := ignore.Parse([]byte(file.String()))
		for _, path := range paths {
			if got := walkIgnores(rs, path); got != ignored[path] {
				t.Fatalf("round %d: %q under rules %q: %v, git says %v", round, path, file.String(), got, ignored[path])
			}
		}
	}
}

// walkIgnores asks for each folder on the way first, as a walk does.
func walkIgnores(rs ignore.Rules, path string) bool {
	for i := range path {
		if path[i] == '/' && rs.Match(path[:i], true) == ignore.Ignored {
			return true
		}
	}
	return rs.Match(path, false) == ignore.Ignored
}

func ExampleRules_Match() {
	rs := ignore.Parse([]byte("*.pt\n!best.pt\n"))
	fmt.Println(rs.Match("runs/last.pt", false) == ignore.Ignored, rs.Match("runs/best.pt", false) == ignore.Kept)
	// Output: true true
}
