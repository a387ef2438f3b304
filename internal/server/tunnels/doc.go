// Package tunnels keeps the control plane's ways to workers through ssh up: it
// opens a listener at the other end of a connection, sees that what connects
// there arrives here, tells the worker where it is, and does all of it again
// when the connection breaks.
//
// # Authority
//
// What is kept of a tunnel is in the store and holds no secret. What a person
// typed to open one is in this package's memory, for the times that it breaks;
// after a restart of the control plane such a tunnel needs a login. One
// goroutine owns each tunnel, and List shows what it last said.
//
// # Each time another end
//
// The listener is a socket with a new name, or a port of the other machine's
// choice, each time: an sshd that has not noticed the break yet holds the old
// one, and what is connected there leads nowhere. A tunnel counts as up when the
// other machine has seen this control plane's key through it, and the agent
// hears of the new end after that. Nobody is believed for standing at an old
// one: agents check the key before they send anything.
//
// The package speaks no HTTP of its own; what is served at a tunnel's end is
// handed in.
package tunnels
