package cli

import (
	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/config"
	"cdui/internal/fsinfo"
)

func newConfig(e *env.Env) *cobra.Command {
	var asJSON bool
	explain := &cobra.Command{
		Use:   "explain",
		Short: "Show each setting, its value and where that came from",
		Long: `Show each setting, its value and where that came from: a flag, CDUI_<NAME>,
CODEFYUI_<NAME>, the config file, or the default, in this order.`,
		Example: `  cdui config explain
  CDUI_CANCEL_GRACE_S=60 cdui config explain --json`,
		Args: env.Args(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return explainConfig(e, asJSON) },
	}
	env.JSONFlag(explain.Flags(), &asJSON, "print one JSON document", env.One(Configuration{}))
	return env.Group(&cobra.Command{
		Use:     "config",
		Short:   "Show the settings",
		Example: "  cdui config explain",
	}, explain)
}

// Configuration is all settings and where they come from. Unknown is what the
// file has that is no setting.
type Configuration struct {
	File     string      `json:"file"`
	Settings []explained `json:"settings"`
	Unknown  []string    `json:"unknown"`
	// Place is where commands go.
	Place explainedPlace `json:"control_plane"`
}

// explained is one setting in `config explain --json`.
type explained struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Origin  string `json:"origin"`
	Default string `json:"default"`
	Kind    string `json:"kind"`
	Doc     string `json:"doc"`
	Error   string `json:"error,omitempty"`
}

// explainedPlace is where commands go, in `config explain --json`.
type explainedPlace struct {
	// URL is where the control plane is; empty where none was found.
	URL string `json:"url"`
	// Context is the context that led there, empty where none did.
	Context string `json:"context"`
	// Problem says why they go nowhere.
	Problem string `json:"problem"`
}

func whither(e *env.Env) explainedPlace {
	c := e.Client()
	defer c.Close()
	place, err := c.Where()
	if err != nil {
		return explainedPlace{Problem: err.Error()}
	}
	if place.Context == "" && place.Local != nil {
		place.Context = config.Local
	}
	return explainedPlace{URL: place.URL, Context: place.Context}
}

func explainConfig(e *env.Env, asJSON bool) error {
	vs, err := e.Settings()
	if err != nil {
		return err
	}
	folder, err := config.DataFolder(vs, e.Getenv, e.UID, fsinfo.Network)
	if err != nil {
		return err
	}
	list := []explained{}
	for _, v := range vs.All() {
		x := explained{Name: v.Name, Value: v.Text, Origin: string(v.Origin), Default: v.Default, Kind: string(v.Kind), Doc: v.Doc}
		if v.Name == config.Home {
			x.Value = folder.Path
		}
		if v.Kind == config.Secret && v.Text != "" {
			x.Value = "(hidden)"
		}
		if v.Err != nil {
			x.Error = v.Err.Error()
		}
		list = append(list, x)
	}
	goal := whither(e)
	if asJSON {
		return e.JSON(Configuration{File: vs.File().Path, Settings: list, Unknown: append([]string{}, vs.File().Unknown...), Place: goal})
	}
	t := &text.Table{Columns: []text.Column{
		{Title: "SETTING", Flex: true, Min: 16},
		{Title: "VALUE", Flex: true, Min: 10},
		{Title: "FROM", Flex: true, Min: 7},
		{Title: "MEANING", Flex: true, Wrap: true, Min: 24, Drop: 1},
	}}
	for _, x := range list {
		colour := text.Plain
		if x.Error != "" {
			colour = text.Red
		}
		t.Add(text.Cell{Text: x.Name}, text.Cell{Text: orDash(x.Value), Colour: colour}, text.Cell{Text: x.Origin}, text.Cell{Text: x.Doc})
	}
	if err := t.Write(e.Out, e.Style()); err != nil {
		return err
	}
	switch {
	case goal.Problem != "":
		e.Say("%s", phrase.Clean(goal.Problem))
	case goal.Context != "":
		e.Say("commands go to %s, the context %s", goal.URL, phrase.Clean(goal.Context))
	default:
		e.Say("commands go to %s", goal.URL)
	}
	if folder.Note != "" {
		e.Say("%s", folder.Note)
	}
	for _, x := range list {
		if x.Error != "" {
			e.Say("%s; its default holds", x.Error)
		}
	}
	for _, name := range vs.File().Unknown {
		e.Say("%s: %q is no setting", vs.File().Path, name)
	}
	return nil
}
