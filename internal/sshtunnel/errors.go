package sshtunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"cdui/internal/sshtunnel/hostkey"
	"cdui/internal/sshtunnel/sshconfig"
)

// ErrNeedsTyping is wrapped where a person has to answer and none can.
var ErrNeedsTyping = errors.New("somebody has to type")

// LoginError says that an account let nobody in.
type LoginError struct {
	Login string
	// Tried is what was tried, Takes what the host takes, where it says so.
	Tried []string
	// Asked is what a person would have been asked; empty when all was tried.
	Asked string
	// Wrong says which answer was.
	Wrong string
	Err   error
}

func (e *LoginError) Error() string {
	tried := "nothing that it takes is at hand"
	if len(e.Tried) > 0 {
		tried = "tried " + strings.Join(e.Tried, ", ")
	}
	switch {
	case e.Wrong != "":
		return fmt.Sprintf("%s lets nobody in: %s", e.Login, e.Wrong)
	case e.Asked != "":
		return fmt.Sprintf("%s lets nobody in without typing: %s", e.Login, e.Asked)
	case strings.Contains(e.Err.Error(), "Too many authentication failures"):
		return fmt.Sprintf("%s hangs up after too many keys (%s): name the right one with IdentityFile and IdentitiesOnly yes in the ssh config", e.Login, tried)
	}
	return fmt.Sprintf("%s lets nobody in (%s): check with ssh %s which key or password it takes", e.Login, tried, e.Login)
}

func (e *LoginError) Unwrap() []error {
	if e.Asked != "" {
		return []error{e.Err, ErrNeedsTyping}
	}
	return []error{e.Err}
}

// Lasting tells whether trying again without a person changes nothing: nobody
// is let in, or the host is not who it was.
func Lasting(err error) bool {
	var login *LoginError
	var changed *hostkey.ChangedError
	var unknown *hostkey.UnknownError
	var revoked *hostkey.RevokedError
	return errors.Is(err, ErrNeedsTyping) || errors.As(err, &login) || errors.As(err, &changed) || errors.As(err, &unknown) || errors.As(err, &revoked)
}

// dialError puts into words why a host can't be reached.
func dialError(h sshconfig.Host, err error) error {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &dns):
		return fmt.Errorf("no machine is called %q (%s in the ssh config): %w", h.HostName, h.Alias, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no sshd answers at %s: %w", h.Address(), err)
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s does not answer: %w", h.Address(), err)
	}
	return fmt.Errorf("connect to %s: %w", h.Address(), err)
}
