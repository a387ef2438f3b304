package doctor

import "time"

// clock looks for a clock that is plainly wrong, or that nobody sets.
func clock(now time.Time) []Finding {
	const name = "clock"
	if now.Year() < 2024 {
		return []Finding{{name, Fail, "it is set to " + now.Format(time.DateOnly), "set it, and let ntp or chrony keep it right"}}
	}
	if synced, known := clockSynced(); known && !synced {
		return []Finding{{name, Warn, now.Format(time.DateTime) + "; the system says that nothing keeps it right", "install chrony or enable systemd-timesyncd; skew only shows in times, no decision uses another machine's clock"}}
	}
	return []Finding{{name, OK, now.Format(time.DateTime), ""}}
}
