package env_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
)

func TestStyle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		columns int
		vars    [][2]string
		width   int
		colour  bool
		unicode bool
	}{
		{"pipe", 0, [][2]string{{"NO_COLOR", ""}}, 0, false, true},
		{"terminal", 80, [][2]string{{"NO_COLOR", ""}}, 80, true, true},
		{"NO_COLOR", 80, nil, 80, false, true},
		{"dumb", 80, [][2]string{{"NO_COLOR", ""}, {"TERM", "dumb"}}, 80, false, true},
		{"C locale", 80, [][2]string{{"LANG", "C"}}, 80, false, false},
		{"LC_ALL beats LANG", 80, [][2]string{{"LANG", "C"}, {"LC_ALL", "de_DE.utf8"}}, 80, false, true},
		{"LC_ALL of another encoding", 80, [][2]string{{"LC_ALL", "en_US.ISO-8859-1"}}, 80, false, false},
	} {
		e := clitest.New(t, c.columns)
		for _, v := range c.vars {
			e.Set(v[0], v[1])
		}
		if s := e.Style(); s.Width != c.width || s.Colour != c.colour || s.Unicode != c.unicode {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

func TestTheCurrentContextIsFollowed(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	path := filepath.Join(e.Dir, ".config", "cdui", "config.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "current_context = 'lab'\n[contexts.lab]\nurl = 'http://lab:8000'\ntoken_file = '" + path + ".token'\n"
	for name, body := range map[string]string{path: text, path + ".token": "s3cret\n"} {
		if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place, err := e.Client().Where()
	if err != nil || place.URL != "http://lab:8000" || place.Token != "s3cret" {
		t.Errorf("%+v, %v", place, err)
	}
	e.Flags.Server = "127.0.0.1:9000"
	if place, err = e.Client().Where(); err != nil || place.URL != "http://127.0.0.1:9000" || place.Token != "" {
		t.Errorf("--server: %+v, %v", place, err)
	}
	e.Flags.Server, e.Flags.Data = "", e.Dir
	if _, err = e.Client().Where(); err == nil || !strings.Contains(err.Error(), "no control plane is running here") {
		t.Errorf("--data: %v", err)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "0.5": 500 * time.Millisecond, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
		"2d": 48 * time.Hour, "1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour, "0": 0,
	} {
		if got, err := env.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q = %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "soon", "-1", "-5s", "1e99", "nan", "9999999d", "5 minutes", "1d-3h"} {
		if got, err := env.ParseDuration(text); err == nil && (got < 0 || text != "1d-3h") {
			t.Errorf("%q is taken as %s", text, got)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1d12h")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := env.ParseDuration(s); err == nil && (d < 0 || d > 3650*24*time.Hour) {
			t.Errorf("%q = %s", s, d)
		}
	})
}
