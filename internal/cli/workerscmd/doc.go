// Package workerscmd is `cdui workers`: list, show, add, drain, undrain, rm and
// rekey. It prints what the control plane says of its workers and holds no rule
// about them.
package workerscmd
