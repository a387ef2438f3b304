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

// authorise lets reads from this machine pass and asks everything else for
// the token.
func (s *Server) authorise(r *http.Request, read bool) error {
	if !s.originAllowed(r) {
		return api.Errorf(api.Unauthorized, "pages of %s may not call this control plane", r.Header.Get("Origin"))
	}
	if read && fromLoopback(r) {
		return nil
	}
	if s.tokenOK(r) {
		return nil
	}
	return api.Errorf(api.Unauthorized, "this needs the control plane's token: send it as %s, or as Authorization: Bearer", api.HeaderToken)
}

func (s *Server) tokenOK(r *http.Request) bool {
	return token.Matches(givenToken(r), s.cfg.TokenHash)
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
