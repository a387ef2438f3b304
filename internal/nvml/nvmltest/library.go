//go:build linux && cgo

package nvmltest

const readsLibrary = true
