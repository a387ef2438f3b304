package server

import (
	"context"

	"cdui/internal/run"
	"cdui/internal/server/hooks"
	"cdui/internal/server/studies"
	"cdui/internal/server/sweeps"
)

// composeFamilies makes what keeps runs that belong together.
func (s *server) composeFamilies() {
	s.sweeps = sweeps.New(sweeps.Config{
		Submitter: s.runs, Ledger: s.store, Runs: s.store, Catalog: s.Catalog, Limits: s.cfg.Sweeps, Logger: s.log,
	})
	s.studies = studies.New(studies.Config{
		Submitter: s.runs, Ledger: s.store, Runs: s.store, Sweeps: s.sweeps, Catalog: s.Catalog, Logger: s.log,
	})
}

// runEnded has the studies looked at, which may go on now.
func (s *server) runEnded(row run.Row) {
	s.outcomes.add(row)
	s.hooks.Emit(hooks.Ended(row))
	s.studies.Nudge()
}

// harvest lets sweeps and studies keep how runs ended that are to be removed.
func (s *server) harvest(ctx context.Context, ids []string) error {
	if err := s.sweeps.Harvest(ctx, ids); err != nil {
		return err
	}
	return s.studies.Harvest(ctx)
}
