// Package ratelimit bounds how often each address may try something. It is pure:
// the time is handed in, and its user serialises the calls.
package ratelimit

import "time"

// Limiter gives each address Burst tries in a row, and one more for each Every
// that goes by.
type Limiter struct {
	Burst int
	Every time.Duration
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

// Allow takes one try of address, or says how long to wait for the next.
func (l *Limiter) Allow(address string, now time.Time) (wait time.Duration, ok bool) {
	if l.seen == nil {
		l.seen = map[string]bucket{}
	}
	b, known := l.seen[address]
	if !known {
		if len(l.seen) >= maxAddresses && now.Sub(l.swept) >= l.Every {
			l.sweep(now)
		}
		if len(l.seen) >= maxAddresses {
			return l.Every, false
		}
		b = bucket{left: float64(l.Burst), at: now}
	}
	b.left = min(float64(l.Burst), b.left+now.Sub(b.at).Seconds()/l.Every.Seconds())
	b.at = now
	if b.left < 1 {
		l.seen[address] = b
		return time.Duration((1 - b.left) * float64(l.Every)), false
	}
	b.left--
	l.seen[address] = b
	return 0, true
}

// Refund gives a try back.
func (l *Limiter) Refund(address string) {
	if b, known := l.seen[address]; known {
		b.left = min(float64(l.Burst), b.left+1)
		l.seen[address] = b
	}
}

// sweep forgets the addresses that have all their tries again.
func (l *Limiter) sweep(now time.Time) {
	l.swept = now
	for address, b := range l.seen {
		if now.Sub(b.at) >= l.Every*time.Duration(l.Burst) {
			delete(l.seen, address)
		}
	}
}
