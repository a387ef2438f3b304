// Package workerscmd is `cdui workers`: list, show, add, drain, undrain, rm,
// rekey, and what people decide of single devices. It prints what the control plane says of its workers and holds no rule
// about them.
package workerscmd
