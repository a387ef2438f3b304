package journal

import (
	"bytes"
	"encoding/json"

	"cdui/internal/run"
	"cdui/internal/store"
)

// maxSource bounds the record of one node's source, maxSourceName its name.
const (
	maxSource     = 1 << 20
	maxSourceName = 256
)

// The members of a run_facts record that are stored apart.
const (
	fingerprintMember = "fingerprint"
	sourceMember      = "node_source"
)

// Where the fingerprint that a row names came from: from what the worker told
// when it connected, or from the child of the run itself, on a worker or here.
const (
	FromWorker    = "worker"
	FromWorkerRun = "worker-run"
	FromRun       = "run"
)

// facts takes in a run_facts record: what is stored apart is taken out.
func (c *Batch) facts(doc json.RawMessage) {
	if !bytes.Contains(doc, []byte(fingerprintMember)) && !bytes.Contains(doc, []byte(sourceMember)) {
		c.Facts = append(c.Facts, doc)
		return
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil {
		return
	}
	if given, ok := members[fingerprintMember]; ok {
		delete(members, fingerprintMember)
		if digest, canonical, ok := run.Fingerprint(given); ok {
			c.Change.Fingerprint = &store.Fingerprint{Digest: digest, Document: canonical}
		}
	}
	if given, ok := members[sourceMember]; ok {
		delete(members, sourceMember)
		var named struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(given, &named) == nil && named.Name != "" && len(named.Name) <= maxSourceName && len(given) <= maxSource {
			c.Change.Sources = append(c.Change.Sources, store.Source{Name: named.Name, Record: given})
		}
	}
	if len(members) == 0 {
		return
	}
	if rest, err := json.Marshal(members); err == nil {
		c.Facts = append(c.Facts, rest)
	}
}

// Digest is that of the environment that the batch tells of, nil when it tells
// of none.
func (c Batch) Digest() *string {
	if c.Change.Fingerprint == nil {
		return nil
	}
	return &c.Change.Fingerprint.Digest
}

// DigestOn is the one that a row names after the batch.
func (c Batch) DigestOn(row run.Row) string {
	if digest := c.Digest(); digest != nil {
		return *digest
	}
	return row.FingerprintDigest
}

// source says where the batch's fingerprint came from.
func source(row run.Row) json.RawMessage {
	from := FromRun
	if row.WorkerID != "" {
		from = FromWorkerRun
	}
	return With(nil, "fingerprint_source", from)
}
