package graphcmd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

// showNode prints all of a node type.
func showNode(e *env.Env, d catalog.Definition) error {
	style := e.Style()
	head := d.Category
	if d.Provider != "builtin" && d.Provider != "" {
		head += ", " + d.Provider
	}
	e.Print("%s  %s", style.Paint(text.Bold, phrase.Clean(d.NodeName)), style.Paint(text.Grey, phrase.Clean(head)))
	for _, about := range []string{d.Description, d.Details} {
		if about = phrase.Clean(about); about != "" {
			for _, line := range text.Wrap(about, style.Width) {
				e.Print("%s", line)
			}
		}
	}
	if err := ports(e, "inputs", d.Inputs); err != nil {
		return err
	}
	if err := ports(e, "outputs", d.Outputs); err != nil {
		return err
	}
	if len(d.Params) == 0 {
		return nil
	}
	e.Print("\n%s", style.Paint(text.Grey, "params"))
	t := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {}, {Flex: true, Min: 8}, {Flex: true, Wrap: true, Min: 16}}}
	for _, p := range d.Params {
		t.Add(text.Text("", phrase.Clean(p.Name), p.ParamType, style.Crop(value(p.Default), 28), phrase.Clean(about(p)))...)
	}
	return t.Write(e.Out, style)
}

func ports(e *env.Env, title string, list []catalog.Port) error {
	if len(list) == 0 {
		return nil
	}
	e.Print("\n%s", e.Style().Paint(text.Grey, title))
	t := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {}, {Flex: true, Wrap: true, Min: 16}}}
	for _, p := range list {
		note := phrase.Clean(p.Description)
		if p.Optional {
			note = strings.TrimSuffix("optional; "+note, "; ")
		}
		t.Add(text.Text("", phrase.Clean(p.Name), p.DataType, note)...)
	}
	return t.Write(e.Out, e.Style())
}

// value shows a param's value: strings as they are typed, nothing as "".
func value(raw json.RawMessage) string {
	var s string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return text.Dash
	case json.Unmarshal(raw, &s) != nil:
		return text.Compact(raw)
	case s == "":
		return `""`
	}
	return phrase.Clean(s)
}

// about says what a param is for and may be, in sentences.
func about(p catalog.Param) string {
	var parts []string
	if d := strings.TrimSpace(p.Description); d != "" {
		parts = append(parts, strings.TrimSuffix(d, "."))
	}
	switch {
	case len(p.Options) > 0:
		parts = append(parts, "One of "+strings.Join(p.Options, ", "))
	case p.MinValue != nil && p.MaxValue != nil:
		parts = append(parts, number(*p.MinValue)+" to "+number(*p.MaxValue))
	case p.MinValue != nil:
		parts = append(parts, "At least "+number(*p.MinValue))
	case p.MaxValue != nil:
		parts = append(parts, "At most "+number(*p.MaxValue))
	}
	for _, sibling := range slices.Sorted(maps.Keys(p.VisibleWhen)) {
		parts = append(parts, "Only with "+sibling+" "+conditions(p.VisibleWhen[sibling]))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ". ") + "."
}

func number(f float64) string { return text.Number(json.RawMessage(fmt.Sprintf("%v", f))) }

// conditions shows the value, or the values, of a visible_when.
func conditions(raw json.RawMessage) string {
	var many []json.RawMessage
	if json.Unmarshal(raw, &many) != nil {
		return value(raw)
	}
	var words []string
	for _, one := range many {
		words = append(words, value(one))
	}
	return strings.Join(words, " or ")
}
