package catalog

import "strings"

// Nearest gives the candidate that somebody who wrote word most likely meant,
// "" when none is near. Case doesn't count; of equally near ones the first.
func Nearest(word string, candidates []string) string {
	word = strings.ToLower(word)
	if word == "" || len(word) > maxWord {
		return ""
	}
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, c := range candidates[:min(len(candidates), maxCandidates)] {
		low := strings.ToLower(c)
		d := distance(word, low)
		// A bare name is near to a plugin's type that ends in it, a cut one to
		// what it begins.
		if _, bare, ok := strings.Cut(low, ":"); ok {
			d = min(d, distance(word, bare))
		}
		if len(word) >= 3 && strings.HasPrefix(low, word) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// These bound the work for words that nobody typed.
const (
	maxWord       = 60
	maxCandidates = 2000
)

// distance counts the insertions, removals, changes and swaps of neighbours
// that lead from a to b.
func distance(a, b string) int {
	if len(b) > maxWord {
		return len(b)
	}
	before, previous, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := previous[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(previous[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, previous, row = previous, row, before
	}
	return previous[len(b)]
}
