package phrase

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

	"cdui/internal/cli/text"
	"cdui/internal/run"
)

// facts is the part of a row's execution_facts that people are shown.
type facts struct {
	Exit *struct {
		Code   *int `json:"code"`
		Signal *int `json:"signal"`
	} `json:"exit"`
	PeakMemory map[string]struct {
		MiB int64 `json:"mib"`
	} `json:"peak_memory"`
	RetriedAs  string `json:"retried_as"`
	OutputTail string `json:"output_tail"`
	Isolation  string `json:"isolation"`
	Killed     []struct {
		PID  int    `json:"pid"`
		Name string `json:"name"`
	} `json:"killed"`
}

func readFacts(r run.Row) facts {
	var f facts
	_ = json.Unmarshal(r.Facts, &f) // facts that can't be read are none
	return f
}

// PeakMemory is the most memory that a run held on one device, empty when
// nobody measured.
func PeakMemory(r run.Row) string {
	var most int64
	for _, p := range readFacts(r).PeakMemory {
		most = max(most, p.MiB)
	}
	if most == 0 {
		return ""
	}
	return text.MiB(most)
}

// RetriedAs is the run that repeats one that ended badly, empty if none does.
func RetriedAs(r run.Row) string { return readFacts(r).RetriedAs }

// OutputTail is the last console output of a run that crashed.
func OutputTail(r run.Row) string { return readFacts(r).OutputTail }

// Isolation is how the run's processes were held together.
func Isolation(r run.Row) string { return readFacts(r).Isolation }

// Leftovers names the processes that outlived the run and were killed.
func Leftovers(r run.Row) []string {
	var out []string
	for _, p := range readFacts(r).Killed {
		out = append(out, Clean(p.Name)+" ("+strconv.Itoa(p.PID)+")")
	}
	slices.Sort(out)
	return out
}

// ExitCode is the code that the run's child ended with, 128 and the signal's
// number for one that a signal killed; false when it isn't known.
func ExitCode(r run.Row) (int, bool) {
	if r.Status == run.Succeeded {
		return 0, true
	}
	if e := readFacts(r).Exit; e != nil {
		if e.Code != nil {
			return *e.Code, true
		}
		if e.Signal != nil {
			return 128 + *e.Signal, true
		}
	}
	if m := regexp.MustCompile(`^exit code (\d{1,3})\b`).FindStringSubmatch(r.Error); m != nil {
		n, err := strconv.Atoi(m[1])
		return n, err == nil
	}
	if m := regexp.MustCompile(`^killed by signal (\d{1,2})\b`).FindStringSubmatch(r.Error); m != nil {
		n, err := strconv.Atoi(m[1])
		return 128 + n, err == nil
	}
	return 0, false
}
