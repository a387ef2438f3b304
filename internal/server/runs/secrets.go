package runs

import (
	"context"
	"encoding/json"
	"fmt"

	"cdui/internal/api"
	"cdui/internal/graph"
	"cdui/internal/graph/secret"
	"cdui/internal/run"
)

// secretsGone is why a run with secrets can't wait for another process of the
// control plane: their values are in memory only.
const secretsGone = "it waited with secrets, which the control plane keeps in memory only and has lost with its restart; submit it again"

// graphFacts is what the row of a graph run is submitted with.
type graphFacts struct {
	Cwd     string `json:"cwd,omitempty"`
	Secrets bool   `json:"secrets,omitempty"`
}

// keepGraph puts a submitted graph into an entry: its secrets into the vault,
// the rest into the row.
func (s *Service) keepGraph(ctx context.Context, e *entry, raw json.RawMessage, cwd string) error {
	scrubbed, vault, err := secret.Scrub(raw, s.cfg.Catalog(ctx))
	if err != nil {
		return api.Errorf(api.Invalid, "%v", err)
	}
	if e.row.Graph, err = graph.Snapshot(scrubbed); err != nil {
		return api.Errorf(api.Invalid, "%v", err)
	}
	e.vault = vault
	facts := graphFacts{Cwd: cwd, Secrets: !vault.Empty()}
	if facts == (graphFacts{}) {
		return nil
	}
	if e.row.Facts, err = json.Marshal(facts); err != nil {
		return fmt.Errorf("note the facts of run %s: %w", e.row.ID, err)
	}
	return nil
}

// hadSecrets tells whether the run was submitted with secrets.
func (e *entry) hadSecrets() bool {
	var f graphFacts
	return json.Unmarshal(e.row.Facts, &f) == nil && f.Secrets
}

// forgetSecrets ends a waiting run whose secrets are gone.
func (s *Service) forgetSecrets(ctx context.Context, e *entry) error {
	_, err := s.leave(ctx, e, run.Shutdown, run.EndServer, secretsGone)
	return err
}
