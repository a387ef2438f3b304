package launch

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cdui/internal/protocol"
)

// Child is the main process of the run and the shim's ends of its pipes.
type Child struct {
	PID     int
	Console *os.File
	// Up and Down are nil for a command.
	Up, Down *os.File
}

// Start starts the main process. Its pipes are made here, so that only
// the child's ends are inherited, and only by it.
func Start(a protocol.Assignment, env []string) (*Child, *Fault) {
	program, f := checkStart(a, env)
	if f != nil {
		return nil, f
	}
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fault(CodeStartFailed, "%s can't be opened: %v", os.DevNull, err)
	}
	theirs := []int{null}
	defer func() {
		for _, fd := range theirs {
			syscall.Close(fd)
		}
	}()
	c := &Child{}
	outR, outW, err := Pipe()
	if err != nil {
		return nil, fault(CodeStartFailed, "no pipe for the output: %v", err)
	}
	theirs = append(theirs, outW)
	growPipe(outW)
	c.Console = ourEnd(outR, "console")
	files := []uintptr{uintptr(null), uintptr(outW), uintptr(outW)}
	if a.Kind != protocol.KindCommand {
		upR, upW, err1 := Pipe()
		downR, downW, err2 := Pipe()
		if err := errors.Join(err1, err2); err != nil {
			c.Close()
			return nil, fault(CodeStartFailed, "no pipe for the reports: %v", err)
		}
		theirs = append(theirs, upW, downR)
		growPipe(upW)
		c.Up, c.Down = ourEnd(upR, "up"), ourEnd(downW, "down")
		files = append(files, uintptr(upW), uintptr(downR))
	}
	restore := preferAsVictim()
	c.PID, err = syscall.ForkExec(program, a.Argv, &syscall.ProcAttr{
		Dir: a.Dir, Env: env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	restore()
	if err != nil {
		c.Close()
		return nil, explainStart(err, program, a.Argv, env)
	}
	return c, nil
}

// Close closes the shim's ends.
func (c *Child) Close() {
	for _, f := range []*os.File{c.Console, c.Up, c.Down} {
		if f != nil {
			f.Close()
		}
	}
}

// Pipe makes a pipe that no other process inherits. Its write end blocks: it
// is the standard output of programs that expect that.
func Pipe() (r, w int, err error) {
	var p [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(p[:]); err != nil {
		return 0, 0, fmt.Errorf("make pipe: %w", err)
	}
	syscall.CloseOnExec(p[0])
	syscall.CloseOnExec(p[1])
	return p[0], p[1], nil
}

// ourEnd wraps an end that the shim keeps, so that it takes deadlines.
func ourEnd(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}
