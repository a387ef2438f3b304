package shim

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cdui/internal/childproto"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/shim/hosts"
	"cdui/internal/shim/isolation"
	"cdui/internal/shim/launch"
	"cdui/internal/shim/oom"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/reports"
	"cdui/internal/shim/wire"
)

const (
	// settleFor is how long what the main child leaves may take to end by
	// itself, as helpers of a program do that just ended.
	settleFor = 200 * time.Millisecond
	// drainFor is how long output may still come once no process is left.
	drainFor = 2 * time.Second
	// killEvery is the pause between two rounds of SIGKILL.
	killEvery = 10 * time.Millisecond
	// sampleFirst and sampleEvery are how often the tree is looked at for its
	// memory groups: soon at first, then ever less.
	sampleFirst = 100 * time.Millisecond
	sampleEvery = 5 * time.Second
	// ackWait is how long the end waits for its acknowledgement: with it, the
	// record is in the database and need not be synced to disk here.
	ackWait = 50 * time.Millisecond
)

// shimRun is one shim's state. Only loop's goroutine touches it.
type shimRun struct {
	start wire.Start
	iso   *isolation.Group
	note  *os.File
	log   *slog.Logger

	hosts      *hosts.Hosts
	host       *hosts.Conn
	signals    chan os.Signal
	keeperGone <-chan struct{}
	giveUpAt   time.Time // without an assignment
	spare      *spare

	a        protocol.Assignment
	state    wire.State
	hostPID  int
	sink     *sink
	output   *output
	reports  *reports.Inbox
	child    *launch.Child
	main     *reports.Source // the child's, nil for a command
	reaper   *isolation.Reaper
	oom      *oom.Watch
	began    time.Time
	limitAt  time.Time
	sampleAt time.Time

	nudgedSeq     uint64
	nudgedConsole int64
	nudgedAt      time.Time
	acked         uint64
	faulty        int
	watches       bool
	said          *childproto.Up
	starting      *protocol.Started // run_started, until it is recorded

	unstarted *launch.Fault
	stop      *stopping
	status    isolation.Death
	mainDead  bool
	treeEmpty bool
	settleAt  time.Time
	killAt    time.Time // the next round of SIGKILL
	stuckAt   time.Time
	killed    []protocol.KilledProcess
	stuck     []protocol.KilledProcess

	drained chan struct{}
	drainBy time.Time
}

func newRun(start wire.Start, iso *isolation.Group, note *os.File, log *slog.Logger) *shimRun {
	return &shimRun{start: start, iso: iso, note: note, log: log, state: wire.Waiting, giveUpAt: time.Now().Add(start.AssignWait)}
}

// loop serves the host and the child until the run has ended and is recorded.
func (r *shimRun) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if r.over() {
			return r.finish()
		}
		timer.Reset(r.untilNext(time.Now()))
		var (
			lines  <-chan reports.Line
			deaths <-chan isolation.Death
			grew   <-chan struct{}
		)
		if r.child != nil {
			lines = r.reports.Lines
			if r.output != nil {
				grew = r.output.grew
			}
			if !r.treeEmpty {
				deaths = r.reaper.Deaths
			}
		}
		select {
		case in := <-r.hosts.In:
			r.hear(in)
		case p := <-lines:
			r.takeReport(p)
			r.takeReports()
		case d, ok := <-deaths:
			r.bury(d, ok)
		case <-grew:
		case <-r.drained:
			r.drainBy = time.Time{}
			r.drained = nil
		case <-r.signals:
			r.cancel(r.a.GraceMS, false)
		case <-r.keeperGone:
			r.keeperGone = nil
			r.stopFor(stoppedByKeeperLoss, 0, true)
		case <-timer.C:
		}
		now := time.Now()
		if r.a.RunID == "" {
			if over, err := r.tooLate(now); over {
				return err
			}
			continue
		}
		r.tick(now)
		r.nudge(now)
	}
}

// over tells that nothing more can come from the run.
func (r *shimRun) over() bool {
	if r.a.RunID == "" {
		return false
	}
	if r.child == nil || len(r.stuck) > 0 {
		return true
	}
	return r.mainDead && r.treeEmpty && r.drained == nil && r.drainBy.IsZero()
}

// reportsNode tells whether the shim speaks for the run's one node; a graph's
// child speaks for its own.
func (r *shimRun) reportsNode() bool { return r.a.Kind != protocol.KindGraph && r.a.NodeID != "" }

// takeReports takes what else is waiting, so that one nudge serves for all.
func (r *shimRun) takeReports() {
	for range 256 {
		select {
		case p := <-r.reports.Lines:
			r.takeReport(p)
		default:
			return
		}
	}
}

