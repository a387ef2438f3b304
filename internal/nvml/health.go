package nvml

import (
	"fmt"
	"slices"
	"strings"

	"cdui/internal/device"
	"cdui/internal/sorting"
)

// signs are what tells a sick card from a healthy one, beside its not
// answering.
type signs struct {
	// xid is the last critical error that the driver reported; 0 is none.
	xid uint64
	// uncorrected counts memory errors since the driver was loaded.
	uncorrected uint64
	// remapFailed is set when bad memory could not be replaced.
	remapFailed bool
}

// health judges a card that answers.
func (s signs) health() device.Health {
	switch {
	case s.xid != 0:
		return device.Health{
			Code: device.UnhealthyXid,
			Text: fmt.Sprintf("the driver reported Xid %d; see dmesg and NVIDIA's list of Xid errors", s.xid),
		}
	case s.remapFailed:
		return device.Health{Code: device.UnhealthyECC, Text: "bad memory could not be replaced; the card needs service"}
	case s.uncorrected > 0:
		return device.Health{
			Code: device.UnhealthyECC,
			Text: fmt.Sprintf("memory errors that could not be corrected since the driver was loaded: %d; reset the card", s.uncorrected),
		}
	}
	return device.Health{}
}

// harmless tells errors that a program caused, or that only report what was
// repaired, from those of the card. The list is that of NVIDIA's own device
// plugin, and 63: a row was replaced.
func harmless(xid uint64) bool {
	return slices.Contains([]uint64{13, 31, 43, 45, 63, 68, 109}, xid)
}

// order sorts cards by their place on the PCI bus and numbers them, as
// CUDA_DEVICE_ORDER=PCI_BUS_ID does, whatever order the driver listed them in.
func order(cards []device.Device) {
	placeless := func(d device.Device) bool { return d.PCIBusID == nil }
	if !slices.ContainsFunc(cards, placeless) {
		sorting.Sort(cards, func(a, b device.Device) int { return strings.Compare(*a.PCIBusID, *b.PCIBusID) })
	}
	for i := range cards {
		cards[i].Index = i
		cards[i].Device = fmt.Sprintf("%s:%d", device.CUDA, i)
	}
}

// busID writes a PCI address in the one way that compares: a domain of eight
// digits, capitals. What is none gives nil.
func busID(s string) *string {
	s = strings.ToUpper(strings.TrimSpace(s))
	domain, rest, ok := strings.Cut(s, ":")
	if !ok || len(rest) != len("07:00.0") || rest[2] != ':' || rest[5] != '.' || len(domain) == 0 || len(domain) > 8 ||
		strings.Trim(domain+rest, "0123456789ABCDEF:.") != "" {
		return nil
	}
	s = strings.Repeat("0", 8-len(domain)) + domain + ":" + rest
	return &s
}
