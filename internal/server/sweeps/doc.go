// Package sweeps keeps the control plane's sweeps: it submits their variants
// through the run service and tells how they stand.
//
// # Authority
//
// A sweep's row says what was asked, and how the variants ended; runs are
// server/runs' alone. A run belongs to a variant by the sweep_id and
// sweep_variant of its row; of several, which a rerun makes, the last counts.
//
// # Order and failure
//
// Everything that can be refused is refused before anything is written: the
// compile, then the submit's own checks for each variant. Then the sweep's row
// is stored, then all of its runs in one transaction. What a crash leaves
// between the two is a row without runs, which Load removes; nobody was told of
// it. How a variant ended is copied onto the sweep's row at each read, at a
// cancel and before rows are pruned (Harvest), so that it outlives the run.
//
// What a sweep means, its ranks and its state are decided by package sweep.
// There are no goroutines: a sweep needs nobody to drive it.
package sweeps
