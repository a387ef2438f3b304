// Package supervise decides what an agent does next about its runs: a pure
// function from what the control plane ordered and what is there on this
// machine to the actions that bring the one closer to the other.
//
// It owns nothing: the agent keeps the state, calls Step at each change, and
// carries out what it says. Step is asked again as often as one likes; an
// action that is under way shows in the state, so it is not asked for twice.
// The package knows no clock, no process and no connection.
package supervise
