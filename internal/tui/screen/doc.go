// Package screen holds the screens, a type for each: what it shows of the
// world, what it reads beside it, and what its keys ask for. Every screen owns
// its cursor, its filter and its replies, which it drops when they come too
// late; I/O happens in commands alone. Screens know the world, widgets, keys and
// language, no other screen and no terminal.
package screen
