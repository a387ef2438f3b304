// Package wire is the contract between a shim and its host: the names of the
// files in a run's folder, the documents in them, the messages of the socket
// and the descriptors and flags that a shim is started with.
//
// docs/shim.md describes all of it; internal/shim/testdata pins the bytes.
// The package holds types and codecs, and knows no process and no socket.
package wire