func (r *shimRun) takeReport(p reports.Line) {
	if r.a.RunID == "" {
		r.takeFromSpare(p)
		return
	}
	if p.Faulty {
		r.faulty++
		return
	}
	up := p.Up
	if r.begins(up) {
		return
	}
	switch up.Type {
	case childproto.UpHello:
		r.watches = r.watches || up.WatchesCancel
		if up.WatchesCancel && r.stop != nil {
			p.From.Send(r.cancelLine())
		}
	case childproto.UpEvent:
		if up.Event == "" || run.TerminalEvent(up.Event) || up.Event == run.EventExecutionStart {
			r.faulty++
			return
		}
		r.sink.event(up.Event, up.Payload, false)
	case childproto.UpMetrics:
		r.faulty += r.sink.addPoints(up.Points, time.Now())
	case childproto.UpArtifact:
		path := up.Path
		if path != "" && !filepath.IsAbs(path) {
			path = filepath.Join(r.a.Dir, path)
		}
		r.sink.put(protocol.Record{Type: protocol.Artifact, Kind: up.Kind, Path: path, Meta: up.Meta, NodeID: r.nodeOf(up)}, false)
	case childproto.UpWarning:
		r.sink.put(protocol.Record{Type: protocol.Warning, Kind: up.Kind, Meta: up.Meta, NodeID: r.nodeOf(up)}, false)
	case childproto.UpFacts:
		r.sink.put(protocol.Record{Type: protocol.RunFacts, Facts: up.Facts}, false)
	case childproto.UpMemoryLimit:
		if len(up.MemoryLimit) > 0 {
			facts := slices.Concat([]byte(`{"memory_limit":`), up.MemoryLimit, []byte(`}`))
			r.sink.put(protocol.Record{Type: protocol.RunFacts, Facts: facts}, false)
		}
	case childproto.UpImported:
		if p.From.Main && r.host != nil {
			r.host.Send(wire.Message{Op: wire.OpImported, Modules: up.Modules})
		}
	case childproto.UpFinished:
		if p.From.Main {
			r.said = up.After(r.said)
		}
	}
}

func (r *shimRun) nodeOf(up childproto.Up) string {
	if up.NodeID == "" {
		return r.sink.nodeID
	}
	return up.NodeID
}

// bury takes the main child's death, or the news that no process is left.
func (r *shimRun) bury(d isolation.Death, ok bool) {
	now := time.Now()
	if r.a.RunID == "" {
		r.spare.bury(d, ok)
		r.treeEmpty = !ok
		return
	}
	if ok {
		r.status, r.mainDead = d, true
		if r.stop == nil {
			r.settleAt = now.Add(settleFor)
		}
		return
	}
	if !r.iso.Complete() {
		// Whoever lost its parent may be anywhere.
		r.startKilling(now)
	}
	r.treeEmpty = true
	r.settleAt, r.killAt, r.stuckAt = time.Time{}, time.Time{}, time.Time{}
	r.reports.Finish()
	drained := make(chan struct{})
	r.drained, r.drainBy = drained, now.Add(drainFor)
	go func() {
		defer close(drained)
		r.reports.Wait()
		<-r.output.done
	}()
}

// tick does what is due.
func (r *shimRun) tick(now time.Time) {
	if r.child == nil {
		return
	}
	if due := r.sink.due(); !due.IsZero() && !now.Before(due) {
		r.sink.flush()
	}
	if isDue(r.limitAt, now) && !r.mainDead {
		r.limitAt = time.Time{}
		r.stopFor(stoppedByLimit, time.Duration(r.a.GraceMS)*time.Millisecond, false)
	}
	if isDue(r.sampleAt, now) {
		r.sampleAt = now.Add(min(sampleEvery, now.Sub(r.began)))
		for _, p := range r.iso.Alive(r.a.RunID) {
			r.oom.Note(p.PID, r.iso.HostPID(p.PID))
		}
	}
	r.climb(now)
	if isDue(r.settleAt, now) {
		// The run has ended, and these are still there.
		r.settleAt = time.Time{}
		r.startKilling(now)
	}
	if isDue(r.killAt, now) {
		r.iso.Kill(r.a.RunID)
		r.killAt = now.Add(killEvery)
	}
	if isDue(r.stuckAt, now) {
		r.stuck = r.iso.Report(r.iso.Alive(r.a.RunID))
		if len(r.stuck) == 0 {
			r.stuckAt = now.Add(time.Second)
			return
		}
		r.letGo()
	}
	if isDue(r.drainBy, now) {
		// Somebody outside of the run holds the pipe.
		r.letGo()
		r.drained, r.drainBy = nil, time.Time{}
	}
}

// letGo closes the pipes without waiting for their other ends.
func (r *shimRun) letGo() {
	r.child.Console.Close()
	r.reports.Abandon()
	<-r.output.done
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// startKilling begins to end every process that is left, and notes which.
func (r *shimRun) startKilling(now time.Time) {
	if !r.killAt.IsZero() {
		return
	}
	left := slices.DeleteFunc(r.iso.Alive(r.a.RunID), func(p proctree.Process) bool { return p.PID == r.child.PID })
	r.killed = append(r.killed, r.iso.Report(left)...)
	r.iso.Kill(r.a.RunID)
	r.killAt, r.stuckAt = now.Add(killEvery), now.Add(r.start.StuckAfter)
}

// untilNext is how long the loop may sleep.
func (r *shimRun) untilNext(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	consider := func(at time.Time) {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	if r.a.RunID == "" {
		consider(r.giveUpAt)
		return next.Sub(now)
	}
	for _, at := range []time.Time{
		r.limitAt, r.sampleAt, r.settleAt, r.killAt, r.stuckAt, r.drainBy, r.sink.due(), r.nextRung(), r.nudgeDue(),
	} {
		consider(at)
	}
	return max(0, next.Sub(now))
}

// nudge tells the host what there is to read: records at once, output a few
// times a second.
func (r *shimRun) nudge(now time.Time) {
	seq, size := r.sink.last(), r.output.written()
	if seq == r.nudgedSeq && (size == r.nudgedConsole || now.Sub(r.nudgedAt) < consoleEvery) {
		return
	}
	r.nudgedSeq, r.nudgedConsole, r.nudgedAt = seq, size, now
	if r.host != nil {
		r.host.Send(wire.Message{Op: wire.OpAppended, Seq: seq, Console: size})
	}
}

func (r *shimRun) nudgeDue() time.Time {
	if r.output.written() == r.nudgedConsole {
		return time.Time{}
	}
	return r.nudgedAt.Add(consoleEvery)
}
