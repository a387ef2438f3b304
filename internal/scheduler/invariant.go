package scheduler

import "fmt"

// Broken looks for a promise that doesn't hold once starts have been carried
// out and s is what is so then: no card holds more than it takes, and no run
// waits that could start beside them. It is empty when all is well. Debug builds
// ask it after every plan.
func Broken(s Snapshot, starts []Start) string {
	p := newPass(s)
	for _, start := range starts {
		for _, slot := range start.Slots {
			if what := p.overfull(s.CardOf(slot), slot); what != "" {
				return fmt.Sprintf("%s started on %s: %s", start.RunID, slot.Name(), what)
			}
		}
	}
	for _, missed := range Decide(s).Starts {
		return fmt.Sprintf("%s still waits though %s is free for it", missed.RunID, missed.Slots[0].Name())
	}
	return ""
}

func (p *pass) overfull(id string, slot Slot) string {
	card := p.Cards[id]
	if !p.sharedCard(&card) {
		if limit, by := p.limit(&card, slot); len(card.Holders) > limit {
			return fmt.Sprintf("%d runs are on it and %s takes %d", len(card.Holders), by.Name(), limit)
		}
		return ""
	}
	promised, alone := int64(0), false
	for _, h := range card.Holders {
		promised += h.BudgetMiB + p.context
		alone = alone || h.BudgetMiB == 0
	}
	switch {
	case alone && len(card.Holders) > 1:
		return "a run without a budget shares it"
	case !alone && promised > card.Memory.TotalMiB:
		return fmt.Sprintf("%d MiB are promised of its %d", promised, card.Memory.TotalMiB)
	}
	return ""
}
