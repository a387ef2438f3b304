package api

import "time"

// Paths of the tunnels that workers are reached through.
const (
	PathTunnels = "/api/tunnels"
	PathTunnel  = "/api/tunnels/{id}"
)

// TunnelSpec is how a tunnel is opened. It holds no secret.
type TunnelSpec struct {
	// Target is the place as a person typed it, user@host.
	Target string `json:"target"`
	// ConfigFile stands in for the user's ssh config; AgentSocket is that of an
	// ssh-agent, Identity the key that was installed for this tunnel.
	ConfigFile  string `json:"config_file,omitempty"`
	AgentSocket string `json:"agent_socket,omitempty"`
	Identity    string `json:"identity,omitempty"`
	// Folder is the tunnel's own on the other machine, Data the agent's data
	// folder where it isn't the usual one.
	Folder string `json:"folder"`
	Data   string `json:"data,omitempty"`
	// Flags are those that the agent is started with.
	Flags []string `json:"flags,omitempty"`
}

// TunnelRequest opens the tunnel of a worker.
type TunnelRequest struct {
	Worker string `json:"worker"`
	TunnelSpec
	// Answers are what a person typed to log in, by question. They are kept in
	// memory as long as the tunnel is, and nowhere else.
	Answers map[string]string `json:"answers,omitempty"`
}

// TunnelState is how a tunnel stands.
type TunnelState string

// The states of a tunnel.
const (
	TunnelConnecting TunnelState = "connecting"
	TunnelUp         TunnelState = "up"
	// TunnelDown: it broke, or the other machine isn't reached; it is tried
	// again.
	TunnelDown TunnelState = "down"
	// TunnelNeedsLogin: it is not tried again until somebody has logged in.
	TunnelNeedsLogin TunnelState = "needs_login"
)

// Tunnel is the way to one worker through ssh.
type Tunnel struct {
	Worker string `json:"worker"`
	TunnelSpec
	State TunnelState `json:"state"`
	Since time.Time   `json:"since"`
	// End is where it ends on the other machine, empty while it isn't up.
	End     string     `json:"end"`
	Problem string     `json:"problem"`
	RetryAt *time.Time `json:"retry_at"`
	// Command is what to type where it needs a login.
	Command string `json:"command"`
}

// TunnelList is the reply of GET /api/tunnels, by worker.
type TunnelList struct {
	Tunnels []Tunnel `json:"tunnels"`
	// Pin is the key that the control plane shows at every end.
	Pin string `json:"pin"`
}
