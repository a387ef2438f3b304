// Package cli is the command line: the root of the command tree, the small
// commands, and the one place where errors become exit codes.
//
// Nouns that are big enough have packages of their own below it. They get an
// Env and make *cobra.Commands; nothing but this package builds an Env from
// the real world. Run, stop and status may import the server to start it;
// nothing here may reach into the store.
package cli
