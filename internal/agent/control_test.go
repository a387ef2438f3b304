package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/protocol"
)

type attempt struct {
	run     string
	attempt int
}

// plane is a control plane as an agent sees it. It records what arrives as the
// real one does: once, in order, by number.
type plane struct {
	t    *testing.T
	http *httptest.Server
	caps protocol.Capabilities

	mu      sync.Mutex
	changed chan struct{}
	peer    *peer
	epoch   uint64
	hellos  []*protocol.Hello
	alive   [][]protocol.AliveRun
	beats   []*protocol.Heartbeat
	records map[attempt][]protocol.Record
	// held are the runs that welcome lists.
	held map[attempt]bool
	// twice and gaps count records that came again and numbers that did not come.
	twice, gaps int
	singles     int
	chunks      map[string][]*protocol.LogChunk
	drained     bool
	enrolled    []api.EnrollRequest
	tokens      []string

	// deaf: nothing is acknowledged. close, where it is not 0, refuses at the
	// door; reject answers hello.
	deaf        bool
	close       int
	reject      *protocol.Reject
	heartbeat   time.Duration
	resumeGrace time.Duration
	grace       time.Duration
	// poison hangs up on a record with this number.
	poison uint64
}

// peer is one connection.
type peer struct {
	conn *websocket.Conn
	mu   sync.Mutex
	// epoch is the session's.
	epoch uint64
}

