package release

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	maxSums    = 1 << 20
	maxArchive = 512 << 20
)

// Fetch brings the program for a platform to a path. The archive is held against
// the release's list before anything is taken out of it; what breaks off leaves
// nothing behind.
func (s Source) Fetch(ctx context.Context, p Platform, to string) error {
	if err := s.Check(); err != nil {
		return err
	}
	hc := s.client()
	defer hc.CloseIdleConnections()
	name := Archive(s.Version, p)
	want, err := s.sum(ctx, hc, name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", to, err)
	}
	archive, err := os.CreateTemp(filepath.Dir(to), ".download-*")
	if err != nil {
		return fmt.Errorf("make a file for %s: %w", name, err)
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	got, err := s.download(ctx, hc, name, archive)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s is not what %s beside it says: its SHA-256 is %s, and should be %s", s.address(name), sums, got, want)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return unpack(archive, name, to)
}

// sum is the hash of a file as the release's list has it.
func (s Source) sum(ctx context.Context, hc *http.Client, name string) (string, error) {
	resp, err := s.get(ctx, hc, sums)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxSums))
	for lines.Scan() {
		sum, file, _ := strings.Cut(lines.Text(), " ")
		if strings.TrimLeft(file, " *") != name {
			continue
		}
		if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
			return "", fmt.Errorf("%s has no SHA-256 for %s", s.address(sums), name)
		}
		return strings.ToLower(sum), nil
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read %s: %w", s.address(sums), err)
	}
	return "", fmt.Errorf("%s does not list %s", s.address(sums), name)
}

// download writes a file of the release to w and gives its hash.
func (s Source) download(ctx context.Context, hc *http.Client, name string, w io.Writer) (string, error) {
	resp, err := s.get(ctx, hc, name)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(resp.Body, maxArchive+1))
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", s.address(name), err)
	}
	if n > maxArchive {
		return "", fmt.Errorf("fetch %s: it is larger than %d MiB", s.address(name), maxArchive>>20)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// unpack takes the program out of an archive.
func unpack(archive io.Reader, name, to string) error {
	zipped, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	members := tar.NewReader(zipped)
	for {
		member, err := members.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s holds no cdui", name)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if member.Typeflag == tar.TypeReg && path.Base(member.Name) == "cdui" {
			if member.Size > maxArchive {
				return fmt.Errorf("the cdui in %s is larger than %d MiB", name, maxArchive>>20)
			}
			return place(members, name, to)
		}
	}
}

// place writes a program whole, or not at all.
func place(r io.Reader, name, to string) error {
	f, err := os.CreateTemp(filepath.Dir(to), ".download-*")
	if err != nil {
		return fmt.Errorf("take cdui out of %s: %w", name, err)
	}
	defer os.Remove(f.Name()) // gone after the rename
	_, err = io.Copy(f, r)    //nolint:gosec // its size was looked at
	err = errors.Join(err, f.Chmod(0o700), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("take cdui out of %s: %w", name, err)
	}
	return nil
}
