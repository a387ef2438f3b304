package e2e_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"cdui/internal/api"
	"cdui/internal/run"
)

func (p *plane) token() string {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, "token"))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// post sends a JSON body and gives status and answer.
func (p *plane) post(path, body string) (int, []byte, error) {
	req, err := http.NewRequest("POST", "http://"+p.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set(api.HeaderToken, p.token())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, raw, err
}

func TestD1_AReaderLocksTheDatabase(t *testing.T) {
	p := newPlane(t)
	id := p.run("--python", "/usr/bin/python3", p.file("count.py", counting), "--", filepath.Join(filepath.Dir(p.dir), "starts"))
	p.running(id)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(p.dir, "cdui.db")+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	release := time.AfterFunc(10*time.Second, func() { _, _ = conn.ExecContext(t.Context(), "COMMIT") })
	defer release.Stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for i := range 200 {
		wg.Go(func() {
			code, raw, err := p.post(api.PathRuns, fmt.Sprintf(`{"name":"w%d","options":{"hold":true,"command":{"argv":["true"],"cwd":"/"}}}`, i))
			var reply api.SubmitReply
			if err != nil || code != 200 || json.Unmarshal(raw, &reply) != nil {
				t.Errorf("writer %d: %d %s %v", i, code, raw, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[reply.RunID] = true
		})
	}
	wg.Wait()
	if len(ids) != 200 {
		t.Errorf("%d of 200 submits", len(ids))
	}
	backup := filepath.Join(filepath.Dir(p.dir), "backup.db")
	p.cdui("db", "backup", backup)
	if _, err := db.Exec("VACUUM"); err != nil {
		t.Error(err)
	}
	if out, code := p.try("db", "check"); code != 0 {
		t.Errorf("db check: %d %s", code, out)
	}
	var list api.RunList
	p.get(api.PathRuns+"?status=queued&limit=500", &list)
	if list.Total != 200 {
		t.Errorf("%d rows of 200", list.Total)
	}
	r := p.ended(id)
	if _, points := telling(p.events(id)); r.Status != run.Succeeded || len(points) != 60 {
		t.Errorf("the run beside it: %s, %d points", r.Status, len(points))
	}
}

// Proves W-04.
func TestAFullDiskDelaysAndLosesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	p := preparePlane(t)
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", p.dir).CombinedOutput(); err != nil {
		t.Skipf("no tmpfs can be mounted here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", p.dir).Run() })
	p.start()
	id := p.run("--python", "/usr/bin/python3", p.file("count.py", counting), "--", filepath.Join(filepath.Dir(p.dir), "starts"))
	pid := p.running(id)
	hog := filepath.Join(p.dir, "hog")
	_ = exec.Command("dd", "if=/dev/zero", "of="+hog, "bs=64k").Run() // ends when the disk is full
	_ = exec.Command("sh", "-c", "cat /dev/zero >> "+hog).Run()
	eventually(t, time.Minute, "the disk is noticed", func() bool {
		out, code := p.try("run", "-d", "--", "true")
		return code == 1 && strings.Contains(out, "full")
	})
	if out := p.cdui("status"); !strings.Contains(out, "full") {
		t.Errorf("status does not tell: %s", out)
	}
	eventually(t, time.Minute, "the child ends on the full disk", func() bool { return !alive(pid) })
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	r := p.ended(id)
	types, points := telling(p.events(id))
	if r.Status != run.Succeeded || types[len(types)-1] != run.EventExecutionComplete {
		t.Errorf("%s %q %v", r.Status, r.Error, types)
	}
	// What the full disk cost is said, not hidden.
	if len(points) != 60 && !bytes.Contains(r.Facts, []byte(`"dropped"`)) {
		t.Errorf("%d of 60 points and nothing is said of the others: %s", len(points), r.Facts)
	}
	if r := p.ended(p.run("--", "true")); r.Status != run.Succeeded {
		t.Errorf("afterwards: %s", r.Status)
	}
	eventually(t, time.Minute, "the problem is gone", func() bool { return !strings.Contains(p.cdui("status"), "full") })
}

// Proves R-06.
func TestD4_NumbersThatAreNone(t *testing.T) {
	p := newPlane(t)
	script := p.file("nan.py", `import cdui
for i, v in enumerate([1.0, float("nan"), float("inf"), -float("inf"), 1e400, -0.0, 2**53 + 1, 2**70, 0.5]):
    cdui.log({"v": v}, step=i)
`)
	id := p.run("--python", "/usr/bin/python3", script)
	if r := p.ended(id); r.Status != run.Succeeded {
		t.Fatalf("%s %q", r.Status, r.Error)
	}
	var m api.Metrics
	p.get("/api/runs/"+id+"/metrics", &m)
	got := []string{}
	for _, x := range m.Metrics {
		got = append(got, string(x.Value)+x.Nonfinite)
	}
	if want := "1.0 nullnan nullinf null-inf nullinf -0.0 9007199254740993 1180591620717411303424 0.5"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	for _, line := range strings.Split(strings.TrimSpace(p.cdui("runs", "events", "--json", id)), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if csv := p.cdui("runs", "metrics", "--csv", id); strings.Count(csv, "\n") != 10 {
		t.Errorf("%s", csv)
	}
	if out, code := p.try("runs", "metrics", "--plot", id); code != 0 {
		t.Errorf("plot: %d %s", code, out)
	}
}

// Proves R-05.
func TestTorchrunTwoAtOnce(t *testing.T) {
	needTorch(t)
	p := newPlane(t)
	script := p.file("ddp.py", `import os, torch, torch.distributed as dist, cdui
dist.init_process_group("gloo")
x = torch.ones(4) * (dist.get_rank() + 1)
dist.all_reduce(x)
cdui.log({"sum": float(x[0]), "rank": dist.get_rank()}, step=0)
dist.barrier()
dist.destroy_process_group()
`)
	pairs := 3
	if os.Getenv("CDUI_FAULTS") != "" {
		pairs = 20
	}
	for range pairs {
		var ids []string
		for range 2 {
			ids = append(ids, p.run("--", python, "-m", "torch.distributed.run", "--nproc_per_node", "2", script))
		}
		for _, id := range ids {
			r := p.ended(id)
			_, points := telling(p.events(id))
			if r.Status != run.Succeeded || len(points) != 2 || !strings.Contains(strings.Join(points, " "), "rank00") {
				t.Fatalf("%s %q %v\n%s", r.Status, r.Error, points, tail(string(p.rawLog(id)), 2000))
			}
		}
	}
}
