// Package catalog knows which node types and presets there are: their ports,
// params and defaults, as GET /api/nodes serves them, a hash of each type, and
// the difference between two catalogues.
//
// It owns the definitions of the built-in types, which are generated from the
// Python side (make gen), and the built-in presets. It reads no files, runs no
// Python, and doesn't know what a graph is.
package catalog
