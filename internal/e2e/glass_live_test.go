package e2e_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// printing waits for a file, then prints 5,000 lines a second, each with its
// number and the time.
const printing = `import os, sys, time
while not os.path.exists(sys.argv[2]): time.sleep(0.02)
began, n = time.time(), 0
while n < 5000 * float(sys.argv[1]):
    for i in range(n, n + 250): print("line %09d at %.3f loss 0.1234 lr 3e-4 grad 1.02 tokens/s 18234" % (i, time.time()))
    sys.stdout.flush()
    n += 250
    time.sleep(max(0, began + n / 5000 - time.time()))
print("the last of", n)
`

// printer is a run that prints for some seconds once open is called, on a
// screen that follows it.
func (p *plane) printer(t testing.TB, lasts float64) (x *glass, open func()) {
	t.Helper()
	gate := p.file("gate", "")
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	id := p.run("--python", "/usr/bin/python3", p.file("lines.py", printing), "--", fmt.Sprint(lasts), gate)
	p.running(id)
	x = p.screen(t, 120, 40)
	x.shows("live", "lines.py")
	x.keys("l")
	x.shows("following")
	return x, func() { p.file("gate", "") }
}

var (
	letGo   = regexp.MustCompile(`([\d,]+) lines let go`)
	numbers = regexp.MustCompile(`line (\d+) at (\S+)`)
)

func (x *glass) letGo() int {
	m := letGo.FindStringSubmatch(x.text())
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
	return n
}

// A console that prints more than anybody reads is followed to its last line;
// what is held stays bounded, and the screen says to the line how much was let go.
func TestAScreenFollowsAFloodOfLines(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	x, open := p.printer(t, 2)
	open()
	x.shows("the last of 10000", "ended")
	gone := x.letGo()
	if held := 10001 - gone; held <= 0 || held > 6250 {
		t.Errorf("%d lines are held", held)
	}
	if s := x.text(); strings.Contains(s, "bytes skipped") {
		t.Error("bytes were skipped")
	}
	x.keys("g")
	x.shows(fmt.Sprintf("line %09d at", gone))
	if m := numbers.FindStringSubmatch(x.text()); m == nil || m[1] != fmt.Sprintf("%09d", gone) {
		t.Errorf("%d lines are let go, and the first that is held is %q", gone, m)
	}
}

// Proves T-01: a control plane that restarts under an open screen. The screen
// says that the line is lost, comes back by itself, and shows no ghost of what
// was removed meanwhile, and the end of what ended meanwhile.
func TestAServerThatRestartsUnderAScreen(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	gone := p.run("--name", "goes away", "--hold", "--", "true")
	gate := p.file("gate", "")
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	ends := p.run("--name", "ends meanwhile", "--", "sh", "-c", "echo begun; while [ ! -e "+gate+" ]; do sleep 0.1; done; echo over")
	p.running(ends)
	list, opened, ghost := p.screen(t, 100, 30), p.screen(t, 100, 30), p.screen(t, 100, 30)
	for _, x := range []*glass{list, opened, ghost} {
		x.shows("live", "goes away", "ends meanwhile", "1 running")
	}
	opened.keys("l")
	opened.shows("following", "begun")
	ghost.keys("j\r")
	ghost.shows("goes away", "overview", "held")
	all := []*glass{list, opened, ghost}
	p.kill9()
	for _, x := range all {
		x.shows("link lost")
	}
	list.shows("trying again", "ends meanwhile")
	// They hear nothing of what happens next until it has.
	for _, x := range all {
		signalTo(t, x, syscall.SIGSTOP)
	}
	p.start()
	p.cdui("cancel", gone)
	p.cdui("runs", "rm", gone)
	p.file("gate", "")
	p.ended(ends)
	for _, x := range all {
		signalTo(t, x, syscall.SIGCONT)
	}
	list.shows("live", "ends meanwhile", "✓", "0 running", "1 of 1 runs")
	list.hides("goes away")
	opened.shows("live", "over", "ended", "succeeded")
	ghost.shows("live", "this run was deleted")
	ghost.keys("\x1b")
	ghost.shows("ends meanwhile", "1 of 1 runs")
	ghost.hides("goes away")
}

func signalTo(t *testing.T, x *glass, sig syscall.Signal) {
	t.Helper()
	if err := x.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkConsoleOnTheScreen follows 5,000 lines a second for a minute: how far
// the picture is behind, beside the second that is allowed, and what the program
// takes after a minute, beside what it took after ten seconds.
func BenchmarkConsoleOnTheScreen(b *testing.B) {
	const minute = 60
	p := newPlane(b)
	for b.Loop() {
		x, open := p.printer(b, minute)
		open()
		x.shows("line 0000")
		began, cpu := time.Now(), processorTime(b, x.cmd.Process.Pid)
		sent, _ := x.traffic()
		var behind []float64
		early := 0.0
		for time.Since(began) < minute*time.Second-2*time.Second {
			<-time.After(100 * time.Millisecond)
			all := numbers.FindAllStringSubmatch(x.text(), -1)
			if len(all) == 0 {
				b.Fatal("no line on the screen")
			}
			at, err := strconv.ParseFloat(all[len(all)-1][2], 64)
			if err != nil {
				b.Fatal(err)
			}
			behind = append(behind, float64(time.Now().UnixMicro())/1e6-at)
			if early == 0 && time.Since(began) > 10*time.Second {
				early = ownMB(b, x.cmd.Process.Pid)
			}
		}
		took := time.Since(began).Seconds()
		late := ownMB(b, x.cmd.Process.Pid)
		b.ReportMetric((processorTime(b, x.cmd.Process.Pid)-cpu).Seconds()/took, "cores")
		now, _ := x.traffic()
		b.ReportMetric(float64(now-sent)/took/1024, "KB/s")
		x.shows("the last of", "ended")
		b.ReportMetric(float64(x.letGo()), "lines-let-go")
		b.ReportMetric(median(behind), "s-behind")
		b.ReportMetric(behind[len(behind)-1], "worst-of-1-s")
		b.ReportMetric(late, "MB")
		b.ReportMetric(late/early, "MB-after-60s/10s")
	}
	b.ReportMetric(0, "ns/op")
}
