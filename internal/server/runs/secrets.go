package runs

import (
	"context"

	"cdui/internal/run"
	"cdui/internal/submission"
)

// secretsGone is why a run with secrets can't wait for another process of the
// control plane: their values are in memory only.
const secretsGone = "it waited with secrets, which the control plane keeps in memory only and has lost with its restart; submit it again"

// hadSecrets tells whether the run was submitted with secrets.
func (e *entry) hadSecrets() bool {
	return submission.FactsOf(e.row).Secrets
}

// forgetSecrets ends a waiting run whose secrets are gone.
func (s *Service) forgetSecrets(ctx context.Context, e *entry) error {
	_, err := s.leave(ctx, e, leaving{signal: run.Shutdown, class: run.EndServer, text: secretsGone})
	return err
}
