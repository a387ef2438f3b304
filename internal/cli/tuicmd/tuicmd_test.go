package tuicmd_test

import (
	"context"
	"errors"
	"testing"

	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/runcmd"
	"cdui/internal/cli/tuicmd"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args        []string
		set         [][2]string
		theme, lang string
		wrong       bool
	}{
		{theme: "none", lang: "en"}, // clitest sets NO_COLOR
		{set: [][2]string{{"NO_COLOR", ""}, {"LANG", "zh_TW.UTF-8"}}, theme: "auto", lang: "zh-TW"},
		{args: []string{"--theme", "light", "--lang", "zh-TW"}, theme: "light", lang: "zh-TW"},
		{args: []string{"--theme", "solar"}, wrong: true},
		{args: []string{"--lang", "fr"}, wrong: true},
		{args: []string{"now"}, wrong: true},
	} {
		e := clitest.New(t, 80)
		for _, kv := range c.set {
			e.Set(kv[0], kv[1])
		}
		var got *tuicmd.Options
		cmd := tuicmd.New(e.Env, tuicmd.Deps{}, func(_ context.Context, o *tuicmd.Options) error {
			got = o
			return nil
		})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(c.args)
		err := cmd.Execute()
		var usage *env.Usage
		if c.wrong {
			if !errors.As(err, &usage) {
				t.Errorf("%v: %v", c.args, err)
			}
			continue
		}
		if err != nil || got.Theme != c.theme || got.Lang != c.lang {
			t.Errorf("%v: %+v, %v", c.args, got, err)
		}
	}
}

func TestItNeedsATerminal(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	var usage *env.Usage
	if err := tuicmd.Run(t.Context(), e.Env, tuicmd.Deps{Run: runcmd.Deps{}}, &tuicmd.Options{}); !errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
}
