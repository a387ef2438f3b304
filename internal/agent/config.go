package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cdui/internal/agent/offer"
	"cdui/internal/agent/via"
	"cdui/internal/protocol"
	"cdui/internal/tlspin"
)

// Config is what an agent is started with.
type Config struct {
	// Control is the address of the control plane, http or https.
	Control string
	// Pin is sha256:… of the control plane's key; empty trusts the machine's
	// authorities.
	Pin string
	// CAFile holds the authorities to trust in place of the machine's.
	CAFile string
	// Tunnel is the file that names the end of the tunnel that leads to the
	// control plane, which needs a pin; empty dials Control itself.
	Tunnel string
	// EnrollToken is a one-time token; it is needed once.
	EnrollToken string
	// SessionTokenFile is the control plane's own token file, for an agent on
	// its machine that isn't enrolled.
	SessionTokenFile string
	// Name is the worker's; empty is DefaultName.
	Name    string
	DataDir string
	// Devices are those to offer; none offers all that the environment permits.
	Devices []string
	// Python is the interpreter for runs that name none.
	Python  string
	PassEnv []string
	// Mounts maps labels of shared folders to where they are on this machine.
	Mounts map[string]string
	// Environ is what the agent was started in.
	Environ []string
	// Exe is the cdui binary; empty is this process's own. Isolate is how runs
	// are held together.
	Exe, Isolate string
	// Warm is how many spares are always kept; 0 keeps them after runs that
	// used torch, -1 never.
	Warm int
	// Storage makes what moves the files of runs; nil moves none.
	Storage func(Upstream) Storage
	// Cards reads the NVIDIA cards; nil asks the driver.
	Cards  offer.Cards
	Logger *slog.Logger
	// Ready is called once the agent has its folder and its runs, before it
	// first connects.
	Ready func()
}

const (
	// stopGrace is what cdui agent stop --cancel-runs leaves each run (CAN-04).
	stopGrace = 10 * time.Second
	// defaultResume is how long runs are kept where no control plane has said.
	defaultResume = 24 * time.Hour
)

// DefaultName makes a worker's name of the machine's.
func DefaultName() string {
	host, _ := os.Hostname() // without one it is what every other is called
	return cmp.Or(protocol.NameFrom(host), "worker")
}

// complete checks c and fills in what is left out.
func (c Config) complete() (Config, error) {
	if c.Name == "" {
		c.Name = DefaultName()
	}
	if err := protocol.ValidName(c.Name); err != nil {
		return c, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Pin != "" && c.CAFile != "" {
		return c, errors.New("a pinned key needs no authority: give either the pin or the file of authorities")
	}
	if c.Tunnel != "" {
		if c.Pin == "" {
			return c, errors.New("a tunnel needs the control plane's pin: anybody on this machine could stand at its end")
		}
		c.Control = via.URL
	}
	if c.Pin != "" {
		if _, err := tlspin.Parse(c.Pin); err != nil {
			return c, err
		}
		if strings.HasPrefix(c.Control, "http:") {
			return c, fmt.Errorf("--pin needs an https address, %s is not encrypted", c.Control)
		}
	}
	for label, folder := range c.Mounts {
		if !filepath.IsAbs(folder) {
			return c, fmt.Errorf("the mount %s=%s is not absolute", label, folder)
		}
	}
	if !strings.Contains(c.Control, "://") && c.Control != "" {
		c.Control = "http://" + c.Control
		if c.Pin != "" {
			c.Control = "https://" + strings.TrimPrefix(c.Control, "http://")
		}
	}
	c.Control = strings.TrimSuffix(c.Control, "/")
	c.Devices = slices.Clone(c.Devices)
	return c, nil
}
