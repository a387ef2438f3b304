//go:build !linux

package shimhost

// sparesWork: what is left of a spare could not be told from a run here.
const sparesWork = false
