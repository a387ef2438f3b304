// Package examples holds the example that `cdui demo` runs, so that the demo
// needs nothing but the binary and a Python with PyTorch.
package examples

import "embed"

// FS holds digits/train.py and its data.
//
//go:embed digits/train.py digits/digits.csv.gz
var FS embed.FS
