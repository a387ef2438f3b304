// Package manpage writes manual pages in roff from a command tree: the same
// words as --help, one page a command. It is pure.
package manpage

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Pages gives every page by its file name. They hold no date, so that they
// change with the commands alone.
func Pages(root *cobra.Command, version string) map[string][]byte {
	pages := map[string][]byte{}
	add(pages, root, version)
	return pages
}

func add(pages map[string][]byte, cmd *cobra.Command, version string) {
	if cmd.Hidden || cmd.Name() == "help" {
		return
	}
	pages[dashed(cmd)+".1"] = page(cmd, version)
	for _, sub := range cmd.Commands() {
		add(pages, sub, version)
	}
}

func dashed(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func page(cmd *cobra.Command, version string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %q 1 \"\" \"cdui %s\" \"cdui\"\n", strings.ToUpper(dashed(cmd)), version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(dashed(cmd)), escape(cmd.Short))
	b.WriteString(".SH SYNOPSIS\n")
	for i, line := range strings.Split(cmd.UseLine(), "  |  ") {
		if i > 0 {
			b.WriteString(".br\n")
			line = cmd.CommandPath() + strings.TrimPrefix(line, cmd.Name())
		}
		fmt.Fprintf(&b, "%s\n", escape(line))
	}
	if cmd.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		for i, para := range strings.Split(cmd.Long, "\n\n") {
			if i > 0 {
				b.WriteString(".PP\n")
			}
			fmt.Fprintf(&b, "%s\n", escape(strings.ReplaceAll(para, "\n", " ")))
		}
	}
	flags(&b, "OPTIONS", cmd.NonInheritedFlags())
	flags(&b, "OPTIONS OF EVERY COMMAND", cmd.InheritedFlags())
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", escape(cmd.Example))
	}
	exitStatus(&b)
	seeAlso(&b, cmd)
	return b.Bytes()
}

func flags(b *bytes.Buffer, title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		head := "\\fB\\-\\-" + escape(f.Name) + "\\fP"
		if f.Shorthand != "" {
			head = "\\fB\\-" + f.Shorthand + "\\fP, " + head
		}
		if name != "" {
			head += " " + escape(name)
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", head, escape(usage))
	})
}

func exitStatus(b *bytes.Buffer) {
	b.WriteString(".SH EXIT STATUS\n")
	for _, c := range [][2]string{
		{"0", "it worked"},
		{"1", "the thing itself failed"},
		{"2", "the command line makes no sense"},
		{"3", "no control plane answers"},
		{"4", "there is no such run"},
		{"5", "not allowed"},
		{"124", "the time given by \\-\\-timeout is over"},
		{"130", "Ctrl-C; the run goes on"},
	} {
		fmt.Fprintf(b, ".TP\n%s\n%s\n", c[0], c[1])
	}
}

func seeAlso(b *bytes.Buffer, cmd *cobra.Command) {
	var names []string
	if cmd.HasParent() {
		names = append(names, dashed(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			names = append(names, dashed(sub))
		}
	}
	if len(names) == 0 {
		return
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, n := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", escape(n), end)
	}
}

// escape keeps text from being read as roff.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
