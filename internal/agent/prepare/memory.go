package prepare

import "cdui/internal/protocol"

// budgets names a run's memory budgets as it sees its devices, and gives the
// smallest: the child limits itself to one number on each card.
func budgets(a *protocol.Assign) (byDevice map[string]int64, least int64) {
	for i, d := range a.Devices {
		mib := a.MemoryBudgets[d]
		if mib <= 0 {
			continue
		}
		if byDevice == nil {
			byDevice = map[string]int64{}
		}
		byDevice[alias(i, d)] = mib
		if least == 0 || mib < least {
			least = mib
		}
	}
	return byDevice, least
}
