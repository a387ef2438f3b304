// Package client talks to a control plane: it finds one (Discover), calls its
// REST API with the types of package api, follows a run's log and console, and
// tells "nobody answers" (*Unreachable) from "it says no" (*api.Error).
//
// A Client holds no state of runs. It is safe for concurrent use. When the
// connection breaks it asks its Place function again, so that a control plane
// that came back on another port is found. It must not know the server's
// packages, the store or the command line.
package client
