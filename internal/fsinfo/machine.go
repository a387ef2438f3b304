package fsinfo

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
)

// MachineID names this machine, so that a file that another machine wrote into
// a shared home can be told from one of ours. It is a hash, since the system's
// own id is not for publishing; empty when nothing identifies the machine.
func MachineID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		b, err := os.ReadFile(path)
		if id := strings.TrimSpace(string(b)); err == nil && id != "" && id != "uninitialized" {
			return machineHash(id)
		}
	}
	if id := platformMachineID(); id != "" {
		return machineHash(id)
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		return ""
	}
	return machineHash("host:" + name)
}

func machineHash(id string) string {
	sum := sha256.Sum256([]byte("cdui machine " + id))
	return hex.EncodeToString(sum[:16])
}
