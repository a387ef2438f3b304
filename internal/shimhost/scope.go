package shimhost

import (
	"context"
	"fmt"
	"path/filepath"
)

// Scopes puts processes out of reach of what systemd does to this one's unit.
type Scopes interface {
	Adopt(ctx context.Context, name string, pid int)
}

// apart gives a shim, which has no child yet, a scope of its own where there
// are any.
func (h *Host) apart(dir string, pid int) {
	if h.scopes != nil {
		h.scopes.Adopt(context.Background(), fmt.Sprintf("cdui-run-%s-%d", filepath.Base(dir), pid), pid)
	}
}
