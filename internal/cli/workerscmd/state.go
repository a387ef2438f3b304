package workerscmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/protocol"
)

// standing is how a worker stands with the control plane: a mark, which is
// ASCII where the terminal can't show more, and words.
type standing struct {
	unicode, ascii string
	colour         text.Colour
	words          string
}

func (s standing) mark(style text.Style) string {
	if style.Unicode {
		return s.unicode
	}
	return s.ascii
}

// stateOf puts how a worker stands into words.
func stateOf(w api.Worker, now time.Time) standing {
	switch w.State {
	case api.WorkerOnline:
		switch {
		case w.Draining:
			return standing{"‖", "=", text.Yellow, "draining"}
		case w.Degraded:
			return standing{"⚠", "!", text.Yellow, "degraded"}
		}
		return standing{"●", "*", text.Green, "online"}
	case api.WorkerDisconnected:
		return standing{"◐", "~", text.Yellow, lost(w, now)}
	case api.WorkerRejected:
		return standing{"✗", "x", text.Red, "rejected: " + phrase.Clean(w.RejectReason)}
	case api.WorkerOffline:
	}
	words := "offline"
	if w.Draining {
		words += ", draining"
	}
	if w.LastSeen == nil {
		words += ", never seen"
	} else {
		words += ", last seen " + ago(*w.LastSeen, now)
	}
	return standing{"○", "o", text.Grey, words}
}

// lost says how long a worker is away and until when its runs may be resumed.
func lost(w api.Worker, now time.Time) string {
	words := "link lost"
	if w.LastSeen != nil {
		words += " " + text.Age(now.Sub(*w.LastSeen))
	}
	if len(w.Runs) == 0 {
		return words
	}
	words += fmt.Sprintf(" (%s held", text.Plural(len(w.Runs), "run"))
	if w.ResumeUntil != nil {
		words += ", resumes until " + clock(*w.ResumeUntil, now)
	}
	return words + ")"
}

// about is what else is said of a worker in one line.
func about(w api.Worker, now time.Time) []string {
	var out []string
	add := func(words string, given bool) {
		if given {
			out = append(out, phrase.Clean(words))
		}
	}
	add(w.Via, w.Via != "" && w.State != api.WorkerOffline)
	add("v"+w.Version, w.Version != "")
	add(torch(w.Python), w.State == api.WorkerOnline)
	if w.Platform != nil {
		add(text.Plural(w.Platform.Cores, "core"), w.Platform.Cores > 0)
	}
	add("mounts "+strings.Join(slices.Sorted(maps.Keys(w.Mounts)), ","), len(w.Mounts) > 0)
	if w.ConnectedAt != nil && w.State == api.WorkerOnline {
		add("up "+text.Age(now.Sub(*w.ConnectedAt)), true)
	}
	if skew := skewOf(w); skew.Abs() > protocol.MaxClockSkew {
		add("clock off by "+text.Duration(skew.Abs()), true)
	}
	return out
}

func skewOf(w api.Worker) time.Duration {
	if w.ClockSkewMS == nil {
		return 0
	}
	return time.Duration(*w.ClockSkewMS) * time.Millisecond
}

func torch(p *protocol.Python) string {
	switch {
	case p == nil:
		return "no python"
	case p.Torch == nil || *p.Torch == "":
		return "no torch"
	}
	return "torch " + *p.Torch
}

// lacks says which node types a degraded worker and the control plane don't
// share.
func lacks(w api.Worker) string {
	if w.Catalog == nil {
		return "its node types are not known yet"
	}
	var out []string
	say := func(who string, types []string) {
		if len(types) > 0 {
			out = append(out, fmt.Sprintf("%s %s: %s", who, text.Plural(len(types), "node type"), phrase.Clean(strings.Join(types, ", "))))
		}
	}
	say("lacks", w.Catalog.MissingThere)
	say("the control plane lacks", w.Catalog.MissingHere)
	if len(out) == 0 {
		return "its node types differ from those of the control plane"
	}
	return strings.Join(out, "; ")
}

func ago(t, now time.Time) string {
	age := text.Age(now.Sub(t))
	if age == "now" {
		return "just now"
	}
	return age + " ago"
}

// clock is a time of day, with its day where that isn't today.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	at := t.Format("15:04")
	switch t.Format(time.DateOnly) {
	case now.Format(time.DateOnly):
		return at
	case now.AddDate(0, 0, 1).Format(time.DateOnly):
		return "tomorrow " + at
	}
	return t.Format("Jan 2 ") + at
}
