package release_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v4"

	"cdui/internal/release"
)

// Proves H-02: what is asked for is what a release is made of.
func TestArchivesAreCalledAsTheReleaseCallsThem(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Project string `yaml:"project_name"`
		Builds  []struct {
			ID           string
			Goos, Goarch []string
			Binary       string
			Env          []string
		}
		Archives []struct {
			IDs     []string `yaml:"ids"`
			Formats []string
			Name    string `yaml:"name_template"`
		}
		Checksum struct {
			Name      string `yaml:"name_template"`
			Algorithm string
		}
	}
	if err := yaml.Unmarshal(raw, &made); err != nil {
		t.Fatal(err)
	}
	if made.Checksum.Name != "SHA256SUMS" || made.Checksum.Algorithm != "sha256" || made.Project != "cdui" {
		t.Errorf("the list of hashes is %+v of %s", made.Checksum, made.Project)
	}
	var names []string
	for _, a := range made.Archives {
		name := template.Must(template.New("").Parse(a.Name))
		for _, b := range made.Builds {
			if !slices.Contains(a.IDs, b.ID) {
				continue
			}
			if b.Binary != "" || !slices.Equal(a.Formats, []string{"tar.gz"}) {
				t.Errorf("%s: the program is %q, in %q", b.ID, b.Binary, a.Formats)
			}
			for _, goos := range b.Goos {
				for _, arch := range b.Goarch {
					var out strings.Builder
					if err := name.Execute(&out, map[string]string{"Version": "1.2.3", "Os": goos, "Arch": arch}); err != nil {
						t.Fatal(err)
					}
					names = append(names, out.String()+".tar.gz")
				}
			}
		}
	}
	var want []string
	for _, goos := range []string{"linux", "darwin"} {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, p := range release.Platforms(goos, arch, "glibc 2.36") {
				want = append(want, release.Archive("1.2.3", p))
			}
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if len(want) != 6 || !slices.Equal(names, want) {
		t.Errorf("a release has\n%q, asked for are\n%q", names, want)
	}
}

func TestPlatforms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		goos, libc string
		want       []bool
	}{
		{"linux", "glibc 2.31", []bool{false, true}},
		{"linux", "/lib/ld-musl-x86_64.so.1", []bool{true}},
		{"linux", "", []bool{true}},
		{"darwin", "", []bool{false}},
	} {
		var got []bool
		for _, p := range release.Platforms(c.goos, "arm64", c.libc) {
			got = append(got, p.Static)
			if p.OS != c.goos || p.Arch != "arm64" {
				t.Errorf("%+v: %+v", c, p)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: static %v", c, got)
		}
	}
}

// archive is a release's archive with a program in it.
func archive(t *testing.T, name, program string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for file, text := range map[string]string{"cdui_1.2.3/README.md": "read me", name: program} {
		if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// serve serves files by their paths, over TLS.
func serve(t *testing.T, files map[string][]byte) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if to, ok := strings.CutPrefix(string(raw), "to "); ok {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		_, _ = w.Write(raw)
	}))
	t.Cleanup(s.Close)
	return s
}

var arm = release.Platform{OS: "linux", Arch: "arm64"}

