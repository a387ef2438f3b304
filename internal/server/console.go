package server

import (
	"time"

	"cdui/internal/api"
	"cdui/internal/console"
	"cdui/internal/server/httpapi"
)

// distant reads the output of a run on its worker.
type distant interface {
	httpapi.Console
	Await(offset int64, wait time.Duration) error
}

// afar is the output of a run that executes on a worker. Where the worker has
// none, the run hasn't begun to write, or the worker has brought all of it back
// and forgotten the run a moment ago: then it is what is here.
type afar struct {
	there distant
	here  httpapi.Console
}

func (c afar) Size() (int64, error) {
	size, err := c.there.Size()
	if none(err) {
		return c.here.Size()
	}
	return size, err
}

func (c afar) ReadAt(p []byte, off int64) (n int, at int64, err error) {
	n, at, err = c.there.ReadAt(p, off)
	if none(err) {
		return c.here.ReadAt(p, off)
	}
	return n, at, err
}

func (c afar) Marks(from, to int64, most int) ([]console.Mark, error) {
	marks, err := c.there.Marks(from, to, most)
	if none(err) {
		return c.here.Marks(from, to, most)
	}
	return marks, err
}

// Await waits for more. Whoever calls it asks again after a moment.
func (c afar) Await(offset int64, wait time.Duration) error {
	err := c.there.Await(offset, wait)
	if none(err) {
		return nil
	}
	return err
}

func none(err error) bool { return err != nil && api.CodeOf(err) == api.NotFound }
