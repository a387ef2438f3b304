// Package config reads cdui's settings: where each one came from, what it is,
// and what is wrong with it.
//
// A setting is looked for in this order: its flag, CDUI_<NAME>,
// CODEFYUI_<NAME>, the config file, its default. The registry (Settings) is
// the one list of them; `cdui config explain` prints it. The package reads the
// config file, changes the contexts in it, and asks about folders; it knows
// neither server nor client.
package config
