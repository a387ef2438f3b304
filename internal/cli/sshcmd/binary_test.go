package sshcmd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/bootstrap"
	"cdui/internal/release"
)

// shell is a machine: /bin/sh here, with a home of its own.
type shell struct{ home string }

func (s shell) Run(ctx context.Context, command string, in io.Reader) (out, said []byte, code int, err error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env, cmd.Dir, cmd.Stdin = []string{"HOME=" + s.home, "PATH=/usr/bin:/bin"}, s.home, in
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err = cmd.Run(); errors.As(err, &exit) {
		return stdout.Bytes(), stderr.Bytes(), exit.ExitCode(), nil
	}
	return stdout.Bytes(), stderr.Bytes(), 0, err
}

// released serves a release of programs by their archives' names.
func released(t *testing.T, version string, programs map[string]string) *httptest.Server {
	t.Helper()
	files := map[string][]byte{}
	var list string
	for name, program := range programs {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		w := tar.NewWriter(z)
		if err := w.WriteHeader(&tar.Header{Name: "cdui_" + version + "/cdui", Mode: 0o755, Size: int64(len(program)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		_, err := w.Write([]byte(program))
		if err := errors.Join(err, w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		files["/v"+version+"/"+name] = out.Bytes()
		list += fmt.Sprintf("%x  %s\n", sha256.Sum256(out.Bytes()), name)
	}
	files["/v"+version+"/SHA256SUMS"] = []byte(list)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if raw, ok := files[r.URL.Path]; ok {
			_, _ = w.Write(raw)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Proves H-02: where no cdui at hand starts, that of the release is brought,
// checked, kept and copied; of two the one that starts.
func TestWhatIsDownloaded(t *testing.T) {
	t.Parallel()
	const (
		fits  = "#!/bin/sh\necho cdui 1.2.3\n"
		newer = "#!/bin/sh\necho GLIBC_2.99 not found >&2; exit 1\n"
		usual = "cdui_1.2.3_linux_arm64.tar.gz"
		plain = "cdui_1.2.3_linux_arm64_static.tar.gz"
	)
	for _, c := range []struct {
		name, libc, version string
		programs            map[string]string
		// kept are the files in the data folder after it.
		kept []string
		says []string
	}{
		{"the usual one", "glibc 2.36", "1.2.3", map[string]string{usual: fits, plain: newer}, []string{"cdui-linux-arm64-"}, nil},
		{"an older system", "glibc 2.17", "1.2.3", map[string]string{usual: newer, plain: fits}, []string{"cdui-linux-arm64-", "-static"}, nil},
		{"no glibc", "/lib/ld-musl-aarch64.so.1", "1.2.3", map[string]string{usual: newer, plain: fits}, []string{"-static"}, nil},
		{"neither starts", "glibc 2.17", "1.2.3", map[string]string{usual: newer, plain: newer}, []string{"cdui-linux-arm64-", "-static"}, []string{"GLIBC_2.99", "--binary"}},
		{"a release without it", "glibc 2.36", "1.2.3", map[string]string{"cdui_1.2.3_darwin_arm64.tar.gz": fits}, nil, []string{"made for linux/arm64", "--binary", "The download failed", "does not list " + usual}},
		{"no release", "glibc 2.36", "0.1.0-dev", nil, nil, []string{"made for linux/arm64", "--binary", "Nothing can be downloaded: cdui 0.1.0-dev is no release"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			remote, data := shell{t.TempDir()}, t.TempDir()
			facts, err := bootstrap.Probe(t.Context(), remote, c.version, 0)
			if err != nil {
				t.Fatal(err)
			}
			facts.OS, facts.Arch, facts.Libc = "linux", "arm64", c.libc
			web := released(t, c.version, c.programs)
			s := supply{
				remote: remote, facts: facts, dataDir: data, say: func(string, ...any) {},
				release: release.Source{Base: web.URL, Version: c.version, HTTP: web.Client()},
			}
			own := []bootstrap.Binary{{Path: os.Args[0], OS: "linux", Arch: "riscv64"}}
			installed, err := s.install(t.Context(), own)
			for _, part := range c.says {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v lacks %q", err, part)
				}
			}
			if len(c.says) == 0 {
				raw, _ := os.ReadFile(installed.Path)
				if err != nil || string(raw) != fits || !strings.HasPrefix(installed.Path, remote.home) {
					t.Errorf("%+v, %v, %q", installed, err, raw)
				}
			}
			left, _ := filepath.Glob(filepath.Join(data, "binaries", "*"))
			if len(left) != len(c.kept) {
				t.Errorf("kept: %q", left)
			}
			for i, name := range c.kept {
				if i < len(left) && !strings.Contains(left[i], name) {
					t.Errorf("kept: %q", left)
				}
			}
		})
	}
	// What somebody named is taken or refused; nothing is brought in its place.
	s := supply{remote: shell{t.TempDir()}, facts: bootstrap.Facts{OS: "linux", Arch: "arm64", Base: "/nowhere"}, release: release.Source{Version: "1.2.3", Base: "https://192.0.2.1"}}
	if _, err := s.install(t.Context(), []bootstrap.Binary{{Path: os.Args[0], OS: "linux", Arch: "amd64", Asked: true}}); err == nil || !strings.Contains(err.Error(), "is made for linux/amd64") || strings.Contains(err.Error(), "download") {
		t.Errorf("a file that was named: %v", err)
	}
}
