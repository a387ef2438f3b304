package device

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MIG is how a card is divided. Such a card is used through one of its
// instances; as a whole it takes no work.
type MIG struct {
	Instances []Instance `json:"instances"`
}

// Instance is one MIG instance of a card.
type Instance struct {
	Index          int     `json:"index"`
	UUID           string  `json:"uuid"`
	Profile        *string `json:"profile"`
	MemoryTotalMiB *int64  `json:"memory_total_mib"`
	MemoryFreeMiB  *int64  `json:"memory_free_mib"`
}

// Mask is which cards a process may use, as its environment has it. Its zero
// value is no restriction.
type Mask struct {
	// Name is the variable that the list was read from.
	Name string
	// List is the variable's value; nil when no variable says anything.
	List *string
	// Fastest is set when the environment counts cards by speed.
	Fastest bool
}

const cudaVisible = "CUDA_VISIBLE_DEVICES"

// EnvironMask reads the mask from an environment of NAME=VALUE entries.
// CUDA_VISIBLE_DEVICES decides. Slurm sets it too, already translated to what
// the job's cgroup shows; its own variables count only where somebody removed
// that one.
func EnvironMask(environ []string) Mask {
	var m Mask
	for _, name := range []string{cudaVisible, "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"} {
		// Of several entries of one name the last one counts, as for exec.
		for _, entry := range slices.Backward(environ) {
			if value, found := strings.CutPrefix(entry, name+"="); found && m.List == nil {
				m.Name, m.List = name, &value
			}
		}
	}
	for _, entry := range environ {
		if value, found := strings.CutPrefix(entry, "CUDA_DEVICE_ORDER="); found {
			m.Fastest = value == "FASTEST_FIRST"
		}
	}
	return m
}

// Visible gives the devices that mask permits, in the inventory's order and
// under the inventory's names: a mask hides cards, it doesn't renumber them.
// Devices other than CUDA cards are always permitted. Entries are indexes in
// PCI order, UUIDs of cards or MIG instances, or beginnings of UUIDs that mean
// one only. As CUDA has it, -1 ends the list and an empty one permits nothing.
func (inv Inventory) Visible(mask Mask) (Inventory, error) {
	if mask.List == nil {
		return inv, nil
	}
	entries, err := inv.entries(mask)
	if err != nil {
		return nil, err
	}
	if mask.Name != cudaVisible && len(entries) == inv.count() {
		// Slurm's own numbers are the machine's. Inside a cgroup that hides the
		// others the job's cards are counted from 0, and all are its own.
		return inv, nil
	}
	permitted := map[string]permission{}
	for _, entry := range entries {
		name, instance, err := inv.find(entry)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w; it must list indexes, UUIDs (GPU-…, MIG-…) or beginnings of UUIDs of this machine's cards: %s",
				mask.Name, *mask.List, err, inv.cards())
		}
		p := permitted[name]
		if instance == "" {
			p.whole = true
		}
		p.instances = append(p.instances, instance)
		permitted[name] = p
	}
	var out Inventory
	for _, d := range inv {
		p, listed := permitted[d.Device]
		switch {
		case d.Kind != CUDA:
		case !listed:
			continue
		case d.MIG != nil && !p.whole:
			some := slices.Clone(d.MIG.Instances)
			d.MIG = &MIG{Instances: slices.DeleteFunc(some, func(i Instance) bool {
				return !slices.Contains(p.instances, i.UUID)
			})}
		}
		out = append(out, d)
	}
	return out, nil
}

// permission is what a mask lets through of one card.
type permission struct {
	whole     bool
	instances []string
}

