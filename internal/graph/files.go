package graph

import (
	"cmp"
	"encoding/json"
	"slices"

	"cdui/internal/catalog"
)

// FileUse is a file or folder that a node of a graph reads or writes.
type FileUse struct {
	NodeID string `json:"node_id"`
	Param  string `json:"param"`
	// Path is as the graph gives it; empty where the node chooses one itself.
	Path  string `json:"path"`
	Write bool   `json:"write"`
	// Upload says that the param is one of those that uploads fill.
	Upload bool `json:"upload"`
}

// filePaths lists the params, by type, that are paths without saying so by
// their own type; true where the node writes.
var filePaths = map[string]map[string]bool{
	"CSVReader":          {"path": false},
	"CheckpointSaver":    {"path": true},
	"Dataset":            {"data_dir": false},
	"FileReader":         {"path": false},
	"ImageBatchReader":   {"directory": false},
	"ImageFolderDataset": {"root": false, "path": false, "directory": false},
	"ImageWriter":        {"path": true},
	"ModelSaver":         {"path": true},
}

// checkpointing lists the params that make a TrainingLoop write files, when
// they are more than 0 or true.
var checkpointing = []string{"checkpoint_every", "checkpoint_every_steps", "tensorboard"}

// Files lists what the nodes of a prepared graph read and write, by node and
// param. A param that isn't given counts with its default, one that is empty
// doesn't count.
func Files(p Prepared, cat *catalog.Catalog) []FileUse {
	var uses []FileUse
	add := func(nodes []PreparedNode) {
		for _, n := range nodes {
			if d, _, ok := cat.Node(n.Type); ok {
				uses = append(uses, fileUses(n, d)...)
			}
		}
	}
	add(p.Nodes)
	for _, preset := range p.Presets {
		add(preset.Nodes)
	}
	slices.SortStableFunc(uses, func(a, b FileUse) int {
		return cmp.Or(cmp.Compare(a.NodeID, b.NodeID), cmp.Compare(a.Param, b.Param), cmp.Compare(a.Path, b.Path))
	})
	return uses
}

func fileUses(n PreparedNode, d catalog.Definition) []FileUse {
	var uses []FileUse
	for _, p := range d.Params {
		write, isPath := filePaths[d.NodeName][p.Name]
		upload := p.ParamType == catalog.ParamModelFile || p.ParamType == catalog.ParamImageFile || p.ParamType == catalog.ParamDataFile
		if !isPath && !upload || hidden(d, p, n.Params) {
			continue
		}
		var path string
		if json.Unmarshal(value(d, n.Params, p.Name), &path) == nil && path != "" {
			uses = append(uses, FileUse{NodeID: n.ID, Param: p.Name, Path: path, Write: write, Upload: upload})
		}
	}
	if d.NodeName == "TrainingLoop" {
		for _, name := range checkpointing {
			if isOn(value(d, n.Params, name)) {
				uses = append(uses, FileUse{NodeID: n.ID, Param: name, Write: true})
			}
		}
	}
	return uses
}

func isOn(raw json.RawMessage) bool {
	if string(raw) == "true" {
		return true
	}
	n, ok := leadingInt(raw)
	return ok && n > 0
}
