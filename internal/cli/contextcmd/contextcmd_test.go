package contextcmd_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/cli/clitest"
	"cdui/internal/cli/contextcmd"
	"cdui/internal/cli/env"
)

// do runs a command and gives its error.
func do(t *testing.T, e *clitest.Env, words ...string) error {
	t.Helper()
	cmd := contextcmd.New(e.Env)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(words)
	return cmd.ExecuteContext(t.Context())
}

func TestListFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{0, 40, 80, 120} {
		e := clitest.New(t, columns)
		for _, words := range [][]string{
			{"add", "lab", "lab.example.org:8000", "--pin", "sha256:" + strings.Repeat("4b", 32), "--use"},
			{"add", "prod", "https://cdui.example.org"},
			{"add", "box", "http://192.0.2.7:8000"},
		} {
			if err := do(t, e, words...); err != nil {
				t.Fatal(err)
			}
		}
		e.Stdout = &clitest.Buffer{}
		e.Out = e.Stdout
		if err := do(t, e, "ls"); err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, fmt.Sprintf("ls-%d", columns), e.Stdout.String())
	}
}

func TestAFileThatCannotBeWrittenIsSaidSo(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	if err := os.WriteFile(filepath.Join(e.Dir, ".config"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := do(t, e, "add", "lab", "https://lab")
	if err == nil || !strings.Contains(err.Error(), "config.toml") {
		t.Errorf("%v", err)
	}
}

func TestAConfigFileOfAnUnusualLayoutIsLeftAlone(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	path := filepath.Join(e.Dir, ".config", "cdui", "config.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	const text = "contexts = { lab = { url = 'https://lab' } } # all on one line\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e.In = strings.NewReader("s3cret\n")
	err := do(t, e, "add", "home", "https://home", "--token-stdin")
	var exit *env.Exit
	if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(exit.Text, "by hand") {
		t.Errorf("%v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != text {
		t.Errorf("it is now %q", got)
	}
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(path), "tokens")); err == nil && len(left) > 0 {
		t.Errorf("a token was left: %v", left)
	}
	if err := do(t, e, "use", "lab"); err != nil {
		t.Errorf("what can be changed in it: %v", err)
	}
}