func (p *peer) send(t *testing.T, f protocol.Frame) {
	t.Helper()
	b, err := protocol.Encode(p.epoch, f)
	if err != nil {
		t.Error(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A connection that was cut meanwhile shows elsewhere.
	_ = p.conn.WriteMessage(websocket.TextMessage, b)
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{
		t: t, changed: make(chan struct{}), records: map[attempt][]protocol.Record{}, held: map[attempt]bool{},
		chunks: map[string][]*protocol.LogChunk{}, heartbeat: 10 * time.Second, grace: 5 * time.Second, resumeGrace: time.Hour,
		caps: protocol.Capabilities{
			protocol.CapAck, protocol.CapFrames, protocol.CapParts, protocol.CapLogs, protocol.CapRunFacts, protocol.CapTransfer,
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/ws/worker", p.worker)
	mux.HandleFunc("POST "+api.PathWorkerEnroll, p.enroll)
	p.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		p.cut()
		p.http.CloseClientConnections()
		p.http.Close()
	})
	return p
}

func (p *plane) enroll(w http.ResponseWriter, r *http.Request) {
	var req api.EnrollRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.change(func() { p.enrolled = append(p.enrolled, req) })
	if !strings.HasPrefix(req.Token, "good") {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"code":"unauthorised","message":"the token is used up"}}`)
		return
	}
	_ = json.NewEncoder(w).Encode(api.EnrollReply{
		WorkerID: req.Name, Name: req.Name, WorkerToken: "worker-" + req.Token, HeartbeatS: 10,
	})
}

// change alters what is known and wakes who waits for it.
func (p *plane) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits until cond holds.
func (p *plane) await(what string, cond func() bool) {
	p.t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		changed, ok := p.changed, cond()
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			p.t.Fatalf("%s did not come about; records %v, alive %v", what, p.said(), p.alive)
		}
	}
}

func (p *plane) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for key, list := range p.records {
		out = append(out, fmt.Sprintf("%s/%d: %d", key.run, key.attempt, len(list)))
	}
	return strings.Join(out, ", ")
}

func (p *plane) worker(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	p.mu.Lock()
	code := p.close
	p.tokens = append(p.tokens, r.Header.Get("X-CodefyUI-Token"))
	p.mu.Unlock()
	if code != 0 {
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "not you"), time.Now().Add(time.Second))
		drain(conn)
		return
	}
	_, raw, err := conn.ReadMessage()
	if err != nil {
		return
	}
	env, err := protocol.DecodeFromAgent(raw)
	if err != nil {
		p.t.Error(err)
		return
	}
	hello, ok := env.Frame.(*protocol.Hello)
	if !ok {
		p.t.Errorf("the first frame is %s", env.Frame.FrameType())
		return
	}
	me := &peer{conn: conn}
	p.mu.Lock()
	reject := p.reject
	p.mu.Unlock()
	if reject != nil {
		me.send(p.t, reject)
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(protocol.CloseRejected, reject.Code), time.Now().Add(time.Second))
		drain(conn)
		p.change(func() { p.hellos = append(p.hellos, hello) })
		return
	}
	p.welcome(me, hello)
	p.listen(me, hello)
}

// drain reads what comes until the other side hangs up, so that it hears why.
func drain(conn *websocket.Conn) {
	for {
		if _, _, err := conn.ReadMessage(); err != nil {
			return
		}
	}
}

func (p *plane) welcome(me *peer, hello *protocol.Hello) {
	p.mu.Lock()
	p.epoch++
	me.epoch = p.epoch
	welcome := &protocol.Welcome{
		WorkerID: hello.Name, Version: hello.Version, Protocol: protocol.Version, TS: time.Now(),
		HeartbeatS: protocol.SecondsOf(p.heartbeat), GraceS: protocol.SecondsOf(p.grace), ResumeGraceS: protocol.SecondsOf(p.resumeGrace),
		Capabilities: p.caps,
	}
	for key := range p.held {
		welcome.Runs = append(welcome.Runs, protocol.HeldRun{RunID: key.run, Attempt: key.attempt, RecordedSeq: p.last(key)})
	}
	drained := p.drained
	p.mu.Unlock()
	me.send(p.t, welcome)
	if drained {
		me.send(p.t, &protocol.Drain{On: true})
	}
	p.change(func() { p.hellos, p.peer = append(p.hellos, hello), me })
}

// last is the newest record of an attempt; the lock is held.
func (p *plane) last(key attempt) uint64 {
	list := p.records[key]
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].Seq
}

func (p *plane) listen(me *peer, hello *protocol.Hello) {
	defer p.change(func() {
		if p.peer == me {
			p.peer = nil
		}
	})
	var joiner protocol.Joiner
	first := true
	for {
		_, raw, err := me.conn.ReadMessage()
		if err != nil {
			return
		}
		env, err := protocol.DecodeFromAgent(raw)
		if err != nil {
			p.t.Errorf("bad frame: %v", err)
			return
		}
		if part, ok := env.Frame.(*protocol.Part); ok {
			whole, err := joiner.Add(part)
			if err != nil {
				p.t.Error(err)
				return
			}
			if whole == nil {
				continue
			}
			if env, err = protocol.DecodeFromAgent(whole); err != nil {
				p.t.Error(err)
				return
			}
		}
		if env.Epoch != me.epoch {
			p.t.Errorf("%s of session %d in session %d", env.Frame.FrameType(), env.Epoch, me.epoch)
		}
		if _, ok := env.Frame.(*protocol.RunAlive); first && !ok {
			p.t.Errorf("%s comes before run_alive", env.Frame.FrameType())
		}
		first = false
		if err := p.take(me, env.Frame, hello); err != nil {
			_ = me.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(protocol.CloseBadFrame, err.Error()), time.Now().Add(time.Second))
			drain(me.conn)
			return
		}
	}
}

var errPoison = errors.New("poison")

func (p *plane) take(me *peer, f protocol.Frame, hello *protocol.Hello) (err error) {
	switch f := f.(type) {
	case *protocol.RunAlive:
		p.change(func() { p.alive = append(p.alive, f.Runs) })
		if hello.HeldRuns != len(f.Runs) {
			p.t.Logf("hello says %d runs, run_alive lists %d", hello.HeldRuns, len(f.Runs))
		}
	case *protocol.Heartbeat:
		p.change(func() { p.beats = append(p.beats, f) })
	case *protocol.Frames:
		for _, r := range f.Runs {
			if err := p.record(me, attempt{r.RunID, r.Attempt}, r.Records); err != nil {
				return err
			}
		}
	case *protocol.SingleRecord:
		p.change(func() { p.singles++ })
		return p.record(me, attempt{f.RunID, f.Attempt}, []json.RawMessage{f.Record})
	case *protocol.LogChunk:
		p.change(func() { p.chunks[f.RequestID] = append(p.chunks[f.RequestID], f) })
	default:
		p.t.Errorf("unexpected %s", f.FrameType())
	}
	return nil
}

// record stores records and acknowledges them.
func (p *plane) record(me *peer, key attempt, raws []json.RawMessage) error {
	var acked uint64
	poisoned := false
	p.change(func() {
		for _, raw := range raws {
			rec, err := protocol.DecodeRecord(raw)
			if err != nil {
				p.t.Error(err)
				continue
			}
			if rec.Seq == p.poison {
				poisoned = true
				return
			}
			switch last := p.last(key); {
			case rec.Seq <= last:
				p.twice++
				continue
			case rec.Seq > last+1:
				p.gaps++
			}
			p.records[key] = append(p.records[key], rec)
		}
		acked = p.last(key)
		if rec := p.finished(key); rec != nil {
			delete(p.held, key)
		}
	})
	if poisoned {
		return errPoison
	}
	p.mu.Lock()
	deaf := p.deaf
	p.mu.Unlock()
	if !deaf {
		me.send(p.t, &protocol.Ack{RunID: key.run, Attempt: key.attempt, Seq: acked})
	}
	return nil
}

// finished gives how an attempt ended, nil before; the lock is held.
func (p *plane) finished(key attempt) *protocol.Finished {
	list := p.records[key]
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1].Finished
}

// send sends a frame to the agent that is connected.
func (p *plane) send(f protocol.Frame) {
	p.t.Helper()
	p.await("a connection", func() bool { return p.peer != nil })
	p.mu.Lock()
	me := p.peer
	p.mu.Unlock()
	if me == nil {
		p.t.Fatal("the connection is gone")
	}
	if a, ok := f.(*protocol.Assign); ok {
		p.change(func() { p.held[attempt{a.RunID, a.Attempt}] = true })
	}
	me.send(p.t, f)
}

// cut breaks the connection without a word.
func (p *plane) cut() {
	p.mu.Lock()
	me := p.peer
	p.mu.Unlock()
	if me != nil {
		_ = me.conn.UnderlyingConn().Close()
	}
}

// end waits for the end of an attempt.
func (p *plane) end(key attempt) protocol.Finished {
	p.t.Helper()
	p.await("the end of "+key.run, func() bool { return p.finished(key) != nil })
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.finished(key)
}

// started waits for the start of an attempt and gives its pid.
func (p *plane) started(key attempt) int {
	p.t.Helper()
	pid := 0
	p.await("the start of "+key.run, func() bool {
		for _, rec := range p.records[key] {
			if rec.Started != nil {
				pid = rec.Started.PID
			}
		}
		return pid > 0
	})
	return pid
}

func (p *plane) count(key attempt) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.records[key])
}

// counts gives the numbers that a counting child reported.
func (p *plane) counts(key attempt) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []int
	for _, rec := range p.records[key] {
		var v struct {
			N int `json:"n"`
		}
		if rec.Event == "count" && json.Unmarshal(rec.Payload, &v) == nil {
			out = append(out, v.N)
		}
	}
	return out
}
