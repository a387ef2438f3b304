package shim

import (
	"time"

	"cdui/internal/shim/hosts"
	"cdui/internal/shim/wire"
)

// hear takes what a host says. One host speaks at a time: the newest.
func (r *shimRun) hear(in hosts.Input) {
	switch {
	case in.Gone:
		if r.host == in.From {
			r.host = nil
			r.giveUpSpare("its host is gone")
		}
	case in.Msg == nil:
		if r.host != nil {
			r.host.Send(wire.Message{Op: wire.OpRefused, Code: wire.CodeReplaced, Error: "another host has taken over this run"})
			r.host.Close()
		}
		r.host = in.From
		r.host.Send(r.hello())
		if r.stop != nil {
			r.host.Send(r.stoppingMessage())
		}
	case in.From != r.host:
	default:
		r.obey(*in.Msg)
	}
}

func (r *shimRun) hello() wire.Message {
	m := wire.Message{
		Op: wire.OpHello, V: wire.Version, RunID: r.a.RunID, Attempt: r.a.Attempt,
		Isolation: r.iso.Way(), State: r.state,
	}
	if r.a.RunID != "" {
		m.PID = r.hostPID
		m.Seq, m.Console = r.sink.last(), r.output.written()
	}
	return m
}

func (r *shimRun) obey(m wire.Message) {
	switch m.Op {
	case wire.OpAssign:
		if m.Assignment == nil || r.a.RunID != "" {
			r.host.Send(wire.Message{Op: wire.OpRefused, Code: "assigned", Error: "this shim has its run already"})
			return
		}
		if err := r.assign(*m.Assignment, m.Dir); err != nil {
			r.log.Error("assignment is refused", "error", err)
			r.host.Send(wire.Message{Op: wire.OpRefused, Code: "failed", Error: err.Error()})
			r.giveUpSpare("it refused its run")
		}
	case wire.OpWarm:
		if m.Assignment == nil || r.state != wire.Waiting {
			r.host.Send(wire.Message{Op: wire.OpRefused, Code: "assigned", Error: "this shim has its child already"})
			return
		}
		if err := r.warm(*m.Assignment); err != nil {
			r.host.Send(wire.Message{Op: wire.OpRefused, Code: "failed", Error: err.Error()})
			r.giveUpAt = time.Now()
		}
	case wire.OpStop:
		if r.a.RunID == "" {
			r.giveUpAt = time.Now()
		}
	case wire.OpCancel:
		if r.a.RunID != "" {
			r.cancel(m.GraceMS, m.Force)
		}
	case wire.OpAck:
		if r.sink == nil || m.Seq <= r.acked {
			return
		}
		r.acked = m.Seq
		if err := r.sink.w.DeleteThrough(m.Seq); err != nil {
			r.log.Error("acknowledged records stay", "error", err)
		}
	}
}
