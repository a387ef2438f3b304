// Package env is what a command is given of the world: streams, environment,
// clock, settings and a client, and the kinds of error that decide its exit
// code.
//
// Commands reach nothing of this but through their Env, so that tests run them
// against buffers and a fake control plane. The package knows no command.
package env
