package sweep

import "math"

// mulberry32 is the generator of that name, by its raw 32-bit outputs.
type mulberry32 uint32

func (m *mulberry32) next() uint32 {
	*m += 0x6D2B79F5
	t := uint32(*m)
	t = (t ^ t>>15) * (t | 1)
	t ^= t + (t^t>>7)*(t|61)
	return t ^ t>>14
}

// draw gives n different cells of total in the order in which they are drawn.
// It is a Fisher-Yates shuffle of the ranks that keeps only the cells that it
// touched: each draw is the next output modulo what remains, and the last
// remaining cell takes the place of the drawn one.
func draw(seed int64, n, total int) []int {
	random := mulberry32(seed & math.MaxUint32)
	moved := map[int]int{}
	at := func(i int) int {
		if cell, ok := moved[i]; ok {
			return cell
		}
		return i
	}
	out := make([]int, n)
	for k := range out {
		remaining := total - k
		i := int(uint64(random.next()) % uint64(remaining)) //nolint:gosec // below remaining
		out[k] = at(i)
		moved[i] = at(remaining - 1)
	}
	return out
}

// decode takes a cell's rank apart: which value of each param it has. The last
// param counts fastest.
func decode(rank int, sizes []int) []int {
	out := make([]int, len(sizes))
	for i := len(sizes) - 1; i >= 0; i-- {
		out[i] = rank % sizes[i]
		rank /= sizes[i]
	}
	return out
}
