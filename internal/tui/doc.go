// Package tui is `cdui tui`: everything that runs, waits and works, on one
// screen that stays up to date.
//
// The root model owns the picture that the feed keeps, the size, which screen is
// shown and which dialog is open; it routes messages, lays out the head and the
// foot, and holds nothing that a screen could hold. What a screen shows is its
// own (package screen); parts are dumb (widget, theme, keymap, lang). All I/O
// happens in commands, whose replies are dropped when they come too late. The
// program ends with its context, and leaves the terminal as it found it however
// it ends.
//
// It knows the API through package client alone, and must not import the server.
package tui
