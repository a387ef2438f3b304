package e2e_test

import (
	"strings"
	"testing"

	"cdui/internal/run"
)

// A script that fails twice goes on from its checkpoint each time; who follows
// it and who waits for it see the last repetition. Proves R-05 for
// checkpoint_dir.
func TestAFailedScriptIsRepeatedFromItsCheckpoint(t *testing.T) {
	p := newPlane(t)
	p.start()
	script := p.file("flaky.py", `import os, sys, cdui
path = os.path.join(cdui.checkpoint_dir(), "step")
step = int(open(path).read()) if os.path.exists(path) else 0
os.makedirs(os.path.dirname(path), exist_ok=True)
open(path, "w").write(str(step + 1))
print("at step", step, flush=True)
sys.exit(3 if step < 2 else 0)
`)
	out, code := p.try("run", "--retry", "3", "--retry-delay", "100ms", script)
	if code != 0 || strings.Count(out, "repeated as ") != 2 || !strings.Contains(out, "at step 0") || !strings.Contains(out, "at step 2") {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	first := p.run("--retry", "1", "--retry-delay", "100ms", "--", "false")
	after := p.run("--after", first+":any", "--", "true")
	if out, code := p.try("runs", "wait", first); code != 1 || !strings.Contains(out, "failed") {
		t.Errorf("waiting for it: exit %d, %s", code, out)
	}
	if v := p.ended(after); v.Status != run.Succeeded {
		t.Errorf("who waits for it: %s", v.Status)
	}
	shown := p.cdui("runs", "show", first)
	if !strings.Contains(shown, "repeated as") {
		t.Errorf("it says nothing of its repetition:\n%s", shown)
	}
	if out, code := p.try("run", "--retry-on", "killed", "--", "true"); code != 2 || !strings.Contains(out, "--retry says how often") {
		t.Errorf("--retry-on alone: exit %d, %s", code, out)
	}
	if out, code := p.try("run", "--retry", "1", "--retry-on", "sunshine", "--", "true"); code != 2 || !strings.Contains(out, `on names "sunshine"`) {
		t.Errorf("an end that there isn't: exit %d, %s", code, out)
	}
}
