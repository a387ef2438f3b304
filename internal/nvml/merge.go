package nvml

import (
	"cdui/internal/device"
)

// merge joins what the driver lists now with the cards known before, so that a
// card keeps its name while others drop out: numbers are those of the PCI order
// over all of them. It is pure; known and fresh are not changed.
func merge(known, fresh []device.Device) []device.Device {
	fresh = recognise(known, fresh)
	out := make([]device.Device, 0, len(fresh))
	for _, f := range fresh {
		// The driver reports an Xid once, to those that listen just then.
		if k := find(known, f); k != nil && k.Health.Code == device.UnhealthyXid && f.Health.OK() {
			f.Health = k.Health
		}
		out = append(out, f)
	}
	for _, k := range known {
		if find(fresh, k) == nil && !replaced(fresh, k) {
			out = append(out, gone(k))
		}
	}
	order(out)
	return out
}

// recognise names the cards that are too ill to say who they are: the one that
// stood at the same place before, else the first that is missed.
func recognise(known, fresh []device.Device) []device.Device {
	out := append([]device.Device(nil), fresh...)
	for i, f := range out {
		if f.UUID != nil || f.PCIBusID != nil {
			continue
		}
		var missed *device.Device
		for j := range known {
			if k := &known[j]; find(out, *k) == nil && (missed == nil || k.Index == f.Index) {
				missed = k
			}
		}
		if missed != nil {
			out[i].Name, out[i].UUID, out[i].PCIBusID, out[i].MemoryTotalMiB = missed.Name, missed.UUID, missed.PCIBusID, missed.MemoryTotalMiB
		}
	}
	return out
}

// find gives the card of list that is d: by UUID, else by its place.
func find(list []device.Device, d device.Device) *device.Device {
	for i := range list {
		if e := &list[i]; e.UUID != nil && d.UUID != nil {
			if *e.UUID == *d.UUID {
				return e
			}
		} else if e.PCIBusID != nil && d.PCIBusID != nil && *e.PCIBusID == *d.PCIBusID {
			return e
		}
	}
	return nil
}

// replaced tells whether another card stands at d's place.
func replaced(list []device.Device, d device.Device) bool {
	for _, e := range list {
		if e.PCIBusID != nil && d.PCIBusID != nil && *e.PCIBusID == *d.PCIBusID {
			return true
		}
	}
	return false
}

// gone is a card that the driver lists no more.
func gone(d device.Device) device.Device {
	text := "the driver lists the card no more"
	switch {
	case d.Health.Code == device.UnhealthyGone:
		text = d.Health.Text
	case !d.Health.OK():
		text += "; before that: " + d.Health.Text
	}
	d = unknown(d)
	d.Health = device.Health{Code: device.UnhealthyGone, Text: text}
	return d
}

// unknown is a card whose present values nobody can tell.
func unknown(d device.Device) device.Device {
	d.MemoryFreeMiB, d.UtilizationPct, d.TemperatureC, d.PowerW, d.Processes = nil, nil, nil, nil, nil
	return d
}
