package workers_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
)

// slow is a connection on which ten kilobytes a second arrive.
type slow struct{ net.Conn }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return s.Conn.Read(p[:min(len(p), 1<<10)])
}

// TestW03ASlowWorkerIsNotCut: an assignment that takes a minute to arrive is
// brought whole, and a ping amidst it is answered when there is room.
func TestW03ASlowWorkerIsNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		d := websocket.Dialer{NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := b.l.dial(ctx, network, address)
			return slow{c}, err
		}}
		conn, resp, err := d.Dial("ws://pipe/ws/worker", http.Header{api.HeaderToken: {sessionToken}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		write(t, conn, 0, hello("box", nil))
		_, raw, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		env, err := protocol.DecodeFromServer(raw)
		if err != nil {
			t.Fatal(err)
		}
		write(t, conn, env.Epoch, &protocol.RunAlive{})
		synctest.Wait()

		options, err := run.ParseOptions(json.RawMessage(`{"command":{"argv":["true"],"cwd":"/"}}`))
		if err != nil {
			t.Fatal(err)
		}
		job := execution.Job{Row: run.Row{ID: "a", Attempt: 1, WorkerID: "box", Devices: []string{"cpu"}, Options: options}}
		job.Program.Command = options.Command
		job.Program.Command.Env = map[string]string{"LONG": strings.Repeat("x", 1_000_000)}
		if err := b.reg.Start(t.Context(), job, b.sink); err != nil {
			t.Fatal(err)
		}

		began := time.Now()
		var pongs atomic.Int64
		conn.SetPongHandler(func(string) error { pongs.Add(1); return nil })
		beat, err := protocol.Encode(env.Epoch, &protocol.Heartbeat{})
		if err != nil {
			t.Fatal(err)
		}
		over, beats := make(chan struct{}), make(chan struct{})
		stop := sync.OnceFunc(func() {
			close(over)
			<-beats
		})
		defer stop()
		go func() {
			defer close(beats)
			every := time.NewTicker(protocol.DefaultHeartbeat)
			defer every.Stop()
			for {
				select {
				case <-every.C:
				case <-over:
					return
				}
				if conn.WriteMessage(websocket.TextMessage, beat) != nil || conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Minute)) != nil {
					return // the reader finds it closed
				}
			}
		}()
		_, raw, err = conn.ReadMessage()
		if err != nil {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		if env, err = protocol.DecodeFromServer(raw); err != nil || env.Frame.FrameType() != protocol.TypeAssign || time.Since(began) < time.Minute {
			t.Errorf("after %v comes %s, %v", time.Since(began), env.Frame.FrameType(), err)
		}
		closed := listen(conn)
		time.Sleep(protocol.DefaultHeartbeat)
		stop()
		if told := b.sink.all(); len(told) > 0 || pongs.Load() == 0 {
			t.Errorf("%d pings are answered, told %v", pongs.Load(), told)
		}
		conn.Close()
		<-closed
	})
}