func TestFetch(t *testing.T) {
	t.Parallel()
	file := archive(t, "cdui_1.2.3_linux_arm64/cdui", "#!/bin/sh\n")
	list := fmt.Sprintf("%x  something else\n%x  cdui_1.2.3_linux_arm64.tar.gz\n", sha256.Sum256(nil), sha256.Sum256(file))
	s := serve(t, map[string][]byte{"/rel/v1.2.3/SHA256SUMS": []byte(list), "/rel/v1.2.3/cdui_1.2.3_linux_arm64.tar.gz": []byte("to /there"), "/there": file})
	to := filepath.Join(t.TempDir(), "binaries", "cdui-linux-arm64-1.2.3")
	src := release.Source{Base: s.URL + "/rel/", Version: "1.2.3", HTTP: s.Client()}
	if err := src.Fetch(t.Context(), arm, to); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(to)
	info, err := os.Stat(to)
	if err != nil || string(raw) != "#!/bin/sh\n" || info.Mode().Perm() != 0o700 {
		t.Errorf("%q, %v, %v", raw, info, err)
	}
	if left, _ := filepath.Glob(filepath.Dir(to) + "/.*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestWhatIsNotTaken(t *testing.T) {
	t.Parallel()
	file := archive(t, "cdui_1.2.3/cdui", "#!/bin/sh\n")
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	const (
		sums = "/v1.2.3/SHA256SUMS"
		name = "cdui_1.2.3_linux_arm64.tar.gz"
	)
	right := fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(file), name)
	list := func(raw []byte) []byte { return fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(raw), name) }
	empty := archive(t, "cdui_1.2.3/other", "")
	for _, c := range []struct {
		what  string
		files map[string][]byte
		says  string
	}{
		{"no release", nil, "404"},
		{"not in the list", map[string][]byte{sums: []byte("x  y\n")}, "does not list " + name},
		{"no hash", map[string][]byte{sums: []byte("12  " + name + "\n")}, "no SHA-256"},
		{"no archive", map[string][]byte{sums: right}, name + ": the answer is 404"},
		{"other bytes", map[string][]byte{sums: right, "/v1.2.3/" + name: file[1:]}, "is not what SHA256SUMS"},
		{"half of it", map[string][]byte{sums: right, "/v1.2.3/" + name: file[:len(file)/2]}, "is not what SHA256SUMS"},
		{"no archive at all", map[string][]byte{sums: list([]byte("x")), "/v1.2.3/" + name: []byte("x")}, "read " + name},
		{"no program in it", map[string][]byte{sums: list(empty), "/v1.2.3/" + name: empty}, "holds no cdui"},
		{"over a line in the clear", map[string][]byte{sums: []byte("to " + plain.URL)}, "it leads on to http://"},
	} {
		s := serve(t, c.files)
		to := filepath.Join(t.TempDir(), "cdui")
		err := release.Source{Base: s.URL, Version: "1.2.3", HTTP: s.Client()}.Fetch(t.Context(), arm, to)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(to)); len(left) > 0 {
			t.Errorf("%s: left %v", c.what, left)
		}
	}
	// Somebody who can't be trusted.
	s := serve(t, nil)
	if err := (release.Source{Base: s.URL, Version: "1.2.3"}).Fetch(t.Context(), arm, filepath.Join(t.TempDir(), "x")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
}

func TestWhereNothingCanBeHad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, version, says string }{
		{"https://lab.example/cdui", "0.1.0-dev", "cdui 0.1.0-dev is no release"},
		{"https://lab.example/cdui", "1.2.3-4-gabcdef0", "no release"},
		{"https://lab.example/cdui", "1.2.3-dirty", "no release"},
		{"", "1.2.3", "RELEASES doesn't say"},
		{"http://lab.example/cdui", "1.2.3", "give an address such as https://"},
		{"https://u:p@lab.example/", "1.2.3", "give an address"},
		{"/srv/cdui", "1.2.3", "give an address"},
	} {
		if err := (release.Source{Base: c.base, Version: c.version}).Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, v := range []string{"1.2.3", "1.2.3-rc.1", "10.0.0-beta2"} {
		if err := (release.Source{Base: "https://lab.example", Version: v}).Check(); err != nil {
			t.Error(err)
		}
	}
}

// What is packaged is built like what is tested, and like make release.
func TestReleasesAreBuiltWithTheFlagsOfTheMakefile(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	linker := regexp.MustCompile(`(?m)^LDFLAGS +:= (.*) -X `).FindSubmatch(makefile)
	tags := regexp.MustCompile(`(?m)^NO_HTTP2 +:= -tags=(\S+)$`).FindSubmatch(makefile)
	if linker == nil || tags == nil {
		t.Fatal("the Makefile has no LDFLAGS and NO_HTTP2 as they were")
	}
	raw, err := os.ReadFile(filepath.Join("..", "..", ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Builds []struct {
			ID                   string
			Ldflags, Flags, Tags []string
		}
	}
	if err := yaml.Unmarshal(raw, &made); err != nil {
		t.Fatal(err)
	}
	if len(made.Builds) == 0 {
		t.Fatal("nothing is built")
	}
	for _, b := range made.Builds {
		if len(b.Ldflags) != 1 || !strings.HasPrefix(b.Ldflags[0], string(linker[1])+" -X ") || !slices.Equal(b.Tags, []string{string(tags[1])}) || !slices.Contains(b.Flags, "-trimpath") {
			t.Errorf("%s is built with %q, %q and the tags %q; the Makefile has %s and %s", b.ID, b.Flags, b.Ldflags, b.Tags, linker[1], tags[1])
		}
	}
}
