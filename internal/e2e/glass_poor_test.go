package e2e_test

import (
	"regexp"
	"strings"
	"testing"
)

// Proves T-04 with the program as it is shipped: a terminal is sent no colours
// that it hasn't, none at all where nobody wants any, and nothing but ASCII where
// the locale has no more.
func TestAScreenOnAPoorTerminal(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.ended(p.run("--name", "a run", "--", "true"))
	for name, c := range map[string]struct {
		env   []string
		never string
		some  string
	}{
		"256 colours": {[]string{"TERM=xterm-256color"}, `\x1b\[[0-9;]*[34]8;2;`, `\x1b\[[0-9;]*38;5;`},
		"16 colours":  {[]string{"TERM=xterm"}, `\x1b\[[0-9;]*[34]8;[25];`, `\x1b\[([0-9;]*;)?(3|9)[0-7][;m]`},
		"NO_COLOR":    {[]string{"TERM=xterm-256color", "NO_COLOR=1"}, `\x1b\[([0-9;]*;)?(3|4|9|10)[0-8][;m]`, "a run"},
		"no Unicode":  {[]string{"TERM=xterm", "LANG=C", "LC_ALL=C"}, `[^\x00-\x7f]`, "a run"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := p.command("tui")
			cmd.Env = append(cmd.Env, c.env...)
			x := newGlass(t, 80, 24, cmd)
			x.shows("live", "a run", "done in")
			x.keys("?")
			x.shows("keys: Runs")
			x.keys("\x1b")
			x.hides("keys: Runs")
			x.keys("\r")
			x.shows("overview")
			x.keys("q")
			x.ended(0)
			sent := x.log()
			if bad := regexp.MustCompile(c.never).FindString(sent); bad != "" {
				at := strings.Index(sent, bad)
				t.Errorf("%q is sent: %q", bad, sent[max(0, at-40):min(len(sent), at+60)])
			}
			if !regexp.MustCompile(c.some).MatchString(sent) {
				t.Errorf("nothing like %s is sent", c.some)
			}
		})
	}
}
