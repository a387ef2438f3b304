package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/journal"
	"cdui/internal/store"
)

// RemoveWorker forgets a worker: runs that wait for it by name fail. Those that
// execute there are the executor's to end.
func (s *Service) RemoveWorker(ctx context.Context, name string) error {
	s.board.Forget(name)
	s.mu.Lock()
	ids := s.waitingFor(name)
	s.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.strandIfRemoved(ctx, id))
	}
	return errors.Join(errs...)
}

// waitingFor lists the runs that name one of workers, in the order of their
// submission. The caller holds mu.
func (s *Service) waitingFor(workers ...string) []string {
	var named []*entry
	for _, e := range s.runs {
		if e.phase == waiting && e.ask != nil && slices.Contains(workers, e.ask.Worker) {
			named = append(named, e)
		}
	}
	slices.SortFunc(named, func(a, b *entry) int { return int(a.row.Seq - b.row.Seq) })
	ids := make([]string, len(named))
	for i, e := range named {
		ids[i] = e.row.ID
	}
	return ids
}

// strandIfRemoved fails a run that waits for a worker by name that was removed
// while the run was on its way into that line.
func (s *Service) strandIfRemoved(ctx context.Context, id string) error {
	s.mu.Lock()
	e := s.runs[id]
	if e == nil || e.phase != waiting || e.ask == nil {
		s.mu.Unlock()
		return nil
	}
	name := e.ask.Worker
	s.mu.Unlock()
	if s.board.Knows(name) {
		return nil
	}
	return s.strand(ctx, e, name)
}

// strandRemoved fails what waits for workers that an earlier process removed.
// Others that are unknown may still come: a worker that isn't enrolled is known
// from its first connection on.
func (s *Service) strandRemoved(ctx context.Context) error {
	removed, err := s.cfg.Store.RemovedWorkers(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	ids := s.waitingFor(removed...)
	s.mu.Unlock()
	for _, id := range ids {
		if err := s.strandIfRemoved(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// strand fails a run whose worker was removed.
func (s *Service) strand(ctx context.Context, e *entry, name string) error {
	_, err := s.leave(ctx, e, leaving{
		signal: run.Unplaceable, class: run.EndWorkerLost, text: fmt.Sprintf("worker %s was removed", name),
		code: protocol.CodeWorkerRemoved, params: map[string]any{"worker": name},
	})
	if err != nil && !errors.Is(err, errMoved) {
		return fmt.Errorf("end run %s: %w", e.row.ID, err)
	}
	return nil
}

// executor gives the executor of the machine that a run was placed on.
func (s *Service) executor(worker string) execution.Executor {
	if worker == "" || s.cfg.Workers == nil {
		return s.cfg.Executor
	}
	return s.cfg.Workers
}

// settle gives a run the place that it got. The caller holds mu.
func (e *entry) settle(slots []scheduler.Slot) {
	e.slots = slots
	e.row.WorkerID = ""
	if w := slots[0].Worker; w != scheduler.Local {
		e.row.WorkerID = w
	}
	e.row.Devices = make([]string, len(slots))
	for i, slot := range slots {
		e.row.Devices[i] = slot.Device
	}
}

// unsettle takes the place back. The caller holds mu.
func (e *entry) unsettle() {
	if e.ask != nil {
		e.slots, e.row.WorkerID, e.row.Devices = nil, "", append([]string{}, e.ask.Devices...)
	}
}

// placement is what the row keeps of where a run is. The caller holds mu.
func (s *Service) placement(e *entry, p *store.Patch) {
	if e.ask == nil || e.ask.Worker == scheduler.Local {
		return
	}
	worker := e.row.WorkerID
	p.WorkerID, p.Devices = &worker, append([]string{}, e.row.Devices...)
	digest := s.board.Fingerprint(worker) // the run begins with it (CAT-07)
	e.row.FingerprintDigest, p.FingerprintDigest = digest, &digest
	if worker == "" {
		return
	}
	e.row.Facts = journal.Placed(e.row.Facts, e.row.Devices, s.board.Cards(e.slots), digest)
	p.Facts = e.row.Facts
}

// Late keeps how a run ended on its worker after the service had given it up.
// The log stays closed and the row as it is, but for its facts. What belongs to
// another worker's run, or to another attempt, is left alone.
func (s *Service) Late(ctx context.Context, worker, runID string, attempt int, f protocol.Finished) error {
	row, err := s.cfg.Store.Run(ctx, runID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case row.WorkerID != worker || row.Attempt != attempt || row.Status.Active():
		return nil
	}
	_, err = s.cfg.Store.Apply(ctx, store.Change{RunID: runID, Patch: &store.Patch{Facts: journal.With(row.Facts, "late_result", f)}})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	s.cfg.Notify(runID)
	return err
}
