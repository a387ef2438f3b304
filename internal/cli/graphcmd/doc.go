// Package graphcmd is validate, nodes and presets: what one asks of graphs and
// of what they are made of, without running anything.
//
// They ask the control plane, which knows the user's own node types too; where
// none runs they answer from what ships with the program, and say so.
package graphcmd
