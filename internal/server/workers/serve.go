package workers

import (
	"crypto/subtle"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/protocol/pieces"
	"cdui/internal/server/workers/admit"
	"cdui/internal/server/workers/conn"
	"cdui/internal/server/workers/logs"
	"cdui/internal/token"
)

// Serve answers /ws/worker. hostAllowed is whether the request was addressed to
// a name of this control plane.
func (r *Registry) Serve(w http.ResponseWriter, req *http.Request, hostAllowed bool) {
	r.answer(w, req, hostAllowed, false)
}

// ServeTunnel answers /ws/worker at the end of a tunnel: whoever comes through
// one is of another machine, whatever it says of itself, and shows a worker's
// token.
func (r *Registry) ServeTunnel(w http.ResponseWriter, req *http.Request) {
	r.answer(w, req, true, true)
}

func (r *Registry) answer(w http.ResponseWriter, req *http.Request, hostAllowed, tunnel bool) {
	id, peer, code, why := r.authorise(req, hostAllowed, tunnel)
	if !websocket.IsWebSocketUpgrade(req) {
		status := http.StatusUpgradeRequired
		switch code {
		case protocol.CloseForbidden:
			status = http.StatusForbidden
		case protocol.CloseUnauthorized:
			status = http.StatusUnauthorized
		default:
			why = "agents connect here with a WebSocket"
		}
		http.Error(w, why, status)
		return
	}
	up := websocket.Upgrader{
		HandshakeTimeout: protocol.HelloTimeout, ReadBufferSize: 16 << 10, WriteBufferSize: pieces.Buffer,
		CheckOrigin: func(*http.Request) bool { return true }, // authorise has, and says no in its own way
	}
	ws, err := up.Upgrade(w, req, nil)
	if err != nil {
		return // the upgrader has answered
	}
	defer ws.Close()
	if code != 0 {
		r.log.Warn("worker refused", "peer", peer, "reason", why)
		conn.TurnAway(ws, code, why)
		return
	}
	if !r.enter() {
		conn.TurnAway(ws, websocket.CloseGoingAway, "the control plane stops")
		return
	}
	defer r.wg.Done()
	r.serve(&session{
		Conn: conn.New(ws, r.cfg.Heartbeat, r.log), log: r.log, id: id, peer: peer, tunnel: tunnel,
		warned: map[protocol.FrameType]bool{}, strays: map[conn.Key]*placed{},
	})
}

// enter counts a connection in, unless the registry closes.
func (r *Registry) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.wg.Add(1)
	return true
}

// authorise checks a request before anything is read from it; code is 0 when it
// may go on.
func (r *Registry) authorise(req *http.Request, hostAllowed, tunnel bool) (id admit.Identity, peer netip.Addr, code int, why string) {
	if from, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
		peer = from.Addr().Unmap()
	}
	switch {
	case !hostAllowed:
		return id, peer, protocol.CloseForbidden, "this control plane doesn't answer to the name " + req.Host
	case req.Header.Get("Origin") != "":
		return id, peer, protocol.CloseForbidden, "agents send no Origin"
	}
	secret := credential(req)
	id, ok := r.identity(token.Hash(secret), peer.IsLoopback() && !tunnel)
	if secret == "" || !ok {
		return id, peer, protocol.CloseUnauthorized, "no worker has this token"
	}
	r.warnPlain(req, peer, "a worker's token")
	return id, peer, 0, ""
}

func credential(req *http.Request) string {
	if t := req.Header.Get(api.HeaderToken); t != "" {
		return t
	}
	if t, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer "); ok {
		return t
	}
	return req.URL.Query().Get("token")
}

