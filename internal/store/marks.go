package store

import (
	"cmp"
	"slices"
	"time"
)

// trimTails bounds how many tails one commit writes out early.
const trimTails = 512

// trim keeps the marks near the end of the logs, so that Open has little to
// search: tails that lie far behind are written out as short chunks, then the
// mark moves up to the oldest that is left.
func (b *batch) trim() error {
	for k := range logKinds {
		if b.last[k]-b.openAfter[k] <= 2*k.lag() {
			continue
		}
		if err := b.trimLog(k); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) trimLog(k logKind) error {
	open := b.openTails(k)
	limit := b.last[k] - k.lag()
	behind, _ := slices.BinarySearchFunc(open, limit, func(l *runLog, limit int64) int {
		return cmp.Compare(l.tails[k].ids[0], limit)
	})
	behind = min(behind, trimTails)
	v := &view{batch: b, last: b.last}
	for _, l := range open[:behind] {
		l = l.edit()
		v.set(l)
		if err := v.closeChunk(l, k); err != nil {
			return err
		}
	}
	v.keep()
	after := b.last[k]
	if behind < len(open) {
		after = open[behind].tails[k].ids[0] - 1
	}
	return b.mark(k, after)
}

// openTails lists the logs that have an open tail, the oldest first.
func (b *batch) openTails(k logKind) []*runLog {
	var open []*runLog
	for _, l := range b.logs {
		if l != nil && len(l.tails[k].ids) > 0 {
			open = append(open, l)
		}
	}
	for id, l := range b.w.store.active {
		if _, changed := b.logs[id]; !changed && len(l.tails[k].ids) > 0 {
			open = append(open, l)
		}
	}
	slices.SortFunc(open, func(x, y *runLog) int {
		return cmp.Compare(x.tails[k].ids[0], y.tails[k].ids[0])
	})
	return open
}

// mark moves a mark up.
func (b *batch) mark(k logKind, after int64) error {
	if after <= b.openAfter[k] {
		return nil
	}
	return b.setMark(k, after)
}

func (b *batch) setMark(k logKind, after int64) error {
	if err := b.w.exec(`UPDATE exec_log_marks SET open_after = ? WHERE log = ?`, after, k.String()); err != nil {
		return err
	}
	b.openAfter[k] = after
	return nil
}

// storeMarks moves the marks up as far as they go, so that the next Open has
// little to search. It tries once: not worth a wait, nor an error.
func (w *writer) storeMarks() {
	if w.store.Healthy() != nil {
		return
	}
	c := newCall()
	c.do = func(v *view) error {
		for k := range logKinds {
			after := v.last[k]
			if open := v.openTails(k); len(open) > 0 {
				after = open[0].tails[k].ids[0] - 1
			}
			if err := v.mark(k, after); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := w.attempt([]*call{c}, time.Time{}, false); err != nil {
		w.store.logger.Debug("log marks not stored", "path", w.store.path, "error", err)
	}
}
