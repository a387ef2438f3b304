//go:build race

package store_test

// raceEnabled: SQLite is Go code here, and the race detector slows it down
// some twenty times.
const raceEnabled = true
