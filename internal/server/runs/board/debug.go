//go:build race || cdui_debug

package board

// debug builds, and all that run under the race detector, hold each plan
// against what was promised.
const debug = true
