package server

import (
	"maps"
	"sync"

	"cdui/internal/run"
	"cdui/internal/server/httpapi"
)

// outcomes counts how runs ended, since the start. The zero value is ready.
type outcomes struct {
	mu sync.Mutex
	n  map[httpapi.Outcome]uint64
}

func (o *outcomes) add(row run.Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == nil {
		o.n = map[httpapi.Outcome]uint64{}
	}
	o.n[httpapi.Outcome{Status: row.Status, Class: row.EndClass}]++
}

func (o *outcomes) counts() map[httpapi.Outcome]uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.n)
}
