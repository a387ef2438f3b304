package workers

import (
	"context"
	"fmt"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/workers/logs"
	"cdui/internal/token"
)

// Drain stops or takes up placing runs on a worker; those that execute there go
// on. It is kept for the worker and told to its agent at each connection.
func (r *Registry) Drain(ctx context.Context, name string, on bool) (api.Worker, error) {
	r.mu.Lock()
	w := r.workers[name]
	known := w != nil && w.listed
	enrolled := known && w.enrolled
	r.mu.Unlock()
	if !known {
		return api.Worker{}, unknownWorker(name)
	}
	if enrolled {
		if err := r.cfg.Store.DrainWorker(ctx, name, on); err != nil {
			return api.Worker{}, storeError(name, err)
		}
	}
	here := r.hashes(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers[name] != w {
		return api.Worker{}, unknownWorker(name)
	}
	if w.draining != on {
		w.draining = on
		if s := w.session; s != nil && !s.drainOnly {
			s.Send(&protocol.Drain{On: on})
		}
		r.tell(w)
	}
	r.log.Info("drain", "worker", name, "on", on)
	return r.view(w, here), nil
}

// Rekey takes a worker's token away and gives a one-time token that enrolls it
// again. Its runs go on out of sight until then.
func (r *Registry) Rekey(ctx context.Context, user, name string) (api.EnrollmentReply, error) {
	secret, e := newEnrollment(user, name, enrollValid)
	if err := r.cfg.Store.RekeyWorker(ctx, name, e); err != nil {
		return api.EnrollmentReply{}, storeError(name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoke(name)
	if w := r.workers[name]; w != nil && w.session != nil {
		w.session.HangUp(protocol.CloseUnauthorized, "the worker has to enroll again", rekeyed())
	}
	r.log.Info("worker rekeyed", "worker", name, "user", user)
	return r.shown(secret, e, name), nil
}

// Remove forgets a worker: its connection is closed, its runs are interrupted
// and free their slots, runs that wait for it fail.
func (r *Registry) Remove(ctx context.Context, name string) error {
	r.mu.Lock()
	w := r.workers[name]
	enrolled := w != nil && w.enrolled
	known := w != nil && (w.listed || w.rejected != nil)
	r.mu.Unlock()
	if !known {
		return unknownWorker(name)
	}
	if enrolled {
		if err := r.cfg.Store.RemoveWorker(ctx, name); err != nil {
			return storeError(name, err)
		}
	}
	r.mu.Lock()
	if r.workers[name] != w {
		r.mu.Unlock()
		return unknownWorker(name)
	}
	r.revoke(name)
	ended := len(w.runs)
	if s := w.session; s != nil {
		s.HangUp(protocol.CloseUnauthorized, "the worker was removed", protocol.Problem{Code: protocol.CauseRemoved, Text: "the worker was removed"})
		r.leaveSession(w)
	}
	if w.grace != nil {
		w.grace.Stop()
	}
	for _, p := range w.sorted() {
		r.lose(w, p, execution.Loss{
			EndClass: run.EndWorkerLost, Code: protocol.CodeWorkerRemoved,
			Text: fmt.Sprintf("worker %s was removed", name), Params: map[string]any{"worker": name},
		})
	}
	delete(r.workers, name)
	placer := r.placer
	r.mu.Unlock()
	r.log.Info("worker removed", "worker", name, "runs", ended)
	if err := placer.RemoveWorker(ctx, name); err != nil {
		return fmt.Errorf("end the runs that wait for worker %s: %w", name, err)
	}
	return nil
}

// Online tells whether a worker is connected.
func (r *Registry) Online(name string) bool { return r.desk(name) != nil }

// Console reads the output of a run on a worker, over the worker's connection.
func (r *Registry) Console(ctx context.Context, name, runID string) *logs.Console {
	return logs.NewConsole(ctx, name, runID, func() *logs.Desk { return r.desk(name) })
}

func (r *Registry) desk(name string) *logs.Desk {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[name]; w != nil && w.session != nil {
		return w.session.desk
	}
	return nil
}

// ByToken gives the worker that a token belongs to.
func (r *Registry) ByToken(secret string) (name string, ok bool) {
	if secret == "" {
		return "", false
	}
	id, ok := r.identity(token.Hash(secret), false)
	return id.Name, ok
}

// RunsOn lists the runs that are placed on a worker now.
func (r *Registry) RunsOn(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[name]; w != nil {
		return w.runIDs()
	}
	return nil
}

// runIDs lists the runs on a worker. The caller holds mu.
func (w *worker) runIDs() []string {
	ids := make([]string, 0, len(w.runs))
	for _, p := range w.sorted() {
		ids = append(ids, p.id)
	}
	return ids
}
