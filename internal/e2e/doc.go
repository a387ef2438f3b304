// Package e2e tests the real binary as its users meet it: it is built once,
// started as a control plane in a folder of its own, driven over its command
// line and its API, and killed and starved on purpose.
package e2e
