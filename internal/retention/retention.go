// Package retention decides which ended runs' bytes (logs, outputs, caches) go.
// It is pure; reading folders and removing them is the caller's part. Rows are
// not its business: they stay.
package retention

import (
	"cmp"
	"slices"
	"time"

	"cdui/internal/sorting"
)

// Policy bounds what is kept; a zero field is no bound.
type Policy struct {
	MaxAge   time.Duration
	MaxBytes int64
}

// Kept is what one ended run has on disk.
type Kept struct {
	RunID  string
	Bytes  int64
	Ended  time.Time
	Pinned bool
}

// Expired lists the runs whose bytes go: those older than the policy's age,
// then the oldest until the rest fits. Pinned ones stay, and count.
func Expired(kept []Kept, policy Policy, now time.Time) []string {
	byAge := slices.Clone(kept)
	sorting.Sort(byAge, func(a, b Kept) int { return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.RunID, b.RunID)) })
	total := int64(0)
	for _, k := range byAge {
		total += k.Bytes
	}
	var out []string
	for _, k := range byAge {
		tooOld := policy.MaxAge > 0 && now.Sub(k.Ended) > policy.MaxAge
		tooMuch := policy.MaxBytes > 0 && total > policy.MaxBytes
		if !k.Pinned && (tooOld || tooMuch) {
			out = append(out, k.RunID)
			total -= k.Bytes
		}
	}
	return out
}
