// Package graph knows the graph.json format: it parses graph files, expands
// subgraphs and presets, resolves muted nodes, finds what runs, checks it, and
// prepares what the Python engine executes. It also knows which graphs are a
// whole program of their own (a Script or a Command).
//
// Everything is a function of bytes and a catalogue: it reads no files, executes
// nothing, and doesn't know who asks. What is wrong with a graph is returned as
// findings, all at once and in a fixed order; docs/graphs.md lists their codes.
package graph
