// Package finding is the list of what is wrong with a graph: sentences with
// stable codes, in a fixed order of the kinds, whatever the order in which the
// checks came upon them. It knows nothing of graphs.
package finding

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"cdui/internal/catalog"
	"cdui/internal/sorting"
)

// Finding is one thing that is wrong with a graph.
type Finding struct {
	// Message is a sentence that names the node.
	Message string `json:"message"`
	// Code is stable; docs/graphs.md lists all.
	Code string `json:"code"`
	// NodeID is empty where no single node is at fault.
	NodeID string         `json:"node_id"`
	Params map[string]any `json:"params"`
}

// MarshalJSON writes null for no node and {} for no params.
func (f Finding) MarshalJSON() ([]byte, error) {
	out := struct {
		Message string         `json:"message"`
		Code    string         `json:"code"`
		NodeID  *string        `json:"node_id"`
		Params  map[string]any `json:"params"`
	}{Message: f.Message, Code: f.Code, Params: f.Params}
	if f.NodeID != "" {
		out.NodeID = &f.NodeID
	}
	if out.Params == nil {
		out.Params = map[string]any{}
	}
	return json.Marshal(out)
}

// The codes of findings, in the order in which findings are listed.
const (
	CodeUnreadable         = "unreadable"
	CodeProgram            = "program"
	CodeBypassNotAllowed   = "bypass_not_allowed"
	CodeDuplicateID        = "duplicate_id"
	CodePresetSubgraph     = "preset_with_subgraph"
	CodeUnknownSubgraph    = "unknown_subgraph"
	CodeUnreadableSubgraph = "unreadable_subgraph"
	CodeSubgraphPort       = "subgraph_port"
	CodeTriggerTarget      = "trigger_target"
	CodeRecursion          = "recursion"
	CodeTooDeep            = "too_deep"
	CodeTooLarge           = "too_large"
	CodeBypassNoInput      = "bypass_no_input"
	CodeUnknownType        = "unknown_type"
	CodeUnknownPreset      = "unknown_preset"
	CodeUnreadablePreset   = "unreadable_preset"
	CodePresetPort         = "preset_port"
	CodeMapPreset          = "map_preset"
	CodeMissingInput       = "missing_input"
	CodeMissingInputBypass = "missing_input_bypassed"
	CodeBelowMinimum       = "below_minimum"
	CodeAboveMaximum       = "above_maximum"
	CodeNotANumber         = "not_a_number"
	CodeMissingNode        = "missing_node"
	CodeUnknownOutput      = "unknown_output"
	CodeUnknownInput       = "unknown_input"
	CodeTypeMismatch       = "type_mismatch"
	CodeNoEntryPoint       = "no_entry_point"
	CodeCycle              = "cycle"
	CodeTooMany            = "too_many_findings"
)

// The codes of warnings: the graph runs all the same.
const (
	CodeNewerFormat   = "newer_format"
	CodeAmbiguousType = "ambiguous_type"
)

// Stage is the place of a check in the order of findings.
type Stage int

// The stages of validation, in order.
const (
	StageRead Stage = iota
	StageBypassedContainers
	StageDuplicates
	StagePresetSubgraphs
	StageSubgraphs
	StageBypass
	StageTypes
	StageInputs
	StageRanges
	StageMissingNodes
	StagePorts
	StageMismatches
	StageEntryPoints
	StageCycles
)

// Nobody reads more findings than these, and a suggestion costs a search.
const (
	maxFindings    = 1000
	maxSuggestions = 100
)

// List collects what checks find, whatever their order.
type List struct {
	list        []staged
	dropped     int
	suggestions int
}

type staged struct {
	stage Stage
	Finding
}

// Add adds a finding of a stage. Where no single node is at fault nodeID is
// empty.
func (f *List) Add(s Stage, code, nodeID, message string, params map[string]any) {
	if len(f.list) == maxFindings {
		f.dropped++
		return
	}
	f.list = append(f.list, staged{s, Finding{Message: message, Code: code, NodeID: nodeID, Params: params}})
}

// Len counts what was found so far.
func (f *List) Len() int { return len(f.list) + f.dropped }

// Hints says whether Suggest still answers.
func (f *List) Hints() bool { return f.suggestions < maxSuggestions }

// Until says whether a check up to this stage has found anything.
func (f *List) Until(s Stage) bool {
	return slices.ContainsFunc(f.list, func(x staged) bool { return x.stage <= s })
}

// Sorted gives the findings in the order of the stages.
func (f *List) Sorted() []Finding {
	sorting.Sort(f.list, func(a, b staged) int { return cmp.Compare(a.stage, b.stage) })
	out := make([]Finding, len(f.list))
	for i, s := range f.list {
		out[i] = s.Finding
	}
	if f.dropped > 0 {
		out = append(out, Finding{
			Message: fmt.Sprintf("and %d more findings", f.dropped),
			Code:    CodeTooMany, Params: map[string]any{"dropped": f.dropped},
		})
	}
	return out
}

// Take adds the findings of other that are of one of the stages.
func (f *List) Take(other *List, wanted func(Stage) bool) {
	f.dropped += other.dropped
	for _, x := range other.list {
		if wanted(x.stage) {
			f.Add(x.stage, x.Code, x.NodeID, x.Message, x.Params)
		}
	}
}

// Suggest ends a message with what was likely meant.
func (f *List) Suggest(word string, candidates []string) string {
	if f.suggestions == maxSuggestions {
		return ""
	}
	f.suggestions++
	if near := catalog.Nearest(word, candidates); near != "" && near != word {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// Short cuts an error to what fits into a finding.
func Short(s string) string {
	const limit = 300
	if len(s) <= limit {
		return s
	}
	for end := limit; ; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end] + "…"
		}
	}
}

// Codes lists the codes of findings, in the order in which they are listed.
func Codes() []string {
	return []string{
		CodeUnreadable, CodeProgram, CodeBypassNotAllowed, CodeDuplicateID, CodePresetSubgraph,
		CodeUnknownSubgraph, CodeUnreadableSubgraph, CodeSubgraphPort, CodeTriggerTarget, CodeRecursion,
		CodeTooDeep, CodeTooLarge, CodeBypassNoInput, CodeUnknownType, CodeUnknownPreset,
		CodeUnreadablePreset, CodePresetPort, CodeMapPreset, CodeMissingInput, CodeMissingInputBypass,
		CodeBelowMinimum, CodeAboveMaximum, CodeNotANumber, CodeMissingNode, CodeUnknownOutput,
		CodeUnknownInput, CodeTypeMismatch, CodeNoEntryPoint, CodeCycle, CodeTooMany,
	}
}
