package env

import (
	"maps"
	"slices"

	"cdui/internal/catalog"
	"cdui/internal/client"
	"cdui/internal/config"
	"cdui/internal/fsinfo"
)

// choose says which control plane commands use: an address, the name of a
// context, or neither for the one of this machine. A flag comes before a
// variable, that before the config file; of each, an address before a context.
func (e *Env) choose(vs config.Values) (server, name string, err error) {
	at, named := vs.Get(config.Server), vs.Get(config.ContextName)
	inFile := func(v config.Value) bool { return v.Origin == config.Origin(vs.File().Path) }
	switch {
	case e.Flags.Server != "" && e.Flags.Context != "":
		return "", "", Usagef("--server and --context both name a control plane: give one of them")
	case e.Flags.Server != "":
		return at.Text, "", nil
	case e.Flags.Context != "":
		return "", named.Text, nil
	case at.Text != "" && !inFile(at):
		return at.Text, "", nil
	case e.Flags.Data != "":
		return "", "", nil // the one of that folder
	case named.Text != "":
		return "", named.Text, nil
	}
	return at.Text, "", nil
}

// Search says where to look for a control plane.
func (e *Env) Search() (client.Search, error) {
	vs, err := e.Settings()
	if err != nil {
		return client.Search{}, err
	}
	folder, err := config.DataFolder(vs, e.Getenv, e.UID, fsinfo.Network)
	if err != nil {
		return client.Search{}, err
	}
	s := client.Search{DataDir: folder.Path, MachineID: fsinfo.MachineID(), Alive: e.Alive}
	name := ""
	if s.Server, name, err = e.choose(vs); err != nil {
		return s, err
	}
	token, pin := vs.Get(config.Token), vs.Get(config.Pin)
	if name != "" {
		if s.Context, err = Context(vs, name); err != nil {
			return s, err
		}
		// Those of the file belong to the server that it names.
		file := config.Origin(vs.File().Path)
		if token.Origin == file {
			token.Text = ""
		}
		if pin.Origin == file {
			pin.Text = ""
		}
	}
	s.Token, s.Pin = token.Text, pin.Text
	return s, nil
}

// Context gives a context by its name, nil for the one of this machine.
func Context(vs config.Values, name string) (*client.Context, error) {
	file := vs.File()
	c, ok := file.Contexts[name]
	switch {
	case ok:
		return &client.Context{Name: name, URL: c.URL, TokenFile: c.TokenFile, CAFile: c.CA, Pin: c.Pin}, nil
	case name == config.Local:
		return nil, nil //nolint:nilnil // the control plane of this machine has no entry
	}
	known := append(slices.Sorted(maps.Keys(file.Contexts)), config.Local)
	if near := catalog.Nearest(name, known); near != "" {
		return nil, NotFound("no context is called %q. Did you mean %s?", name, near)
	}
	if file.Current == name {
		return nil, NotFound("no context is called %q, which %s has as the current one: choose another with cdui context use", name, file.Path)
	}
	return nil, NotFound("no context is called %q: cdui context ls lists them, cdui context add makes one", name)
}

// Client returns a client of the control plane that the flags, the environment
// and the config file lead to.
func (e *Env) Client() *client.Client {
	return client.New(client.Config{UserAgent: e.UserAgent, Place: func() (client.Place, error) {
		s, err := e.Search()
		if err != nil {
			return client.Place{}, err
		}
		place, err := client.Discover(s)
		if err != nil {
			return client.Place{}, AsUsage(err)
		}
		return place, nil
	}})
}
