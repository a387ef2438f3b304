package api

import "time"

// PathActions is the log of actions.
const PathActions = "/api/actions"

// Action is one change that somebody asked for and that was made: who did what
// to what, when, from where.
type Action struct {
	Seq int64     `json:"seq"`
	TS  time.Time `json:"ts"`
	// User is the name of the token that was used, LocalUser for the control
	// plane's own, empty where none was.
	User string `json:"user"`
	// From is the address that the request came from.
	From string `json:"from"`
	Verb string `json:"verb"`
	// Kind says what was changed: run, queue, worker, device, tunnel, token, sweep,
	// study, graph, hook, database or server; ID which one.
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Detail string `json:"detail"`
}

// LocalUser is whoever holds the control plane's own token.
const LocalUser = "local"

// ActionList is the reply of GET /api/actions, newest first.
type ActionList struct {
	Actions []Action `json:"actions"`
}
