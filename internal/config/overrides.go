package config

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseOverrides reads RUN_QUEUE_MAX_CONCURRENT: entries KEY=N with commas,
// split at the last '=' and lower-cased. Malformed entries and numbers below 1
// are left out, with a warning each.
func ParseOverrides(text string) (caps map[string]int, warnings []string) {
	caps = map[string]int{}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		at := strings.LastIndexByte(entry, '=')
		if at < 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %q is ignored, it lacks '='; write it as cuda:0=2", MaxConcurrent, entry))
			continue
		}
		key := strings.ToLower(strings.TrimSpace(entry[:at]))
		n, err := strconv.Atoi(strings.TrimSpace(entry[at+1:]))
		if key == "" || err != nil || n < 1 {
			warnings = append(warnings, fmt.Sprintf("%s: %q is ignored; write it as cuda:0=2, with a number of 1 or more", MaxConcurrent, entry))
			continue
		}
		caps[key] = n
	}
	return caps, warnings
}
