// Package bootstrap makes a worker of a machine that has an ssh login and
// nothing else: it looks at it, copies a cdui there that fits, checks that it
// starts, and starts the agent; and it takes all of that away again.
//
// Each step is a script for /bin/sh that is read from standard input, so that
// neither the account's login shell nor what its startup files print matters;
// results stand between marks of the moment. Nothing secret is in a command
// line. The package knows no ssh: whoever calls it hands in a Remote.
package bootstrap
