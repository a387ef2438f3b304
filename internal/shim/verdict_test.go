package shim

import (
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"cdui/internal/childproto"
	"cdui/internal/protocol"
	"cdui/internal/shim/launch"
)

func exited(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }

func signaled(sig syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(sig) }

// Proves R-03, C8.
func TestVerdict(t *testing.T) {
	stuck := []protocol.KilledProcess{{PID: 7, Name: "python"}}
	for _, c := range []struct {
		name string
		e    end
		want string // status, end class, code, error
	}{
		{"exit 0", end{status: exited(0)}, "succeeded|||"},
		{"exit 3", end{status: exited(3)}, "failed|user_code||exit code 3"},
		{"exit 137 is only an exit code", end{status: exited(137)}, "failed|user_code||exit code 137"},
		{"a signal", end{status: signaled(9)}, "failed|killed||killed by signal 9 (SIGKILL)"},
		{"a crash", end{status: signaled(11)}, "failed|killed||killed by signal 11 (SIGSEGV)"},
		{"a signal with evidence", end{status: signaled(9), oom: "process 7 was killed for memory"}, "failed|out_of_memory|out_of_memory|process 7 was killed for memory"},
		{
			"the child's own words",
			end{status: exited(1), said: &childproto.Up{Status: "failed", Error: "ValueError: bad", ErrorType: "ValueError"}},
			"failed|user_code||ValueError: bad",
		},
		{
			"the child saw itself run out of memory",
			end{status: exited(1), said: &childproto.Up{Error: "CUDA out of memory", EndClass: "out_of_memory"}},
			"failed|out_of_memory||CUDA out of memory",
		},
		{
			"an end class that a child can't claim",
			end{status: exited(1), said: &childproto.Up{Error: "x", EndClass: "timeout"}},
			"failed|user_code||x",
		},
		{"success is for the exit status to say", end{status: exited(0), said: &childproto.Up{Status: "failed", Error: "x"}}, "succeeded|||"},
		{"cancelled, whatever the exit", end{status: exited(1), cause: stoppedByCancel}, "cancelled|cancelled||"},
		{"cancelled and left well", end{status: exited(0), cause: stoppedByCancel}, "cancelled|cancelled||"},
		{
			"cancelled and killed",
			end{status: signaled(9), cause: stoppedByCancel, killed: true, grace: 2 * time.Second},
			"cancelled|cancelled||did not stop within 2s and was killed",
		},
		{"force needs no words", end{status: signaled(9), cause: stoppedByCancel, killed: true}, "cancelled|cancelled||"},
		{
			"time limit",
			end{status: signaled(15), cause: stoppedByLimit, limit: time.Minute},
			"failed|timeout|time_limit|ran longer than its time limit of 1m0s",
		},
		{
			"keeper gone",
			end{status: signaled(9), cause: stoppedByKeeperLoss},
			"interrupted|killed|supervisor_killed|the process that watches over the run was killed from outside",
		},
		{
			"stuck beats all",
			end{cause: stoppedByCancel, stuck: stuck, wait: time.Minute},
			"failed|killed|process_stuck|process 7 (python) is still there 1m0s after SIGKILL; the kernel holds it, often a driver or a network disk",
		},
		{"could not start", end{startFault: &launch.Fault{Code: "no_such_program", Text: "no such program: x"}}, "failed|user_code|no_such_program|no such program: x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := verdict(c.e)
			if got := strings.Join([]string{f.Status, f.EndClass, f.Code, f.Error}, "|"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.e.startFault == nil && (f.Exit.Code == nil) == (f.Exit.Signal == nil) {
				t.Errorf("exit is %+v", f.Exit)
			}
		})
	}
}

// Proves R-03, STO-03.
func TestTailIsValidAndShort(t *testing.T) {
	for _, in := range []string{"", "short", strings.Repeat("é", 5000), strings.Repeat("\xff", 9000), strings.Repeat("x", 4095) + "é"} {
		got := tailText([]byte(in), 4096)
		if len(got) > 4096 || !utf8.ValidString(got) {
			t.Errorf("%.20q: %d bytes", in, len(got))
		}
	}
	if got := tailText([]byte("xé"), 2); got != "é" {
		t.Errorf("%q", got)
	}
}

// W-09: what a script took is told after all else; why it failed stays.
func TestLaterWordsOnlyAdd(t *testing.T) {
	t.Parallel()
	took := childproto.Up{PeakMemory: []byte(`{"cuda:0":{"mib":512,"exact":true}}`)}
	f := verdict(end{status: exited(0), said: took.After(nil)})
	if f.Status != "succeeded" || f.PeakMemory["cuda:0"] != (protocol.PeakMemory{MiB: 512, Exact: true}) {
		t.Errorf("got %+v", f)
	}
	said := childproto.Up{Status: "failed", Error: "CUDA out of memory", ErrorType: "OutOfMemoryError", EndClass: "out_of_memory"}.After(nil)
	f = verdict(end{status: exited(1), said: took.After(said)})
	if f.EndClass != "out_of_memory" || f.Error != "CUDA out of memory" || f.PeakMemory["cuda:0"].MiB != 512 {
		t.Errorf("got %+v", f)
	}
	if f = verdict(end{status: exited(3), said: took.After(nil)}); f.Error != "exit code 3" || len(f.PeakMemory) != 1 {
		t.Errorf("got %+v", f)
	}
}
