package workers

import (
	"cdui/internal/run"
	"cdui/internal/store"
)

// fingerprinted takes in what a worker says of its environment. The document
// is kept where the runs' own are: they begin with its digest. The caller holds
// mu.
func (r *Registry) fingerprinted(w *worker) {
	digest, doc, ok := run.Fingerprint(w.hello.Fingerprint)
	w.print = digest
	if !ok || r.closed {
		return
	}
	name := w.name
	r.wg.Go(func() {
		if err := r.cfg.Store.KeepFingerprint(r.ctx, store.Fingerprint{Digest: digest, Document: doc}); err != nil && r.ctx.Err() == nil {
			r.log.Warn("keep the fingerprint of a worker", "worker", name, "error", err)
		}
	})
}
