package oom

import "testing"

func TestCounterFile(t *testing.T) {
	for _, c := range []struct {
		m     cgroupMount
		v2    bool
		group string
		want  string
	}{
		{cgroupMount{root: "/", path: "/sys/fs/cgroup/memory"}, false, "/a/b", "/sys/fs/cgroup/memory/a/b/memory.oom_control"},
		{cgroupMount{v2: true, root: "/", path: "/sys/fs/cgroup"}, true, "/user.slice", "/sys/fs/cgroup/user.slice/memory.events"},
		// In a container the mount shows only a part of the tree.
		{cgroupMount{root: "/docker/x", path: "/sys/fs/cgroup/memory"}, false, "/docker/x/y", "/sys/fs/cgroup/memory/y/memory.oom_control"},
		{cgroupMount{root: "/docker/x", path: "/sys/fs/cgroup/memory"}, false, "/docker/x", "/sys/fs/cgroup/memory/memory.oom_control"},
		{cgroupMount{root: "/docker/x", path: "/sys/fs/cgroup/memory"}, false, "/docker/other", ""},
		{cgroupMount{root: "/", path: "/sys/fs/cgroup/memory"}, true, "/a", ""},
	} {
		got, ok := c.m.counterFile(c.v2, c.group)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%+v %s: %q", c.m, c.group, got)
		}
	}
}

func TestWithoutAKillThereIsNoEvidence(t *testing.T) {
	w := New()
	defer w.Close()
	w.Own(1)
	w.Note(1, 1)
	if got := w.Evidence(false); got != "" {
		t.Error(got)
	}
}
