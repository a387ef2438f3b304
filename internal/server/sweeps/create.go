package sweeps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"cdui/internal/api"
	"cdui/internal/graph/secret"
	"cdui/internal/run"
	"cdui/internal/store"
	"cdui/internal/submission"
	"cdui/internal/sweep"
)

// Create queues a sweep, all of its variants or nothing. The same key again
// gives the first sweep.
func (s *Service) Create(ctx context.Context, user string, req api.SweepRequest) (api.SweepReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if req.Key, err = submission.CleanKey(req.Key); err != nil {
		return api.SweepReply{}, err
	}
	if req.Key != "" {
		w, err := s.cfg.Ledger.SweepOfKey(ctx, req.Key)
		if err == nil {
			o, err := s.open(ctx, w)
			if err != nil {
				return api.SweepReply{}, err
			}
			return o.reply(true), nil
		}
		if !errors.Is(err, store.ErrUnknown) {
			return api.SweepReply{}, err
		}
	}
	w, requests, err := s.compile(ctx, req)
	if err != nil {
		return api.SweepReply{}, err
	}
	w.User = user
	return s.queue(context.WithoutCancel(ctx), w, requests) // what is begun is brought to its end
}

// compile makes a sweep's row and its submits; nothing is written yet.
func (s *Service) compile(ctx context.Context, req api.SweepRequest) (store.Sweep, []api.SubmitRequest, error) {
	w := store.Sweep{ID: submission.NewID(), Key: req.Key, CreatedAt: now(), Results: json.RawMessage("{}")}
	fail := func(err error) (store.Sweep, []api.SubmitRequest, error) { return w, nil, err }
	var err error
	if w.Name, err = submission.CleanName(req.Name); err != nil {
		return fail(err)
	}
	if err := req.Objective.Check(); err != nil {
		return fail(api.Errorf(api.Invalid, "%v", err))
	}
	b := base{Request: api.SubmitRequest{Graph: submission.Given(req.BaseGraph), Options: req.Options, Cwd: req.Cwd, Git: req.Git, Code: req.Code}}
	of, err := baseOf(b.Request)
	if err != nil {
		return fail(err)
	}
	cat := s.cfg.Catalog(ctx)
	compiled, err := sweep.Compile(req.SweepSpec, of, cat, s.cfg.Limits)
	if err == nil {
		err = sweep.CheckOptions(req.Options, req.SweepSpec, req.SeedVariants, len(compiled.Variants))
	}
	if err != nil {
		return fail(api.Errorf(api.Invalid, "%v", err))
	}
	p := plan{Plan: compiled, Objective: req.Objective, SeedVariants: req.SeedVariants}
	requests, err := variants(w, p, b, all(p))
	if err != nil {
		return fail(err)
	}
	if err := s.check(ctx, requests); err != nil {
		return fail(err)
	}
	if b.Request.Graph != nil {
		var vault secret.Vault
		if b.Request.Graph, vault, err = secret.Scrub(b.Request.Graph, cat); err != nil {
			return fail(api.Errorf(api.Invalid, "%v", err))
		}
		b.Secrets = !vault.Empty()
	}
	if w.Plan, err = json.Marshal(p); err != nil {
		return fail(fmt.Errorf("keep the plan of a sweep: %w", err))
	}
	if w.Base, err = json.Marshal(b); err != nil {
		return fail(fmt.Errorf("keep the base of a sweep: %w", err))
	}
	return w, requests, nil
}

