// Package sweep has the rules of sweeps: which combinations of values a spec
// means, what graph and arguments each of them is, how their results rank, and
// how a sweep as a whole stands. The formats are those of the API.
//
// It is pure. The catalogue, the base and what is known of the children are
// handed in; who submits runs and who keeps the rows is no business of it.
package sweep
