// Package live keeps a picture of everything that lists show up to date: runs,
// the queue, workers, the control plane's own cards.
//
// A Feed gives one update after the other, from the control plane's feed, and
// connects again for as long as its context lasts; it says so when the line is
// lost. A Board folds updates into the picture. Board is pure and owned by its
// caller; a Feed holds one connection and no goroutine. Neither knows who shows
// the picture.
package live
