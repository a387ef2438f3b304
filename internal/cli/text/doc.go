// Package text lays out what commands print: tables that fit a width, status
// marks, bars, charts, durations, sizes and numbers.
//
// Everything here is a pure function of its input and a Style; it writes
// nothing and asks no terminal. Widths count cells, so that CJK and emoji
// align.
package text
