// Package hostinfo is what is known of a machine without asking Python: its
// system, cores, memory and devices, as environment fingerprints name them. What
// can't be had is missing, never made up.
package hostinfo

import (
	"encoding/json"
	"runtime"

	"cdui/internal/device"
	"cdui/internal/fsinfo"
	"cdui/internal/version"
)

// Host is a machine.
type Host struct {
	CDUI string `json:"cdui"`
	// MachineID is a hash, and the same for every cdui process of this machine:
	// together with the address of a connection it tells the control plane
	// whether worker and server share their cards.
	MachineID string   `json:"machine_id"`
	Platform  Platform `json:"platform"`
	// Cores are those that this process may use.
	Cores     int    `json:"cores"`
	MemoryMiB *int64 `json:"memory_mib"`
}

// Read looks at this machine.
func Read() Host {
	return Host{
		CDUI: version.String(), MachineID: fsinfo.MachineID(), Platform: platform(),
		Cores: runtime.NumCPU(), MemoryMiB: memoryMiB(),
	}
}

// Card is what stays the same of a device, as long as it is the same device.
type Card struct {
	Device         string  `json:"device"`
	Name           string  `json:"name,omitempty"`
	UUID           *string `json:"uuid,omitempty"`
	MemoryTotalMiB *int64  `json:"memory_total_mib,omitempty"`
}

// With is the document of a host and of the named ones of its devices.
func (h Host) With(inv device.Inventory, names []string) json.RawMessage {
	cards := make([]Card, 0, len(names))
	for _, name := range names {
		c := Card{Device: name}
		for _, d := range inv {
			if d.Device == name {
				c.Name, c.UUID, c.MemoryTotalMiB = d.Name, d.UUID, d.MemoryTotalMiB
			}
		}
		cards = append(cards, c)
	}
	doc, err := json.Marshal(struct {
		Host
		Devices []Card `json:"devices"`
	}{h, cards})
	if err != nil {
		return nil // there is nothing in it that could fail
	}
	return doc
}
