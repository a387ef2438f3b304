package shim

import (
	"io"
	"sync"
	"time"

	"cdui/internal/console"
)

const (
	tailBytes    = 4 << 10
	consoleEvery = 50 * time.Millisecond
)

// output stores what the child prints, and keeps the end of it at hand.
type output struct {
	w    *console.Writer
	grew chan struct{}
	done chan struct{}

	mu   sync.Mutex
	size int64
	tail []byte
}

func newOutput(dir string, opt console.Options) *output {
	return &output{w: console.Create(dir, opt), grew: make(chan struct{}, 1), done: make(chan struct{})}
}

// copy reads r to its end. It owns the writer until done is closed.
func (o *output) copy(r io.ReadCloser) {
	defer close(o.done)
	defer r.Close()
	buf := make([]byte, 128<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			o.take(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (o *output) take(p []byte) {
	o.w.Write(p, time.Now())
	o.mu.Lock()
	o.size = o.w.Size()
	// A letter may begin before the tail: keep a little more than is shown.
	o.tail = append(o.tail, p[max(0, len(p)-2*tailBytes):]...)
	if extra := len(o.tail) - 2*tailBytes; extra > 0 {
		o.tail = append(o.tail[:0], o.tail[extra:]...)
	}
	o.mu.Unlock()
	select {
	case o.grew <- struct{}{}:
	default:
	}
}

func (o *output) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}

func (o *output) tailText() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return tailText(o.tail, tailBytes)
}
