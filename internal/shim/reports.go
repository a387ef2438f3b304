package shim

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

// reports brings the loop the lines of every process that reports, and takes
// lines to them.
type reports struct {
	in   chan report
	quit chan struct{}
	wg   sync.WaitGroup
	ln   *net.UnixListener

	mu      sync.Mutex
	sources map[*source]struct{}
}

// report is one line; faulty is set instead for one that is no report, or too
// long.
type report struct {
	from   *source
	up     childproto.Up
	faulty bool
}

// source is one process that reports: the main child on its two pipes, or
// another process on the report socket.
type source struct {
	main bool
	r    io.ReadCloser
	w    io.WriteCloser
	out  chan []byte
	// watches is the loop's: the process looks at the cancel flag.
	watches bool
}

func newReports() *reports {
	return &reports{
		in: make(chan report, 256), quit: make(chan struct{}), sources: map[*source]struct{}{},
	}
}

// listen opens the report socket in dir and gives its path.
func (r *reports) listen(dir string) (string, error) {
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

func (r *reports) addConn(c *net.UnixConn) {
	r.mu.Lock()
	full := len(r.sources) >= maxSources
	r.mu.Unlock()
	if full {
		c.Close()
		return
	}
	r.add(&source{r: c, w: c})
}

// addMain adds the main child's pipes.
func (r *reports) addMain(up, down *os.File) *source {
	s := &source{main: true, r: up, w: down}
	r.add(s)
	return s
}

func (r *reports) add(s *source) {
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

func (r *reports) read(s *source) {
	bring := func(p report) bool {
		select {
		case r.in <- p:
			return true
		case <-r.quit:
			return false
		}
	}
	readLines(s.r, childproto.MaxLineBytes, func(line []byte) bool {
		up, err := childproto.DecodeUp(line)
		return bring(report{from: s, up: up, faulty: err != nil})
	}, func() { bring(report{from: s, faulty: true}) })
	s.r.Close()
	r.mu.Lock()
	delete(r.sources, s)
	r.mu.Unlock()
}

// write takes lines to the process until its reader is done. A process that
// does not read holds up nobody but itself: closing w ends the write.
func (s *source) write(done <-chan struct{}) {
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

// send queues a line for the process; one that reads nothing loses it.
func (s *source) send(d childproto.Down) {
	b, err := childproto.EncodeDown(d)
	if err != nil {
		return
	}
	select {
	case s.out <- b:
	default:
	}
}

// each calls f for every process that reports at present.
func (r *reports) each(f func(*source)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.sources {
		f(s)
	}
}

// finish takes no further connections, but those that are waiting already: a
// process may report and end before it was accepted.
func (r *reports) finish() {
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

// abandon closes what is still open, so that wg.Wait returns.
func (r *reports) abandon() {
	close(r.quit)
	if r.ln != nil {
		r.ln.Close()
	}
	r.each(func(s *source) {
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
