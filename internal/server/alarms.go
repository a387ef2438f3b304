package server

import (
	"context"
	"time"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/hooks"
)

// alarmsEvery is how often workers and cards are compared with how they were. A
// worker that is back before that was not down.
const alarmsEvery = 10 * time.Second

func (s *server) composeHooks() {
	s.hooks = hooks.New(hooks.Config{Store: s.store, Carrier: hooks.NewCalls(s.cfg.Environ), Logger: s.log})
}

func (s *server) runStarted(row run.Row) { s.hooks.Emit(hooks.Started(row)) }

// watchAlarms tells the hooks of workers that go and cards that fall ill.
func (s *server) watchAlarms(ctx context.Context) {
	tick := time.NewTicker(alarmsEvery)
	defer tick.Stop()
	var before hooks.Condition
	for {
		now := s.condition(ctx)
		for _, alarm := range hooks.Changes(before, now) {
			s.hooks.Emit(alarm)
		}
		before = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *server) condition(ctx context.Context) hooks.Condition {
	now := hooks.Condition{Online: map[string]bool{}, Ails: map[hooks.Place]string{}}
	for _, d := range s.inventory() {
		now.Ails[hooks.Place{Worker: scheduler.Local, Device: d.Device}] = ails(d.Health)
	}
	for _, w := range s.workers.List(ctx) {
		now.Online[w.Name] = w.State == api.WorkerOnline
		for _, d := range w.Devices {
			now.Ails[hooks.Place{Worker: w.Name, Device: d.Device.Device}] = ails(d.Health)
		}
	}
	return now
}

func ails(h device.Health) string {
	if h.OK() {
		return ""
	}
	return h.String()
}
