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
		{NodeID: "save", Param: "path", Path: "out/m.pt", Write: true},
		{NodeID: "t__dataset", Param: "data_dir", Path: "./data"},
		{NodeID: "t__train_loop", Param: "checkpoint_every", Write: true},
	})
}
