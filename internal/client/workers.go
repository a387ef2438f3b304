package client

import (
	"context"
	"net/http"
	"time"

	"cdui/internal/api"
)

// Workers lists the workers, by name.
func (c *Client) Workers(ctx context.Context) (api.WorkerList, error) {
	var out api.WorkerList
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathWorkers}, &out)
}

// Worker reads one worker.
func (c *Client) Worker(ctx context.Context, name string) (api.Worker, error) {
	var out api.Worker
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathWorker, id: name}, &out)
}

// AddWorker makes a one-time token that the agent of a new worker enrolls with.
// A ttl of 0 leaves it to the control plane how long it is good.
func (c *Client) AddWorker(ctx context.Context, name string, ttl time.Duration) (api.EnrollmentReply, error) {
	body := api.EnrollmentRequest{Name: name}
	if seconds := ttl.Seconds(); seconds > 0 {
		body.TTLS = &seconds
	}
	var out api.EnrollmentReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathWorkerEnrollments, body: body}, &out)
}

// Drain keeps new runs from a worker.
func (c *Client) Drain(ctx context.Context, name string) (api.Worker, error) {
	var out api.Worker
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathWorkerDrain, id: name}, &out)
}

// Undrain lets it take runs again.
func (c *Client) Undrain(ctx context.Context, name string) (api.Worker, error) {
	var out api.Worker
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathWorkerUndrain, id: name}, &out)
}

// SetDevice changes what is given of a device's policy. The worker local is the
// control plane's own machine.
func (c *Client) SetDevice(ctx context.Context, worker, device string, change api.DevicePolicyChange) (api.DevicePolicy, error) {
	var out api.DevicePolicy
	return out, c.call(ctx, request{method: http.MethodPut, path: api.PathWorkerDevice, id: worker, name: device, body: change}, &out)
}

// HoldQueue keeps the runs of a queue key from starting.
func (c *Client) HoldQueue(ctx context.Context, key, note string) (api.QueueHold, error) {
	var out api.QueueHold
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathQueueHold, body: api.QueueHoldRequest{Key: key, Note: note}}, &out)
}

// ReleaseQueue lets them go.
func (c *Client) ReleaseQueue(ctx context.Context, key string) (api.QueueHold, error) {
	var out api.QueueHold
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathQueueRelease, body: api.QueueHoldRequest{Key: key}}, &out)
}

// RemoveWorker forgets a worker. Its runs end.
func (c *Client) RemoveWorker(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: api.PathWorker, id: name}, nil)
}

// RekeyWorker takes a worker's token away and makes a one-time token that
// enrolls it again.
func (c *Client) RekeyWorker(ctx context.Context, name string) (api.EnrollmentReply, error) {
	var out api.EnrollmentReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathWorkerRekey, id: name}, &out)
}

// Tokens lists users' tokens, by name and without their secrets.
func (c *Client) Tokens(ctx context.Context) (api.TokenList, error) {
	var out api.TokenList
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathTokens}, &out)
}

// AddToken makes a token for a user.
func (c *Client) AddToken(ctx context.Context, name string, role api.Role) (api.TokenReply, error) {
	body := api.TokenRequest{Name: name, Role: role}
	var out api.TokenReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathTokens, body: body}, &out)
}

// RemoveToken revokes a user's token.
func (c *Client) RemoveToken(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: api.PathToken, id: name}, nil)
}
