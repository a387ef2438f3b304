// Package spool keeps the numbered records of one run on disk until somebody
// has acknowledged them.
//
// A spool is a folder of append-only segments, each named by the number of its
// first record (20 digits and ".seg"). A segment begins with a version line;
// each line after it is one record, `<crc32c, 8 hex digits> <bytes>`. Records
// are numbered from 1 without gaps, so a record's number follows from its
// segment's name and its line.
//
// One Writer owns a folder; any number of Readers may follow it, in the same
// process or another one, while it is written and while acknowledged segments
// are deleted. The package knows nothing of what a record says.
package spool
