package studies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/study"
	"cdui/internal/submission"
)

// advance does what is to be done for a study now. The caller holds mu.
func (s *Service) advance(ctx context.Context, o *opened) error {
	d := study.Step(o.situation())
	if d.Stop != study.NotStopped {
		o.y.Stopped = string(d.Stop)
	}
	for _, order := range d.Cancel {
		o.reps[order.Repetition][order.Attempt-1].Stopped = order.Why
	}
	if d.Stop != study.NotStopped || len(d.Cancel) > 0 {
		if err := s.keep(ctx, o); err != nil {
			return err
		}
	}
	for _, order := range slices.Backward(d.Cancel) { // those that wait come last and go first
		if _, err := s.cfg.Submitter.Cancel(ctx, order.RunID, -1, false); err != nil {
			return err
		}
	}
	if err := s.start(ctx, o, d.Starts); err != nil {
		return err
	}
	if d.Done && o.y.FinishedAt == nil {
		at := o.at
		o.y.FinishedAt = &at
		delete(s.known, o.y.ID)
		return s.keep(ctx, o)
	}
	o.wait = idleLook
	if !d.Wake.IsZero() {
		o.wait = max(0, d.Wake.Sub(o.at))
	}
	if len(d.Cancel) > 0 || o.plan.MaxRunSeconds > 0 || o.plan.MaxActiveSeconds > 0 {
		o.wait = min(o.wait, time.Second) // runs that start meanwhile have limits too
	}
	return nil
}

// start submits attempts, all in one.
func (s *Service) start(ctx context.Context, o *opened, starts []study.Start) error {
	if len(starts) == 0 {
		return nil
	}
	requests := make([]api.SubmitRequest, len(starts))
	for k, at := range starts {
		var err error
		if requests[k], err = o.request(at.Repetition, at.Attempt); err != nil {
			return err
		}
	}
	s.known[o.y.ID] = false // until what was submitted is noted
	replies, err := s.cfg.Submitter.Submit(ctx, o.y.User, requests...)
	switch {
	case err == nil:
		for k, at := range starts {
			o.reps[at.Repetition] = append(o.reps[at.Repetition], study.Attempt{Number: at.Attempt, RunID: replies[k].RunID, Status: replies[k].Status})
		}
	case o.fresh, !final(err):
		return err
	default:
		// A repetition whose attempt can't be queued any more has failed.
		for _, at := range starts {
			o.reps[at.Repetition] = append(o.reps[at.Repetition], study.Attempt{Number: at.Attempt, Error: err.Error()})
		}
	}
	if err := s.keep(ctx, o); err != nil {
		return err
	}
	s.known[o.y.ID] = true
	s.Nudge() // one that was refused may have been the last
	return nil
}

// final tells whether what was refused would be refused again.
func final(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && slices.Contains([]api.Code{api.Invalid, api.Unreadable, api.TooLarge, api.NotFound}, e.Code)
}

// request makes the submit of an attempt.
func (o *opened) request(repetition, attempt int) (api.SubmitRequest, error) {
	var req api.SubmitRequest
	if err := json.Unmarshal(o.y.Base, &req); err != nil {
		return req, fmt.Errorf("read the base of study %s: %w", o.y.ID, err)
	}
	options := map[string]json.RawMessage{}
	if submission.Given(req.Options) != nil {
		if err := json.Unmarshal(req.Options, &options); err != nil {
			return req, fmt.Errorf("read the options of study %s: %w", o.y.ID, err)
		}
	}
	for key, v := range map[string]any{"seed": o.plan.SeedOf(repetition), "key": study.Key(o.y.ID, repetition, attempt)} {
		raw, err := json.Marshal(v)
		if err != nil {
			return req, fmt.Errorf("write the options of study %s: %w", o.y.ID, err)
		}
		options[key] = raw
	}
	var err error
	if req.Options, err = json.Marshal(options); err != nil {
		return req, fmt.Errorf("write the options of study %s: %w", o.y.ID, err)
	}
	if name := run.ChildName(o.y.Name, repetition); name != "" {
		req.Name = &name
	}
	if attempt > 1 && len(o.reps[repetition]) > 0 {
		req.RerunOf = o.reps[repetition][len(o.reps[repetition])-1].RunID
	}
	return req, nil
}
