// Package protocol is the vocabulary that crosses the boundary between the
// control plane and whatever executes a run: the records that a shim spools
// and the assignment that it is given.
//
// A record is marshalled once, by the shim, and keeps those bytes in the
// spool, on the wire and in the store: whoever passes it on forwards Raw.
//
// The package holds types, limits and codecs only. It knows nothing of files,
// sockets, databases or the clock.
package protocol
