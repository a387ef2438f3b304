package env_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/cli/clitest"
)

const contexts = `server = "http://in-file:8000"
token = "of-the-file"
pin = "sha256:7777777777777777777777777777777777777777777777777777777777777777"
current_context = "lab"

[contexts.lab]
url = "https://lab:8000"
token_file = "TOKEN"

[contexts.home]
url = "http://home:8000"
`

// Proves S-04.
func TestWhichControlPlaneIsUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// server, context and data are flags.
		server, context, data string
		vars                  [][2]string
		// file takes a line out of the config file.
		without string
		url     string
		token   string
		says    string
	}{
		{name: "the current context", url: "https://lab:8000", token: "s3cret"},
		{name: "a variable names another", vars: [][2]string{{"CDUI_CONTEXT", "home"}}, url: "http://home:8000"},
		{name: "an address in a variable", vars: [][2]string{{"CDUI_CONTEXT", "home"}, {"CDUI_SERVER", "https://a:1"}, {"CDUI_TOKEN", "t"}}, url: "https://a:1", token: "t"},
		{name: "the flag of a context", context: "home", vars: [][2]string{{"CDUI_CONTEXT", "lab"}, {"CDUI_SERVER", "http://a:1"}}, url: "http://home:8000"},
		{name: "the flag of an address", server: "https://b:1", vars: [][2]string{{"CDUI_CONTEXT", "home"}, {"CDUI_TOKEN", "t"}}, url: "https://b:1", token: "t"},
		{name: "a token in a variable", vars: [][2]string{{"CDUI_TOKEN", "t"}}, url: "https://lab:8000", token: "t"},
		{name: "the server of the file", without: "current_context", vars: [][2]string{{"CDUI_PIN", "sha256:" + strings.Repeat("11", 32)}}, says: "not encrypted"},
		{name: "this machine", context: "local", says: "no control plane is running here"},
		{name: "this machine, by a variable", vars: [][2]string{{"CDUI_CONTEXT", "local"}}, says: "no control plane is running here"},
		{name: "a data folder", data: "/d", vars: [][2]string{{"CDUI_CONTEXT", "lab"}}, says: "no control plane is running here"},
		{name: "both flags", server: "http://b:1", context: "lab", says: "--server and --context"},
		{name: "a misspelt one", context: "hoome", says: "Did you mean home?"},
		{name: "an unknown one", vars: [][2]string{{"CDUI_CONTEXT", "zzz"}}, says: "cdui context ls"},
		{name: "a pin where nothing is encrypted", context: "home", vars: [][2]string{{"CDUI_PIN", "sha256:" + strings.Repeat("11", 32)}}, says: `context "home": http://home:8000 is not encrypted`},
	} {
		e := clitest.New(t, 0)
		path := filepath.Join(e.Dir, ".config", "cdui", "config.toml")
		text := strings.ReplaceAll(contexts, "TOKEN", path+".token")
		if c.without != "" {
			text = strings.ReplaceAll(text, c.without, "# "+c.without)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, body := range map[string]string{path: text, path + ".token": "s3cret\n"} {
			if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range c.vars {
			e.Set(v[0], v[1])
		}
		e.Flags.Server, e.Flags.Context, e.Flags.Data = c.server, c.context, c.data
		place, err := e.Client().Where()
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %+v, %v", c.name, place, err)
			}
		case err != nil || place.URL != c.url || place.Token != c.token:
			t.Errorf("%s: %+v, %v", c.name, place, err)
		}
	}
}