// warnPlain tells when a secret came over a network that anybody can read.
func (r *Registry) warnPlain(req *http.Request, peer netip.Addr, what string) {
	if req.TLS == nil && !r.cfg.Secure && !peer.IsLoopback() {
		r.log.Warn(what+" came over plain HTTP, readable on the way; start with --tls-self-signed or a certificate", "peer", peer)
	}
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// serve runs one connection from its hello to its end.
func (r *Registry) serve(s *session) {
	hello := s.Hello()
	if hello == nil {
		return
	}
	s.Name, s.nonce = hello.RegisteredName(), hello.Nonce
	if !r.admit(s, hello) {
		return
	}
	r.wg.Go(s.Write)
	s.Receive(func(f protocol.Frame) error { return r.handle(s, f) })
	r.sessionEnded(s)
}

// admit decides on a hello and, when it is let in, makes s the worker's
// session.
func (r *Registry) admit(s *session, hello *protocol.Hello) bool {
	here := r.hashes(r.ctx)
	var pinged *admit.Pinged
	for {
		r.mu.Lock()
		standing, live := r.standing(s.Name)
		verdict := admit.Decide(hello, s.id, standing, pinged)
		switch verdict.Action {
		case admit.Welcome:
			ok := r.welcome(s, hello, verdict.DrainOnly, here)
			r.mu.Unlock()
			return ok
		case admit.Ping:
			r.mu.Unlock()
			pinged = &admit.Pinged{Epoch: live.Epoch, Answered: live.Answers(protocol.PingTimeout)}
		default:
			r.noteReject(s, verdict.Reject)
			r.mu.Unlock()
			s.Reject(verdict.Reject)
			return false
		}
	}
}

// standing is what is held of a name. The caller holds mu.
func (r *Registry) standing(name string) (admit.Standing, *session) {
	st := admit.Standing{Version: r.cfg.Version}
	w := r.workers[name]
	if w == nil {
		return st, nil
	}
	st.Enrolled, st.Runs = w.enrolled, len(w.runs)
	if l := w.session; l != nil {
		st.Live = &admit.Live{Epoch: l.Epoch, Nonce: l.nonce, Way: l.id.Way}
	}
	return st, w.session
}

// maxRejected bounds how many names of strangers are remembered for their
// rejection.
const maxRejected = 256

// noteReject keeps why a name was turned away, for people to see. A token of
// one worker writes under no other worker's name. The caller holds mu.
func (r *Registry) noteReject(s *session, reject *protocol.Reject) {
	name := s.Name
	if s.id.Way == admit.Worker {
		name = s.id.Name
	}
	if protocol.ValidRegisteredName(name) != nil {
		return
	}
	w := r.workers[name]
	if w == nil {
		if len(r.workers) >= maxRejected {
			return
		}
		w = r.entry(name)
		w.gone = true
	}
	w.rejected = reject
}

// capabilities is what this release can.
func capabilities() protocol.Capabilities {
	return protocol.Capabilities{
		protocol.CapAck, protocol.CapTransfer, protocol.CapRunFacts, protocol.CapFrames, protocol.CapParts, protocol.CapLogs,
		protocol.CapMemoryBudget,
	}
}

// welcome makes s the worker's session. What it is sent first is in the outbox
// before anything else can be. The caller holds mu.
func (r *Registry) welcome(s *session, hello *protocol.Hello, drainOnly bool, here map[string]string) bool {
	if r.closed {
		return false
	}
	w := r.entry(s.Name)
	if old := w.session; old != nil {
		old.HangUp(protocol.CloseReplaced, "another connection of this worker took over", protocol.Problem{
			Code: protocol.CauseReplaced, Text: "another connection of the worker took over",
		})
		r.leaveSession(w)
	}
	if w.grace != nil {
		w.grace.Stop()
		w.grace = nil
	}
	r.epoch++
	now := time.Now()
	skew := hello.TS.Sub(now)
	s.Epoch, s.drainOnly = r.epoch, drainOnly
	s.Caps = capabilities().Common(hello.Capabilities)
	s.desk = logs.NewDesk(w.name, s.Caps, s.Send)
	w.session, w.hello, w.devices, w.listed, w.rejected, w.gone = s, hello, hello.Devices, true, nil, false
	w.tunnel = s.tunnel
	w.connectedAt, w.lastSeen, w.skew, w.selfDraining = now, now, &skew, false
	w.sameMachine = !s.tunnel && s.peer.IsLoopback() && hello.MachineID != "" && hello.MachineID == r.cfg.MachineID
	w.compare(here)
	if skew.Abs() > protocol.MaxClockSkew {
		r.log.Warn("the worker's clock is off", "worker", w.name, "skew", skew.Round(time.Second))
	}
	welcome := &protocol.Welcome{
		WorkerID: w.name, Version: r.cfg.Version, Protocol: protocol.Version, TS: now.UTC(),
		HeartbeatS: protocol.SecondsOf(r.cfg.Heartbeat), GraceS: protocol.SecondsOf(r.cfg.Grace), ResumeGraceS: protocol.SecondsOf(r.cfg.ResumeGrace),
		Capabilities: s.Caps, DrainOnly: drainOnly, Runs: []protocol.HeldRun{},
	}
	for _, p := range w.sorted() {
		welcome.Runs = append(welcome.Runs, protocol.HeldRun{RunID: p.id, Attempt: p.attempt, RecordedSeq: p.recorded})
	}
	s.Send(welcome)
	if w.draining || drainOnly {
		s.Send(&protocol.Drain{On: true})
	}
	r.log.Info("worker connected", "worker", w.name, "peer", s.peer, "version", hello.Version, "runs", len(w.runs), "drain_only", drainOnly)
	r.fingerprinted(w)
	r.tell(w)
	r.save(w)
	return true
}
