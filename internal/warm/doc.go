// Package warm decides which spares a machine keeps: children that were started
// ahead of their runs, with torch imported.
//
// It is pure: Decide makes actions of a State and the time, RecipeOf tells what
// a spare for runs like a given one is, Serves whether one would serve a run.
// The package below, stock, carries the actions out. Neither knows how a run
// comes to be placed on a device.
package warm
