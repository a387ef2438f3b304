package sweeps

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/store"
	"cdui/internal/sweep"
)

// plan is the document that says what a sweep is.
type plan struct {
	sweep.Plan
	Objective    sweep.Objective `json:"objective"`
	SeedVariants bool            `json:"seed_variants"`
}

// seed is that of variant i, nil where variants have none.
func (p plan) seed(i int) *int64 {
	if !p.SeedVariants {
		return nil
	}
	seed := run.ChildSeed(*p.Seed, i)
	return &seed
}

func (p plan) values(v sweep.Variant) []api.SweepValue {
	out := make([]api.SweepValue, len(v.Values))
	for i, value := range v.Values {
		out[i] = api.SweepValue{Address: p.Params[i].Address, Value: value}
	}
	return out
}

// base is the document that says what variants are made of. The values of
// secrets are in nothing that is kept.
type base struct {
	Request api.SubmitRequest `json:"request"`
	Secrets bool              `json:"secrets,omitempty"`
}

// result is how a variant ended.
type result struct {
	RunID      string     `json:"run_id"`
	Status     run.Status `json:"status"`
	Objective  *run.Last  `json:"objective"`
	Error      string     `json:"error,omitempty"`
	FinishedAt *time.Time `json:"finished_at"`
}

// opened is a sweep with what is known of its variants now.
type opened struct {
	w       store.Sweep
	plan    plan
	results map[int]result
	// runs are the rows that count, by variant.
	runs  map[int]api.Run
	now   []sweep.Result
	ranks []int
	order []int
}

func (s *Service) opened(ctx context.Context, id string) (*opened, error) {
	w, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, w)
}

// open reads what is known of a sweep, and keeps how variants ended that had not
// been seen ended before. The caller holds mu.
func (s *Service) open(ctx context.Context, w store.Sweep) (*opened, error) {
	o := &opened{w: w, runs: map[int]api.Run{}}
	if err := json.Unmarshal(w.Plan, &o.plan); err != nil {
		return nil, fmt.Errorf("read the plan of sweep %s: %w", w.ID, err)
	}
	if err := json.Unmarshal(w.Results, &o.results); err != nil {
		return nil, fmt.Errorf("read the results of sweep %s: %w", w.ID, err)
	}
	rows, err := s.cfg.Runs.RunsOfSweep(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.SweepVariant != nil {
			o.runs[*row.SweepVariant] = s.cfg.Submitter.View(row)
		}
	}
	if err := s.harvest(ctx, o); err != nil {
		return nil, err
	}
	for _, v := range o.plan.Variants {
		o.now = append(o.now, o.result(v.Index))
	}
	o.ranks, o.order = sweep.Rank(o.now, o.plan.Objective.Direction)
	return o, nil
}

// harvest keeps how variants ended.
func (s *Service) harvest(ctx context.Context, o *opened) error {
	news := false
	for i, r := range o.runs {
		if known, ok := o.results[i]; !r.Status.Terminal() || ok && known.RunID == r.ID {
			continue
		}
		last, err := s.cfg.Runs.LastValues(ctx, r.ID, o.plan.Objective.Metric)
		if err != nil {
			return err
		}
		h := result{RunID: r.ID, Status: r.Status, Error: r.Error, FinishedAt: r.FinishedAt}
		if l, ok := last[o.plan.Objective.Metric]; ok {
			h.Objective = &l
		}
		o.results[i], news = h, true
	}
	if !news {
		return nil
	}
	return s.keep(ctx, o)
}

func (s *Service) keep(ctx context.Context, o *opened) error {
	var err error
	if o.w.Results, err = json.Marshal(o.results); err != nil {
		return fmt.Errorf("keep the results of sweep %s: %w", o.w.ID, err)
	}
	return s.cfg.Ledger.KeepSweep(ctx, o.w)
}

// result is how variant i stands: as its run, else as it was harvested.
func (o *opened) result(i int) sweep.Result {
	if r, ok := o.runs[i]; ok && r.Status.Active() {
		return sweep.Result{Index: i, Status: r.Status}
	}
	if h, ok := o.results[i]; ok {
		return sweep.Result{Index: i, Status: h.Status, Objective: h.Objective}
	}
	return sweep.Result{Index: i, Status: sweep.Missing}
}

