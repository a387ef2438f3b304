//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"cdui/internal/device"
)

// reopenAfter is how often the library is opened anew while a card is out of
// reach: an open library never sees it again.
const reopenAfter = time.Minute

// library is NVIDIA's library, opened. What it can't say stays nil.
type library struct {
	nvml    nvml.Interface
	version string
	opened  time.Time
	users   *userNames

	has    map[string]bool
	events nvml.EventSet
	// xids holds the last critical error of each card, by UUID.
	xids map[string]uint64
	// seen is who stood at each of the library's positions: a card that is lost
	// can't say its name any more.
	seen map[int]device.Device
	// unreachable is set when the last answer had a card without values.
	unreachable bool
}

// openLibrary gives nil when this machine has no such library.
func openLibrary(users *userNames) (*library, error) {
	l := &library{
		nvml: nvml.New(), opened: time.Now(), users: users, has: map[string]bool{},
		xids: map[string]uint64{}, seen: map[int]device.Device{},
	}
	switch ret := l.nvml.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, nil
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, errors.New("the NVIDIA driver is not loaded: modprobe nvidia, or look at dmesg")
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, errors.New("the NVIDIA driver in the kernel is of another version than its library: reboot, or load the kernel module anew")
	default:
		return nil, fmt.Errorf("open the NVIDIA driver: %s", l.why(ret))
	}
	if l.can("nvmlSystemGetDriverVersion") {
		if version, ret := l.nvml.SystemGetDriverVersion(); ret == nvml.SUCCESS {
			l.version = version
		}
	}
	l.listen()
	return l, nil
}

func (l *library) close() {
	if l.events != nil && l.can("nvmlEventSetFree") {
		_ = l.events.Free()
	}
	if l.can("nvmlShutdown") {
		_ = l.nvml.Shutdown()
	}
}

// can tells whether the library has one of the symbols. Calling one that it
// lacks would end this process.
func (l *library) can(symbols ...string) bool {
	for _, name := range symbols {
		known, asked := l.has[name]
		if !asked {
			known = l.nvml.Extensions().LookupSymbol(name) == nil
			l.has[name] = known
		}
		if known {
			return true
		}
	}
	return false
}

func (l *library) why(ret nvml.Return) string {
	if !l.can("nvmlErrorString") {
		return fmt.Sprintf("NVML error %d", int(ret))
	}
	return l.nvml.ErrorString(ret)
}

// cards lists what is there now, in PCI order.
func (l *library) cards() ([]device.Device, error) {
	if l.unreachable && time.Since(l.opened) > reopenAfter {
		l.close()
		fresh, err := openLibrary(l.users)
		if err != nil {
			return nil, err
		}
		if fresh == nil {
			return nil, errors.New("open the NVIDIA driver: its library is gone")
		}
		*l = *fresh
	}
	if !l.can("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") || !l.can("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") {
		return nil, errors.New("list cards: the NVIDIA library is too old")
	}
	n, ret := l.nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count cards: %s", l.why(ret))
	}
	l.hear()
	l.unreachable = false
	cards := make([]device.Device, 0, n)
	for i := range n {
		cards = append(cards, l.card(i))
	}
	order(cards)
	return cards, nil
}

// card reads the card at one of the library's positions.
func (l *library) card(i int) device.Device {
	handle, ret := l.nvml.DeviceGetHandleByIndex(i)
	q := &question{library: l, handle: handle, failed: ret}
	d := device.Device{Kind: device.CUDA, Index: i}
	if ret == nvml.SUCCESS {
		d = q.identity(i)
		q.measure(&d)
		if q.failed == nvml.SUCCESS {
			l.seen[i] = d
			d.Health = q.health(d)
			return d
		}
	}
	l.unreachable = true
	before := l.seen[i]
	d.Name, d.UUID, d.PCIBusID, d.MemoryTotalMiB = before.Name, before.UUID, before.PCIBusID, before.MemoryTotalMiB
	switch q.failed {
	case nvml.ERROR_GPU_IS_LOST:
		d.Health = device.Health{Code: device.UnhealthyLost, Text: "the card has fallen off the bus; reboot the machine"}
	case nvml.ERROR_RESET_REQUIRED:
		d.Health = device.Health{Code: device.UnhealthyReset, Text: "the card needs a reset: nvidia-smi --gpu-reset, or reboot"}
	default:
		d.Health = device.Health{Code: device.UnhealthyUnreadable, Text: "the driver can't open the card: " + l.why(q.failed)}
	}
	return d
}

