package reports

import (
	"io"
	"net"
	"os"
	"sync"

	"cdui/internal/childproto"
	"cdui/internal/shim/unixsock"
	"cdui/internal/shim/wire"
)

// maxSources bounds the processes of one run that report at the same time.
const maxSources = 1024

// Inbox brings one reader the lines of every process that reports, and takes
// lines to them.
type Inbox struct {
	// Lines brings what is reported.
	Lines chan Line
	quit  chan struct{}
	wg    sync.WaitGroup
	ln    *net.UnixListener

	mu      sync.Mutex
	sources map[*Source]struct{}
}

// Line is one line; Faulty is set instead for one that is no report, or too
// long.
type Line struct {
	From   *Source
	Up     childproto.Up
	Faulty bool
}

// Source is one process that reports: the main child on its two pipes, or
// another process on the report socket.
type Source struct {
	Main bool
	r    io.ReadCloser
	w    io.WriteCloser
	out  chan []byte
}

// New makes an Inbox that nobody reports to yet.
func New() *Inbox {
	return &Inbox{
		Lines: make(chan Line, 256), quit: make(chan struct{}), sources: map[*Source]struct{}{},
	}
}

// Listen opens the report socket in dir and gives its path.
func (r *Inbox) Listen(dir string) (string, error) {
	ln, path, err := unixsock.Listen(dir, wire.ReportFile)
	if err != nil {
		return "", err
	}
	r.ln = ln
	r.wg.Go(func() {
		for {
			c, err := ln.AcceptUnix()
			if err != nil {
				return
			}
			r.addConn(c)
		}
	})
	return path, nil
}

func (r *Inbox) addConn(c *net.UnixConn) {
	r.mu.Lock()
	full := len(r.sources) >= maxSources
	r.mu.Unlock()
	if full {
		c.Close()
		return
	}
	r.add(&Source{r: c, w: c})
}

// AddMain adds the main child's pipes.
func (r *Inbox) AddMain(up, down *os.File) *Source {
	s := &Source{Main: true, r: up, w: down}
	r.add(s)
	return s
}

func (r *Inbox) add(s *Source) {
	s.out = make(chan []byte, 4)
	r.mu.Lock()
	r.sources[s] = struct{}{}
	r.mu.Unlock()
	done := make(chan struct{})
	r.wg.Go(func() { s.write(done) })
	r.wg.Go(func() {
		defer close(done)
		r.read(s)
	})
}

func (r *Inbox) read(s *Source) {
	bring := func(p Line) bool {
		select {
		case r.Lines <- p:
			return true
		case <-r.quit:
			return false
		}
	}
	readLines(s.r, childproto.MaxLineBytes, func(line []byte) bool {
		up, err := childproto.DecodeUp(line)
		return bring(Line{From: s, Up: up, Faulty: err != nil})
	}, func() { bring(Line{From: s, Faulty: true}) })
	s.r.Close()
	r.mu.Lock()
	delete(r.sources, s)
	r.mu.Unlock()
}

// write takes lines to the process until its reader is done. A process that
// does not read holds up nobody but itself: closing w ends the write.
func (s *Source) write(done <-chan struct{}) {
	defer s.w.Close()
	for {
		select {
		case b := <-s.out:
			if _, err := s.w.Write(b); err != nil {
				return
			}
		case <-done:
			return
		}
	}
}

// Send queues a line for the process; one that reads nothing loses it.
func (s *Source) Send(d childproto.Down) {
	b, err := childproto.EncodeDown(d)
	if err != nil {
		return
	}
	select {
	case s.out <- b:
	default:
	}
}

// Each calls f for every process that reports at present.
func (r *Inbox) Each(f func(*Source)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.sources {
		f(s)
	}
}

// Finish takes no further connections, but those that are waiting already: a
// process may report and end before it was accepted.
func (r *Inbox) Finish() {
	if r.ln == nil {
		return
	}
	for {
		c, ok := acceptNow(r.ln)
		if !ok {
			break
		}
		r.addConn(c)
	}
	r.ln.Close()
}

// Abandon closes what is still open, so that wg.Wait returns.
func (r *Inbox) Abandon() {
	close(r.quit)
	if r.ln != nil {
		r.ln.Close()
	}
	r.Each(func(s *Source) {
		s.r.Close()
		s.w.Close()
	})
	r.wg.Wait()
}

// acceptNow takes a connection that waits, without waiting for one.
func acceptNow(ln *net.UnixListener) (*net.UnixConn, bool) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return nil, false
	}
	var conn *net.UnixConn
	_ = raw.Control(func(fd uintptr) {
		nfd, err := acceptFD(int(fd))
		if err != nil {
			return
		}
		f := os.NewFile(uintptr(nfd), "report")
		defer f.Close()
		if c, err := net.FileConn(f); err == nil {
			conn, _ = c.(*net.UnixConn)
		}
	})
	return conn, conn != nil
}

// Wait waits until every process that reports is done. Call Finish before.
func (r *Inbox) Wait() { r.wg.Wait() }
