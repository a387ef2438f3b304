package warm

import "time"

const (
	// Life is how long a spare is kept, and how long a device is remembered for
	// a run that imported torch.
	Life = 30 * time.Minute
	// Settle is how long a device must have been idle before a spare is started:
	// the next run of a queue comes sooner and must not share the cores with it.
	Settle = 5 * time.Second
	// Retry is how long a recipe is left alone whose spare failed.
	Retry = 10 * time.Minute
)

// Slot is one device that spares may stand by for.
type Slot struct {
	Device string
	// Shared is a card whose memory several runs share. None stands by there:
	// what a run may take is settled with its budget.
	Shared bool
	// Busy tells that a run is there, IdleSince since when none is; zero: for
	// as long as anybody knows.
	Busy      bool
	IdleSince time.Time
	// Recipe is the key of what a spare here should be, empty for none, and
	// Keep how many there should be.
	Recipe string
	Keep   int
	// Lasting is set for spares that were asked for. Others are kept for Life
	// after Used, when a run last imported torch here.
	Lasting bool
	Used    time.Time
	// FailedAt is when a spare of this recipe last failed.
	FailedAt time.Time
}

// Spare is one that stands by, ready or not.
type Spare struct {
	ID, Device, Key string
	Started         time.Time
	// Stale tells that the interpreter's environment has changed since.
	Stale bool
}

// State is all that Decide looks at.
type State struct {
	// Closed: nothing may stand by, since the machine is drained or stops.
	Closed bool
	Slots  []Slot
	Spares []Spare
}

// Action is one thing to do: the end of the spare ID, for the reason Why, or
// without an ID the start of one on Device.
type Action struct {
	ID, Why string
	Device  string
}

// Decide tells what to do now, and when to look again at the latest; zero: not
// before something changes.
func Decide(s State, now time.Time) (actions []Action, next time.Time) {
	later := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	kept := map[string]int{}
	for _, spare := range s.Spares {
		if why := needless(s, spare, kept[spare.Device], now); why != "" {
			actions = append(actions, Action{ID: spare.ID, Device: spare.Device, Why: why})
			continue
		}
		kept[spare.Device]++
		later(spare.Started.Add(Life))
	}
	for _, slot := range s.Slots {
		if s.Closed || !wants(slot, now) || slot.Busy {
			continue
		}
		if !slot.Lasting {
			later(slot.Used.Add(Life))
		}
		if kept[slot.Device] >= slot.Keep {
			continue
		}
		from := slot.IdleSince
		if !from.IsZero() {
			from = from.Add(Settle)
		}
		if !slot.FailedAt.IsZero() && slot.FailedAt.Add(Retry).After(from) {
			from = slot.FailedAt.Add(Retry)
		}
		if from.After(now) {
			later(from)
			continue
		}
		for range slot.Keep - kept[slot.Device] {
			actions = append(actions, Action{Device: slot.Device})
		}
	}
	return actions, next
}

// wants tells whether spares may stand by for slot at all.
func wants(slot Slot, now time.Time) bool {
	if slot.Shared || slot.Recipe == "" || slot.Keep < 1 {
		return false
	}
	return slot.Lasting || now.Before(slot.Used.Add(Life))
}

// needless tells why a spare must go; empty: it stays. before is how many of
// its device stay already.
func needless(s State, spare Spare, before int, now time.Time) string {
	if s.Closed {
		return "the machine is drained or stops"
	}
	if spare.Stale {
		return "the environment of its interpreter has changed"
	}
	if !now.Before(spare.Started.Add(Life)) {
		return "it has stood by for long enough"
	}
	for _, slot := range s.Slots {
		if slot.Device != spare.Device {
			continue
		}
		switch {
		case slot.Shared:
			return "the memory of its card is shared"
		case slot.Recipe != spare.Key:
			return "runs on its device need another one"
		case !wants(slot, now):
			return "nobody has used torch on its device for a while"
		case before >= slot.Keep:
			return "there are more than are needed"
		}
		return ""
	}
	return "its device is not there any more"
}
