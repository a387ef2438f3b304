package studies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"cdui/internal/api"
	"cdui/internal/graph/secret"
	"cdui/internal/run"
	"cdui/internal/store"
	"cdui/internal/study"
	"cdui/internal/submission"
)

// Create queues a study, all of its repetitions or nothing. The same key again
// gives the first study.
func (s *Service) Create(ctx context.Context, user string, req api.StudyRequest) (api.StudyReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if req.Key, err = submission.CleanKey(req.Key); err != nil {
		return api.StudyReply{}, err
	}
	if req.Key != "" {
		y, err := s.cfg.Ledger.StudyOfKey(ctx, req.Key)
		if err == nil {
			o, err := s.open(ctx, y)
			if err != nil {
				return api.StudyReply{}, err
			}
			return api.StudyReply{Study: o.show(), Existing: true}, nil
		}
		if !errors.Is(err, store.ErrUnknown) {
			return api.StudyReply{}, err
		}
	}
	y, err := s.compile(ctx, req)
	if err != nil {
		return api.StudyReply{}, err
	}
	y.User = user
	return s.queue(context.WithoutCancel(ctx), y) // what is begun is brought to its end
}

// compile makes a study's row; nothing is written yet.
func (s *Service) compile(ctx context.Context, req api.StudyRequest) (store.Study, error) {
	y := store.Study{ID: submission.NewID(), Key: req.Key, CreatedAt: now()}
	var err error
	if y.Name, err = submission.CleanName(req.Name); err != nil {
		return y, err
	}
	p := plan{Spec: specOf(req)}
	if err := p.Check(); err != nil {
		return y, api.Errorf(api.Invalid, "%v", err)
	}
	base, err := s.base(ctx, req, &p)
	if err != nil {
		return y, err
	}
	if y.Name == "" && base.Name != nil {
		y.Name = *base.Name
	}
	base.Name = nil
	if err := checkOptions(base.Options); err != nil {
		return y, err
	}
	o := &opened{y: y, plan: p, reps: make([][]study.Attempt, p.Repetitions)}
	for i := range o.reps {
		o.reps[i] = []study.Attempt{}
	}
	if o.y.Base, err = json.Marshal(base); err != nil {
		return y, fmt.Errorf("keep the base of a study: %w", err)
	}
	// They differ in their seeds alone, which no check looks at.
	first, err := o.request(0, 1)
	if err == nil {
		err = s.cfg.Submitter.Check(ctx, first)
	}
	if err != nil {
		return y, err
	}
	if o.y.Plan, err = json.Marshal(p); err != nil {
		return y, fmt.Errorf("keep the plan of a study: %w", err)
	}
	if o.y.Attempts, err = json.Marshal(o.reps); err != nil {
		return y, fmt.Errorf("keep the attempts of a study: %w", err)
	}
	return o.y, nil
}

func specOf(req api.StudyRequest) study.Spec {
	spec := study.Spec{
		Repetitions: req.Repetitions, Confidence: study.DefaultConfidence, MaxAttempts: study.DefaultAttempts,
		MaxRunSeconds: req.MaxRunSeconds, MaxActiveSeconds: req.MaxActiveSeconds,
	}
	if req.Seed != nil {
		spec.Seed = *req.Seed
	}
	if req.Confidence != nil {
		spec.Confidence = *req.Confidence
	}
	if req.MaxAttempts != nil {
		spec.MaxAttempts = *req.MaxAttempts
	}
	return spec
}

// base finds what is repeated.
func (s *Service) base(ctx context.Context, req api.StudyRequest, p *plan) (api.SubmitRequest, error) {
	base := api.SubmitRequest{Graph: submission.Given(req.BaseGraph), Options: req.Options, Cwd: req.Cwd, Git: req.Git, Code: req.Code}
	if req.SweepID == "" {
		return base, s.withoutSecrets(ctx, base.Graph)
	}
	if base.Graph != nil {
		return base, api.Errorf(api.Invalid, "give either base_graph or sweep_id, not both")
	}
	best, id, variant, err := s.cfg.Sweeps.Best(ctx, req.SweepID)
	if err != nil {
		return base, err
	}
	p.SweepID, p.SweepVariant = id, &variant
	best.Options, err = overlay(best.Options, req.Options)
	return best, err
}

// withoutSecrets refuses a graph whose secrets would be gone with the next
// attempt: a study's graph is kept, and secrets are not.
func (s *Service) withoutSecrets(ctx context.Context, graph json.RawMessage) error {
	if graph == nil {
		return nil
	}
	_, vault, err := secret.Scrub(graph, s.cfg.Catalog(ctx))
	if err != nil {
		return api.Errorf(api.Invalid, "%v", err)
	}
	if !vault.Empty() {
		return api.Errorf(api.Invalid, "the graph was given secrets, and a study keeps its graph for later attempts; let the node read them from the environment or a file")
	}
	return nil
}

