// Package runcmd is `cdui run`: it reads flags, looks at the file and at the
// surroundings that it was called in (interpreter, environment, checkout),
// makes a submit of them, and follows the run.
//
// Looking is apart from deciding: build is a pure function of what was found.
package runcmd
