// Package policies keeps what people decided of devices and of queues: caps,
// sharing, cordons, what strangers mean, and held keys. It checks and stores
// these decisions and hands them to the run service, which acts on them. It
// knows nothing of runs.
package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fleet"
	"cdui/internal/store"
)

// Store is where decisions are kept.
type Store interface {
	DevicePolicies(ctx context.Context) ([]store.DevicePolicy, error)
	PutDevicePolicy(ctx context.Context, p store.DevicePolicy) error
	QueueHolds(ctx context.Context) ([]store.QueueHold, error)
	HoldQueue(ctx context.Context, h store.QueueHold) error
	ReleaseQueue(ctx context.Context, key string) error
}

// Placer acts on decisions.
type Placer interface {
	// Devices lists what a machine last offered; false if nobody knows it.
	Devices(machine string) ([]string, bool)
	Policy(slot scheduler.Slot) fleet.Policy
	SetPolicy(slot scheduler.Slot, p fleet.Policy)
	HoldKey(key string, why run.Reason)
	ReleaseKey(key string)
}

// Keeper keeps decisions.
type Keeper struct {
	store  Store
	placer Placer
	// mu makes reading a policy and storing its change one step.
	mu sync.Mutex
}

// New makes a keeper; Load tells the placer what was decided before.
func New(s Store, p Placer) *Keeper { return &Keeper{store: s, placer: p} }

// Load reads what was decided and hands it to the placer, before that plans.
func (k *Keeper) Load(ctx context.Context) error {
	policies, err := k.store.DevicePolicies(ctx)
	if err != nil {
		return fmt.Errorf("load device policies: %w", err)
	}
	for _, p := range policies {
		var policy fleet.Policy
		if err := json.Unmarshal(p.Policy, &policy); err != nil {
			return fmt.Errorf("load the policy of %s %s: %w", p.Worker, p.Device, err)
		}
		k.placer.SetPolicy(scheduler.Slot{Worker: p.Worker, Device: p.Device}, policy)
	}
	holds, err := k.store.QueueHolds(ctx)
	if err != nil {
		return fmt.Errorf("load held queues: %w", err)
	}
	for _, h := range holds {
		k.placer.HoldKey(h.Key, run.KeyHeld(h.Key, h.Note))
	}
	return nil
}

const (
	maxCap  = 1000
	maxNote = 200
)

// Set changes what of a device's policy is given and answers with the whole.
func (k *Keeper) Set(ctx context.Context, worker, name string, change api.DevicePolicyChange) (api.DevicePolicy, error) {
	devices, known := k.placer.Devices(worker)
	if !known {
		return api.DevicePolicy{}, api.Errorf(api.NotFound, "no worker is called %q", worker).With("worker", worker)
	}
	offered := false
	for _, d := range devices {
		offered = offered || d == name
	}
	slot := scheduler.Slot{Worker: worker, Device: name}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.placer.Policy(slot)
	if !offered && p == (fleet.Policy{}) {
		return api.DevicePolicy{}, api.Errorf(api.NotFound, "%s has no %s; it offers %s", worker, name, strings.Join(devices, ", ")).
			With("device", name).With("offers", devices)
	}
	if err := apply(&p, slot, change); err != nil {
		return api.DevicePolicy{}, err
	}
	row := store.DevicePolicy{Worker: worker, Device: name}
	if p != (fleet.Policy{}) {
		raw, err := json.Marshal(p)
		if err != nil {
			return api.DevicePolicy{}, fmt.Errorf("keep a device policy: %w", err)
		}
		row.Policy = raw
	}
	if err := k.store.PutDevicePolicy(ctx, row); err != nil {
		return api.DevicePolicy{}, err
	}
	k.placer.SetPolicy(slot, p)
	return api.DevicePolicy{
		Worker: worker, Device: name, Cap: p.Cap, Shared: p.Shared, Cordoned: p.Cordon, Reason: p.Why, Strangers: string(p.Acting()),
	}, nil
}

// apply puts a change into a policy.
func apply(p *fleet.Policy, slot scheduler.Slot, c api.DevicePolicyChange) error {
	if c.Cap != nil {
		if *c.Cap < 0 || *c.Cap > maxCap {
			return api.Errorf(api.Invalid, "cap is %d; it is a number of runs from 1 to %d, or 0 for the setting's", *c.Cap, maxCap)
		}
		p.Cap = *c.Cap
	}
	if c.Shared != nil {
		if *c.Shared && (slot.Worker == scheduler.Local || device.Kind(slot.Device) != device.CUDA) {
			return api.Errorf(api.Invalid, "%s can't be shared by memory: that is for CUDA cards of workers", slot.Name())
		}
		p.Shared = *c.Shared
	}
	if c.Cordoned != nil {
		p.Cordon, p.Why = *c.Cordoned, ""
	}
	if c.Reason != nil {
		why := strings.TrimSpace(*c.Reason)
		if utf8.RuneCountInString(why) > maxNote {
			return api.Errorf(api.Invalid, "reason has more than %d characters", maxNote)
		}
		if !p.Cordon && why != "" {
			return api.Errorf(api.Invalid, "reason says why a device is cordoned, and %s is not: give cordoned too", slot.Name())
		}
		p.Why = why
	}
	if c.Strangers != nil {
		switch s := fleet.Strangers(*c.Strangers); s {
		case "", fleet.Respect, fleet.Refuse, fleet.Ignore:
			p.Strangers = s
		default:
			return api.Errorf(api.Invalid, "strangers is %.40q; use respect, refuse or ignore, or nothing for the default", *c.Strangers)
		}
	}
	return nil
}

// Hold keeps the runs of a queue key from starting.
func (k *Keeper) Hold(ctx context.Context, user string, req api.QueueHoldRequest) (api.QueueHold, error) {
	key, err := cleanKey(req.Key)
	if err != nil {
		return api.QueueHold{}, err
	}
	note := strings.TrimSpace(req.Note)
	if utf8.RuneCountInString(note) > maxNote {
		return api.QueueHold{}, api.Errorf(api.Invalid, "note has more than %d characters", maxNote)
	}
	h := store.QueueHold{Key: key, Note: note, CreatedBy: user, CreatedAt: time.Now().UTC()}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.store.HoldQueue(ctx, h); err != nil {
		return api.QueueHold{}, err
	}
	k.placer.HoldKey(key, run.KeyHeld(key, note))
	return api.QueueHold{Key: key, Note: note, Held: true}, nil
}

// Release lets the runs of a queue key go.
func (k *Keeper) Release(ctx context.Context, req api.QueueHoldRequest) (api.QueueHold, error) {
	key, err := cleanKey(req.Key)
	if err != nil {
		return api.QueueHold{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.store.ReleaseQueue(ctx, key); err != nil {
		return api.QueueHold{}, err
	}
	k.placer.ReleaseKey(key)
	return api.QueueHold{Key: key}, nil
}

const maxKey = 512

func cleanKey(key string) (string, error) {
	key = strings.ToLower(strings.TrimSpace(key))
	if key == "" || len(key) > maxKey {
		return "", api.Errorf(api.Invalid, "key must name a queue, such as cuda:0 or box/cuda")
	}
	return key, nil
}
