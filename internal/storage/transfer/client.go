package transfer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/codeset"
)

// Config is what a Client is made of.
type Config struct {
	// URL is the control plane's, TLS how its certificate is known.
	URL string
	TLS *tls.Config
	// Dial connects in place of a connection to URL; nil is none.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Token gives the worker's token; it may change.
	Token func() (string, error)
	// Cache keeps contents from one run to the next.
	Cache *blobs.Store
	// Parallel is how many contents are fetched at a time, 4 by default.
	Parallel int
	// Tries is how often a request is made that brings nothing forward, 5 by
	// default. What brings some bytes counts anew.
	Tries int
}

const (
	firstPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
	// stallAfter ends a connection that brings nothing for so long.
	stallAfter = 60 * time.Second
)

// Client talks to one control plane. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
}

// New makes a client. Nothing is dialled before the first call.
func New(cfg Config) *Client {
	if cfg.Parallel <= 0 {
		cfg.Parallel = 4
	}
	if cfg.Tries <= 0 {
		cfg.Tries = 5
	}
	proxy, dial := http.ProxyFromEnvironment, (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	if cfg.Dial != nil {
		proxy, dial = nil, cfg.Dial
	}
	return &Client{cfg: cfg, http: &http.Client{
		Transport: &http.Transport{
			Proxy:                 proxy,
			DialContext:           dial,
			TLSClientConfig:       cfg.TLS,
			TLSHandshakeTimeout:   10 * time.Second,
			ExpectContinueTimeout: 5 * time.Second,
			ResponseHeaderTimeout: 2 * time.Minute, // a large file is synced first
			MaxIdleConnsPerHost:   cfg.Parallel,
			IdleConnTimeout:       30 * time.Second,
		},
		// A redirect elsewhere must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// LastingError says that trying again changes nothing.
type LastingError struct{ Err error }

func (e *LastingError) Error() string { return e.Err.Error() }
func (e *LastingError) Unwrap() error { return e.Err }

// again calls do until it succeeds, fails for good, or has failed Tries times
// without bringing anything forward.
func (c *Client) again(ctx context.Context, do func() (progress bool, err error)) error {
	pause := firstPause
	for tries := 1; ; tries++ {
		progress, err := do()
		if progress {
			tries, pause = 1, firstPause
		}
		var lasting *LastingError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &lasting) || tries >= c.cfg.Tries:
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		pause = min(2*pause, mostPause)
	}
}

// do sends one request. A reply that is no success is an error.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	token, err := c.cfg.Token()
	if err != nil {
		return nil, fmt.Errorf("read the worker's token: %w", err)
	}
	req.Header.Set(api.HeaderToken, token)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	var body api.ErrorBody
	if json.Unmarshal(raw, &body) != nil || body.Error == nil {
		return nil, fmt.Errorf("what answers at %s is no control plane (HTTP %d)", req.URL.Host, res.StatusCode)
	}
	switch body.Error.Code {
	case api.Invalid, api.Unreadable, api.TooLarge, api.Unauthorized, api.NotFound, api.Conflict, api.Misdirected:
		return nil, &LastingError{body.Error}
	default: // busy, full or broken: that may be mended
		return nil, body.Error
	}
}

func (c *Client) address(pattern string, fill ...string) string {
	return c.cfg.URL + strings.NewReplacer(fill...).Replace(pattern)
}

// fetchAll brings contents into the cache, several at a time. The first fault
// ends it; what came stays.
func (c *Client) fetchAll(ctx context.Context, contents []codeset.Content) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	queue := make(chan codeset.Content)
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	for range min(c.cfg.Parallel, len(contents)) {
		wg.Go(func() {
			for content := range queue {
				if err := c.fetch(ctx, content); err != nil {
					once.Do(func() { failed = err; stop() })
				}
			}
		})
	}
	for _, content := range contents {
		if c.cfg.Cache.Use(content.SHA256) {
			continue
		}
		select {
		case queue <- content:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	wg.Wait()
	if failed == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed
}

// fetch brings one content, going on where an earlier try ended.
func (c *Client) fetch(ctx context.Context, content codeset.Content) error {
	best := int64(0)
	err := c.again(ctx, func() (bool, error) {
		if c.cfg.Cache.Has(content.SHA256) {
			return true, nil // another run fetched it meanwhile
		}
		part, err := c.cfg.Cache.Resume(ctx, content.SHA256)
		if err != nil {
			return errors.Is(err, blobs.ErrBusy), err
		}
		best = max(best, part.Offset())
		err = c.fetchPart(ctx, part, content)
		progress := part.Offset() > best
		return progress, errors.Join(err, part.Close())
	})
	if err != nil {
		return fmt.Errorf("fetch content %.12s: %w", content.SHA256, err)
	}
	return nil
}

func (c *Client) fetchPart(ctx context.Context, part *blobs.Part, content codeset.Content) error {
	if part.Offset() > content.Size {
		if err := part.Restart(); err != nil {
			return err
		}
	}
	if part.Offset() < content.Size || content.Size == 0 {
		if err := c.download(ctx, part, content); err != nil {
			return err
		}
	}
	return part.Commit()
}

func (c *Client) download(ctx context.Context, part *blobs.Part, content codeset.Content) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address(api.PathBlob, "{sha256}", url.PathEscape(content.SHA256)), nil)
	if err != nil {
		return fmt.Errorf("build request: %w", err)
	}
	if part.Offset() > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", part.Offset()))
		req.Header.Set("If-Range", `"`+content.SHA256+`"`)
	}
	res, err := c.do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusPartialContent && part.Offset() > 0 {
		if err := part.Restart(); err != nil {
			return err
		}
	}
	stall := time.AfterFunc(stallAfter, stop)
	defer stall.Stop()
	body := &watched{r: res.Body, seen: func(int) { stall.Reset(stallAfter) }}
	if _, err := io.Copy(part, io.LimitReader(body, content.Size-part.Offset()+1)); err != nil {
		return err
	}
	if part.Offset() < content.Size {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// watched tells of each piece that is read.
type watched struct {
	r    io.Reader
	seen func(n int)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.seen(n)
	}
	return n, err
}
