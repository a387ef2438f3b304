package sweep

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Proves F.1: the outputs are those of the published JavaScript generator; the
// numbers were computed with it under node, and with testdata/draw.py.
func TestTheGeneratorIsTheCanonicalOne(t *testing.T) {
	for seed, want := range map[uint32][]uint32{
		0:          {1144304738, 1416247, 958946056, 627933444, 2007157716},
		1:          {2693262067, 11749833, 2265367787, 4213581821, 4159151403},
		42:         {2581720956, 1925393290, 3661312704, 2876485805, 750819978},
		4294967295: {3850105811, 813802916, 3073704848, 4054706436, 3630262831},
	} {
		m := mulberry32(seed)
		for i, w := range want {
			if got := m.next(); got != w {
				t.Errorf("seed %d, output %d: %d, want %d", seed, i, got, w)
			}
		}
	}
}

// Proves F.1: the draws were computed with testdata/draw.py, which shuffles a
// whole list of cells.
func TestDrawsAreThoseOfAWholeShuffle(t *testing.T) {
	for _, c := range []struct {
		seed     int64
		n, total int
		want     []int
	}{
		{0, 4, 9, []int{8, 7, 5, 0}},
		{1, 9, 9, []int{7, 1, 4, 5, 3, 0, 6, 2, 8}},
		{42, 5, 1048576, []int{126844, 209590, 740870, 250066, 42426}},
		{7, 32, 33, []int{25, 18, 8, 20, 9, 29, 16, 28, 23, 30, 2, 21, 10, 0, 22, 5, 17, 6, 27, 14, 24, 12, 13, 26, 7, 1, 31, 19, 32, 4, 15, 3}},
		{4294967295, 3, 3, []int{2, 0, 1}},
	} {
		if got := draw(c.seed, c.n, c.total); !slices.Equal(got, c.want) {
			t.Errorf("draw(%d, %d, %d) = %v, want %v", c.seed, c.n, c.total, got, c.want)
		}
	}
}

func TestADrawHasNoCellTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 2000).Draw(t, "total")
		n := rapid.IntRange(1, total).Draw(t, "n")
		got := draw(rapid.Int64Range(0, 1<<32-1).Draw(t, "seed"), n, total)
		seen := map[int]bool{}
		for _, c := range got {
			if c < 0 || c >= total || seen[c] {
				t.Fatalf("cell %d of %d comes twice or is none: %v", c, total, got)
			}
			seen[c] = true
		}
	})
}

func TestDecodeCountsTheLastFastest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "sizes")
		total := 1
		for _, s := range sizes {
			total *= s
		}
		before := []int(nil)
		for rank := range total {
			at := decode(rank, sizes)
			if back := encode(at, sizes); back != rank || before != nil && slices.Compare(before, at) >= 0 {
				t.Fatalf("rank %d is %v, which is %d", rank, at, back)
			}
			before = at
		}
	})
}

func encode(at, sizes []int) int {
	rank := 0
	for i, a := range at {
		rank = rank*sizes[i] + a
	}
	return rank
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		base       []string
		arg, value string
		want       []string
	}{
		{nil, "--lr", `0.1`, []string{"--lr", "0.1"}},
		{[]string{"--lr", "1", "x"}, "--lr", `0.1`, []string{"--lr", "0.1", "x"}},
		{[]string{"--lr=1", "x"}, "--lr", `0.1`, []string{"--lr=0.1", "x"}},
		{[]string{"--lr", "1", "--lr", "2"}, "--lr", `3`, []string{"--lr", "1", "--lr", "3"}},
		{[]string{"x", "--lr"}, "--lr", `3`, []string{"x", "--lr", "3"}},
		{[]string{"--lrx", "1"}, "--lr", `3`, []string{"--lrx", "1", "--lr", "3"}},
		{nil, "lr", `0.1`, []string{"lr=0.1"}},
		{[]string{"a", "lr=2"}, "lr", `"x y"`, []string{"a", "lr=x y"}},
		{nil, "--amp", `true`, []string{"--amp"}},
		{[]string{"--amp"}, "--amp", `true`, []string{"--amp"}},
		{[]string{"a", "--amp", "b"}, "--amp", `false`, []string{"a", "b"}},
		{nil, "--amp", `"true"`, []string{"--amp", "true"}},
		{nil, "amp", `true`, []string{"amp=true"}},
	} {
		if got := setArg(slices.Clone(c.base), c.arg, []byte(c.value)); !slices.Equal(got, c.want) {
			t.Errorf("%q with %s %s is %q, want %q", c.base, c.arg, c.value, got, c.want)
		}
	}
}
