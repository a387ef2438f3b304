// Package examples holds the example that `cdui demo` runs, so that the demo
// needs nothing but the binary and a Python with PyTorch.
package examples

import "embed"

// FS holds the digits example, as a script and as a graph, and its data.
//
//go:embed digits/train.py digits/graph.json digits/digits.csv.gz
var FS embed.FS
