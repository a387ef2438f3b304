//go:build race

package shimhost_test

// raceEnabled tells that the race detector is built in, which needs memory.
const raceEnabled = true
