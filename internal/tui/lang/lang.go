// Package lang says what the screens say: English, or Traditional Chinese. The
// English text is the key; reasons and errors are put into words from their code
// and params. It is pure.
package lang

import (
	"fmt"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// The languages.
const (
	English = "en"
	Chinese = "zh-TW"
)

// Names lists the languages.
func Names() []string { return []string{English, Chinese} }

// Lang speaks one language.
type Lang struct {
	Name  string
	words map[string]string
}

// New gives a language; what isn't known speaks English.
func New(name string) *Lang {
	if name == Chinese {
		return &Lang{Name: Chinese, words: chinese}
	}
	return &Lang{Name: English}
}

// FromLocale chooses a language by the values of LC_ALL, LC_MESSAGES and LANG.
func FromLocale(values ...string) string {
	for _, v := range values {
		if v == "" {
			continue
		}
		v = strings.ToLower(strings.ReplaceAll(v, "_", "-"))
		if strings.HasPrefix(v, "zh-tw") || strings.HasPrefix(v, "zh-hk") || strings.HasPrefix(v, "zh-mo") || strings.HasPrefix(v, "zh-hant") {
			return Chinese
		}
		return English
	}
	return English
}

// T translates a text.
func (l *Lang) T(english string) string {
	if w, ok := l.words[english]; ok {
		return w
	}
	return english
}

// F translates a format and fills it in.
func (l *Lang) F(english string, args ...any) string { return fmt.Sprintf(l.T(english), args...) }

// N is F for a number of things: English has two forms, Chinese one.
func (l *Lang) N(n int, one, many string, args ...any) string {
	if n == 1 {
		return l.F(one, args...)
	}
	return l.F(many, args...)
}

// Status names a status.
func (l *Lang) Status(s run.Status, held bool) string {
	if held {
		return l.T("held")
	}
	return l.T(string(s))
}

// Deed names what somebody did, or the kind of thing that it was done to, as the
// log of actions has them.
func (l *Lang) Deed(word string) string {
	if say, ok := chineseDeeds[word]; ok && l.words != nil {
		return say
	}
	return word
}

// Ordinal is a place in a queue.
func (l *Lang) Ordinal(n int, english string) string {
	if l.words == nil {
		return english
	}
	return fmt.Sprintf("第 %d", n)
}

// Reason says why a run waits. A code that isn't known here, as a newer control
// plane may have, is told in the control plane's own words.
func (l *Lang) Reason(r run.Reason) string {
	if l.words == nil {
		return r.Text
	}
	say, ok := chineseReasons[r.Code]
	if !ok {
		return r.Text
	}
	return say(params(r.Params))
}

// Error says what went wrong.
func (l *Lang) Error(err error) string {
	if err == nil {
		return ""
	}
	if l.words == nil {
		return err.Error()
	}
	code := api.CodeOf(err)
	if code == api.Internal {
		return err.Error()
	}
	return chineseCodes[code] + "：" + err.Error()
}

// params reads what a reason is filled in with.
type params map[string]any

// one gives a text.
func (p params) one(name string) string {
	switch v := p[name].(type) {
	case nil:
		return "?"
	case string:
		return v
	case float64:
		return fmt.Sprintf("%g", v)
	default:
		return fmt.Sprint(v)
	}
}

// id gives the part of a run's id that people are shown.
func (p params) id(name string) string { return run.Short(p.one(name)) }

// size gives a number of MiB as people read it.
func (p params) size(name string) string {
	switch v := p[name].(type) {
	case int64:
		return run.MiB(v)
	case int:
		return run.MiB(int64(v))
	case float64: // as it comes over the wire
		return run.MiB(int64(v))
	}
	return "?"
}

// clock gives a time of day.
func (p params) clock(name string) string {
	switch v := p[name].(type) {
	case time.Time:
		return v.Local().Format(time.TimeOnly)
	case string: // as it comes over the wire
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t.Local().Format(time.TimeOnly)
		}
	}
	return "?"
}

// list gives texts, ids of runs cut short.
func (p params) list(name string) string {
	var out []string
	add := func(s string) {
		if run.ValidID(s) {
			s = run.Short(s)
		}
		out = append(out, s)
	}
	switch v := p[name].(type) {
	case []string:
		for _, s := range v {
			add(s)
		}
	case []any:
		for _, s := range v {
			add(fmt.Sprint(s))
		}
	case nil:
		return "?"
	default:
		return fmt.Sprint(v)
	}
	if len(out) > 4 {
		out = append(out[:3], fmt.Sprintf("另 %d 個", len(out)-3))
	}
	return strings.Join(out, "、")
}

// Knows tells whether a text has words of its own in this language.
func (l *Lang) Knows(english string) bool {
	_, ok := l.words[english]
	return ok
}
