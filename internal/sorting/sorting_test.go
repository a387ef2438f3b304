package sorting_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/sorting"
)

func TestItSortsAsSlicesDoes(t *testing.T) {
	t.Parallel()
	type item struct{ key, place int }
	byKey := func(a, b item) int { return cmp.Compare(a.key, b.key) }
	rapid.Check(t, func(t *rapid.T) {
		var list []item
		for i, key := range rapid.SliceOf(rapid.IntRange(0, 5)).Draw(t, "keys") {
			list = append(list, item{key, i})
		}
		want := slices.SortedStableFunc(slices.Values(list), byKey)
		if got := sorting.Sorted(slices.Values(list), byKey); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		sorting.Sort(list, byKey)
		if !slices.Equal(list, want) {
			t.Fatalf("in place: %v, want %v", list, want)
		}
	})
}