// check has each variant checked as its submit would be. They differ in values
// alone, so what is said of the first is said of all.
func (s *Service) check(ctx context.Context, requests []api.SubmitRequest) error {
	for i, req := range requests {
		err := s.cfg.Submitter.Check(ctx, req)
		var refused *api.Error
		if i > 0 && errors.As(err, &refused) {
			refused.Message = fmt.Sprintf("variant %d: %s", *req.SweepVariant+1, refused.Message)
			refused.With("variant", *req.SweepVariant)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// queue stores a sweep and its runs.
func (s *Service) queue(ctx context.Context, w store.Sweep, requests []api.SubmitRequest) (api.SweepReply, error) {
	if err := s.cfg.Ledger.AddSweep(ctx, w); err != nil {
		return api.SweepReply{}, err
	}
	if _, err := s.cfg.Submitter.Submit(ctx, w.User, requests...); err != nil {
		if gone := s.cfg.Ledger.RemoveSweep(ctx, w.ID); gone != nil {
			s.log.Warn("remove a sweep that was not queued", "sweep_id", w.ID, "error", gone)
		}
		return api.SweepReply{}, err
	}
	o, err := s.open(ctx, w)
	if err != nil {
		return api.SweepReply{}, err
	}
	return o.reply(false), nil
}

// baseOf finds what variants differ from.
func baseOf(req api.SubmitRequest) (sweep.Base, error) {
	o, err := run.ParseOptions(req.Options)
	if err != nil {
		return sweep.Base{}, submission.OptionError(err)
	}
	b := sweep.Base{Graph: req.Graph, Script: o.Script, Command: o.Command}
	if b.Graph != nil && (b.Script != nil || b.Command != nil) {
		return b, api.Errorf(api.Invalid, "give either base_graph or options.script or options.command, not both")
	}
	return b, nil
}

func all(p plan) []int {
	out := make([]int, len(p.Variants))
	for i := range out {
		out[i] = i
	}
	return out
}

// variants makes the submits of the variants with the given indices.
func variants(w store.Sweep, p plan, b base, indices []int) ([]api.SubmitRequest, error) {
	of, err := baseOf(b.Request)
	if err != nil {
		return nil, err
	}
	out := make([]api.SubmitRequest, len(indices))
	for k, i := range indices {
		made, err := p.Apply(of, p.Variants[i])
		if err != nil {
			return nil, api.Errorf(api.Invalid, "%v", err)
		}
		req := b.Request
		req.Graph = made.Graph
		if name := run.ChildName(w.Name, i); name != "" {
			req.Name = &name
		}
		if req.Options, err = optionsOf(b.Request.Options, made, p.seed(i)); err != nil {
			return nil, err
		}
		index := i
		req.SweepID, req.SweepVariant = w.ID, &index
		out[k] = req
	}
	return out, nil
}

// optionsOf gives the options of a variant.
func optionsOf(raw json.RawMessage, made sweep.Base, seed *int64) (json.RawMessage, error) {
	changes := map[string]any{}
	if made.Script != nil {
		changes["script"] = made.Script
	}
	if made.Command != nil {
		changes["command"] = made.Command
	}
	if seed != nil {
		changes["seed"] = *seed
	}
	if len(changes) == 0 {
		return raw, nil
	}
	options := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &options); err != nil {
			return nil, fmt.Errorf("read the options of a sweep: %w", err)
		}
	}
	if options == nil { // they were null
		options = map[string]json.RawMessage{}
	}
	for key, v := range changes {
		value, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("write the option %s of a variant: %w", key, err)
		}
		options[key] = value
	}
	return json.Marshal(options)
}

func (o *opened) reply(existing bool) api.SweepReply {
	return api.SweepReply{
		SweepID: o.w.ID, Name: o.w.Name, Existing: existing, State: o.state(), Method: o.plan.Method, Seed: o.plan.Seed,
		SeedVariants: o.plan.SeedVariants, Objective: o.plan.Objective, TotalCombinations: o.plan.Total,
		Params: o.plan.Params, Variants: o.children(all(o.plan)),
	}
}

func (o *opened) children(indices []int) []api.SweepChild {
	out := make([]api.SweepChild, len(indices))
	for k, i := range indices {
		v := o.plan.Variants[i]
		out[k] = api.SweepChild{
			Index: i, DomainIndex: v.DomainIndex, RunID: o.runID(i), Status: o.now[i].Status, Seed: o.plan.seed(i), Params: o.plan.values(v),
		}
	}
	return out
}
