// Package sweepcmd has `cdui sweep`: it reads sweep files, queues sweeps, waits
// for them, and shows their variants by rank.
package sweepcmd
