package spool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Version is the version of the format that Writer produces and Reader reads.
const Version = 1

// MaxRecordBytes bounds one record; a longer line is damage.
const MaxRecordBytes = 16 << 20

const (
	headerPrefix = "cdui-spool "
	header       = headerPrefix + "1\n"
	suffix       = ".seg"
	sumLen       = 8
)

var (
	// ErrFull is wrapped when the spool's cap or the disk is reached.
	ErrFull = errors.New("spool is full")
	// ErrVersion is wrapped when a segment was written by a newer release.
	ErrVersion = errors.New("spool has an unknown version")
)

func castagnoli(b []byte) uint32 {
	// MakeTable caches the Castagnoli table, so this costs a comparison.
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}

// appendLine appends rec's line to dst.
func appendLine(dst, rec []byte) []byte {
	const digits = "0123456789abcdef"
	sum := castagnoli(rec)
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[sum>>shift&15])
	}
	dst = append(dst, ' ')
	dst = append(dst, rec...)
	return append(dst, '\n')
}

// parseLine checks a line without its newline and gives the record in it,
// which aliases line.
func parseLine(line []byte) ([]byte, bool) {
	if len(line) <= sumLen || line[sumLen] != ' ' {
		return nil, false
	}
	sum, err := strconv.ParseUint(string(line[:sumLen]), 16, 32)
	if err != nil {
		return nil, false
	}
	rec := line[sumLen+1:]
	return rec, castagnoli(rec) == uint32(sum)
}

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, suffix) }

// listSegments gives the first record numbers of dir's segments, ascending.
func listSegments(dir string) ([]uint64, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("list spool %s: %w", dir, err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list spool %s: %w", dir, err)
	}
	var firsts []uint64
	for _, name := range names {
		digits, ok := strings.CutSuffix(name, suffix)
		if !ok || len(digits) != 20 {
			continue
		}
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil && n > 0 {
			firsts = append(firsts, n)
		}
	}
	slices.Sort(firsts)
	return firsts, nil
}

func removeSegment(dir string, first uint64) error {
	err := os.Remove(filepath.Join(dir, segmentName(first)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Last gives the newest record of dir's spool; false when there is none.
func Last(dir string) (Record, bool, error) {
	firsts, err := listSegments(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	// A newest segment may hold nothing yet.
	for _, first := range slices.Backward(firsts) {
		r := NewReader(dir, first-1)
		last, found := Record{}, false
		for {
			recs, err := r.Next(1, 1)
			if err != nil {
				r.Close()
				return Record{}, false, err
			}
			if len(recs) == 0 {
				break
			}
			last, found = recs[0], true
		}
		r.Close()
		if found {
			return last, true, nil
		}
	}
	return Record{}, false, nil
}
