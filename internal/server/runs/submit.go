package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/store"
	"cdui/internal/submission"
)

// Submit takes runs, all or none, and answers in their order. Errors are
// *api.Error or the store's; one that belongs to an entry of a bulk names it.
func (s *Service) Submit(ctx context.Context, user string, requests ...api.SubmitRequest) ([]api.SubmitReply, error) {
	entries := make([]*entry, len(requests))
	for i, req := range requests {
		e, err := s.prepare(ctx, req, nil)
		if err != nil {
			return nil, inBulk(err, i, len(requests))
		}
		e.row.User = user
		entries[i] = e
	}
	return s.accept(ctx, entries)
}

// Call submits a graph that is used as a function, with the values of its
// inputs, which are in memory only. It runs in the interactive lane: at once or
// not at all.
func (s *Service) Call(ctx context.Context, user string, req api.SubmitRequest, inputs map[string]json.RawMessage) (api.SubmitReply, error) {
	e, err := s.prepare(ctx, req, inputs)
	if err != nil {
		return api.SubmitReply{}, err
	}
	e.row.User = user
	e.row.Options.Lane, e.ask = submission.Interactive, nil
	replies, err := s.accept(ctx, []*entry{e})
	if err != nil {
		return api.SubmitReply{}, err
	}
	return replies[0], nil
}

// accept commits prepared entries and lets them in.
func (s *Service) accept(ctx context.Context, entries []*entry) ([]api.SubmitReply, error) {
	keyed := false
	for _, e := range entries {
		keyed = keyed || e.row.Options.Key != ""
	}
	if keyed {
		s.keyed.Lock()
		defer s.keyed.Unlock()
	}
	if err := s.refuseBusySessions(entries); err != nil {
		return nil, err
	}
	replies := make([]api.SubmitReply, len(entries))
	fresh, err := s.withoutExisting(ctx, entries, replies)
	if err != nil {
		return nil, err
	}
	if err := s.claim(entries, fresh); err != nil {
		return nil, err
	}
	if err := s.insert(ctx, entries, fresh); err != nil {
		s.unclaim(entries, fresh)
		return nil, err
	}
	s.mu.Lock()
	for _, i := range fresh {
		s.runs[entries[i].row.ID] = entries[i]
		s.admit(entries[i])
	}
	s.mu.Unlock()
	for _, i := range fresh {
		if len(entries[i].row.Options.After) > 0 {
			s.settleAfter(ctx, entries[i].row.ID)
		}
	}
	for _, i := range fresh {
		if err := s.strandIfRemoved(ctx, entries[i].row.ID); err != nil {
			s.log.Error("end a run whose worker was removed", "run_id", entries[i].row.ID, "error", err)
		}
	}
	s.schedule()
	for _, i := range fresh {
		replies[i] = s.reply(entries[i])
		s.cfg.Notify(entries[i].row.ID)
	}
	return replies, nil
}

// claim takes the places of runs that may not wait for one, or refuses all that
// come together.
func (s *Service) claim(entries []*entry, fresh []int) error {
	for n, i := range fresh {
		e := entries[i]
		if e.ask == nil || e.row.Options.Target.Waits() {
			continue
		}
		slots, why := s.board.Claim(e.row.QueueKey, e.line())
		if slots == nil {
			s.unclaim(entries, fresh[:n])
			return inBulk(api.Errorf(api.Invalid, "it could not start now: %s", why.Text).With("reason", why), i, len(entries))
		}
		e.settle(slots)
	}
	return nil
}

func (s *Service) unclaim(entries []*entry, fresh []int) {
	for _, i := range fresh {
		s.release(entries[i])
	}
}

// refuseBusySessions refuses interactive runs for which there is no room now.
func (s *Service) refuseBusySessions(entries []*entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if e.interactive() && (len(entries) > 1 || !s.sessionFree()) {
			return api.Errorf(api.Unavailable, "the interactive lane takes %d runs at a time; try again, or leave the lane out to queue the run", s.cfg.Interactive).
				With("rejected", true)
		}
	}
	return nil
}

// withoutExisting fills the replies of entries whose key names a run that is
// there already and lists the others. The caller holds keyed if any has a key.
func (s *Service) withoutExisting(ctx context.Context, entries []*entry, replies []api.SubmitReply) ([]int, error) {
	var fresh []int
	inBatch := map[string]bool{}
	for i, e := range entries {
		key := e.row.Options.Key
		if key == "" {
			fresh = append(fresh, i)
			continue
		}
		if inBatch[key] {
			return nil, api.Errorf(api.Invalid, "runs[%d]: option \"key\": %q is used twice in one request", i, key)
		}
		inBatch[key] = true
		row, err := s.cfg.Store.ByKey(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			fresh = append(fresh, i)
		case err != nil:
			return nil, err
		default:
			replies[i] = api.SubmitReply{RunID: row.ID, Status: row.Status, QueueKey: row.QueueKey, Name: row.Name, Existing: true}
		}
	}
	return fresh, nil
}

func (s *Service) insert(ctx context.Context, entries []*entry, fresh []int) error {
	if len(fresh) == 0 {
		return nil
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return api.Errorf(api.Unavailable, "the control plane is shutting down")
	}
	changes := make([]store.Change, len(fresh))
	for k, i := range fresh {
		changes[k] = store.Change{Insert: &entries[i].row}
	}
	_, err := s.cfg.Store.Apply(ctx, changes...) // it numbers the rows
	return err
}

func (s *Service) reply(e *entry) api.SubmitReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := api.SubmitReply{RunID: e.row.ID, Status: e.row.Status, QueueKey: e.row.QueueKey, Name: e.row.Name}
	if e.phase == waiting {
		r.Position, r.Reason = s.waitsFor(e)
	}
	return r
}

// prepare checks one submission and builds its entry; nothing is changed yet.
func (s *Service) prepare(ctx context.Context, req api.SubmitRequest, inputs map[string]json.RawMessage) (*entry, error) {
	checked, err := submission.Check(req, s.board.Machines(), s.cfg.Catalog(ctx))
	if err != nil {
		return nil, err
	}
	row := checked.Row
	row.ID, row.Status, row.CreatedAt = submission.NewID(), run.Queued, now()
	if err := s.estimate(ctx, &row); err != nil {
		return nil, err
	}
	e := &entry{row: row, program: checked.Program, vault: checked.Vault, inputs: inputs}
	if !e.interactive() {
		e.ask = submission.AskOf(row.Options, row.Devices, checked.Program)
	}
	return e, nil
}

// Check refuses what Submit would refuse of a submission, and changes nothing.
func (s *Service) Check(ctx context.Context, req api.SubmitRequest) error {
	_, err := s.prepare(ctx, req, nil)
	return err
}

func inBulk(err error, i, n int) error {
	var e *api.Error
	if n > 1 && errors.As(err, &e) {
		e.Message = fmt.Sprintf("runs[%d]: %s", i, e.Message)
		e.With("index", i)
	}
	return err
}

// now is a row's notion of time: UTC with milliseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
