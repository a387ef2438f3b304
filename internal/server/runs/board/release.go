//go:build !race && !cdui_debug

package board

const debug = false
