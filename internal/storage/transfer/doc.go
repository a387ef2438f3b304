// Package transfer moves the files of runs between a worker and the control
// plane over HTTP, for workers that share no folder with it: contents down,
// by hash and into a cache that outlives runs; artifacts and logs up.
//
// Client is the connection; it tries again what may work again and says of the
// rest that it won't. Driver makes an agent's Storage of it: it lays out code
// and inputs before a run, remembers on disk what the run says it wrote, and
// brings that and the log back at the end. What was done before does no harm
// when it is done again.
package transfer
