package runs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/graph"
	"cdui/internal/run"
	"cdui/internal/store"
)

// Submit takes runs, all or none, and answers in their order. Errors are
// *api.Error; one that belongs to an entry of a bulk names it.
func (s *Service) Submit(ctx context.Context, user string, requests ...api.SubmitRequest) ([]api.SubmitReply, error) {
	entries := make([]*entry, len(requests))
	for i, req := range requests {
		e, err := s.prepare(ctx, req, nil)
		if err != nil {
			return nil, inBulk(err, i, len(requests))
		}
		e.row.User = user
		entries[i] = e
	}
	return s.accept(ctx, entries)
}

// Call submits a graph that is used as a function, with the values of its
// inputs, which are in memory only. It runs in the interactive lane: at once or
// not at all.
func (s *Service) Call(ctx context.Context, user string, req api.SubmitRequest, inputs map[string]json.RawMessage) (api.SubmitReply, error) {
	e, err := s.prepare(ctx, req, inputs)
	if err != nil {
		return api.SubmitReply{}, err
	}
	e.row.User = user
	e.row.Options.Lane, e.slots = interactiveLane, nil
	replies, err := s.accept(ctx, []*entry{e})
	if err != nil {
		return api.SubmitReply{}, err
	}
	return replies[0], nil
}

// accept commits prepared entries and lets them in.
func (s *Service) accept(ctx context.Context, entries []*entry) ([]api.SubmitReply, error) {
	keyed := false
	for _, e := range entries {
		keyed = keyed || e.row.Options.Key != ""
	}
	if keyed {
		s.keyed.Lock()
		defer s.keyed.Unlock()
	}
	if err := s.refuseBusySessions(entries); err != nil {
		return nil, err
	}
	replies := make([]api.SubmitReply, len(entries))
	fresh, err := s.withoutExisting(ctx, entries, replies)
	if err != nil {
		return nil, err
	}
	if err := s.insert(ctx, entries, fresh); err != nil {
		return nil, err
	}
	s.mu.Lock()
	for _, i := range fresh {
		s.runs[entries[i].row.ID] = entries[i]
		s.admit(entries[i])
	}
	s.mu.Unlock()
	for _, i := range fresh {
		if len(entries[i].row.Options.After) > 0 {
			s.settleAfter(ctx, entries[i].row.ID)
		}
	}
	s.schedule()
	for _, i := range fresh {
		replies[i] = s.reply(entries[i])
		s.cfg.Notify(entries[i].row.ID)
	}
	return replies, nil
}

// refuseBusySessions refuses interactive runs for which there is no room now.
func (s *Service) refuseBusySessions(entries []*entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if e.interactive() && (len(entries) > 1 || !s.sessionFree()) {
			return api.Errorf(api.Unavailable, "the interactive lane takes %d runs at a time; try again, or leave the lane out to queue the run", s.cfg.Interactive).
				With("rejected", true)
		}
	}
	return nil
}

// withoutExisting fills the replies of entries whose key names a run that is
// there already and lists the others. The caller holds keyed if any has a key.
func (s *Service) withoutExisting(ctx context.Context, entries []*entry, replies []api.SubmitReply) ([]int, error) {
	var fresh []int
	inBatch := map[string]bool{}
	for i, e := range entries {
		key := e.row.Options.Key
		if key == "" {
			fresh = append(fresh, i)
			continue
		}
		if inBatch[key] {
			return nil, api.Errorf(api.Invalid, "runs[%d]: option \"key\": %q is used twice in one request", i, key)
		}
		inBatch[key] = true
		row, err := s.cfg.Store.ByKey(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			fresh = append(fresh, i)
		case err != nil:
			return nil, storeError(err)
		default:
			replies[i] = api.SubmitReply{RunID: row.ID, Status: row.Status, QueueKey: row.QueueKey, Name: row.Name, Existing: true}
		}
	}
	return fresh, nil
}

func (s *Service) insert(ctx context.Context, entries []*entry, fresh []int) error {
	if len(fresh) == 0 {
		return nil
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return api.Errorf(api.Unavailable, "the control plane is shutting down")
	}
	changes := make([]store.Change, len(fresh))
	for k, i := range fresh {
		changes[k] = store.Change{Insert: &entries[i].row}
	}
	results, err := s.cfg.Store.Apply(ctx, changes...)
	if err != nil {
		return storeError(err)
	}
	for k, i := range fresh {
		entries[i].row.Seq = results[k].Seq
	}
	return nil
}

func (s *Service) reply(e *entry) api.SubmitReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := api.SubmitReply{RunID: e.row.ID, Status: e.row.Status, QueueKey: e.row.QueueKey, Name: e.row.Name}
	if e.phase == waiting {
		r.Position, r.Reason = s.waitsFor(e)
	}
	return r
}

