// Package exposition writes the text format that Prometheus reads. It owns the
// format: names, help, escaping, the order of a histogram's lines. What is
// measured it doesn't know.
//
// client_golang would do this too; linking it, with the protocol buffers that it
// needs even for text, makes the binary a tenth larger.
package exposition

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// ContentType is what the text is served as.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is the type of a family.
type Kind string

// The kinds of families.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	histogram Kind = "histogram"
)

// Page is a document under way. The zero value is empty.
type Page struct {
	b      bytes.Buffer
	family string
}

// Bytes gives the document.
func (p *Page) Bytes() []byte { return p.b.Bytes() }

var escapeHelp = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

// Family begins a family; the samples that follow are of it.
func (p *Page) Family(name string, kind Kind, help string) {
	p.family = name
	p.b.WriteString("# HELP " + name + " " + escapeHelp.Replace(help) + "\n# TYPE " + name + " " + string(kind) + "\n")
}

// Sample adds a value to the family; labels are names and values in turn.
func (p *Page) Sample(value float64, labels ...string) { p.line(p.family, value, labels) }

// Histogram writes a family of one histogram. counts are of the values up to
// each bound and above the one before; the last one is of those beyond all.
func (p *Page) Histogram(name, help string, bounds []float64, counts []uint64, sum float64) {
	p.Family(name, histogram, help)
	total := uint64(0)
	for i, n := range counts {
		total += n
		bound := math.Inf(1)
		if i < len(bounds) {
			bound = bounds[i]
		}
		p.line(name+"_bucket", float64(total), []string{"le", number(bound)})
	}
	p.line(name+"_sum", sum, nil)
	p.line(name+"_count", float64(total), nil)
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (p *Page) line(name string, value float64, labels []string) {
	p.b.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		// Names of devices and workers are others' bytes.
		p.b.WriteString(sep + labels[i] + `="` + escapeLabel.Replace(strings.ToValidUTF8(labels[i+1], "�")) + `"`)
	}
	if len(labels) > 1 {
		p.b.WriteByte('}')
	}
	p.b.WriteString(" " + number(value) + "\n")
}

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
