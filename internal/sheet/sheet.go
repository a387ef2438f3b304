// Package sheet writes CSV that spreadsheets open safely: UTF-8 behind a byte
// order mark, LF line ends, and no text cell that they would take for a
// formula. It knows nothing of what is in the cells.
package sheet

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"
)

// CSV writes rows. Cells that hold text must have gone through Text.
func CSV(rows [][]string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("\ufeff")
	if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
		return nil, fmt.Errorf("write CSV: %w", err)
	}
	return b.Bytes(), nil
}

// Text makes a cell of text: one that a spreadsheet would take for a formula
// gets an apostrophe.
func Text(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
