package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cdui/internal/run"
)

// Change is what happens to one run in one transaction. Its parts are stored
// in the order of the fields.
type Change struct {
	// Insert is a new run with its graph. Its Seq is set on success; runs are
	// numbered in the order in which Apply was called.
	Insert *run.Row
	// RunID is the run that the rest is about; Insert implies it.
	RunID string
	// Patch sets fields of the row; nil leaves it.
	Patch *Patch
	// Events are appended to the log, Metrics to the metrics, in order.
	Events    []Event
	Metrics   []Metrics
	Artifacts []Artifact
	// Fingerprint is the document that the patch's digest names, Sources are
	// what the run's nodes are made of.
	Fingerprint *Fingerprint
	Sources     []Source
	// RecordedSeq, when above 0, is the last spool record of Attempt that the
	// change covers.
	Attempt     int
	RecordedSeq uint64
	// RequireActive fails the call with ErrNotActive when the run has ended.
	RequireActive bool
	// RequireAttempt, when above 0, fails the call with ErrNotActive when the
	// row's attempt is another.
	RequireAttempt int
	// End closes the log: its tail is written out. A status that is terminal
	// implies it.
	End bool
}

// Patch names the fields of a row to set; what is nil stays as it is.
type Patch struct {
	Name              *string
	Options           *run.Options
	Status            *run.Status
	Error             *string
	EndClass          *run.EndClass
	QueueKey          *string
	StartedAt         *time.Time
	FinishedAt        *time.Time
	Attempt           *int
	Facts             json.RawMessage
	WorkerID          *string
	Devices           []string
	FingerprintDigest *string
	CancelRequestedAt *time.Time
	// PeakMiB is the most memory that the run took of one card.
	PeakMiB *int64
}

// Event is one entry of a run's log. Cursor is set by the store.
type Event struct {
	Cursor  int64
	Type    string
	Payload json.RawMessage
	TS      time.Time
}

// Metrics is one flush of metric points, a JSON array of
// {name, value, step, node_id?, nonfinite?}; its bytes are kept as they are.
type Metrics struct {
	Points json.RawMessage
	TS     time.Time
}

// Artifact is a file that a run produced. Its ID is from NextArtifactID.
type Artifact struct {
	ID        int64
	Kind      string
	Path      string
	Meta      json.RawMessage
	NodeID    string
	Backend   string
	CreatedAt time.Time
}

// Result tells what a change became. FirstCursor is 0 when the change had no
// events; LastCursor is the log's last cursor after the change.
type Result struct {
	Seq         int64
	FirstCursor int64
	LastCursor  int64
}

// prepared is a change with everything computed that needs no database.
type prepared struct {
	Change
	id      string
	insert  []any
	graph   string
	tags    []string
	columns []column
	points  []point
	rows    int
	bytes   int
}

// column is one field of a row that a change sets.
type column struct {
	name  string
	value any
}

// prepare runs in the caller's goroutine, so that the writer only writes.
func prepare(c Change) (prepared, error) {
	p := prepared{Change: c, id: c.RunID}
	if c.Insert != nil {
		if err := p.prepareInsert(); err != nil {
			return p, err
		}
	}
	if p.id == "" {
		return p, errors.New("store change: no run id")
	}
	if c.Patch != nil {
		if err := p.preparePatch(); err != nil {
			return p, err
		}
	}
	for _, e := range c.Events {
		p.bytes += len(e.Payload)
	}
	for _, m := range c.Metrics {
		p.bytes += len(m.Points)
		p.points = addPoints(p.points, m.Points)
	}
	for _, a := range c.Artifacts {
		if a.ID <= 0 {
			return p, fmt.Errorf("store artifact %s of run %s: no id", a.Path, p.id)
		}
		p.bytes += len(a.Meta) + len(a.Path)
	}
	if c.Fingerprint != nil {
		p.bytes += len(c.Fingerprint.Document)
	}
	for _, src := range c.Sources {
		p.bytes += len(src.Record)
	}
	p.rows += 1 + len(c.Sources) + len(c.Events) + len(c.Metrics) + len(c.Artifacts)
	return p, nil
}

