//go:build !linux || !cgo

package nvmltest

const readsLibrary = false
