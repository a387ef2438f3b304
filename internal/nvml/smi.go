// Package nvml reads the NVIDIA cards of this machine. It owns the parsing of
// what the driver's tools say and knows nothing of runs or slots.
//
// nvidia-smi is asked as a program of its own with a deadline, so that a sick
// driver can hang it but never its caller.
package nvml

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"cdui/internal/device"
)

// ErrNoDriver means that this machine has no nvidia-smi.
var ErrNoDriver = errors.New("nvidia-smi is not installed")

const (
	smiTimeout = 10 * time.Second
	smiFields  = "index,name,uuid,pci.bus_id,memory.total,memory.free,utilization.gpu,temperature.gpu,power.draw"
)

// SMI lists the cards by running nvidia-smi, found in PATH, in PCI order.
func SMI(ctx context.Context) ([]device.Device, error) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, ErrNoDriver
	}
	ctx, cancel := context.WithTimeout(ctx, smiTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--query-gpu="+smiFields, "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ask nvidia-smi: no answer within %s", smiTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("ask nvidia-smi: %w: %s", err, firstLine(out))
	}
	return ParseSMI(string(out))
}

// ParseSMI reads the CSV that SMI asks for. "[N/A]" and the like stay null.
// Cards are numbered in PCI order, as CUDA_DEVICE_ORDER=PCI_BUS_ID numbers
// them, whatever order the tool printed.
func ParseSMI(out string) ([]device.Device, error) {
	r := csv.NewReader(strings.NewReader(out))
	r.TrimLeadingSpace, r.LazyQuotes = true, true
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read nvidia-smi's answer: %w", err)
	}
	var cards []device.Device
	for _, row := range rows {
		if len(row) != strings.Count(smiFields, ",")+1 {
			return nil, fmt.Errorf("read nvidia-smi's answer: %q has %d fields", strings.Join(row, ","), len(row))
		}
		cards = append(cards, device.Device{
			Kind: device.CUDA, Name: row[1], UUID: text(row[2]), PCIBusID: text(row[3]),
			MemoryTotalMiB: whole(row[4]), MemoryFreeMiB: whole(row[5]),
			UtilizationPct: whole(row[6]), TemperatureC: whole(row[7]), PowerW: number(row[8]),
		})
	}
	slices.SortStableFunc(cards, func(a, b device.Device) int {
		return strings.Compare(bus(a), bus(b))
	})
	for i := range cards {
		cards[i].Index = i
		cards[i].Device = fmt.Sprintf("cuda:%d", i)
	}
	return cards, nil
}

func bus(d device.Device) string {
	if d.PCIBusID == nil {
		return ""
	}
	return strings.ToUpper(*d.PCIBusID)
}

func text(s string) *string {
	if s = strings.TrimSpace(s); s == "" || strings.HasPrefix(s, "[") {
		return nil
	}
	return &s
}

func whole(s string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

func number(s string) *float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || f < 0 || f != f || f > 1e6 {
		return nil
	}
	return &f
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}
