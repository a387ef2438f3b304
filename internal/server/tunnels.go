package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/server/tunnels"
	"cdui/internal/sshtunnel"
	"cdui/internal/sshtunnel/sshconfig"
	"cdui/internal/tlspin"
)

// tunnelPatience bounds each handshake on the way to a worker.
const tunnelPatience = 30 * time.Second

// composeTunnels makes the keeper of tunnels. What it serves at their ends is a
// part of the API, with the control plane's own key, whatever the API itself
// shows to others.
func (s *server) composeTunnels(folder *folder) {
	var mu sync.Mutex
	s.tunnels = tunnels.New(tunnels.Config{
		Store: s.store,
		Dial: func(ctx context.Context, spec api.TunnelSpec, ask sshtunnel.Asker) (tunnels.Line, error) {
			target, err := sshconfig.ParseTarget(spec.Target)
			if err != nil {
				return nil, err
			}
			d := sshtunnel.Dialer{
				Config: sshconfig.Source{File: spec.ConfigFile}, Ask: ask, AgentSocket: spec.AgentSocket,
				Identity: spec.Identity, Patience: tunnelPatience,
			}
			return d.Dial(ctx, target)
		},
		Handler: func(worker string) http.Handler { return s.api.Door(worker) },
		Secure: func() (*tls.Config, string, error) {
			mu.Lock() // two would make two keys
			defer mu.Unlock()
			cert, err := folder.selfSigned(time.Now())
			if err != nil {
				return nil, "", err
			}
			return serverTLS(cert), tlspin.Of(cert.Leaf).String(), nil
		},
		Logger: s.log,
	})
}
