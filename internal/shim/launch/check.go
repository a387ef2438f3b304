package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cdui/internal/protocol"
)

// The codes of children that could not be started.
const (
	CodeEnvironmentTooLarge = "environment_too_large"
	CodeNoSuchProgram       = "no_such_program"
	CodeNoSuchDirectory     = "no_such_directory"
	CodeNotExecutable       = "not_executable"
	CodeNoInterpreter       = "no_such_interpreter"
	CodeStartFailed         = "start_failed"
)

// maxEnvString is what Linux takes for one KEY=VALUE, its end included.
const maxEnvString = 128 << 10

// Fault is why a child could not be started: a stable code and a sentence
// with the mend.
type Fault struct{ Code, Text string }

func fault(code, format string, args ...any) *Fault {
	return &Fault{Code: code, Text: fmt.Sprintf(format, args...)}
}

// The descriptors of a child beyond the standard three.
const (
	childUp   = 3
	childDown = 4
)

// Env adds the names that belong to the run's own sockets and pipes.
func Env(a protocol.Assignment, report string) []string {
	own := []string{"CDUI_RUN_ID=" + a.RunID}
	if report != "" {
		own = append(own, "CDUI_REPORT="+report)
	}
	if a.Kind != protocol.KindCommand {
		own = append(own, fmt.Sprintf("CDUI_CHILD_FDS=%d,%d", childUp, childDown))
	}
	env := make([]string, 0, len(a.Env)+len(own))
	for _, kv := range a.Env {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "CDUI_RUN_ID", "CDUI_REPORT", "CDUI_CHILD_FDS":
		default:
			env = append(env, kv)
		}
	}
	return append(env, own...)
}

// Check looks for what would keep the child from starting.
func Check(a protocol.Assignment, env []string) *Fault {
	_, f := checkStart(a, env)
	return f
}

// checkStart looks for what would keep the child from starting, and finds its
// program.
func checkStart(a protocol.Assignment, env []string) (program string, f *Fault) {
	for _, kv := range env {
		if len(kv)+1 > maxEnvString {
			name, _, _ := strings.Cut(kv, "=")
			return "", fault(CodeEnvironmentTooLarge,
				"environment too large: %s has %d KB, the system takes %d KB for one variable; pass it in a file",
				name, len(kv)>>10, maxEnvString>>10)
		}
		if strings.IndexByte(kv, 0) >= 0 {
			name, _, _ := strings.Cut(kv, "=")
			return "", fault(CodeStartFailed, "environment variable %q holds a NUL byte; leave it out", name)
		}
	}
	if st, err := os.Stat(a.Dir); err != nil || !st.IsDir() {
		return "", fault(CodeNoSuchDirectory, "no such directory: %s; choose another one with --cwd", a.Dir)
	}
	if len(a.Argv) == 0 || a.Argv[0] == "" {
		return "", fault(CodeNoSuchProgram, "no program is given; name one after --")
	}
	return lookPath(a.Argv[0], a.Dir, env)
}

// lookPath finds a program as a shell in dir with that environment would.
func lookPath(name, dir string, env []string) (string, *Fault) {
	if strings.ContainsRune(name, '/') {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, checkProgram(path, name)
	}
	search := "/usr/local/bin:/usr/bin:/bin"
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
		}
	}
	var refused *Fault
	for _, folder := range filepath.SplitList(search) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		path := filepath.Join(folder, name)
		f := checkProgram(path, name)
		if f == nil {
			return path, nil
		}
		if f.Code == CodeNotExecutable {
			refused = f
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", fault(CodeNoSuchProgram, "no such program: %s is not in PATH (%s)", name, search)
}

func checkProgram(path, name string) *Fault {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fault(CodeNotExecutable, "%s can't be reached: permission denied", path)
	case err != nil:
		return fault(CodeNoSuchProgram, "no such program: %s", name)
	case st.IsDir():
		return fault(CodeNotExecutable, "%s is a directory, not a program", path)
	case unix.Access(path, unix.X_OK) != nil:
		return fault(CodeNotExecutable, "%s is not executable; allow it with chmod +x", path)
	}
	return nil
}

// explainStart puts a failed exec into words.
func explainStart(err error, program string, argv, env []string) *Fault {
	switch {
	case errors.Is(err, syscall.E2BIG):
		name, size, total := "", 0, 0
		for _, kv := range env {
			total += len(kv) + 1
			if len(kv) > size {
				name, _, _ = strings.Cut(kv, "=")
				size = len(kv)
			}
		}
		args := 0
		for _, arg := range argv {
			args += len(arg) + 1
		}
		if args > total {
			return fault(CodeEnvironmentTooLarge, "arguments too large: %d KB; pass them in a file", args>>10)
		}
		return fault(CodeEnvironmentTooLarge,
			"environment too large: %s is the largest with %d of %d KB in all; pass it in a file", name, size>>10, total>>10)
	case errors.Is(err, syscall.ENOENT):
		return fault(CodeNoInterpreter, "%s can't be started: %s", program, interpreterOf(program))
	case errors.Is(err, syscall.ENOEXEC):
		return fault(CodeNotExecutable, "%s is no program that this machine can execute; a script needs a first line such as #!/bin/sh", program)
	case errors.Is(err, syscall.EACCES):
		return fault(CodeNotExecutable, "%s can't be executed: permission denied, by its mode or by a disk mounted noexec", program)
	default:
		return fault(CodeStartFailed, "%s can't be started: %v", program, err)
	}
}

// interpreterOf says which interpreter a program asks for in vain.
func interpreterOf(program string) string {
	f, err := os.Open(program)
	if err == nil {
		defer f.Close()
		head := make([]byte, 256)
		n, _ := f.Read(head)
		if line, ok := strings.CutPrefix(string(head[:n]), "#!"); ok {
			line, _, _ = strings.Cut(line, "\n")
			fields := strings.Fields(line)
			if strings.HasSuffix(line, "\r") {
				return "its lines end as on Windows; convert it with dos2unix"
			}
			if len(fields) > 0 {
				return fmt.Sprintf("its interpreter %s does not exist; correct its first line", fields[0])
			}
		}
	}
	return "the interpreter or loader that it needs does not exist"
}
