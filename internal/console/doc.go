// Package console keeps what a run printed and makes it safe to show.
//
// A Writer stores the bytes exactly as they came: the first ones in
// output.log, later ones in parts named by the offset of their first byte
// (output.<20 digits>.part). Beyond a cap the oldest parts go, so that the
// head and the newest bytes stay. Offsets are logical: they count every byte
// that the run wrote, kept or not, so a gap shows between the end of one file
// and the name of the next. output.idx maps offsets to times. Nothing that
// goes wrong with the disk stops the writer: bytes are lost, and counted.
//
// A Reader reads the same files, live or not, without talking to the writer.
//
// Display and CleanText turn raw bytes into text that a terminal can be given;
// they are pure and never change what is stored.
package console
