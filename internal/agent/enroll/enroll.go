// Package enroll gives an agent what it identifies itself by, and decides whom
// it shows that to: it spends one-time tokens, keeps what they bring in the
// agent's folder, and checks the control plane's key or certificate.
package enroll

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"cdui/internal/agent/folder"
	"cdui/internal/api"
	"cdui/internal/fsinfo"
	"cdui/internal/protocol"
	"cdui/internal/tlspin"
	"cdui/internal/token"
	"cdui/internal/version"
)

// Config is who enrolls where.
type Config struct {
	// Control is the control plane's address, Pin its key where it is pinned,
	// CAFile the authorities to trust in place of the machine's.
	Control, Pin, CAFile string
	// Token is a one-time token; empty enrolls nothing.
	Token, Name string
	// Dial connects in place of a connection to Control; nil is none.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Tunnel is the file that it reads, for the note.
	Tunnel string
	Logger *slog.Logger
}

// ErrNoToken is wrapped when the agent has nothing to identify itself by.
var ErrNoToken = errors.New("this agent is not enrolled")

// TLS trusts the pinned key, the given authorities, or the machine's.
func TLS(pin, caFile string) (*tls.Config, error) {
	if pin != "" {
		p, err := tlspin.Parse(pin)
		if err != nil {
			return nil, err
		}
		return p.Config(), nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read the control plane's authorities: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", caFile)
	}
	return cfg, nil
}

// warnPlain says that whoever is on the way can read along (TLS-02).
func warnPlain(ctx context.Context, cfg Config) {
	u, err := url.Parse(cfg.Control)
	if err != nil || u.Scheme != "http" {
		return
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return
	}
	cfg.Logger.WarnContext(ctx, "the connection is not encrypted: token, code and secrets can be read on the way; start the control plane with TLS", "control", cfg.Control)
}

// TokenSource gives the worker's token, read anew for each connection: a worker
// may be enrolled again while its agent runs.
func TokenSource(f *folder.Folder, sessionFile string) func() (string, error) {
	return func() (string, error) {
		own, err := f.Token()
		if err != nil || own != "" {
			return own, err
		}
		if sessionFile != "" {
			b, err := os.ReadFile(sessionFile)
			if err != nil {
				return "", fmt.Errorf("read the control plane's token: %w", err)
			}
			return strings.TrimSpace(string(b)), nil
		}
		return "", fmt.Errorf("%w; give it a token of cdui workers add with --token", ErrNoToken)
	}
}

// Enroll spends the one-time token of the configuration, unless the folder is
// enrolled by it already.
func Enroll(ctx context.Context, cfg Config, f *folder.Folder, tlsCfg *tls.Config) (folder.Note, error) {
	note, err := f.Note()
	if err != nil {
		cfg.Logger.WarnContext(ctx, "the note of an earlier agent is left out", "error", err)
		note = folder.Note{}
	}
	if cfg.Control == "" {
		return note, errors.New("no control plane given: name it with --control http://HOST:PORT")
	}
	note.Name, note.Control, note.Pin, note.CAFile, note.Tunnel = cfg.Name, cfg.Control, cfg.Pin, cfg.CAFile, cfg.Tunnel
	warnPlain(ctx, cfg)
	note.PID, note.Version = os.Getpid(), version.String()
	if cfg.Token != "" && note.EnrolledWith != token.Hash(cfg.Token) {
		reply, err := spendToken(ctx, cfg, tlsCfg)
		if err != nil {
			return note, err
		}
		// The token first: without it the note would claim what isn't so.
		if err := f.KeepToken(reply.WorkerToken); err != nil {
			return note, err
		}
		note.WorkerID, note.EnrolledWith = reply.WorkerID, token.Hash(cfg.Token)
		cfg.Logger.InfoContext(ctx, "enrolled", "worker", reply.WorkerID, "control", cfg.Control)
	}
	return note, f.KeepNote(note)
}

const (
	enrollTimeout = 30 * time.Second
	enrollPause   = 2 * time.Second
	enrollMost    = 30 * time.Second
)

// spendToken asks until the control plane answers: it may not be up yet.
func spendToken(ctx context.Context, cfg Config, tlsCfg *tls.Config) (api.EnrollReply, error) {
	body, err := json.Marshal(api.EnrollRequest{
		Token: cfg.Token, Name: cfg.Name, MachineID: fsinfo.MachineID(), Version: version.String(),
	})
	if err != nil {
		return api.EnrollReply{}, fmt.Errorf("enroll: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: tlsCfg, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if cfg.Dial != nil {
		transport.Proxy, transport.DialContext = nil, cfg.Dial
	}
	client := &http.Client{Timeout: enrollTimeout, Transport: transport}
	defer client.CloseIdleConnections()
	for wait := enrollPause; ; wait = min(2*wait, enrollMost) {
		reply, again, err := askOnce(ctx, client, cfg.Control+api.PathWorkerEnroll, body)
		if err == nil || !again || ctx.Err() != nil {
			return reply, err
		}
		cfg.Logger.WarnContext(ctx, "not enrolled yet", "control", cfg.Control, "error", err, "retry_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return reply, ctx.Err()
		}
	}
}

func askOnce(ctx context.Context, client *http.Client, url string, body []byte) (reply api.EnrollReply, again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return reply, false, fmt.Errorf("enroll: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return reply, !untrusted(err), fmt.Errorf("enroll: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return reply, true, fmt.Errorf("enroll: %w", err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		again := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500
		return reply, again, fmt.Errorf("enroll: the control plane answers %s: %s", resp.Status, said(answer))
	}
	if err := json.Unmarshal(answer, &reply); err != nil || reply.WorkerToken == "" {
		return reply, false, fmt.Errorf("enroll: %s is no control plane: it answers %.80q", url, answer)
	}
	return reply, false, protocol.ValidRegisteredName(reply.Name)
}

// untrusted tells whether the other side is not who it should be; asking again
// doesn't change that, and a start that waits for it says nothing.
func untrusted(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.Is(err, tlspin.ErrMismatch) || errors.As(err, &certificate)
}

// said gives the sentence of an error envelope, or what there is instead.
func said(answer []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	return fmt.Sprintf("%.200s", bytes.TrimSpace(answer))
}
