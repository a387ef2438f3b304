// Package run holds what a run is: its row, its options, the status machine,
// why it waits, why it ended, and the payloads of the events that tell of it.
//
// Everything here is a value or a pure function. Who may change a run, and
// when, is decided by Next; package server/runs is the only one to act on it.
// The package does no I/O, takes no lock, reads no clock and starts nothing.
package run
