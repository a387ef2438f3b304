package workers

import "time"

// limiter bounds how often one address may try (a bucket of tokens for each).
// It is pure: the time is handed in, and its user serialises the calls.
type limiter struct {
	burst int
	every time.Duration
	seen  map[string]bucket
	swept time.Time
}

// bucket: tries that are left at a time.
type bucket struct {
	left float64
	at   time.Time
}

// maxAddresses bounds the memory that a flood from many addresses costs.
const maxAddresses = 10_000

// allow takes one try of address, or says how long to wait for the next.
func (l *limiter) allow(address string, now time.Time) (wait time.Duration, ok bool) {
	if l.seen == nil {
		l.seen = map[string]bucket{}
	}
	b, known := l.seen[address]
	if !known {
		if len(l.seen) >= maxAddresses && now.Sub(l.swept) >= l.every {
			l.sweep(now)
		}
		if len(l.seen) >= maxAddresses {
			return l.every, false
		}
		b = bucket{left: float64(l.burst), at: now}
	}
	b.left = min(float64(l.burst), b.left+now.Sub(b.at).Seconds()/l.every.Seconds())
	b.at = now
	if b.left < 1 {
		l.seen[address] = b
		return time.Duration((1 - b.left) * float64(l.every)), false
	}
	b.left--
	l.seen[address] = b
	return 0, true
}

// refund gives a try back.
func (l *limiter) refund(address string) {
	if b, known := l.seen[address]; known {
		b.left = min(float64(l.burst), b.left+1)
		l.seen[address] = b
	}
}

// sweep forgets the addresses that have all their tries again.
func (l *limiter) sweep(now time.Time) {
	l.swept = now
	for address, b := range l.seen {
		if now.Sub(b.at) >= l.every*time.Duration(l.burst) {
			delete(l.seen, address)
		}
	}
}
