// Package isolation holds the processes of one run together, ends them, and
// collects the dead: in a namespace of their own, or as descendants of this
// process wherever they went.
//
// It decides neither when nor why. A process uses one Group for its life.
package isolation