// prepare checks one submission and builds its entry; nothing is changed yet.
func (s *Service) prepare(ctx context.Context, req api.SubmitRequest, inputs map[string]json.RawMessage) (*entry, error) {
	o, err := run.ParseOptions(req.Options)
	if err != nil {
		return nil, optionError(err)
	}
	name, err := cleanName(req.Name)
	if err != nil {
		return nil, err
	}
	raw, err := graphOf(req.Graph, o)
	if err != nil {
		return nil, err
	}
	env, err := graph.ParseEnvelope(raw)
	if err != nil {
		return nil, api.Errorf(api.Invalid, "%v", err)
	}
	program, ok, err := env.Program()
	if err != nil {
		return nil, api.Errorf(api.Invalid, "%v", err)
	}
	if ok && o.Lane == interactiveLane {
		return nil, api.Errorf(api.Unavailable, "a Script or Command can't run in the interactive lane; leave the lane out to queue it").With("rejected", true)
	}
	if o.Device == "" {
		o.Device = s.settingsDevice(env.Settings.Device)
	}
	devices, key, err := s.placeable(&o)
	if err != nil {
		return nil, err
	}
	row := run.Row{
		ID: newID(), Name: name, Options: o, Status: run.Queued, QueueKey: key, CreatedAt: now(),
		Devices: devices, Graph: raw, RerunOf: req.RerunOf,
	}
	if req.Git != nil {
		row.GitCommit, row.GitDirty = req.Git.Commit, req.Git.Dirty
	}
	e := &entry{row: row, program: program, inputs: inputs}
	if !e.interactive() {
		e.slots = localSlots(devices)
	}
	if !ok {
		if err := s.keepGraph(ctx, e, raw, req.Cwd); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// settingsDevice is the device that a graph's own settings ask for. A graph
// travels between machines, so one that this machine lacks becomes cpu, and the
// engine warns; a device in the options is an order and is refused instead.
func (s *Service) settingsDevice(wanted string) string {
	if _, err := s.cfg.Devices().Resolve(wanted); err != nil {
		return device.CPU
	}
	return wanted
}

func graphOf(raw json.RawMessage, o run.Options) (json.RawMessage, error) {
	given := len(raw) > 0 && string(raw) != "null"
	var err error
	switch {
	case given && (o.Script != nil || o.Command != nil):
		return nil, api.Errorf(api.Invalid, "give either a graph or options.script or options.command, not both")
	case given:
		return raw, nil
	case o.Script != nil:
		raw, err = graph.ForScript(*o.Script)
	case o.Command != nil:
		raw, err = graph.ForCommand(*o.Command)
	default:
		return nil, api.Errorf(api.Unreadable, "no graph: give \"graph\", or options.script or options.command")
	}
	if err != nil {
		return nil, api.Errorf(api.Invalid, "%v", err)
	}
	return raw, nil
}

// placeable resolves the devices that the options ask for and the queue key,
// or refuses what could never start.
func (s *Service) placeable(o *run.Options) (devices []string, key string, err error) {
	t := o.Target
	if t != nil && t.Worker != "any" && !t.Local() {
		return nil, "", api.Errorf(api.Invalid, "no worker %q: no workers are enrolled. Leave --worker out to run on this machine", t.Worker).
			With("worker", t.Worker)
	}
	inv := s.cfg.Devices()
	devices = []string{}
	if t != nil && len(t.Devices) > 0 {
		devices = t.Devices
		for _, d := range devices {
			if !inv.Has(d) {
				return nil, "", noDevice(inv, d)
			}
		}
		o.Device = devices[0]
	} else {
		if o.Device == "" {
			o.Device = device.CPU
		}
		d, err := inv.Resolve(o.Device)
		if err != nil {
			return nil, "", noDevice(inv, o.Device)
		}
		o.Device, devices = d, []string{d}
	}
	key = setKey(devices)
	if t != nil && t.Worker == "any" {
		if device.Kind(devices[0]) == device.CUDA && (len(devices) > 1 || devices[0] != "cuda:0") {
			return nil, "", api.Errorf(api.Invalid, "no worker can serve %s, and on this server \"any\" takes cuda:0 alone; name the worker, or leave it out", setKey(devices))
		}
		key = "any/" + key
	}
	return devices, key, nil
}

func noDevice(inv device.Inventory, d string) error {
	return api.Errorf(api.Invalid, "this machine has no %s; it offers %s", d, strings.Join(inv.Names(), ", ")).
		With("device", d).With("offers", inv.Names())
}

func cleanName(name *string) (string, error) {
	if name == nil {
		return "", nil
	}
	n := strings.TrimSpace(*name)
	if c := utf8.RuneCountInString(n); c > run.MaxNameChars {
		return "", api.Errorf(api.Invalid, "name has %d characters, the limit is %d", c, run.MaxNameChars)
	}
	return n, nil
}

func optionError(err error) error {
	e := api.Errorf(api.Invalid, "%v", err)
	var oe *run.OptionError
	if errors.As(err, &oe) {
		e.With("option", oe.Option).With("supported", run.OptionKeys())
	}
	return e
}

func inBulk(err error, i, n int) error {
	var e *api.Error
	if n > 1 && errors.As(err, &e) {
		e.Message = fmt.Sprintf("runs[%d]: %s", i, e.Message)
		e.With("index", i)
	}
	return err
}

// storeError translates what the store says into an answer for callers.
func storeError(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return api.Errorf(api.NotFound, "%v", err)
	case errors.Is(err, store.ErrNotActive), errors.Is(err, store.ErrActive):
		return api.Errorf(api.Conflict, "%v", err)
	case errors.Is(err, store.ErrFull):
		return api.Errorf(api.StorageFull, "the disk of the control plane's data folder is full; free some space and try again")
	case errors.Is(err, store.ErrBusy):
		return api.Errorf(api.StorageBusy, "another program holds the control plane's database locked; try again when it has finished")
	}
	return err
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime aborts instead
	return hex.EncodeToString(b[:])
}

// now is a row's notion of time: UTC with milliseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
