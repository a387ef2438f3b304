// Package release knows the files of a release by their names, and brings the
// program of one here, checked against the release's list of hashes.
//
// It owns what .goreleaser.yaml calls the files and where they lie below an
// address. It must not know who wants a program, nor where that goes from here.
package release

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Platform is a kind of machine that a release has a program for.
type Platform struct {
	// OS and Arch are in the words of Go.
	OS, Arch string
	// Static is the one for Linux that needs no library and asks nvidia-smi.
	Static bool
}

// Platforms lists the programs that may start on a machine, the better first.
// libc is the machine's, such as "glibc 2.36".
func Platforms(goos, arch, libc string) []Platform {
	switch {
	case goos != "linux":
		return []Platform{{OS: goos, Arch: arch}}
	case strings.HasPrefix(libc, "glibc"):
		return []Platform{{OS: goos, Arch: arch}, {OS: goos, Arch: arch, Static: true}}
	}
	return []Platform{{OS: goos, Arch: arch, Static: true}}
}

// Archive is the name of the file with the program for a platform.
func Archive(version string, p Platform) string {
	name := "cdui_" + version + "_" + p.OS + "_" + p.Arch
	if p.Static {
		name += "_static"
	}
	return name + ".tar.gz"
}

// sums is the name of the list of hashes.
const sums = "SHA256SUMS"

// Source is where the files of one version lie: Base/v1.2.3/ has those of
// 1.2.3.
type Source struct {
	Base, Version string
	// HTTP is the client to use, nil for one as it should be.
	HTTP *http.Client
}

// Check says why nothing can be had from the source; nil when it can be tried.
func (s Source) Check() error {
	if ok, _ := regexp.MatchString(`^\d+\.\d+\.\d+(-(alpha|beta|rc)\.?\d+)?$`, s.Version); !ok {
		return fmt.Errorf("cdui %s is no release", s.Version)
	}
	if s.Base == "" {
		return errors.New("the setting RELEASES doesn't say where releases lie")
	}
	u, err := url.Parse(s.Base)
	if err != nil {
		return errors.New("the setting RELEASES is no address")
	}
	if u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("the setting RELEASES is %q: give an address such as https://lab.example/cdui", u.Redacted())
	}
	return nil
}

func (s Source) address(file string) string {
	return strings.TrimRight(s.Base, "/") + "/v" + s.Version + "/" + file
}

func (s Source) client() *http.Client {
	hc := &http.Client{}
	if s.HTTP != nil {
		*hc = *s.HTTP
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = 30 * time.Second
		hc.Transport = t
	}
	hc.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != "https" || len(via) > 5 {
			return fmt.Errorf("it leads on to %s", r.URL.Redacted())
		}
		return nil
	}
	return hc
}

// get asks for a file of the release.
func (s Source) get(ctx context.Context, hc *http.Client, file string) (*http.Response, error) {
	address := s.address(file)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", address, err)
	}
	resp, err := hc.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("fetch %s: %w", address, err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("fetch %s: the answer is %s", address, resp.Status)
	}
	return resp, nil
}
