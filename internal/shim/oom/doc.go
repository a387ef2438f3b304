// Package oom looks for evidence that the system killed a process of one run
// because memory ran out: the kernel's log, where it may be read, and the
// counters of the memory groups that the run was seen in. Without evidence it
// says nothing.
//
// It decides nothing about the run, and starts and signals nothing.
package oom
