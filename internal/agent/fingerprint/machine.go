package fingerprint

import "cdui/internal/fsinfo"

// machineID is a hash, and the same for every cdui process of this machine:
// together with the address of the connection it tells the control plane
// whether worker and server share their cards.
func machineID() string { return fsinfo.MachineID() }
