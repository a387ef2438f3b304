// Package nvml reads the NVIDIA cards of this machine. It owns what the driver
// and its tools say, and the process that asks them; it knows nothing of runs
// or slots.
//
// The driver is asked in a process of its own, `cdui nvml`: a symbol that an
// old library lacks kills whoever calls it, and a sick driver hangs it. That
// process reads requests as lines on its input, answers each with one line of
// JSON, and ends with its input. It asks the library through go-nvml where the
// program was built with cgo, else nvidia-smi. A Prober starts it, gives it a
// deadline, kills it, starts it anew, and remembers the cards meanwhile: a card
// that fails is listed as unhealthy, it never just disappears.
package nvml
