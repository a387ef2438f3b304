// Package agentcmd is `cdui agent`: it starts the agent of this machine in the
// foreground or in the background, and stops and shows the ones that run. What
// an agent does is package agent's.
//
// One-time tokens come in by flag, variable or standard input. Those that came
// by flag or variable are taken out of this process's arguments and
// environment, where others can read them, before anything else happens.
package agentcmd
