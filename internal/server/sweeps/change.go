package sweeps

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/sweep"
)

// Cancel asks all variants to stop that have not ended. Asking again is no
// error.
func (s *Service) Cancel(ctx context.Context, id string) (api.SweepCancelReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.opened(ctx, id)
	if err != nil {
		return api.SweepCancelReply{}, err
	}
	ctx = context.WithoutCancel(ctx) // half a cancel helps nobody
	var active []int
	for _, r := range o.now {
		if r.Status.Active() {
			active = append(active, r.Index)
		}
	}
	if len(active) > 0 && o.w.CancelRequestedAt == nil {
		at := now()
		o.w.CancelRequestedAt = &at
		if err := s.keep(ctx, o); err != nil {
			return api.SweepCancelReply{}, err
		}
	}
	// Those that wait go first and the last of them before the others: none may
	// start in the place of one that was stopped.
	slices.SortFunc(active, func(i, j int) int {
		return cmp.Or(cmp.Compare(stage(o.now[i].Status), stage(o.now[j].Status)), cmp.Compare(j, i))
	})
	cancelled := map[int]bool{}
	for _, i := range active {
		reply, err := s.cfg.Submitter.Cancel(ctx, o.runID(i), -1, false)
		if err != nil {
			return api.SweepCancelReply{}, err
		}
		cancelled[i] = reply.Cancelled
	}
	if o, err = s.opened(ctx, o.w.ID); err != nil {
		return api.SweepCancelReply{}, err
	}
	out := api.SweepCancelReply{SweepID: o.w.ID, State: o.state(), Variants: make([]api.SweepVariantCancel, len(o.now))}
	for i, r := range o.now {
		out.Variants[i] = api.SweepVariantCancel{Index: i, RunID: o.runID(i), Status: r.Status, Cancelled: cancelled[i]}
		if cancelled[i] {
			out.Cancelled++
		} else {
			out.AlreadyFinished++
		}
	}
	return out, nil
}

func stage(s run.Status) int {
	if s == run.Queued {
		return 0
	}
	return 1
}

// Rerun queues the variants again that have failed, were stopped, or are
// missing.
func (s *Service) Rerun(ctx context.Context, user, id string) (api.SweepRerunReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.opened(ctx, id)
	if err != nil {
		return api.SweepRerunReply{}, err
	}
	out := api.SweepRerunReply{SweepID: o.w.ID, State: o.state(), Variants: []api.SweepChild{}}
	var again []int
	for _, r := range o.now {
		if !r.Status.Active() && r.Status != run.Succeeded {
			again = append(again, r.Index)
		}
	}
	switch {
	case out.State == sweep.Cancelling:
		return out, api.Errorf(api.Conflict, "sweep %s is still stopping; wait for it: cdui sweep wait %s", run.Short(o.w.ID), run.Short(o.w.ID))
	case len(again) == 0:
		return out, nil
	}
	b, err := s.base(o)
	if err != nil {
		return out, err
	}
	if b.Secrets {
		return out, api.Errorf(api.Conflict, "the graph of sweep %s was given secrets, which are not kept; submit the sweep again", run.Short(o.w.ID))
	}
	requests, err := variants(o.w, o.plan, b, again)
	if err != nil {
		return out, err
	}
	for k, i := range again {
		if r, ok := o.runs[i]; ok {
			requests[k].RerunOf = r.ID
		}
	}
	if err := s.check(ctx, requests); err != nil {
		return out, err
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := s.cfg.Submitter.Submit(ctx, user, requests...); err != nil {
		return out, err
	}
	// What the new runs come to takes the place of what the old ones did.
	for _, i := range again {
		delete(o.results, i)
	}
	o.w.CancelRequestedAt = nil
	if err := s.keep(ctx, o); err != nil {
		return out, err
	}
	if o, err = s.opened(ctx, o.w.ID); err != nil {
		return out, err
	}
	out.State, out.Variants = o.state(), o.children(again)
	return out, nil
}

func (s *Service) base(o *opened) (base, error) {
	var b base
	if err := json.Unmarshal(o.w.Base, &b); err != nil {
		return b, fmt.Errorf("read the base of sweep %s: %w", o.w.ID, err)
	}
	return b, nil
}

// Best gives the submit of a sweep's best variant, without its seed, the
// sweep's whole id and the variant's index.
func (s *Service) Best(ctx context.Context, id string) (api.SubmitRequest, string, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fail := func(err error) (api.SubmitRequest, string, int, error) { return api.SubmitRequest{}, "", 0, err }
	o, err := s.opened(ctx, id)
	if err != nil {
		return fail(err)
	}
	best := o.summary().Best
	if best == nil {
		return fail(api.Errorf(api.Conflict, "sweep %s has no best variant yet: none has ended with a number in %q", run.Short(o.w.ID), o.plan.Objective.Metric))
	}
	b, err := s.base(o)
	if err != nil {
		return fail(err)
	}
	if b.Secrets {
		return fail(api.Errorf(api.Conflict, "the graph of sweep %s was given secrets, which are not kept; give the study the graph itself", run.Short(o.w.ID)))
	}
	of, err := baseOf(b.Request)
	if err != nil {
		return fail(err)
	}
	made, err := o.plan.Apply(of, o.plan.Variants[best.Index])
	if err != nil {
		return fail(err)
	}
	req := b.Request
	req.Graph = made.Graph
	if name := run.ChildName(o.w.Name, best.Index); name != "" {
		req.Name = &name
	}
	req.Options, err = optionsOf(b.Request.Options, made, nil)
	return req, o.w.ID, best.Index, err
}
