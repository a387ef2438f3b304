package run

import "strconv"

// ChildName names child i of a sweep or study within the limit of a run's name;
// an unnamed one has unnamed children.
func ChildName(parent string, i int) string {
	if parent == "" {
		return ""
	}
	suffix := " #" + strconv.Itoa(i+1)
	letters := []rune(parent)
	return string(letters[:min(len(letters), MaxNameChars-len(suffix))]) + suffix
}

// ChildSeed is the seed of child i: they count up from the parent's.
func ChildSeed(seed int64, i int) int64 { return (seed + int64(i)) % (MaxSeed + 1) }
