package fingerprint

import "runtime"

// cores counts those that this process may use.
func cores() int { return runtime.NumCPU() }
