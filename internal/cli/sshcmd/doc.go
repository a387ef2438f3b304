// Package sshcmd is `cdui agent ssh`: it makes a worker of a machine with an ssh
// login, and shows, stops, upgrades and removes such workers.
//
// It logs in itself, so that whoever types sees every question; what was typed
// goes to the control plane, which holds the tunnel from then on, in the body of
// one request to this very machine and into no file.
package sshcmd
