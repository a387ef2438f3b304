//go:build !linux || !cgo

package nvml

import "cdui/internal/device"

// library is what go-nvml is elsewhere. This build can't open one.
type library struct{ version string }

func openLibrary(*userNames) (*library, error) { return nil, nil }

func (*library) cards() ([]device.Device, error) { return nil, nil }

func (*library) close() {}
