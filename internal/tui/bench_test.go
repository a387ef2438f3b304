package tui_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/creack/pty"

	"cdui/internal/api"
	"cdui/internal/client"
	"cdui/internal/client/live"
	"cdui/internal/tui"
	"cdui/internal/tui/ui"
)

// line is a connection that frames are handed to.
type line struct {
	ctx    context.Context
	frames chan api.LiveFrame
}

func (l *line) Next() (api.LiveFrame, error) {
	select {
	case f := <-l.frames:
		return f, nil
	case <-l.ctx.Done():
		return api.LiveFrame{}, l.ctx.Err()
	}
}

func (*line) Close() {}

// shown is a program on a terminal of 120x40.
type shown struct {
	master *os.File
	frames chan api.LiveFrame
	bytes  atomic.Int64
	writes chan struct{}
	stop   func()
}

func show(b *testing.B, f api.LiveFrame) *shown {
	b.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		b.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := &shown{master: master, frames: make(chan api.LiveFrame, 1), writes: make(chan struct{}, 1)}
	src := sweepRun()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tui.Run(ctx, tui.Config{
			Dial:   func(ctx context.Context, _ string, _ int64) (live.Conn, error) { return &line{ctx, x.frames}, nil },
			Source: src, Sweeps: src, Act: ui.Actions{Runs: src, Workers: src, Queue: src, Sweeps: src, Submit: src.submit, SubmitSweep: src.submitSweep}, Theme: "dark", Unicode: true,
			In: slave, Out: slave, Environ: []string{"TERM=xterm-256color"},
		})
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 256<<10)
		for {
			n, err := master.Read(buf)
			x.bytes.Add(int64(n))
			if bytes.Contains(buf[:n], []byte("\x1b[")) {
				select {
				case x.writes <- struct{}{}:
				default:
				}
			}
			if err != nil {
				return
			}
		}
	}()
	x.stop = func() {
		cancel()
		<-done
		slave.Close()
		master.Close()
		<-read
	}
	x.frames <- f
	x.settle()
	return x
}

// settle waits until nothing was sent for a while.
func (x *shown) settle() {
	for last := int64(-1); last != x.bytes.Load(); {
		last = x.bytes.Load()
		<-time.After(300 * time.Millisecond)
	}
	select {
	case <-x.writes:
	default:
	}
}

// BenchmarkTUI says how long it takes from a key to the bytes of the picture, with
// 10,000 runs and 64 cards, beside the 50 ms that are allowed; the picture is
// paced to 60 a second, which is part of it.
func BenchmarkTUI(b *testing.B) {
	b.Run("key to paint, 10,000 runs", func(b *testing.B) {
		x := show(b, huge(10000))
		defer x.stop()
		keys := []string{"j", "j", "j", "k"}
		worst := time.Duration(0)
		for i := 0; b.Loop(); i++ {
			from := time.Now()
			if _, err := io.WriteString(x.master, keys[i%len(keys)]); err != nil {
				b.Fatal(err)
			}
			<-x.writes
			worst = max(worst, time.Since(from))
			b.StopTimer()
			<-time.After(60 * time.Millisecond) // what is still on its way belongs to this key
			select {
			case <-x.writes:
			default:
			}
			b.StartTimer()
		}
		per := float64(b.Elapsed().Milliseconds()) / float64(b.N)
		b.ReportMetric(per/50, "of-50-ms")
		b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
	})
	b.Run("frame of 500 changes among 10,000 runs", func(b *testing.B) {
		s := newScreen(b, 200, 60, huge(10000))
		f := huge(10000)
		f.Type, f.Runs, f.Keys, f.Workers = api.LiveDelta, f.Runs[4000:4500], nil, nil
		f.Complete = false
		for b.Loop() {
			s.m.Update(tui.Fed(f))
			s.m.View()
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/100, "of-100-ms") // ten a second come at most
	})
	b.Run("idle", func(b *testing.B) {
		x := show(b, huge(10000))
		defer x.stop()
		const long = 10 * time.Second
		from, n := x.bytes.Load(), 0
		for b.Loop() {
			<-time.After(long)
			n++
		}
		per := float64(x.bytes.Load()-from) / long.Seconds() / float64(n)
		b.ReportMetric(per, "B/s")
		b.ReportMetric(per/2048, "of-2-KB/s")
	})
	b.Run("console of 5,000 lines a second", func(b *testing.B) {
		heap := func() float64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return float64(m.HeapAlloc)
		}
		src := &flood{source: sweepRun()}
		s := newScreen(b, 120, 40, small(), func(c *tui.Config) { c.Source = src })
		s.m.Open(idSweep, "console")
		minute := func() {
			for range 60 * 10 { // ten reads a second
				chunk, _ := src.Log(context.Background(), idSweep, src.at, 0, 0)
				s.m.Update(tui.Output(s.m, chunk))
				s.m.View()
			}
		}
		minute()
		first := heap()
		n := 0
		for b.Loop() {
			minute()
			n++
		}
		b.ReportMetric(heap()/first, "heap-after/heap-after-1-min")
		b.ReportMetric(float64(b.Elapsed().Seconds())/float64(n)/60, "of-a-core")
	})
}

// flood puts out 500 lines with each read.
type flood struct {
	*source
	at int64
}

func (f *flood) Log(context.Context, string, int64, int, time.Duration) (client.LogChunk, error) {
	var b bytes.Buffer
	for range 500 {
		b.WriteString("step 290/469 \x1b[32mloss\x1b[0m 0.1234 lr 3e-4 grad 1.02 tokens/s 18234 訓練\n")
	}
	from := f.at
	f.at += int64(b.Len())
	return client.LogChunk{Bytes: b.Bytes(), Offset: from, Next: f.at, Size: f.at}, nil
}

var _ tea.Model = (*tui.Model)(nil)
