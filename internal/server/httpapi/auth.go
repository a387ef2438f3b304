package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"cdui/internal/api"
	"cdui/internal/token"
)

// hostAllowed tells whether a request may be addressed to host: a loopback
// name, the listen address, or a name that the settings allow. It keeps a web
// page that rebinds its own name to this machine out.
func (s *Server) hostAllowed(host string) bool {
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if ip, err := netip.ParseAddr(name); err == nil && ip.IsLoopback() {
		return true
	}
	if listen := hostname(s.cfg.Listen); listen != "" && name == listen {
		return true
	}
	return slices.Contains(s.cfg.AllowedHosts, name)
}

func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// originAllowed tells whether the page that sent the request may: none, or one
// that was served under a name that we answer to.
func (s *Server) originAllowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && s.hostAllowed(u.Host)
}

// authorise lets reads from this machine pass and asks everything else for a
// token that may.
func (s *Server) authorise(r *http.Request, read bool) error {
	if read {
		return s.permit(r, api.RoleRead)
	}
	return s.permit(r, api.RoleSubmit)
}

// permit asks for a token whose role allows what needs need. What anybody on
// this machine may read needs none.
func (s *Server) permit(r *http.Request, need api.Role) error {
	if !s.originAllowed(r) {
		return api.Errorf(api.Unauthorized, "pages of %s may not call this control plane", r.Header.Get("Origin"))
	}
	if need == api.RoleRead && fromLoopback(r) {
		return nil
	}
	name, role, known := s.caller(givenToken(r))
	switch {
	case known && role.Allows(need):
		return nil
	case known:
		return api.Errorf(api.Unauthorized, "the token %s has the role %s; this needs %s", name, role, need).
			With("role", role).With("needs", need)
	}
	return api.Errorf(api.Unauthorized, "this needs the control plane's token: send it as %s, or as Authorization: Bearer", api.HeaderToken)
}

// caller gives the user and the role of a token; the control plane's own has no
// user and may everything.
func (s *Server) caller(secret string) (name string, role api.Role, known bool) {
	if token.Matches(secret, s.cfg.TokenHash) {
		return "", api.RoleAdmin, true
	}
	if s.cfg.Tokens == nil {
		return "", "", false
	}
	return s.cfg.Tokens.Find(secret)
}

// user is the name that a request acts under.
func (s *Server) user(r *http.Request) string {
	name, _, _ := s.caller(givenToken(r))
	return name
}

func givenToken(r *http.Request) string {
	given := r.Header.Get(api.HeaderToken)
	if given == "" {
		given, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	return given
}

func fromLoopback(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}
