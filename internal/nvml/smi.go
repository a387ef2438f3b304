package nvml

import (
	"context"
	"encoding/csv"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"cdui/internal/device"
)

const (
	smiTimeout = 8 * time.Second
	smiFields  = "index,name,uuid,pci.bus_id,memory.total,memory.free,utilization.gpu,temperature.gpu,power.draw"
	smiUsers   = "gpu_uuid,pid,used_gpu_memory"
)

// readSMI asks nvidia-smi, found in PATH. A machine without it has no way to
// ask.
func readSMI(ctx context.Context, users *userNames) answer {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return answer{}
	}
	ctx, cancel := context.WithTimeout(ctx, smiTimeout)
	defer cancel()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		switch {
		case ctx.Err() != nil:
			return "", fmt.Errorf("ask nvidia-smi: no answer within %s", smiTimeout)
		case err != nil:
			return string(out), fmt.Errorf("ask nvidia-smi: %w: %s", err, firstLine(string(out)))
		}
		return string(out), nil
	}

	out, err := run("--query-gpu="+smiFields, "--format=csv,noheader,nounits")
	cards, lost, parseErr := ParseSMI(out)
	if err == nil || lost > 0 {
		// It fails as a whole because of one lost card, and lists the others.
		err = parseErr
	}
	if err != nil {
		return answer{Way: waySMI, Error: err.Error()}
	}
	if len(cards) > 0 {
		// Without these answers the cards are as they are.
		if out, err := run("--list-gpus"); err == nil {
			parseInstances(out, cards)
		}
		if out, err := run("--query-compute-apps="+smiUsers, "--format=csv,noheader,nounits"); err == nil {
			parseProcesses(out, cards, users)
		}
	}
	return answer{Way: waySMI, Cards: cards}
}

// ParseSMI reads the table of cards. "[N/A]" and the like stay null. A card
// that nvidia-smi complains about instead of listing it is unhealthy; lost
// counts those.
func ParseSMI(out string) (cards []device.Device, lost int, err error) {
	var table strings.Builder
	for line := range strings.Lines(out) {
		if d, ok := complaint(line); ok {
			cards, lost = append(cards, d), lost+1
			continue
		}
		table.WriteString(line)
	}
	rows, err := readCSV(table.String())
	if err != nil {
		return nil, 0, fmt.Errorf("read nvidia-smi's answer: %w", err)
	}
	for _, row := range rows {
		if len(row) != strings.Count(smiFields, ",")+1 {
			return nil, 0, fmt.Errorf("read nvidia-smi's answer: %q has %d fields", strings.Join(row, ","), len(row))
		}
		cards = append(cards, device.Device{
			Kind: device.CUDA, Name: row[1], UUID: text(row[2]), PCIBusID: busID(row[3]),
			MemoryTotalMiB: whole(row[4]), MemoryFreeMiB: whole(row[5]),
			UtilizationPct: whole(row[6]), TemperatureC: whole(row[7]), PowerW: number(row[8]),
		})
	}
	order(cards)
	return cards, lost, nil
}

// complaint reads "Unable to determine the device handle for GPU
// 0000:21:00.0: GPU is lost.  Reboot the system to recover this GPU".
func complaint(line string) (device.Device, bool) {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "Unable to determine the device handle for ") {
		return device.Device{}, false
	}
	for word := range strings.FieldsSeq(line) {
		if bus := busID(strings.TrimSuffix(word, ":")); bus != nil {
			_, why, _ := strings.Cut(line, word)
			h := device.Health{Code: device.UnhealthyUnreadable, Text: "the driver can't open the card: " + strings.TrimLeft(why, ": ")}
			if strings.Contains(why, "is lost") {
				h = device.Health{Code: device.UnhealthyLost, Text: "the card has fallen off the bus; reboot the machine"}
			}
			return device.Device{Kind: device.CUDA, Name: "NVIDIA card", PCIBusID: bus, Health: h}, true
		}
	}
	return device.Device{}, false
}

// parseInstances reads the list of cards for MIG instances, which stand below
// their card:
//
//	GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5b…)
//	  MIG 1g.5gb      Device  0: (UUID: MIG-8b3c…)
func parseInstances(out string, cards []device.Device) {
	var card *device.Device
	for line := range strings.Lines(out) {
		_, rest, ok := strings.Cut(line, "(UUID: ")
		uuid, _, closed := strings.Cut(rest, ")")
		fields := strings.Fields(line)
		switch {
		case !ok || !closed:
		case fields[0] == "GPU":
			card = byUUID(cards, uuid)
		case fields[0] == "MIG" && card != nil && len(fields) > 3:
			if card.MIG == nil {
				card.MIG = &device.MIG{}
			}
			n, err := strconv.Atoi(strings.TrimSuffix(fields[3], ":"))
			if err != nil {
				n = len(card.MIG.Instances)
			}
			profile := fields[1]
			card.MIG.Instances = append(card.MIG.Instances, device.Instance{Index: n, UUID: uuid, Profile: &profile})
		}
	}
}

// parseProcesses reads the table of processes.
func parseProcesses(out string, cards []device.Device, users *userNames) {
	rows, err := readCSV(out)
	if err != nil {
		return
	}
	used := map[*device.Device][]usage{}
	for i := range cards {
		if cards[i].Health.OK() {
			used[&cards[i]] = nil
		}
	}
	for _, row := range rows {
		if len(row) != strings.Count(smiUsers, ",")+1 {
			return
		}
		card, pid := byUUID(cards, row[0]), whole(row[1])
		if card != nil && pid != nil {
			used[card] = append(used[card], usage{pid: *pid, mib: whole(row[2])})
		}
	}
	for card, list := range used {
		card.Processes = users.describe(list)
	}
}

func byUUID(cards []device.Device, uuid string) *device.Device {
	for i := range cards {
		if cards[i].UUID != nil && *cards[i].UUID == strings.TrimSpace(uuid) {
			return &cards[i]
		}
	}
	return nil
}

func readCSV(s string) ([][]string, error) {
	r := csv.NewReader(strings.NewReader(s))
	r.TrimLeadingSpace, r.LazyQuotes = true, true
	r.FieldsPerRecord = -1
	return r.ReadAll()
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

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
