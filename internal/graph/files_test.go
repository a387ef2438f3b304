package graph_test

import (
	"testing"

	"cdui/internal/graph"
)

func TestFiles(t *testing.T) {
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},
		{"id":"img","type":"ImageReader","data":{"params":{"path":"cat.png"}}},
		{"id":"none","type":"ImageReader"},
		{"id":"csv","type":"CSVReader"},
		{"id":"m","type":"SequentialModel"},
		{"id":"t","type":"preset:Training Pipeline","data":{"internalParams":{"train_loop":{"checkpoint_every":2}}}},
		{"id":"save","type":"ModelSaver","data":{"params":{"path":"out/m.pt"}}},
		{"id":"draft","type":"CSVReader"}
	],"edges":[
		{"source":"s","target":"img","type":"trigger"},{"source":"s","target":"none","type":"trigger"},
		{"source":"s","target":"csv","type":"trigger"},{"source":"s","target":"m","type":"trigger"},
		{"source":"m","sourceHandle":"model","target":"t","targetHandle":"model"},
		{"source":"m","sourceHandle":"model","target":"t","targetHandle":"model_for_opt"},
		{"source":"t","sourceHandle":"model","target":"save","targetHandle":"model"}
	]}`)
	equal(t, "files", graph.Files(p, labCatalog(t)), []graph.FileUse{
		{NodeID: "csv", Param: "path", Path: "data/samples/iris.csv"},
		{NodeID: "img", Param: "path", Path: "cat.png", Upload: true},
		{NodeID: "save", Param: "path", Path: "out/m.pt", Write: true, Below: "models"},
		{NodeID: "t__dataset", Param: "data_dir", Path: "./data"},
		{NodeID: "t__train_loop", Param: "checkpoint_every", Write: true},
	})
}

// XFER-08: the file of a node that writes one has its place in the data folder,
// and no other file does.
func TestWritersHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	saver := graph.FileUse{Param: "path", Path: "out/m.pt", Write: true, Below: "models"}
	for _, c := range []struct {
		use   graph.FileUse
		place string
		want  bool
	}{
		{saver, "models/out/m.pt", true},
		{saver, "models/out/m.safetensors", true}, // as its format wants it
		{saver, "models/out/m.py", false},
		{saver, "models/out/n.pt", false},
		{saver, "out/m.pt", false},
		{graph.FileUse{Path: "a.b", Write: true, Below: "images"}, "images/a.PNG", true},
		{graph.FileUse{Path: "../data/a.png", Write: true, Below: "images"}, "data/a.png", true},
		{graph.FileUse{Path: "../token", Write: true, Below: "models"}, "token", false},
		{graph.FileUse{Path: "../nodes/x.png", Write: true, Below: "models"}, "nodes/x.png", false},
		{graph.FileUse{Path: "../../x.png", Write: true, Below: "models"}, "../x.png", false},
		{graph.FileUse{Path: "/x/m.pt", Write: true, Below: "models"}, "models/x/m.pt", false},
		{graph.FileUse{Path: ".", Write: true, Below: "models"}, "models", false},
		{graph.FileUse{Path: "m.pt", Below: "models"}, "models/m.pt", false},
		{graph.FileUse{Param: "checkpoint_every", Write: true}, "models/periodic/1.pt", false},
	} {
		if got := c.use.Writes(c.place); got != c.want {
			t.Errorf("%+v writes %s: %t", c.use, c.place, got)
		}
	}
}
