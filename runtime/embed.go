// Package pysrc holds the sources of the Python package cdui, as they are
// unpacked for children. It stands here because an embedding file must stand
// above what it embeds; internal/pyruntime is the only one to use it.
package pysrc

import "embed"

// FS holds the folder cdui. The globs are explicit: embedding the folder
// itself would drop __init__.py and take __pycache__.
//
//go:embed cdui/*.py cdui/nodes/*.py cdui/py.typed
var FS embed.FS
