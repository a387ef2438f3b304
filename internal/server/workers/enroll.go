package workers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/store"
	"cdui/internal/token"
)

const (
	// enrollBurst tries in a row and one more each enrollEvery are what one
	// address has for one-time tokens.
	enrollBurst = 10
	enrollEvery = 6 * time.Second
	// enrollValid is how long a one-time token is good; enrollMost the longest
	// that may be asked for.
	enrollValid = 24 * time.Hour
	enrollMost  = 30 * 24 * time.Hour
)

// newEnrollmentToken mints a one-time token: six characters, a dot, sixteen.
func newEnrollmentToken() string {
	const letters = "abcdefghijkmnpqrstuvwxyz23456789" // 32, none that is taken for another
	var b [22]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime aborts instead
	for i := range b {
		b[i] = letters[b[i]%byte(len(letters))]
	}
	return string(b[:6]) + "." + string(b[6:])
}

// NewEnrollment makes a one-time token for a new worker.
func (r *Registry) NewEnrollment(ctx context.Context, user string, req api.EnrollmentRequest) (api.EnrollmentReply, error) {
	valid := enrollValid
	if t := req.TTLS; t != nil {
		if !(*t >= 1 && *t <= enrollMost.Seconds()) {
			return api.EnrollmentReply{}, api.Errorf(api.Invalid, "ttl_s must be 1 to %.0f seconds", enrollMost.Seconds())
		}
		valid = time.Duration(*t * float64(time.Second))
	}
	if req.Name != "" {
		if err := protocol.ValidName(req.Name); err != nil {
			return api.EnrollmentReply{}, api.Errorf(api.Invalid, "%v", err)
		}
	}
	secret, e := newEnrollment(user, "", valid)
	if err := r.cfg.Store.AddEnrollment(ctx, e); err != nil {
		return api.EnrollmentReply{}, err
	}
	return r.shown(secret, e, req.Name), nil
}

func newEnrollment(user, worker string, valid time.Duration) (secret string, e store.Enrollment) {
	secret = newEnrollmentToken()
	now := time.Now().UTC()
	return secret, store.Enrollment{TokenHash: token.Hash(secret), Worker: worker, CreatedBy: user, CreatedAt: now, ExpiresAt: now.Add(valid)}
}

// shown is the reply that brings a one-time token, the only time that it is
// seen.
func (r *Registry) shown(secret string, e store.Enrollment, name string) api.EnrollmentReply {
	command := "cdui agent start --control " + quote(r.cfg.URL) + " --token " + secret
	if name != "" {
		command += " --name " + name
	}
	if r.cfg.Pin != "" {
		command += " --pin " + r.cfg.Pin
	}
	return api.EnrollmentReply{Name: name, Token: secret, ExpiresAt: e.ExpiresAt.Truncate(time.Second), Command: command}
}

// quote makes one word of a shell of s.
func quote(s string) string {
	for _, c := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/_-[]", c) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}

// Enroll exchanges a one-time token for a worker's own (ENR-02). Nobody is
// known yet, so tries are counted by address.
func (r *Registry) Enroll(req *http.Request, body api.EnrollRequest) (api.EnrollReply, error) {
	peer := address(req)
	r.warnPlain(req, peer, "an enrollment")
	r.mu.Lock()
	wait, ok := r.limit.Allow(peer.String(), time.Now())
	connected := false
	if w := r.workers[body.Name]; w != nil && !w.enrolled && w.session != nil {
		connected = true
	}
	r.mu.Unlock()
	if !ok {
		return api.EnrollReply{}, api.Errorf(api.TooMany, "too many tries from this address; wait %.0f s", max(1, wait.Seconds())).
			With("retry_after_s", wait.Seconds())
	}
	if err := protocol.ValidName(body.Name); err != nil {
		return api.EnrollReply{}, api.Errorf(api.Invalid, "%v", err)
	}
	if len(body.MachineID) > 256 || len(body.Version) > 256 {
		return api.EnrollReply{}, api.Errorf(api.Invalid, "machine_id and version have at most 256 characters")
	}
	if connected {
		return api.EnrollReply{}, api.Errorf(api.Conflict, "an agent on the control plane's machine is connected as %s; stop it first, or take another name", body.Name)
	}
	secret := token.New()
	hash := token.Hash(secret)
	facts := store.WorkerFacts{MachineID: body.MachineID, Version: body.Version}
	err := r.cfg.Store.Enroll(req.Context(), token.Hash(strings.TrimSpace(body.Token)), body.Name, hash, facts, time.Now().UTC())
	switch {
	case errors.Is(err, store.ErrEnrollment):
		r.log.Warn("enrollment refused", "worker", body.Name, "peer", peer, "error", err)
		return api.EnrollReply{}, api.Errorf(api.Unauthorized, "%v; make a new one with cdui workers add", err)
	case errors.Is(err, store.ErrTaken):
		return api.EnrollReply{}, api.Errorf(api.Conflict, "the name %s is taken by another worker; take another one, or get a token for it with cdui workers rekey %s", body.Name, body.Name)
	case err != nil:
		return api.EnrollReply{}, err
	}
	r.enrolled(body.Name, hash, peer, facts)
	r.log.Info("worker enrolled", "worker", body.Name, "peer", peer)
	return api.EnrollReply{WorkerID: body.Name, Name: body.Name, WorkerToken: secret, HeartbeatS: protocol.SecondsOf(r.cfg.Heartbeat)}, nil
}

// enrolled lets a worker's new token in and every older one out.
func (r *Registry) enrolled(name, hash string, peer netip.Addr, facts store.WorkerFacts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit.Refund(peer.String())
	r.revoke(name)
	r.tokens[hash] = name
	w := r.entry(name)
	if !w.enrolled {
		w.gone = w.session == nil && len(w.runs) == 0
	}
	w.listed, w.enrolled, w.rejected = true, true, nil
	w.known.MachineID, w.known.Version = facts.MachineID, facts.Version
	if w.session != nil {
		w.session.HangUp(protocol.CloseUnauthorized, "the worker was enrolled again", rekeyed())
	}
	r.tell(w)
}

// revoke forgets a worker's token. The caller holds mu.
func (r *Registry) revoke(name string) {
	for hash, of := range r.tokens {
		if of == name {
			delete(r.tokens, hash)
		}
	}
}

func rekeyed() protocol.Problem {
	return protocol.Problem{Code: protocol.CauseRekeyed, Text: "the worker has to enroll again"}
}

func address(req *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap()
}

func unknownWorker(name string) error {
	return api.Errorf(api.NotFound, "no worker %q", name).With("id", name)
}

func storeError(name string, err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return unknownWorker(name)
	}
	if err != nil {
		return fmt.Errorf("worker %s: %w", name, err)
	}
	return nil
}