// records counts what a change adds to its run's logs.
func (p *prepared) records() int { return len(p.Events) + len(p.Metrics) + len(p.Artifacts) }

func (p *prepared) prepareInsert() error {
	r := p.Insert
	if r.ID == "" || p.RunID != "" && p.RunID != r.ID {
		return fmt.Errorf("store run %q: bad id", r.ID)
	}
	if !r.Status.Valid() {
		return fmt.Errorf("store run %s: unknown status %q", r.ID, r.Status)
	}
	p.id = r.ID
	options, err := json.Marshal(r.Options)
	if err != nil {
		return fmt.Errorf("store run %s: options: %w", r.ID, err)
	}
	devices, err := devicesValue(r.Devices)
	if err != nil {
		return fmt.Errorf("store run %s: devices: %w", r.ID, err)
	}
	p.insert = []any{
		r.ID, r.Name, r.Options.Key, string(r.Status), r.Error, string(r.EndClass), r.QueueKey,
		micros(r.CreatedAt), microsOrNil(r.StartedAt), microsOrNil(r.FinishedAt), int64(r.Attempt),
		r.User, r.GitCommit, boolOrNil(r.GitDirty), documentOrNil(r.PluginPins),
		r.SweepID, intOrNil(r.SweepVariant), r.RerunOf, r.WorkerID, devices,
		r.FingerprintDigest, microsOrNil(r.CancelRequestedAt), string(options), documentOrNil(r.Facts),
		r.RetryOf, r.Likeness,
	}
	p.graph = string(r.Graph)
	p.tags = r.Options.Tags
	p.bytes += len(options) + len(r.Graph) + len(r.Facts)
	p.rows += 4 + len(p.tags)
	return nil
}

func (p *prepared) preparePatch() error {
	set := func(name string, value any) { p.columns = append(p.columns, column{name, value}) }
	c := p.Patch
	if c.Name != nil {
		set("name", *c.Name)
	}
	if c.Options != nil {
		options, err := json.Marshal(c.Options)
		if err != nil {
			return fmt.Errorf("store options of run %s: %w", p.id, err)
		}
		set("options", string(options))
		set("key", c.Options.Key)
		p.tags = c.Options.Tags
		p.bytes += len(options)
	}
	if c.Status != nil {
		if !c.Status.Valid() {
			return fmt.Errorf("store run %s: unknown status %q", p.id, *c.Status)
		}
		set("status", string(*c.Status))
	}
	if c.Error != nil {
		set("error", *c.Error)
	}
	if c.PeakMiB != nil {
		set("peak_mib", *c.PeakMiB)
	}
	if c.EndClass != nil {
		set("end_class", string(*c.EndClass))
	}
	if c.QueueKey != nil {
		set("queue_key", *c.QueueKey)
	}
	if c.StartedAt != nil {
		set("started_at", micros(*c.StartedAt))
	}
	if c.FinishedAt != nil {
		set("finished_at", micros(*c.FinishedAt))
	}
	if c.Attempt != nil {
		set("attempt", int64(*c.Attempt))
	}
	if len(c.Facts) > 0 {
		set("execution_facts", string(c.Facts))
		p.bytes += len(c.Facts)
	}
	if c.WorkerID != nil {
		set("worker_id", *c.WorkerID)
	}
	if c.Devices != nil {
		devices, err := devicesValue(c.Devices)
		if err != nil {
			return fmt.Errorf("store devices of run %s: %w", p.id, err)
		}
		set("devices", devices)
	}
	if c.FingerprintDigest != nil {
		set("fingerprint_digest", *c.FingerprintDigest)
	}
	if c.CancelRequestedAt != nil {
		set("cancel_requested_at", micros(*c.CancelRequestedAt))
	}
	return nil
}

// failsAlone tells whether a statement of the change may be refused while the
// transaction stays good, or whether one of its guards may come too late.
func (p *prepared) failsAlone() bool {
	return p.Insert != nil || len(p.Artifacts) > 0 || p.Patch != nil && p.Patch.Options != nil
}
