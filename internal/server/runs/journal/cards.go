package journal

import "encoding/json"

// resume is what a row keeps of a place on a worker, so that the run counts on
// its cards before the worker has returned.
type resume struct {
	Slots []resumeSlot `json:"slots"`
}

type resumeSlot struct {
	Device string `json:"device"`
	Card   string `json:"card"`
}

// Placed notes in a run's facts the card behind each of its devices, and where
// the fingerprint came from that it begins with, if it has one.
func Placed(facts json.RawMessage, devices, cards []string, digest string) json.RawMessage {
	var r resume
	for i, d := range devices {
		r.Slots = append(r.Slots, resumeSlot{Device: d, Card: cards[i]})
	}
	if digest != "" {
		facts = With(facts, "fingerprint_source", FromWorker)
	}
	return With(facts, "worker_resume", r)
}

// Cards reads the card behind each of devices, empty where none was noted.
func Cards(facts json.RawMessage, devices []string) []string {
	var f struct {
		Resume resume `json:"worker_resume"`
	}
	out := make([]string, len(devices))
	if json.Unmarshal(facts, &f) != nil {
		return out
	}
	for i, d := range devices {
		for _, at := range f.Resume.Slots {
			if at.Device == d {
				out[i] = at.Card
			}
		}
	}
	return out
}
