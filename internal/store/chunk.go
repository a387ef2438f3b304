package store

import (
	"encoding/binary"
	"fmt"
)

// chunkRows is how many log rows one chunk row stands for.
const chunkRows = 256

// encodeRowids writes ascending ids as varints, each the distance to the one
// before.
func encodeRowids(ids []int64) []byte {
	b := make([]byte, 0, 2*len(ids)+8)
	last := int64(0)
	for _, id := range ids {
		b = binary.AppendUvarint(b, uint64(id-last)) //nolint:gosec // ids ascend from above 0
		last = id
	}
	return b
}

// decodeRowids reads what encodeRowids wrote for n ids.
func decodeRowids(b []byte, n int) ([]int64, error) {
	if n < 0 || n > len(b) {
		return nil, fmt.Errorf("%w: a chunk of %d bytes can't hold %d ids", ErrDamaged, len(b), n)
	}
	ids := make([]int64, 0, n)
	last := int64(0)
	for range n {
		d, size := binary.Uvarint(b)
		next := last + int64(d) //nolint:gosec // an overflow shows in the next line
		if size <= 0 || next <= last {
			return nil, fmt.Errorf("%w: a chunk's ids don't ascend", ErrDamaged)
		}
		last, b = next, b[size:]
		ids = append(ids, last)
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: a chunk has %d bytes too many", ErrDamaged, len(b))
	}
	return ids, nil
}
