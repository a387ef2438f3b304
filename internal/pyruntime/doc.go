// Package pyruntime is what the control plane and agents know of Python: the
// embedded package cdui and its unpacked copy, interpreters and what they
// hold, and the argv and environment of a child.
//
// Unpacked copies live in <data>/runtime/<digest>/ and are never changed, so
// a child that outlives an upgrade still finds the sources it began with.
// Environments are built by pure functions from allow-lists. The package
// starts interpreters to ask them questions, never to run user code.
package pyruntime