// overlay puts options over others, key by key.
func overlay(under, over json.RawMessage) (json.RawMessage, error) {
	if submission.Given(over) == nil {
		return under, nil
	}
	options := map[string]json.RawMessage{}
	for _, raw := range []json.RawMessage{under, over} {
		if submission.Given(raw) == nil {
			continue
		}
		if err := json.Unmarshal(raw, &options); err != nil {
			return nil, api.Errorf(api.Invalid, "options: must be an object")
		}
	}
	return json.Marshal(options)
}

// checkOptions refuses options that can't hold for every repetition.
func checkOptions(raw json.RawMessage) error {
	o, err := run.ParseOptions(raw)
	switch {
	case err != nil:
		return submission.OptionError(err)
	case o.Seed != nil:
		return api.Errorf(api.Invalid, "option \"seed\": every repetition would have the same; give the study a seed").With("option", "seed")
	case o.Key != "":
		return api.Errorf(api.Invalid, "option \"key\": it belongs to one run; give the study a key").With("option", "key")
	case o.Retry != nil:
		return api.Errorf(api.Invalid, "option \"retry\": a study repeats what gets lost by itself; see max_attempts").With("option", "retry")
	case o.Lane == submission.Interactive:
		return api.Errorf(api.Invalid, "option \"lane\": a study queues; leave the interactive lane out").With("option", "lane")
	}
	return nil
}

// queue stores a study and submits its repetitions.
func (s *Service) queue(ctx context.Context, y store.Study) (api.StudyReply, error) {
	if err := s.cfg.Ledger.AddStudy(ctx, y); err != nil {
		return api.StudyReply{}, err
	}
	s.known[y.ID] = true
	o, err := s.open(ctx, y)
	if err == nil {
		o.fresh = true
		err = s.advance(ctx, o)
	}
	if err != nil {
		if gone := s.cfg.Ledger.RemoveStudy(ctx, y.ID); gone != nil {
			s.log.Warn("remove a study that was not queued", "study_id", y.ID, "error", gone)
		}
		return api.StudyReply{}, err
	}
	if o, err = s.opened(ctx, y.ID); err != nil {
		return api.StudyReply{}, err
	}
	return api.StudyReply{Study: o.show()}, nil
}

// Cancel stops a study and all of its attempts. Asking again is no error.
func (s *Service) Cancel(ctx context.Context, id string) (api.Study, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.opened(ctx, id)
	if err != nil {
		return api.Study{}, err
	}
	if o.y.FinishedAt != nil {
		return o.show(), nil
	}
	ctx = context.WithoutCancel(ctx)
	if o.y.Stopped == "" {
		o.y.Stopped = string(study.ByCancel)
		if err := s.keep(ctx, o); err != nil {
			return api.Study{}, err
		}
	}
	if err := s.advance(ctx, o); err != nil {
		return api.Study{}, err
	}
	s.Nudge()
	if o, err = s.opened(ctx, o.y.ID); err != nil {
		return api.Study{}, err
	}
	return o.show(), nil
}

// Resume makes the unscored repetitions of a study start over that nothing goes
// on for.
func (s *Service) Resume(ctx context.Context, id string, req api.StudyResumeRequest) (api.Study, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.opened(ctx, id)
	if err != nil {
		return api.Study{}, err
	}
	if o.state() == api.StudyCancelling {
		return api.Study{}, api.Errorf(api.Conflict, "study %s is still stopping; wait for it: cdui study wait %s", run.Short(o.y.ID), run.Short(o.y.ID))
	}
	if req.MaxRunSeconds != nil {
		o.plan.MaxRunSeconds = *req.MaxRunSeconds
	}
	if req.MaxActiveSeconds != nil {
		o.plan.MaxActiveSeconds = *req.MaxActiveSeconds
	}
	if err := o.plan.Check(); err != nil {
		return api.Study{}, api.Errorf(api.Invalid, "%v", err)
	}
	wanting := study.Wanting(o.reps)
	if len(wanting) == 0 {
		return o.show(), nil
	}
	if most := o.plan.MaxActiveSeconds; most > 0 && o.situation().ActiveTime().Seconds() >= most {
		return api.Study{}, api.Errorf(api.Conflict, "study %s has used up its %g seconds; give it more, or 0 for no limit: cdui study resume %s --max-active 2h", run.Short(o.y.ID), most, run.Short(o.y.ID)).
			With("max_active_seconds", most)
	}
	first, err := o.request(wanting[0], len(o.reps[wanting[0]])+1)
	if err == nil {
		err = s.cfg.Submitter.Check(ctx, first)
	}
	if err != nil {
		return api.Study{}, err
	}
	for _, i := range wanting {
		for k := range o.reps[i] {
			o.reps[i][k].Void = true
		}
	}
	o.y.Stopped, o.y.FinishedAt = "", nil
	ctx = context.WithoutCancel(ctx)
	s.known[o.y.ID] = true
	if err := s.keep(ctx, o); err != nil {
		return api.Study{}, err
	}
	if err := s.advance(ctx, o); err != nil {
		s.Nudge()
		return api.Study{}, err
	}
	if o, err = s.opened(ctx, o.y.ID); err != nil {
		return api.Study{}, err
	}
	return o.show(), nil
}
