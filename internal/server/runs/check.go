package runs

import (
	"context"

	"cdui/internal/api"
)

// Check refuses what Submit would refuse of a submission, and changes nothing.
func (s *Service) Check(ctx context.Context, req api.SubmitRequest) error {
	_, err := s.prepare(ctx, req, nil)
	return err
}
