// Package device names the places that runs execute on: single devices, their
// kinds and the inventory of one machine. It holds values and pure functions;
// reading a driver is package nvml's job.
package device

import (
	"fmt"
	"strconv"
	"strings"
)

// The kinds of device.
const (
	CPU  = "cpu"
	CUDA = "cuda"
	MPS  = "mps"
)

// Device is one device as its machine reports it. What the driver doesn't say
// is null, never 0; every pid is the host's.
type Device struct {
	// Device is cpu, cuda:N or mps:N; N is the driver's PCI index.
	Device         string   `json:"device"`
	Kind           string   `json:"kind"`
	Index          int      `json:"index"`
	Name           string   `json:"name"`
	UUID           *string  `json:"uuid"`
	PCIBusID       *string  `json:"pci_bus_id"`
	MemoryTotalMiB *int64   `json:"memory_total_mib"`
	MemoryFreeMiB  *int64   `json:"memory_free_mib"`
	UtilizationPct *int64   `json:"utilization_pct"`
	TemperatureC   *int64   `json:"temperature_c"`
	PowerW         *float64 `json:"power_w"`
	// MIG is set for a card that is divided into instances.
	MIG    *MIG   `json:"mig"`
	Health Health `json:"health"`
	// Processes are those that use the device, whosever they are.
	Processes []Process `json:"processes"`
}

// Process is one process on a card. RunID is set by whoever knows which run
// the process belongs to.
type Process struct {
	PID       int64   `json:"pid"`
	User      *string `json:"user"`
	Name      *string `json:"name"`
	MemoryMiB *int64  `json:"memory_mib"`
	RunID     *string `json:"run_id"`
}

// Kind gives the kind of a device string: what stands before the colon.
func Kind(device string) string {
	kind, _, _ := strings.Cut(device, ":")
	return kind
}

// Index gives the number behind the colon, 0 when there is none.
func Index(device string) int {
	_, n, _ := strings.Cut(device, ":")
	i, err := strconv.Atoi(n)
	if err != nil {
		return 0
	}
	return i
}

// Inventory is the devices of one machine, cpu first.
type Inventory []Device

// Has tells whether the machine offers device.
func (inv Inventory) Has(device string) bool {
	for _, d := range inv {
		if d.Device == device {
			return true
		}
	}
	return false
}

// Ill gives what is wrong with the devices that should take no runs, by name.
func (inv Inventory) Ill() map[string]string {
	out := map[string]string{}
	for _, d := range inv {
		if !d.Health.OK() {
			out[d.Device] = d.Health.String()
		}
	}
	return out
}

// Names lists the device names.
func (inv Inventory) Names() []string {
	out := make([]string, len(inv))
	for i, d := range inv {
		out[i] = d.Device
	}
	return out
}

// Resolve turns a requested device into one of the machine's: auto is the best
// of cuda, mps and cpu; cuda and mps without a number are the first of their
// kind, a healthy one where there is one. A device that the machine lacks is an
// error that lists what it has.
func (inv Inventory) Resolve(requested string) (string, error) {
	want := requested
	switch requested {
	case "", CPU:
		return CPU, nil
	case "auto":
		for _, kind := range []string{CUDA, MPS} {
			if d, ok := inv.first(kind); ok {
				return d, nil
			}
		}
		return CPU, nil
	case CUDA, MPS:
		if d, ok := inv.first(requested); ok {
			return d, nil
		}
	default:
		if inv.Has(want) {
			return want, nil
		}
	}
	return "", fmt.Errorf("this machine has no %s; it offers %s", requested, strings.Join(inv.Names(), ", "))
}

func (inv Inventory) first(kind string) (string, bool) {
	ill := ""
	for _, d := range inv {
		switch {
		case d.Kind != kind:
		case d.Health.OK():
			return d.Device, true
		case ill == "":
			ill = d.Device
		}
	}
	return ill, ill != ""
}
