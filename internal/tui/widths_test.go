package tui_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"cdui/internal/tui/widget"
)

// names are written as people do, and as they shouldn't be.
var names = strings.Fields("plain 訓練 長期預訓練 ｆｕｌｌ ﾊﾝｶｸ 한국어 각 หัวข้อ हिन्दी العربية עברית é é ñ ﷽ Z͑ͫ̓ͪ̂ͫ 🚀 👩\u200d🔬 👨\u200d👩\u200d👧\u200d👦 🇹🇼 🇹 👍🏽 ❤ ❤️ ☺️ ⚠️ 1️⃣ #️⃣ ✓ ✗ … ● ○ ▇ ⠿ ─ ‖ ½ Ω ß ﬀ 𝕏 𓀀 ㊙ ™ © 🀄 ⌚ ☕ ♻️ 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f a\u200bb a\u200db \u202eevil")

// Proves T-04: whatever a person wrote takes as many cells in tmux as the screen
// counts for it, so that no column and no frame is torn.
func TestWideCharactersStayAlignedUnderTmux(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("no tmux; run scripts/deps.sh test")
	}
	dir, err := os.MkdirTemp("", "cdui-w-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sock, told := filepath.Join(dir, "tmux"), filepath.Join(dir, "told")
	cmd := exec.Command("tmux", "-S", sock, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", //nolint:gosec // our own
		fmt.Sprintf("%s=widths '%s' 2>'%s.new'; mv '%s.new' '%s'; sleep 100", childEnv, os.Args[0], told, told, told))
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SHELL=/bin/sh", "TERM=xterm-256color")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", sock, "kill-server").Run() })
	deadline, tick := time.NewTimer(30*time.Second), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for {
		if raw, err := os.ReadFile(told); err == nil {
			lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
			if last := lines[len(lines)-1]; last != fmt.Sprintf("looked at %d", len(names)) || len(lines) > 1 {
				t.Errorf("%s", raw)
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("tmux doesn't tell")
		}
	}
}

// widths writes each name and asks the terminal where the cursor is then.
func widths() int {
	state, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = term.Restore(int(os.Stdin.Fd()), state) }()
	for _, name := range names {
		shown := widget.Plain(name)
		fmt.Printf("\x1b[2J\x1b[1;1H%s\x1b[6n", shown)
		row, col := 0, 0
		if _, err := fmt.Fscanf(os.Stdin, "\x1b[%d;%dR", &row, &col); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if want := ansi.StringWidth(shown); row != 1 || col-1 != want {
			fmt.Fprintf(os.Stderr, "%+q, shown as %+q, counts for %d cells and takes %d\n", name, shown, want, col-1)
		}
	}
	fmt.Fprintf(os.Stderr, "looked at %d\n", len(names))
	return 0
}