// question asks about one card until it turns out to be out of reach.
type question struct {
	*library
	handle nvml.Device
	failed nvml.Return
}

// ask gives the value of one call, and false when it is not to be had: the
// library lacks the symbol, or the card the value.
func ask[T any](q *question, call func() (T, nvml.Return), symbols ...string) (value T, ok bool) {
	if q.failed != nvml.SUCCESS || !q.can(symbols...) {
		return value, false
	}
	value, ret := call()
	if ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED {
		q.failed = ret
	}
	return value, ret == nvml.SUCCESS
}

func (q *question) identity(i int) device.Device {
	d := device.Device{Kind: device.CUDA, Index: i, Name: "NVIDIA card"}
	if name, ok := ask(q, q.handle.GetName, "nvmlDeviceGetName"); ok {
		d.Name = name
	}
	if uuid, ok := ask(q, q.handle.GetUUID, "nvmlDeviceGetUUID"); ok {
		d.UUID = &uuid
	}
	if pci, ok := ask(q, q.handle.GetPciInfo, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"); ok {
		d.PCIBusID = busID(chars(pci.BusId[:]))
	}
	return d
}

func (q *question) measure(d *device.Device) {
	d.MemoryTotalMiB, d.MemoryFreeMiB = q.memory(q.handle)
	if u, ok := ask(q, q.handle.GetUtilizationRates, "nvmlDeviceGetUtilizationRates"); ok {
		d.UtilizationPct = wide(u.Gpu)
	}
	if t, ok := ask(q, func() (uint32, nvml.Return) { return q.handle.GetTemperature(nvml.TEMPERATURE_GPU) }, "nvmlDeviceGetTemperature"); ok {
		d.TemperatureC = wide(t)
	}
	if mw, ok := ask(q, q.handle.GetPowerUsage, "nvmlDeviceGetPowerUsage"); ok {
		watts := float64(mw) / 1000
		d.PowerW = &watts
	}
	d.MIG = q.mig()
	d.Processes = q.processes()
}

const notAvailable = ^uint64(0)

// memory gives total and free memory of a card or an instance.
func (q *question) memory(handle nvml.Device) (total, free *int64) {
	if m, ok := ask(q, handle.GetMemoryInfo_v2, "nvmlDeviceGetMemoryInfo_v2"); ok {
		return mib(m.Total), mib(m.Free)
	}
	if m, ok := ask(q, handle.GetMemoryInfo, "nvmlDeviceGetMemoryInfo"); ok {
		return mib(m.Total), mib(m.Free)
	}
	return nil, nil
}

// mig is nil for a card that is not divided.
func (q *question) mig() *device.MIG {
	type modes struct{ now, next int }
	mode, ok := ask(q, func() (modes, nvml.Return) {
		now, next, ret := q.handle.GetMigMode()
		return modes{now, next}, ret
	}, "nvmlDeviceGetMigMode")
	if !ok || mode.now != nvml.DEVICE_MIG_ENABLE {
		return nil
	}
	m := &device.MIG{Instances: []device.Instance{}}
	n, ok := ask(q, q.handle.GetMaxMigDeviceCount, "nvmlDeviceGetMaxMigDeviceCount")
	if !ok {
		return m
	}
	for i := range n {
		part, ok := ask(q, func() (nvml.Device, nvml.Return) { return q.handle.GetMigDeviceHandleByIndex(i) }, "nvmlDeviceGetMigDeviceHandleByIndex")
		if !ok {
			continue // the place is not taken
		}
		uuid, ok := ask(q, part.GetUUID, "nvmlDeviceGetUUID")
		if !ok {
			continue
		}
		instance := device.Instance{Index: i, UUID: uuid}
		if name, ok := ask(q, part.GetName, "nvmlDeviceGetName"); ok {
			if _, profile, ok := strings.Cut(name, "MIG "); ok {
				instance.Profile = &profile
			}
		}
		instance.MemoryTotalMiB, instance.MemoryFreeMiB = q.memory(part)
		m.Instances = append(m.Instances, instance)
	}
	return m
}

