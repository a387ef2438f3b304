package pyruntime

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// noRedirect says of one rank that it is not redirected, which is the default.
const noRedirect = "9:0"

// rendezvous gives what keeps two distributed runs on one machine from
// meeting. torchrun listens on port 29500 unless told otherwise, so a launch
// for this machine alone that names no meeting point gets one with a port of
// the kernel's choice. Any other program gets port in the usual variables.
func rendezvous(argv []string, port int) map[string]string {
	if launch := torchrunArgs(argv); launch != nil {
		if !oneMachine(launch) {
			return nil
		}
		return map[string]string{
			"PET_RDZV_BACKEND":  "c10d",
			"PET_RDZV_ENDPOINT": "localhost:0",
			// Newer releases meet at the machine's full name, which need not resolve.
			"PET_LOCAL_ADDR": "localhost",
			// torchrun of PyTorch 1.13 fails under Python 3.11 unless both are
			// given as a map.
			"PET_REDIRECTS": noRedirect,
			"PET_TEE":       noRedirect,
		}
	}
	if port <= 0 {
		return nil
	}
	p := strconv.Itoa(port)
	return map[string]string{"PET_MASTER_PORT": p, "MASTER_PORT": p}
}

// torchrunArgs gives the arguments of a torchrun launch, nil if argv is none.
func torchrunArgs(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	name := filepath.Base(argv[0])
	if name == "torchrun" {
		return argv[1:]
	}
	if !strings.HasPrefix(name, "python") {
		return nil
	}
	for i, arg := range argv[1:] {
		switch {
		case arg == "-m":
			rest := argv[i+2:]
			if len(rest) > 0 && slices.Contains([]string{"torch.distributed.run", "torch.distributed.launch"}, rest[0]) {
				return rest[1:]
			}
			return nil
		case !strings.HasPrefix(arg, "-"):
			return nil // a script
		}
	}
	return nil
}

// oneMachine tells whether the launcher's flags leave the meeting point open.
// They end where the training script begins.
func oneMachine(args []string) bool {
	for i, arg := range args {
		if arg == "--" || strings.HasSuffix(arg, ".py") {
			break
		}
		flag, isFlag := strings.CutPrefix(arg, "--")
		if !isFlag {
			continue
		}
		flag, value, inline := strings.Cut(strings.ReplaceAll(flag, "-", "_"), "=")
		if !inline && i+1 < len(args) {
			value = args[i+1]
		}
		if flag == "nnodes" && value != "1" && value != "1:1" {
			return false
		}
		for _, placed := range []string{"rdzv_", "master_", "standalone", "node_rank"} {
			if strings.HasPrefix(flag, placed) {
				return false
			}
		}
	}
	return true
}

// FreePort gives a TCP port that nobody on this machine listens on now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil || !ok {
		return 0, fmt.Errorf("find a free port: %s: %w", l.Addr(), err)
	}
	return addr.Port, nil
}
