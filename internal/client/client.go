package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"cdui/internal/api"
	"cdui/internal/tlspin"
)

// Config says where a client connects to.
type Config struct {
	// Place finds the control plane. It is called at the first request and
	// again after a connection broke.
	Place func() (Place, error)
	// UserAgent names the caller.
	UserAgent string
}

// Client calls one control plane.
type Client struct {
	cfg Config

	mu    sync.Mutex
	place *Place
	http  *http.Client
}

// New returns a client. Nothing is dialled before the first call.
func New(c Config) *Client { return &Client{cfg: c} }

// Close lets go of idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// Where gives the place that the client talks to.
func (c *Client) Where() (Place, error) {
	place, _, err := c.connect()
	return place, err
}

func (c *Client) connect() (Place, *http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place != nil {
		return *c.place, c.http, nil
	}
	place, err := c.cfg.Place()
	if err != nil {
		return Place{}, nil, err
	}
	transport, err := newTransport(place)
	if err != nil {
		return Place{}, nil, err
	}
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	c.place, c.http = &place, &http.Client{Transport: transport, CheckRedirect: noRedirect}
	return place, c.http, nil
}

// forget makes the next call look for the control plane again.
func (c *Client) forget(place Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place != nil && c.place.URL == place.URL {
		c.place = nil
	}
}

// noRedirect keeps the token from following a redirect elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func newTransport(place Place) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: 100 * time.Second, // long polls wait 60 s at most
	}
	var err error
	t.TLSClientConfig, err = trust(place)
	return t, err
}

// trust is what a control plane must show to be taken for the one that is
// meant; nil leaves that to the machine's authorities.
func trust(place Place) (*tls.Config, error) {
	if (place.Pin != "" || place.CAFile != "") && strings.HasPrefix(place.URL, "http:") {
		return nil, fmt.Errorf("%s is not encrypted, so neither a pin nor a CA can be checked there: write https://", place.URL)
	}
	switch {
	case place.Pin != "":
		pin, err := tlspin.Parse(place.Pin)
		if err != nil {
			return nil, err
		}
		return pin.Config(), nil
	case place.CAFile != "":
		pem, err := os.ReadFile(place.CAFile)
		if err != nil {
			return nil, fmt.Errorf("its CA file %s can't be read: %w", place.CAFile, cause(err))
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate is in the CA file %s", place.CAFile)
		}
		return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
	}
	return nil, nil //nolint:nilnil // no configuration is the default one
}

// patient waits for an answer as long as the request's context does.
func patient(hc *http.Client) *http.Client {
	own := *hc
	if t, ok := hc.Transport.(*http.Transport); ok {
		t = t.Clone()
		t.ResponseHeaderTimeout, t.DisableKeepAlives = 0, true
		own.Transport = t
	}
	return &own
}

// request is one call.
type request struct {
	method string
	// path is one of package api's patterns, id the run or name the graph or
	// the content that fills it.
	path, id, name string
	query          url.Values
	body           any
	// stream is sent as it is, in place of body; size is its length.
	stream io.Reader
	size   int64
	// function says that a graph is called: that takes as long as it takes, and
	// one that fails is a reply too.
	function bool
}

// do sends a request and gives its reply when the status says success.
func (c *Client) do(ctx context.Context, r request) (*http.Response, error) {
	if r.id == "" && strings.Contains(r.path, "{id}") {
		return nil, api.Errorf(api.NotFound, "the id is empty")
	}
	place, hc, err := c.connect()
	if err != nil {
		return nil, err
	}
	body := r.stream
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	target := place.URL + strings.NewReplacer("{id}", url.PathEscape(r.id), "{name}", url.PathEscape(r.name), "{sha256}", url.PathEscape(r.name), "{device}", url.PathEscape(r.name)).Replace(r.path)
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	switch {
	case r.stream != nil:
		req.Header.Set("Content-Type", "application/octet-stream")
		req.ContentLength = r.size
	case body != nil:
		req.Header.Set("Content-Type", "application/json")
	}
	if place.Token != "" {
		req.Header.Set(api.HeaderToken, place.Token)
	}
	if c.cfg.UserAgent != "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	if r.function {
		hc = patient(hc)
	}
	res, err := hc.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c.forget(place)
		return nil, unreachable(place, err)
	}
	if res.StatusCode/100 != 2 && !r.function {
		defer res.Body.Close()
		return nil, replyError(place, res)
	}
	return res, nil
}

// unreachable says why a place gave no answer.
func unreachable(place Place, err error) error {
	var untrusted *tls.CertificateVerificationError
	return &Unreachable{
		Text: unreachableText(place, err), Err: err,
		Untrusted: errors.Is(err, tlspin.ErrMismatch) || errors.As(err, &untrusted),
	}
}

func unreachableText(place Place, err error) string {
	at, check := place.shown()
	start := "is it running there?"
	if place.Local != nil {
		start = "start it with: cdui start"
	} else if u, _ := url.Parse(place.URL); u != nil && loopback(u.Hostname()) {
		start = "start one with: cdui start"
	}
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("no machine is called %q, where the control plane should be: %s", dns.Name, check)
	case errors.As(err, &unknown):
		return fmt.Sprintf("the certificate of %s is signed by nobody known here: name its CA or its pin in the context, or its pin in CDUI_PIN", at)
	case errors.Is(err, tlspin.ErrMismatch):
		return fmt.Sprintf("what answers at %s is not the control plane that is pinned, or it has a new key: %v", at, inner(err))
	case errors.As(err, &untrusted):
		return fmt.Sprintf("the certificate of %s can't be trusted: %v", at, untrusted.Err)
	case errors.As(err, &plain), strings.HasSuffix(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Sprintf("what answers at %s speaks no TLS: write its URL with http://, or start it with --tls-self-signed", at)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no control plane answers at %s: %s", at, start)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("the control plane at %s did not answer in time", at)
	}
	return fmt.Sprintf("the connection to the control plane at %s broke: %v", at, inner(err))
}

// inner is an error without the URL that was asked.
func inner(err error) error {
	var op *url.Error
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// shown is a place as people know it, and what to look at when it is the wrong
// one.
func (p Place) shown() (at, check string) {
	if p.Context != "" {
		return fmt.Sprintf("%s (context %q)", hostPort(p.URL), p.Context), "check its URL with: cdui context ls"
	}
	return hostPort(p.URL), "check --server"
}

// replyError reads the error envelope. A reply without one comes from
// something that is no control plane.
func replyError(place Place, res *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var body api.ErrorBody
	if json.Unmarshal(raw, &body) == nil && body.Error != nil && body.Error.Message != "" {
		return body.Error
	}
	at, check := place.shown()
	if res.StatusCode == http.StatusBadRequest && bytes.Contains(raw, []byte("HTTP request to an HTTPS server")) {
		return &Unreachable{Text: fmt.Sprintf("what answers at %s speaks TLS: write its URL with https://", at)}
	}
	return &Unreachable{Text: fmt.Sprintf("what answers at %s is no control plane of cdui (HTTP %d): %s", at, res.StatusCode, check)}
}

// call sends a request and decodes its reply into out, nil to ignore it.
func (c *Client) call(ctx context.Context, r request, out any) error {
	res, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &Unreachable{Text: "the connection to the control plane broke while it answered", Err: err}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		place, _ := c.Where()
		return &Unreachable{Text: fmt.Sprintf("what answers at %s is no control plane of cdui: its reply to %s is not understood", hostPort(place.URL), r.path), Err: err}
	}
	return nil
}
