package studies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/store"
	"cdui/internal/study"
)

// plan is the document that says what a study is.
type plan struct {
	study.Spec
	SweepID      string `json:"sweep_id,omitempty"`
	SweepVariant *int   `json:"sweep_variant,omitempty"`
}

// opened is a study with what is known of its attempts now.
type opened struct {
	y    store.Study
	plan plan
	reps [][]study.Attempt
	// runs are the rows that are there, by id.
	runs map[string]api.Run
	at   time.Time
	// fresh: nobody has been told of the study yet, so that it may be refused.
	fresh bool
	// wait is how long nothing is to be done unless something ends.
	wait time.Duration
}

func (s *Service) opened(ctx context.Context, id string) (*opened, error) {
	y, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, y)
}

// open reads what is known of a study, and keeps what has changed of its
// attempts. The caller holds mu.
func (s *Service) open(ctx context.Context, y store.Study) (*opened, error) {
	o := &opened{y: y, at: now(), wait: idleLook, runs: map[string]api.Run{}}
	if err := json.Unmarshal(y.Plan, &o.plan); err != nil {
		return nil, fmt.Errorf("read the plan of study %s: %w", y.ID, err)
	}
	if err := json.Unmarshal(y.Attempts, &o.reps); err != nil || len(o.reps) != o.plan.Repetitions {
		return nil, fmt.Errorf("read the attempts of study %s: %d of %d, %w", y.ID, len(o.reps), o.plan.Repetitions, err)
	}
	if y.FinishedAt == nil && !s.known[y.ID] {
		if err := s.adopt(ctx, o); err != nil {
			return nil, err
		}
	}
	var ids []string
	for _, attempts := range o.reps {
		for _, a := range attempts {
			ids = append(ids, a.RunID)
		}
	}
	rows, err := s.cfg.Runs.RunsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	for id, row := range rows {
		o.runs[id] = s.cfg.Submitter.View(row)
	}
	return o, s.refresh(ctx, o)
}

// adopt notes the runs that an earlier process submitted and didn't come to
// note.
func (s *Service) adopt(ctx context.Context, o *opened) error {
	for i := range o.reps {
		number := len(o.reps[i]) + 1
		row, err := s.cfg.Runs.ByKey(ctx, study.Key(o.y.ID, i, number))
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		o.reps[i] = append(o.reps[i], study.Attempt{Number: number, RunID: row.ID, Status: run.Queued})
	}
	s.known[o.y.ID] = true
	return s.keep(ctx, o)
}

// refresh takes over how the attempts' runs stand.
func (s *Service) refresh(ctx context.Context, o *opened) error {
	news := false
	for i := range o.reps {
		for k := range o.reps[i] {
			a := &o.reps[i][k]
			if !a.Active() {
				continue
			}
			r, exists := o.runs[a.RunID]
			if !exists {
				a.Gone, news = true, true
				continue
			}
			before := *a
			a.Status, a.EndClass, a.Error, a.StartedAt, a.FinishedAt = r.Status, r.EndClass, r.Error, r.StartedAt, r.FinishedAt
			a.Asked = r.CancelRequestedAt != nil
			if a.Scored() {
				var err error
				if a.Metrics, err = s.cfg.Runs.LastValues(ctx, a.RunID, ""); err != nil {
					return err
				}
			}
			before.Asked = a.Asked // it is not kept
			news = news || !reflect.DeepEqual(before, *a)
		}
	}
	if !news {
		return nil
	}
	return s.keep(ctx, o)
}

func (s *Service) keep(ctx context.Context, o *opened) error {
	var err error
	if o.y.Attempts, err = json.Marshal(o.reps); err != nil {
		return fmt.Errorf("keep the attempts of study %s: %w", o.y.ID, err)
	}
	if o.y.Plan, err = json.Marshal(o.plan); err != nil {
		return fmt.Errorf("keep the plan of study %s: %w", o.y.ID, err)
	}
	return s.cfg.Ledger.KeepStudy(ctx, o.y)
}

func (o *opened) situation() study.Situation {
	return study.Situation{Spec: o.plan.Spec, Repetitions: o.reps, Stopped: study.Stop(o.y.Stopped), Now: o.at}
}

func (o *opened) outcome(i int) study.Outcome {
	return o.plan.OutcomeOf(o.reps[i], o.y.Stopped != "")
}

func (o *opened) state() api.StudyState {
	switch {
	case o.y.FinishedAt != nil:
		return api.StudyFinished
	case o.y.Stopped != "":
		return api.StudyCancelling
	}
	return api.StudyRunning
}

func (o *opened) summary() api.StudySummary {
	out := api.StudySummary{
		StudyID: o.y.ID, Name: o.y.Name, User: o.y.User, State: o.state(), Stopped: study.Stop(o.y.Stopped), Spec: o.plan.Spec,
		SweepID: o.plan.SweepID, SweepVariant: o.plan.SweepVariant, Counts: map[study.Outcome]int{},
		ActiveSeconds: o.situation().ActiveTime().Seconds(), CreatedAt: o.y.CreatedAt, FinishedAt: o.y.FinishedAt,
	}
	for _, outcome := range study.Outcomes() {
		out.Counts[outcome] = 0
	}
	var scored []map[string]run.Last
	for i, attempts := range o.reps {
		out.Counts[o.outcome(i)]++
		for _, a := range attempts {
			if a.Scored() {
				scored = append(scored, a.Metrics)
			}
		}
	}
	out.Metrics = study.Summarize(scored, o.plan.Confidence)
	return out
}

func (o *opened) show() api.Study {
	out := api.Study{StudySummary: o.summary(), List: make([]api.StudyRepetition, len(o.reps))}
	for i, attempts := range o.reps {
		rep := api.StudyRepetition{Index: i, Seed: o.plan.SeedOf(i), Outcome: o.outcome(i), Attempts: make([]api.StudyAttempt, len(attempts))}
		for k, a := range attempts {
			v := api.StudyAttempt{
				Attempt: a.Number, RunID: a.RunID, Status: a.Status, EndClass: a.EndClass, Error: a.Error, Stopped: a.Stopped,
				Lost: a.Lost(), Void: a.Void, StartedAt: a.StartedAt, FinishedAt: a.FinishedAt,
			}
			if r, ok := o.runs[a.RunID]; ok {
				v.RunExists, v.WorkerID, v.Devices, v.QueueKey = true, r.WorkerID, r.Devices, r.QueueKey
			}
			rep.Attempts[k] = v
			if a.Scored() {
				rep.Metrics = a.Metrics
			}
		}
		out.List[i] = rep
	}
	return out
}
