// Package archtest holds the project to its own shape: who may import whom,
// what a pure package may touch, how large files and packages may grow, and
// what no file may say.
//
// It has tests only. Each rule carries its reason, which is what a failure
// prints; a rule that no longer serves is changed here, in the same commit as
// the code that it stood against, with an entry in docs/adr.
package archtest
