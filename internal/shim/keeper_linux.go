package shim

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/shim/isolation"
	"cdui/internal/shim/launch"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
)

// keep is the process above a shim where there is no pid namespace. Should the
// shim be killed, all that it leaves is this process's to reap: it ends them
// and writes the exit record. The other way round the shim sees the end of the
// pipe that this process holds. The lock is shared by both, so it is held
// until the last of them is gone.
func keep(start wire.Start, log *slog.Logger) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		log.Error("keeper can't reap orphans", "error", err)
		return wire.ExitIsolation
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	shrugOff(syscall.SIGHUP, syscall.SIGPIPE)
	pid, err := startKept(start)
	if err != nil {
		log.Error("keeper can't start the shim", "error", err)
		return wire.ExitIsolation
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-signals:
				_ = syscall.Kill(pid, syscall.SIGTERM)
			case <-done:
				return
			}
		}
	}()
	status := awaitChild(pid)
	close(done)
	stuck := endOrphans(start.StuckAfter)
	start.Dir = folderOfLock(start.Dir)
	if _, ended, err := wire.ReadExit(start.Dir); err == nil && ended {
		return exitOK
	}
	if status.Exited() && status.ExitStatus() != exitOK {
		log.Error("shim ended without an exit record", "exit_code", status.ExitStatus())
	}
	return writeLoss(start, stuck, log)
}

// folderOfLock is where the run's folder is now: a spare's got another name with
// its run. The lock is held open in it.
func folderOfLock(was string) string {
	lock, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", wire.LockFD))
	if err != nil || filepath.Base(lock) != wire.NoteFile {
		return was
	}
	return filepath.Dir(lock)
}

// startKept starts the shim proper below this process, joined by a pipe.
func startKept(start wire.Start) (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	// The write end stays open here for life; nothing is ever written to it.
	r, _, err := launch.Pipe()
	if err != nil {
		return 0, err
	}
	defer syscall.Close(r)
	start.Kept = true
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer syscall.Close(null)
	pid, err := syscall.ForkExec(exe, append([]string{os.Args[0], "shim"}, start.Args()...), &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{uintptr(null), 2, 2, wire.ListenerFD, wire.LockFD, uintptr(r)},
	})
	// Connections must fail once the shim is gone.
	syscall.Close(wire.ListenerFD)
	return pid, err
}

// awaitChild reaps whatever dies until pid does.
func awaitChild(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if got == pid {
			return status
		}
		if err != nil && err != syscall.EINTR {
			return 0
		}
	}
}

// endOrphans kills what the shim left, and gives what won't go.
func endOrphans(patience time.Duration) []proctree.Process {
	deadline := time.Now().Add(patience)
	for round := 0; ; round++ {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return nil
			}
			if err != syscall.EINTR && pid <= 0 {
				break
			}
		}
		if time.Now().After(deadline) {
			return proctree.Descendants(os.Getpid())
		}
		proctree.KillBelow(os.Getpid())
		time.Sleep(min(time.Duration(round), 20) * time.Millisecond)
	}
}

// writeLoss records that the run ended because its shim was killed. A run that
// was never assigned has nothing to record.
func writeLoss(start wire.Start, stuck []proctree.Process, log *slog.Logger) int {
	note, ok, err := wire.ReadNote(start.Dir)
	if err != nil || !ok || note.State == wire.Waiting {
		return exitFailed
	}
	f := verdict(end{cause: stoppedByKeeperLoss, status: syscall.WaitStatus(syscall.SIGKILL), stuck: named(stuck), wait: start.StuckAfter})
	f.ActiveMS = max(0, time.Since(note.StartedAt).Milliseconds())
	if f.Status == string(run.Interrupted) {
		f.Error = "the run's supervisor was killed from outside, so the run was ended"
	}
	exit := wire.Exit{RunID: note.RunID, Attempt: note.Attempt, TS: time.Now().UTC(), Finished: f}
	if err := wire.WriteExit(start.Dir, exit, true); err != nil {
		log.Error("exit record is lost", "error", err)
		return exitFailed
	}
	return exitOK
}

func named(list []proctree.Process) []protocol.KilledProcess {
	var out []protocol.KilledProcess
	for _, p := range list[:min(len(list), isolation.MaxListed)] {
		out = append(out, protocol.KilledProcess{PID: p.PID, Name: p.Name})
	}
	return out
}
