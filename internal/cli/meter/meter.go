// Package meter puts what a device reports into words and bars, the same for
// the control plane's own cards and for those of workers. What a driver did not
// say is left empty.
package meter

import (
	"fmt"
	"strings"

	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/device"
	"cdui/internal/run"
)

const barCells = 10

// Slots shows how many runs a device holds and takes.
func Slots(used, limit int) string { return fmt.Sprintf("%d/%d", used, limit) }

// Util shows how busy a device is.
func Util(d device.Device, s text.Style) string {
	if d.UtilizationPct == nil {
		return ""
	}
	return fmt.Sprintf("%s %d%%", s.Bar(float64(*d.UtilizationPct)/100, barCells), *d.UtilizationPct)
}

// Memory shows how full a device is.
func Memory(d device.Device, s text.Style) string {
	if d.MemoryTotalMiB == nil || *d.MemoryTotalMiB <= 0 {
		return ""
	}
	if d.MemoryFreeMiB == nil {
		return text.MiB(*d.MemoryTotalMiB)
	}
	used := *d.MemoryTotalMiB - *d.MemoryFreeMiB
	return fmt.Sprintf("%s %s / %s", s.Bar(float64(used)/float64(*d.MemoryTotalMiB), barCells), text.MiB(used), text.MiB(*d.MemoryTotalMiB))
}

// Temperature shows how hot a device is.
func Temperature(d device.Device, s text.Style) string {
	if d.TemperatureC == nil {
		return ""
	}
	if !s.Unicode {
		return fmt.Sprintf("%dC", *d.TemperatureC)
	}
	return fmt.Sprintf("%d°C", *d.TemperatureC)
}

// Power shows what a device draws.
func Power(d device.Device) string {
	if d.PowerW == nil {
		return ""
	}
	return fmt.Sprintf("%.0f W", *d.PowerW)
}

// Users shows the runs on a device, and the processes there that belong to
// none.
func Users(d device.Device, runs []string) string {
	var out []string
	for _, id := range runs {
		out = append(out, run.Short(id))
	}
	for _, p := range d.Processes {
		if p.RunID == nil {
			out = append(out, stranger(p))
		}
	}
	return strings.Join(out, " ")
}

func stranger(p device.Process) string {
	words := fmt.Sprintf("(pid %d)", p.PID)
	if p.Name != nil {
		words = phrase.Clean(*p.Name) + " " + words
	}
	if p.User != nil {
		words = phrase.Clean(*p.User) + " " + words
	}
	return words
}
