package doctor

import (
	"context"

	"cdui/internal/scope"
)

// systemd says whether runs get scopes of their own, and whether what is
// started in the background outlives a logout.
func systemd(ctx context.Context, m *scope.Manager) []Finding {
	const name = "systemd"
	if !m.Booted() {
		return []Finding{{name, OK, "this machine was not started by it: runs are held together by their shims alone", ""}}
	}
	whose := "the machine's"
	if m.User() {
		whose = "the user's"
	}
	var out []Finding
	if err := m.Works(ctx); err != nil {
		out = append(out, Finding{name, OK, "runs stay in the unit of whoever starts them: " + err.Error(), ""})
	} else {
		out = append(out, Finding{name, OK, "each run gets a scope of its own from " + whose + " systemd", ""})
	}
	if m.User() && !m.Lingers() {
		out = append(out, Finding{
			name, Warn, "units of the user end with the last session, and where KillUserProcesses is set, so does all that was started in the background",
			"loginctl enable-linger",
		})
	}
	return out
}
