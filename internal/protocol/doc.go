// Package protocol is the vocabulary that crosses the boundary between the
// control plane and whatever executes a run: the records that a shim spools,
// the assignment that it is given, and every frame of /ws/worker, the
// connection between an agent and the control plane.
//
// A record is marshalled once, by the shim, and keeps those bytes in the
// spool, on the wire and in the store: whoever passes it on forwards Raw.
// Frames evolve by addition alone: unknown fields are ignored, unknown types
// are skipped, and what is new has a Capability that both ends must list.
// docs/protocol.md describes all of it; testdata/transcripts pins the bytes.
//
// The package holds types, limits, codecs and pure accounting only. It knows
// nothing of files, sockets, databases or the clock, and nothing in it is
// shared between goroutines.
package protocol
