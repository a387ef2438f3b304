package shim

import (
	"errors"
	"time"

	"cdui/internal/childproto"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/shim/isolation"
	"cdui/internal/shim/launch"
	"cdui/internal/shim/oom"
	"cdui/internal/shim/reports"
	"cdui/internal/shim/wire"
	"cdui/internal/spool"
)

// assign starts the run. The note that it is assigned stands before anything
// of it happens: a shim that dies without it never started the run. dir is where
// the folder of a spare lies now.
func (r *shimRun) assign(a protocol.Assignment, dir string) error {
	if a.RunID == "" {
		return errors.New("assignment names no run")
	}
	note := wire.Note{
		RunID: a.RunID, Attempt: a.Attempt, State: wire.Assigned, Isolation: r.iso.Way(),
		Shim: r.iso.Self(), Devices: a.VisibleDevices,
	}
	if r.spare != nil {
		if err := r.serves(a); err != nil {
			return err
		}
		note.Spare = r.spare.name
		if dir != "" {
			r.start.Dir = dir
		}
	}
	w, err := spool.OpenWriter(r.start.Dir, spoolOptions(r.start))
	if err != nil {
		return err
	}
	r.log = r.log.With("run_id", a.RunID)
	r.began = time.Now()
	note.StartedAt = r.began.UTC()
	if err := wire.WriteNote(r.note, note); err != nil {
		return err
	}
	r.a, r.state = a, wire.Assigned
	r.sink = newSink(w, a, r.log)
	r.output = newOutput(r.start.Dir, consoleOptions(r.start))
	if r.spare == nil {
		r.reports = reports.New()
	}
	if r.host != nil {
		r.host.Send(wire.Message{Op: wire.OpAssigned, RunID: a.RunID, Attempt: a.Attempt})
	}
	r.launch()
	return nil
}

// launch starts the child, or ends the run with why it could not. The child of
// a spare is told what it is to be instead.
func (r *shimRun) launch() {
	path, err := r.reports.Listen(r.start.Dir)
	if err != nil {
		r.sink.warn("no_report_socket", map[string]string{"error": err.Error()}, false)
	}
	env := launch.Env(r.a, path)
	first := childproto.Down{Type: childproto.DownAssign, RunID: r.a.RunID, Input: r.a.Input}
	if r.spare != nil {
		first.Argv, first.Dir, first.Env = r.a.Argv, r.a.Dir, env
	} else if fault := r.startChild(r.a, env); fault != nil {
		r.finishUnstarted(fault)
		return
	}
	hostPID := r.iso.HostPID(r.child.PID)
	go r.output.copy(r.child.Console)
	if r.main != nil {
		r.main.Send(first)
	}

	r.begin(protocol.Started{
		PID: hostPID, VisibleDevices: orEmpty(r.a.VisibleDevices), DeviceAliases: r.a.DeviceAliases, Isolation: r.iso.Way(),
	})
	if r.reportsNode() {
		r.sink.event(run.EventNodeStatus, run.NodeStatus(r.a.NodeID, run.NodeRunning, "", ""), false)
	}
	now := time.Now()
	if r.a.MaxRunMS > 0 {
		r.limitAt = r.began.Add(time.Duration(r.a.MaxRunMS) * time.Millisecond)
	}
	r.sampleAt = now.Add(sampleFirst)
	r.state, r.hostPID = wire.Running, hostPID
}

// startChild starts the main process and takes note of its lines and its end
// from then on.
func (r *shimRun) startChild(a protocol.Assignment, env []string) *launch.Fault {
	r.reaper, r.oom = isolation.NewReaper(), oom.New()
	c, fault := launch.Start(a, env)
	if fault != nil {
		return fault
	}
	r.child = c
	r.oom.Own(r.iso.HostPID(c.PID))
	if c.Up != nil {
		r.main = r.reports.AddMain(c.Up, c.Down)
	}
	// It may be in another memory group than the one that it was seen in last.
	go r.reaper.Run(c.PID, func() { r.oom.NoteLast(c.PID) })
	return nil
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
