package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fleet"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/journal"
	"cdui/internal/store"
	"cdui/internal/submission"
)

// WorkerState is what placing and refusing runs needs to know of a worker.
type WorkerState struct {
	fleet.Machine
	submission.Worker
}

// SetWorker takes in how a worker is now and plans anew. A worker is known, so
// that runs may name it, from the first call on.
func (s *Service) SetWorker(name string, w WorkerState) {
	if w.Inventory != nil {
		w.Devices = w.Inventory.Names()
	}
	w.Worker.Incomplete = w.Machine.Incomplete
	s.mu.Lock()
	s.workers[name] = w
	plan := s.setMachine(name, w.Machine)
	s.mu.Unlock()
	if plan {
		s.schedule()
	}
}

// RemoveWorker forgets a worker: runs that wait for it by name fail. Those that
// execute there are the executor's to end.
func (s *Service) RemoveWorker(ctx context.Context, name string) error {
	s.mu.Lock()
	delete(s.workers, name)
	s.fleet.Remove(name)
	s.lines.Rejoin()
	var stranded []*entry
	for _, e := range s.runs {
		if e.phase == waiting && e.ask != nil && e.ask.Worker == name {
			stranded = append(stranded, e)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(stranded, func(a, b *entry) int { return int(a.row.Seq - b.row.Seq) })
	var errs []error
	for _, e := range stranded {
		errs = append(errs, s.strand(ctx, e, name))
	}
	return errors.Join(errs...)
}

// strandIfRemoved fails a run that is back in line for a worker that was
// removed while the run was on its way there.
func (s *Service) strandIfRemoved(ctx context.Context, id string) error {
	s.mu.Lock()
	e := s.runs[id]
	if e == nil || e.phase != waiting || e.ask == nil || e.ask.Worker == scheduler.Any || e.ask.Worker == scheduler.Local {
		s.mu.Unlock()
		return nil
	}
	name := e.ask.Worker
	_, known := s.workers[name]
	s.mu.Unlock()
	if known {
		return nil
	}
	return s.strand(ctx, e, name)
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

// machines lists the places that a submission may ask for.
func (s *Service) machines() submission.Machines {
	m := submission.Machines{Local: s.cfg.Devices()}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Workers = make(map[string]submission.Worker, len(s.workers))
	for name, w := range s.workers {
		m.Workers[name] = w.Worker
	}
	return m
}

// executor gives the executor of the machine that a run was placed on.
func (s *Service) executor(worker string) execution.Executor {
	if worker == "" || s.cfg.Workers == nil {
		return s.cfg.Executor
	}
	return s.cfg.Workers
}

// machine is the scheduler's name of the machine that a row was placed on.
func machine(row run.Row) string {
	if row.WorkerID == "" {
		return scheduler.Local
	}
	return row.WorkerID
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

// resume is what a row keeps of a place on a worker, so that the run counts on
// its cards before the worker has returned.
type resume struct {
	Slots []resumeSlot `json:"slots"`
}

type resumeSlot struct {
	Device string `json:"device"`
	Card   string `json:"card"`
}

// placement is what the row keeps of where a run is. The caller holds mu.
func (s *Service) placement(e *entry, p *store.Patch) {
	if e.ask == nil || e.ask.Worker == scheduler.Local {
		return
	}
	worker := e.row.WorkerID
	p.WorkerID, p.Devices = &worker, append([]string{}, e.row.Devices...)
	if worker == "" {
		return
	}
	var r resume
	for _, at := range e.slots {
		r.Slots = append(r.Slots, resumeSlot{Device: at.Device, Card: s.fleet.Card(at)})
	}
	e.row.Facts = journal.With(e.row.Facts, "worker_resume", r)
	p.Facts = e.row.Facts
}

// resumed names the card behind a device of a run, as its row keeps it.
func resumed(facts json.RawMessage, device string) string {
	var f struct {
		Resume resume `json:"worker_resume"`
	}
	if json.Unmarshal(facts, &f) != nil {
		return ""
	}
	for _, at := range f.Resume.Slots {
		if at.Device == device {
			return at.Card
		}
	}
	return ""
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
