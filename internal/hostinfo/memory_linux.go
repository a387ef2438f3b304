package hostinfo

import (
	"os"
	"strconv"
	"strings"
)

// memoryMiB is the machine's memory; nil where it isn't told.
func memoryMiB() *int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return nil
			}
			mib := kib >> 10
			return &mib
		}
	}
	return nil
}
