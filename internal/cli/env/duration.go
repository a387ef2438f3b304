package env

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a flag that takes 90, 90s, 10m, 1h30m or 2d; a bare number is
// seconds.
type Duration time.Duration

// String shows the value as it is typed.
func (d *Duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type names the value in help.
func (*Duration) Type() string { return "duration" }

// Set reads the value.
func (d *Duration) Set(s string) error {
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// ParseDuration reads what a Duration flag takes.
func ParseDuration(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	const most = 3650 * 24 * time.Hour
	bad := fmt.Errorf("%q is no duration; write it as 90s, 10m, 1h30m or 2d", s)
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if !(f >= 0 && f <= most.Seconds()) {
			return 0, bad
		}
		return time.Duration(f * float64(time.Second)), nil
	}
	days, rest, hasDays := strings.Cut(s, "d")
	total := time.Duration(0)
	if hasDays {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n >= 0 && n <= 3650) {
			return 0, bad
		}
		total = time.Duration(n * 24 * float64(time.Hour))
	} else {
		rest = s
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return 0, bad
		}
		total += d
	} else if !hasDays {
		return 0, bad
	}
	if total < 0 || total > most {
		return 0, bad
	}
	return total, nil
}
