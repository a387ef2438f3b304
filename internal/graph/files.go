package graph

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/sorting"
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
	// Below is the folder of the data folder that a written path is relative to.
	Below string `json:"-"`
}

// writesBelow says where in the data folder the types write that take a path.
var writesBelow = map[string]string{"CheckpointSaver": "models", "ImageWriter": "images", "ModelSaver": "models"}

// writtenSuffixes are those that writers put in the place of another one, as the
// format that they were told wants it.
var writtenSuffixes = []string{".safetensors", ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}

// Writes tells whether a place in the data folder is where the node writes its
// file. Only folders of the user count.
func (u FileUse) Writes(place string) bool {
	if !u.Write || u.Below == "" || path.IsAbs(u.Path) {
		return false
	}
	want := path.Join(u.Below, u.Path)
	if folder, _, _ := strings.Cut(want, "/"); !slices.Contains([]string{"data", "images", "models"}, folder) || want == folder {
		return false
	}
	if place == want {
		return true
	}
	suffix := path.Ext(place)
	return slices.Contains(writtenSuffixes, strings.ToLower(suffix)) &&
		strings.TrimSuffix(place, suffix) == strings.TrimSuffix(want, path.Ext(want))
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
	sorting.Sort(uses, func(a, b FileUse) int {
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
		var given string
		if json.Unmarshal(value(d, n.Params, p.Name), &given) == nil && given != "" {
			uses = append(uses, FileUse{NodeID: n.ID, Param: p.Name, Path: given, Write: write, Upload: upload, Below: writesBelow[d.NodeName]})
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
