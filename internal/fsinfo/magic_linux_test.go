package fsinfo

import "testing"

func TestNetworkMagic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		magic uint32
		kind  string
	}{
		{"ext4", 0xef53, ""},
		{"tmpfs", 0x01021994, ""},
		{"overlay", 0x794c7630, ""},
		{"nfs", 0x6969, "nfs"},
		{"cifs", 0xff534d42, "smb"},
		{"sshfs", 0x65735546, "fuse"},
		{"lustre", 0x0bd00bd0, "lustre"},
	} {
		kind, yes := networkMagic(c.magic)
		if kind != c.kind || yes != (c.kind != "") {
			t.Errorf("%s: got %q, %v", c.name, kind, yes)
		}
	}
}
