package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"cdui/internal/api"
)

// Calls is the Carrier of the real world: it runs programs and sends requests.
type Calls struct {
	// Environ is what commands get, and where tokens are looked for.
	Environ []string
	client  *http.Client
}

// NewCalls makes one. A token doesn't follow a redirect elsewhere.
func NewCalls(environ []string) *Calls {
	return &Calls{Environ: environ, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Carry implements Carrier.
func (c *Calls) Carry(ctx context.Context, spec api.HookSpec, body []byte) error {
	if len(spec.Command) > 0 {
		return c.execute(ctx, spec.Command, body)
	}
	return c.send(ctx, spec, body)
}

// execute runs a command in a process group of its own, which goes as a whole
// when its time is over.
func (c *Calls) execute(ctx context.Context, argv []string, body []byte) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin = c.Environ, bytes.NewReader(body)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil && cmd.Process == nil {
		return fmt.Errorf("command %s did not start: %w", argv[0], err)
	}
	if err != nil {
		return fmt.Errorf("command %s: %w", argv[0], err)
	}
	return nil
}

func (c *Calls) send(ctx context.Context, spec api.HookSpec, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, spec.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: its url is no address", ErrFinal)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "cdui-hook")
	token, err := c.token(spec)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.client.Do(req)
	if err != nil {
		// What net/http says has the whole address in it; what is in its path or
		// query may be worth keeping to oneself.
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("send to %s: %w", req.URL.Host, err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	switch {
	case res.StatusCode/100 == 2:
		return nil
	case res.StatusCode/100 == 5, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		return fmt.Errorf("%s answered %s", req.URL.Host, res.Status)
	}
	return fmt.Errorf("%w: %s answered %s", ErrFinal, req.URL.Host, res.Status)
}

// token reads the bearer token from where it is, anew each time.
func (c *Calls) token(spec api.HookSpec) (string, error) {
	switch {
	case spec.TokenEnv != "":
		for _, entry := range c.Environ {
			if value, ok := strings.CutPrefix(entry, spec.TokenEnv+"="); ok && value != "" {
				return value, nil
			}
		}
		return "", fmt.Errorf("%w: the control plane's environment has no %s; start it with one", ErrFinal, spec.TokenEnv)
	case spec.TokenFile != "":
		info, err := os.Stat(spec.TokenFile)
		if err != nil {
			return "", fmt.Errorf("token file: %w", err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			return "", fmt.Errorf("%w: others may read the token file %s; chmod 600 it", ErrFinal, spec.TokenFile)
		}
		raw, err := os.ReadFile(spec.TokenFile)
		if err != nil {
			return "", fmt.Errorf("token file: %w", err)
		}
		token := strings.TrimSpace(string(raw))
		if token == "" || strings.ContainsAny(token, "\r\n") {
			return "", fmt.Errorf("%w: the token file %s must hold one line", ErrFinal, spec.TokenFile)
		}
		return token, nil
	}
	return "", nil
}
