package portinfo

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stateListen is TCP_LISTEN in /proc/net/tcp.
const stateListen = "0A"

func listener(port uint16) (pid int, name string, ok bool) {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listening(table, port, inodes)
	}
	if len(inodes) == 0 {
		return 0, "", false
	}
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, "", false
	}
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil || !inodes[target] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		pid, err := strconv.Atoi(filepath.Base(dir))
		comm, readErr := os.ReadFile(filepath.Join(dir, "comm"))
		if err == nil && readErr == nil {
			return pid, strings.TrimSpace(string(comm)), true
		}
	}
	return 0, "", false
}

// listening adds the sockets of table that listen on port, as the links in
// /proc/<pid>/fd name them.
func listening(table string, port uint16, inodes map[string]bool) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	want := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], want) && fields[3] == stateListen {
			inodes["socket:["+fields[9]+"]"] = true
		}
	}
}
