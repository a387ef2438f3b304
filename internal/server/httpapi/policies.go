package httpapi

import (
	"context"
	"net/http"

	"cdui/internal/api"
)

// Policies is what the API asks of the keeper of people's decisions.
type Policies interface {
	Set(ctx context.Context, worker, device string, change api.DevicePolicyChange) (api.DevicePolicy, error)
	Hold(ctx context.Context, user string, req api.QueueHoldRequest) (api.QueueHold, error)
	Release(ctx context.Context, req api.QueueHoldRequest) (api.QueueHold, error)
}

func (s *Server) policyRoutes() []route {
	if s.cfg.Policies == nil {
		return nil
	}
	return []route{
		{
			method: "PUT", path: api.PathWorkerDevice, role: api.RoleAdmin, doc: "Change how many runs a device takes, whether they share it by memory, and whom it is closed to",
			request: api.DevicePolicyChange{}, response: api.DevicePolicy{}, act: act{"set", "device"}, call: s.setDevice,
		},
		{method: "POST", path: api.PathQueueHold, role: api.RoleAdmin, doc: "Keep the runs of a queue key from starting", request: api.QueueHoldRequest{}, response: api.QueueHold{}, act: act{"hold", "queue"}, call: s.holdQueue},
		{method: "POST", path: api.PathQueueRelease, role: api.RoleAdmin, doc: "Let the runs of a queue key go", request: api.QueueHoldRequest{}, response: api.QueueHold{}, act: act{"release", "queue"}, call: s.releaseQueue},
	}
}

func (s *Server) setDevice(r *http.Request) (any, error) {
	var change api.DevicePolicyChange
	if err := decode(r, &change, false); err != nil {
		return nil, err
	}
	return s.cfg.Policies.Set(r.Context(), r.PathValue("id"), r.PathValue("device"), change)
}

func (s *Server) holdQueue(r *http.Request) (any, error) {
	var req api.QueueHoldRequest
	if err := decode(r, &req, false); err != nil {
		return nil, err
	}
	return s.cfg.Policies.Hold(r.Context(), s.user(r), req)
}

func (s *Server) releaseQueue(r *http.Request) (any, error) {
	var req api.QueueHoldRequest
	if err := decode(r, &req, false); err != nil {
		return nil, err
	}
	return s.cfg.Policies.Release(r.Context(), req)
}
