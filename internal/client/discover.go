package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"cdui/internal/api"
)

// Place is a control plane that was found.
type Place struct {
	URL   string
	Token string
	// CAFile holds the certificates that an https URL is checked with, Pin the
	// key in their place; both empty means the system's certificates.
	CAFile, Pin string
	// Context is the name of the context that led here, if one did.
	Context string
	// Local is the server.json that led here, nil for a place that was named.
	Local *api.ServerInfo
}

// Search is where Discover looks.
type Search struct {
	// Server is an address that was given by flag, variable or file.
	Server string
	// Token goes to whoever was named, Pin is its key; both are used instead of
	// those of the context.
	Token, Pin string
	// Context is the context in use, nil without one. Server comes before it.
	Context *Context
	// DataDir holds the local server.json and token.
	DataDir string
	// MachineID is this machine's; a server.json of another one is ignored.
	MachineID string
	// Alive tells whether a process of this machine exists.
	Alive func(pid int) bool
}

// Context is a named control plane.
type Context struct {
	Name, URL, TokenFile, CAFile, Pin string
}

// Discover finds the control plane: a named address, the current context, else
// the one that runs on this machine with this data folder.
func Discover(s Search) (Place, error) {
	if s.Server != "" {
		at, err := normalise(s.Server)
		if err != nil {
			return Place{}, err
		}
		p := Place{URL: at.String(), Token: s.Token, Pin: s.Pin}
		// The folder's own token must not go to whatever address was typed.
		if p.Token == "" && loopback(at.Hostname()) {
			p.Token = readToken(filepath.Join(s.DataDir, "token"))
		}
		if info, err := LocalServer(s); err == nil && p.Pin == "" && at.Scheme == "https" && loopback(at.Hostname()) {
			p.Pin = info.Pin
		}
		_, err = trust(p)
		return p, err
	}
	if s.Context != nil {
		p, err := s.Context.place(s.Token, s.Pin)
		if err != nil {
			return Place{}, fmt.Errorf("context %q: %w", s.Context.Name, err)
		}
		return p, nil
	}
	info, err := LocalServer(s)
	if err != nil {
		return Place{}, err
	}
	at, err := normalise(info.Address)
	if err != nil {
		return Place{}, fmt.Errorf("%s: %w", filepath.Join(s.DataDir, "server.json"), err)
	}
	return Place{URL: at.String(), Token: readToken(filepath.Join(s.DataDir, "token")), Pin: info.Pin, Local: info}, nil
}

// place is where a context leads; a token or a pin that was given otherwise
// takes the place of its own.
func (c Context) place(token, pin string) (Place, error) {
	at, err := normalise(c.URL)
	if err != nil {
		return Place{}, err
	}
	p := Place{URL: at.String(), Token: token, CAFile: c.CAFile, Pin: c.Pin, Context: c.Name}
	if pin != "" {
		p.Pin, p.CAFile = pin, ""
	}
	if p.Token == "" && c.TokenFile != "" {
		p.Token, err = tokenOf(c.TokenFile)
	}
	if err == nil {
		_, err = trust(p)
	}
	return p, err
}

// Check says what is wrong with a context before anybody is asked: its URL, or
// a file that it names.
func (c Context) Check() error {
	_, err := c.place("", "")
	return err
}

// tokenOf reads a token file that must hold one.
func tokenOf(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("its token file %s can't be read: %w", path, cause(err))
	}
	token := strings.TrimSpace(string(b))
	if !IsToken(token) {
		return "", fmt.Errorf("%s holds no token: one line of letters and digits is one", path)
	}
	return token, nil
}

// IsToken tells whether a text can be a token: one that a header can carry.
func IsToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// cause is what the system said of a file, without the path again.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// LocalServer reads server.json of a control plane that runs on this machine.
// Its error is an *Unreachable that says why there is none.
func LocalServer(s Search) (*api.ServerInfo, error) {
	path := filepath.Join(s.DataDir, "server.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Unreachable{Text: "no control plane is running here; start one with: cdui start", Absent: true}
	}
	if err != nil {
		return nil, &Unreachable{Text: fmt.Sprintf("can't read %s: %v", path, err), Err: err}
	}
	var info api.ServerInfo
	if err := json.Unmarshal(b, &info); err != nil || info.Address == "" {
		return nil, &Unreachable{Text: fmt.Sprintf("%s is damaged; start the control plane again with: cdui start", path)}
	}
	if info.MachineID != "" && s.MachineID != "" && info.MachineID != s.MachineID {
		return nil, &Unreachable{Text: fmt.Sprintf("the control plane of %s runs on another machine; start one here with: cdui start, or name that one with --server", s.DataDir)}
	}
	if info.PID <= 0 || !s.Alive(info.PID) {
		return nil, &Unreachable{Text: "the control plane is not running any more; its trainings go on. Start it again with: cdui start", Absent: true}
	}
	return &info, nil
}

func readToken(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Address reads what people write for a control plane, and gives it in full.
func Address(text string) (string, error) {
	u, err := normalise(text)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// normalise reads http://host:port, https://host or host:port.
func normalise(address string) (*url.URL, error) {
	text := strings.TrimSpace(address)
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%q is no address of a control plane; write it as http://host:8000", address)
	}
	return u, nil
}

// Loopback tells whether an address is one of this machine alone.
func Loopback(address string) bool {
	u, err := normalise(address)
	return err == nil && loopback(u.Hostname())
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.IsLoopback()
	}
	return false
}

// hostPort gives the part of a place that a person recognises.
func hostPort(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		return u.Scheme + "://" + u.Host
	}
	return u.Host
}