func (o *opened) runID(i int) string {
	if r, ok := o.runs[i]; ok {
		return r.ID
	}
	return o.results[i].RunID
}

// noRuns is why a sweep without any run is failed.
const noRuns = "it has no runs: they were not queued, or were removed before they had been looked at"

func (o *opened) failed() bool { return len(o.runs) == 0 && len(o.results) == 0 }

func (o *opened) state() sweep.State {
	return sweep.StateOf(o.now, o.failed(), o.w.CancelRequestedAt != nil)
}

func (o *opened) summary() api.SweepSummary {
	out := api.SweepSummary{
		SweepID: o.w.ID, Name: o.w.Name, User: o.w.User, State: o.state(), Method: o.plan.Method, Objective: o.plan.Objective,
		Counts: map[run.Status]int{sweep.Missing: 0}, CreatedAt: o.w.CreatedAt,
	}
	for _, status := range run.Statuses() {
		out.Counts[status] = 0
	}
	for _, r := range o.now {
		out.Counts[r.Status]++
	}
	best := o.order[0]
	if f, ok := o.now[best].Objective.Float(); ok && o.ranks[best] == 1 && !math.IsNaN(f) {
		out.Best = &api.SweepBest{Index: best, RunID: o.runID(best), Objective: value(o.now[best].Objective), ObjectiveNonfinite: o.now[best].Objective.Nonfinite}
	}
	if text := sweep.Warning(o.now, o.plan.Objective); text != "" {
		out.ObjectiveWarning = &text
	}
	if o.failed() {
		text := noRuns
		out.Error, out.ObjectiveWarning = &text, nil
	}
	if out.State == sweep.Finished {
		for _, h := range o.results {
			if h.FinishedAt != nil && (out.FinishedAt == nil || h.FinishedAt.After(*out.FinishedAt)) {
				out.FinishedAt = h.FinishedAt
			}
		}
	}
	return out
}

func value(l *run.Last) json.RawMessage {
	if l == nil || len(l.Value) == 0 {
		return json.RawMessage("null")
	}
	return l.Value
}

func (s *Service) shown(ctx context.Context, o *opened) (api.Sweep, error) {
	out := api.Sweep{
		SweepSummary: o.summary(), Seed: o.plan.Seed, SeedVariants: o.plan.SeedVariants,
		TotalCombinations: o.plan.Total, Params: o.plan.Params, Variants: make([]api.SweepVariant, 0, len(o.order)),
	}
	ids := make([]string, 0, len(o.runs))
	for _, r := range o.runs {
		ids = append(ids, r.ID)
	}
	final, err := s.cfg.Runs.FinalMetricsOf(ctx, ids)
	if err != nil {
		return out, err
	}
	for _, i := range o.order {
		r, exists := o.runs[i]
		v := api.SweepVariant{
			Index: i, DomainIndex: o.plan.Variants[i].DomainIndex, RunID: o.runID(i), RunExists: exists, Status: o.now[i].Status,
			Seed: o.plan.seed(i), Params: o.plan.values(o.plan.Variants[i]), Objective: value(o.now[i].Objective), Error: o.results[i].Error,
		}
		if rank := o.ranks[i]; rank > 0 {
			v.Rank = &rank
		}
		if l := o.now[i].Objective; l != nil {
			v.ObjectiveNonfinite = l.Nonfinite
		}
		if exists {
			v.FinalMetrics, v.WorkerID, v.Devices, v.QueueKey, v.Error = final[r.ID], r.WorkerID, r.Devices, r.QueueKey, r.Error
		}
		out.Variants = append(out.Variants, v)
	}
	return out, nil
}

// rows gives the variants as a table has them, by rank.
func (o *opened) rows() []sweep.Row {
	out := make([]sweep.Row, 0, len(o.order))
	for _, i := range o.order {
		v := o.plan.Variants[i]
		out = append(out, sweep.Row{
			Rank: o.ranks[i], Index: i, DomainIndex: v.DomainIndex, RunID: o.runID(i),
			Status: o.now[i].Status, Objective: o.now[i].Objective, Values: v.Values,
		})
	}
	return out
}
