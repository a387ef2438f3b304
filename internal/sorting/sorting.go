// Package sorting sorts lists that are short, or sorted seldom. It owns one copy
// of the algorithm for all of them: slices.SortFunc puts one for each type into
// the program, 15 kB each, and a release is copied to every box. It knows no
// lists. Where a sort is on a hot path, slices.SortFunc is right.
package sorting

import (
	"iter"
	"slices"
	"sort"
)

// Sort sorts a list by compare and leaves equal ones as they were.
func Sort[T any](list []T, compare func(a, b T) int) { sort.Stable(&by[T]{list, compare}) }

// Sorted collects what comes, sorted by compare.
func Sorted[T any](seq iter.Seq[T], compare func(a, b T) int) []T {
	list := slices.Collect(seq)
	Sort(list, compare)
	return list
}

type by[T any] struct {
	list    []T
	compare func(a, b T) int
}

func (b *by[T]) Len() int           { return len(b.list) }
func (b *by[T]) Less(i, j int) bool { return b.compare(b.list[i], b.list[j]) < 0 }
func (b *by[T]) Swap(i, j int)      { b.list[i], b.list[j] = b.list[j], b.list[i] }