// processes lists computing, drawing and MPS processes, each once. It is nil
// when the driver says nothing.
func (q *question) processes() []device.Process {
	var all []nvml.ProcessInfo
	said := false
	for _, kind := range []struct {
		call    func() ([]nvml.ProcessInfo, nvml.Return)
		symbols []string
	}{
		{q.handle.GetComputeRunningProcesses, versions("nvmlDeviceGetComputeRunningProcesses")},
		{q.handle.GetGraphicsRunningProcesses, versions("nvmlDeviceGetGraphicsRunningProcesses")},
		{q.handle.GetMPSComputeRunningProcesses, versions("nvmlDeviceGetMPSComputeRunningProcesses")},
	} {
		list, ok := ask(q, kind.call, kind.symbols...)
		all, said = append(all, list...), said || ok
	}
	if !said {
		return nil
	}
	used := make([]usage, len(all))
	for i, p := range all {
		used[i] = usage{pid: int64(p.Pid), mib: mib(p.UsedGpuMemory)}
	}
	return q.users.describe(used)
}

func versions(symbol string) []string { return []string{symbol + "_v3", symbol + "_v2", symbol} }

// health says what is wrong with a card that answers.
func (q *question) health(d device.Device) device.Health {
	var s signs
	if d.UUID != nil {
		s.xid = q.xids[*d.UUID]
	}
	s.uncorrected, _ = ask(q, func() (uint64, nvml.Return) {
		return q.handle.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	}, "nvmlDeviceGetTotalEccErrors")
	s.remapFailed, _ = ask(q, func() (bool, nvml.Return) {
		_, _, _, failed, ret := q.handle.GetRemappedRows()
		return failed, ret
	}, "nvmlDeviceGetRemappedRows")
	return s.health()
}

// listen subscribes to the critical errors of all cards. A driver that tells
// none is asked without.
func (l *library) listen() {
	if !l.can("nvmlEventSetCreate") || !l.can("nvmlDeviceRegisterEvents") || !l.can("nvmlEventSetWait_v2", "nvmlEventSetWait") ||
		!l.can("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") || !l.can("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") {
		return
	}
	set, ret := l.nvml.EventSetCreate()
	if ret != nvml.SUCCESS {
		return
	}
	n, ret := l.nvml.DeviceGetCount()
	if ret != nvml.SUCCESS {
		n = 0
	}
	for i := range n {
		if handle, ret := l.nvml.DeviceGetHandleByIndex(i); ret == nvml.SUCCESS {
			// Refused by cards that tell no events.
			_ = handle.RegisterEvents(nvml.EventTypeXidCriticalError, set)
		}
	}
	l.events = set
}

// hear takes the errors that have come since it was called last.
func (l *library) hear() {
	const plenty = 256
	for range plenty {
		if l.events == nil || !l.can("nvmlDeviceGetUUID") {
			return
		}
		e, ret := l.events.Wait(0)
		if ret != nvml.SUCCESS {
			return
		}
		if e.EventType != nvml.EventTypeXidCriticalError || harmless(e.EventData) {
			continue
		}
		if uuid, ret := e.Device.GetUUID(); ret == nvml.SUCCESS {
			l.xids[uuid] = e.EventData
		}
	}
}

func chars[T ~int8 | ~uint8](text []T) string {
	var b strings.Builder
	for _, c := range text {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

func mib(bytes uint64) *int64 {
	if bytes == notAvailable {
		return nil
	}
	n := int64(bytes >> 20)
	return &n
}

func wide(n uint32) *int64 {
	w := int64(n)
	return &w
}
