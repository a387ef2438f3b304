package agent

import (
	"context"
	"errors"

	"cdui/internal/protocol"
)

// usual is what a script on a device is started as that asks for nothing
// special.
func (b *book) usual(_ context.Context, device string) (protocol.Assignment, error) {
	if !b.torch {
		return protocol.Assignment{}, errors.New("this worker's Python has no torch")
	}
	s := b.surroundings
	s.Offered = b.offered()
	return s.Assignment(&protocol.Assign{
		RunID: "spare", Kind: protocol.KindScript, Devices: []string{device}, Script: &protocol.Script{Path: "/script.py"},
	}, b.job(keyOf("spare", 0)).Folders)
}
