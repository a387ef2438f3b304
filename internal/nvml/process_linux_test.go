package nvml

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Proves W-02 for run_id: a process of a run says which, other processes say
// nothing.
func TestAProcessNamesItsRun(t *testing.T) {
	if here, err := os.Readlink("/proc/self/ns/pid"); err != nil || here != hostNamespace {
		t.Skip("pids are told of the host's processes alone, and this is a PID namespace of its own")
	}
	id := strings.Repeat("0123456789abcdef", 2)
	for env, want := range map[string]string{runVariable + "=" + id: id, runVariable + "=../../etc": "", "OTHER=1": ""} {
		child := exec.CommandContext(t.Context(), "sleep", "60")
		child.Env = []string{env}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		used := int64(7)
		list := (&userNames{}).describe([]usage{{pid: int64(child.Process.Pid), mib: &used}})
		_ = child.Process.Kill()
		_ = child.Wait()
		got := ""
		if len(list) == 1 && list[0].RunID != nil {
			got = *list[0].RunID
		}
		if got != want || len(list) != 1 || list[0].Name == nil {
			t.Errorf("%s: run %q, want %q (%+v)", env, got, want, list)
		}
	}
}
