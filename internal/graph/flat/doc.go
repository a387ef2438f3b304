// Package flat reads graph files and expands what is nested in them: it makes
// one flat set of nodes and edges out of subgraph and preset instances, with
// ids that tell where each came from and bounds on how large it may get.
//
// It knows the shape of the format and nothing of types, ports or values; of
// the catalogue it asks for presets alone.
package flat