// entries splits the mask and refuses numbers that can't be told.
func (inv Inventory) entries(mask Mask) ([]string, error) {
	var entries []string
	numbers := false
	for entry := range strings.SplitSeq(*mask.List, ",") {
		entry = strings.TrimSpace(entry)
		// Slurm writes NoDevFiles for a job without cards.
		if entry == "-1" || entry == "NoDevFiles" || strings.TrimSpace(*mask.List) == "" {
			break
		}
		if _, err := strconv.Atoi(entry); err == nil {
			numbers = true
		}
		entries = append(entries, entry)
	}
	if numbers && mask.Fastest && mask.Name == cudaVisible && inv.mixed() {
		return nil, fmt.Errorf("%s=%s with CUDA_DEVICE_ORDER=FASTEST_FIRST: these cards differ, so the numbers are not those of nvidia-smi; "+
			"set CUDA_DEVICE_ORDER=PCI_BUS_ID or give UUIDs", mask.Name, *mask.List)
	}
	return entries, nil
}

func (inv Inventory) count() int {
	n := 0
	for _, d := range inv {
		if d.Kind == CUDA {
			n++
		}
	}
	return n
}

// mixed tells whether the machine has cards of more than one model.
func (inv Inventory) mixed() bool {
	models := map[string]bool{}
	for _, d := range inv {
		if d.Kind == CUDA {
			models[d.Name] = true
		}
	}
	return len(models) > 1
}

// find gives the card that an entry means, and the MIG instance where it means
// one.
func (inv Inventory) find(entry string) (card, instance string, err error) {
	if entry == "" {
		return "", "", errors.New("an entry is empty")
	}
	if n, err := strconv.Atoi(entry); err == nil {
		for _, d := range inv {
			if d.Kind == CUDA && d.Index == n {
				return d.Device, "", nil
			}
		}
		return "", "", fmt.Errorf("there is no card %d", n)
	}
	lower := strings.ToLower(entry)
	if !strings.HasPrefix(lower, "gpu-") && !strings.HasPrefix(lower, "mig-") {
		return "", "", fmt.Errorf("%q is neither a number nor a UUID", entry)
	}
	found := 0
	for _, d := range inv {
		if d.Kind != CUDA {
			continue
		}
		if d.UUID != nil && matches(*d.UUID, lower) {
			card, instance, found = d.Device, "", found+1
		}
		if d.MIG == nil {
			continue
		}
		for _, i := range d.MIG.Instances {
			if matches(i.UUID, lower) {
				card, instance, found = d.Device, i.UUID, found+1
			}
		}
	}
	switch found {
	case 0:
		return "", "", fmt.Errorf("there is no card %s", entry)
	case 1:
		return card, instance, nil
	}
	return "", "", fmt.Errorf("%s is the beginning of %d UUIDs", entry, found)
}

func matches(uuid, beginning string) bool {
	return strings.HasPrefix(strings.ToLower(uuid), beginning)
}

// cards lists the CUDA cards for people.
func (inv Inventory) cards() string {
	var list []string
	for _, d := range inv {
		switch {
		case d.Kind != CUDA:
		case d.UUID != nil:
			list = append(list, fmt.Sprintf("%d (%s)", d.Index, *d.UUID))
		default:
			list = append(list, strconv.Itoa(d.Index))
		}
	}
	if list == nil {
		return "it has none"
	}
	return strings.Join(list, ", ")
}

// CUDAVisible gives the value of CUDA_VISIBLE_DEVICES that shows exactly the
// named cards, in the given order. It is their indexes, which everybody can
// read, while CUDA counts as the inventory does; UUIDs when a card is divided
// or has dropped out, since the others then move up in CUDA's count.
func (inv Inventory) CUDAVisible(devices []string) string {
	byUUID := slices.ContainsFunc(inv, func(d Device) bool {
		return d.Kind == CUDA && (d.MIG != nil || d.Health.Code == UnhealthyGone || d.Health.Code == UnhealthyLost)
	})
	var list []string
	for _, name := range devices {
		if Kind(name) != CUDA {
			continue
		}
		entry := strconv.Itoa(Index(name))
		for _, d := range inv {
			switch {
			case !byUUID || d.Device != name:
			case d.MIG != nil && len(d.MIG.Instances) > 0:
				// One process can use one instance only.
				entry = d.MIG.Instances[0].UUID
			case d.UUID != nil:
				entry = *d.UUID
			}
		}
		list = append(list, entry)
	}
	return strings.Join(list, ",")
}
