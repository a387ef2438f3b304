package hooks

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"cdui/internal/api"
)

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	maxName      = 63
)

// check tells what is wrong with a hook that somebody wants to add.
func check(req api.HookRequest) error {
	name := req.Name
	if name == "" || len(name) > maxName || !strings.Contains(alphanumeric, name[:1]) || strings.Trim(name, alphanumeric+"._-") != "" {
		return api.Errorf(api.Invalid, "name %.80q: use 1 to 63 letters, digits and . _ -, a letter or digit first", name)
	}
	if len(req.On) == 0 {
		return api.Errorf(api.Invalid, "on is empty: say what the hook is called for, of %v", api.HookEvents())
	}
	for _, e := range req.On {
		if !slices.Contains(api.HookEvents(), e) {
			return api.Errorf(api.Invalid, "on names %.40q, which is no event; use %v", string(e), api.HookEvents())
		}
	}
	switch {
	case (len(req.Command) > 0) == (req.URL != ""):
		return api.Errorf(api.Invalid, "a hook has either a command or a url")
	case req.URL == "" && (req.TokenEnv != "" || req.TokenFile != ""):
		return api.Errorf(api.Invalid, "token_env and token_file are for a url")
	case req.TokenEnv != "" && req.TokenFile != "":
		return api.Errorf(api.Invalid, "give token_env or token_file, not both")
	case req.TokenFile != "" && !filepath.IsAbs(req.TokenFile):
		return api.Errorf(api.Invalid, "token_file %q is not an absolute path", req.TokenFile)
	case len(req.Command) > 0 && req.Command[0] == "":
		return api.Errorf(api.Invalid, "command begins with an empty word; name a program")
	}
	if req.URL == "" {
		return nil
	}
	u, err := url.Parse(req.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return api.Errorf(api.Invalid, "url is not an http or https address")
	case u.User != nil:
		return api.Errorf(api.Invalid, "url holds a password, which would be stored readable; use token_env or token_file")
	}
	return nil
}
