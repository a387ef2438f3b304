package shim

import (
	"encoding/json"

	"cdui/internal/childproto"
	"cdui/internal/protocol"
)

// begin records that the run has started. A graph with a memory budget limits
// its allocator first, and the record waits for it to say so.
func (r *shimRun) begin(st protocol.Started) {
	r.starting = &st
	if r.a.Kind != protocol.KindGraph || len(r.a.MemoryBudgets) == 0 {
		r.begun(nil)
	}
}

// begun writes the record that waited, if it still does.
func (r *shimRun) begun(limit json.RawMessage) {
	if r.starting == nil {
		return
	}
	r.starting.MemoryLimit = limit
	r.sink.put(protocol.Record{Type: protocol.RunStarted, Started: r.starting}, false)
	if r.spare != nil {
		r.sink.put(protocol.Record{Type: protocol.RunFacts, Facts: []byte(`{"warm":true}`)}, false)
	}
	r.starting = nil
}

// begins tells whether a line was what run_started waited for. Any other but
// the greeting shows that it won't come.
func (r *shimRun) begins(up childproto.Up) bool {
	if r.starting == nil || up.Type == childproto.UpHello || up.Type == childproto.UpWarning {
		return false
	}
	limited := up.Type == childproto.UpMemoryLimit
	r.begun(up.MemoryLimit)
	return limited
}
