package sshcmd

import (
	"context"
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"cdui/internal/bootstrap"
	"cdui/internal/cli/env"
	"cdui/internal/release"
	"cdui/internal/version"
)

// binaries lists what could be copied: the named file alone, else this program
// and those of the data folder that were put there for other machines.
func binaries(e *env.Env, asked, dataDir string) ([]bootstrap.Binary, error) {
	if asked != "" {
		goos, arch, err := madeFor(asked)
		if err != nil {
			return nil, env.Usagef("--binary %s: %v", asked, err)
		}
		return []bootstrap.Binary{{Path: asked, OS: goos, Arch: arch, Asked: true}}, nil
	}
	out := []bootstrap.Binary{{Path: e.Exe, OS: runtime.GOOS, Arch: runtime.GOARCH}}
	for _, goos := range []string{"linux", "darwin"} {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, p := range release.Platforms(goos, arch, "glibc") {
				if path := kept(dataDir, p); exists(path) {
					out = append(out, bootstrap.Binary{Path: path, OS: goos, Arch: arch})
				}
			}
		}
	}
	return out, nil
}

// kept is where the data folder has the program for a platform.
func kept(dataDir string, p release.Platform) string {
	name := bootstrap.FileName(p.OS, p.Arch, version.String())
	if p.Static {
		name += "-static"
	}
	return filepath.Join(dataDir, "binaries", name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// supply brings a machine a cdui that starts there.
type supply struct {
	remote  bootstrap.Remote
	facts   bootstrap.Facts
	dataDir string
	// release is what this cdui is of.
	release  release.Source
	say      func(format string, args ...any)
	progress func(sent, all int64)
}

// install copies the binary that starts there; where none at hand does, and
// nobody named one, it is one of the release.
func (s supply) install(ctx context.Context, all []bootstrap.Binary) (bootstrap.Installed, error) {
	copied := func(list []bootstrap.Binary) (bootstrap.Installed, error) {
		return bootstrap.Install(ctx, s.remote, s.facts, s.release.Version, list, s.progress)
	}
	installed, err := copied(all)
	var unfit *bootstrap.UnfitError
	if !errors.As(err, &unfit) || slices.ContainsFunc(all, func(b bootstrap.Binary) bool { return b.Asked }) {
		return installed, err
	}
	if problem := s.release.Check(); problem != nil {
		return installed, fmt.Errorf("%w. Nothing can be downloaded: %w", err, problem)
	}
	for _, p := range release.Platforms(s.facts.OS, s.facts.Arch, s.facts.Libc) {
		path := kept(s.dataDir, p)
		if exists(path) {
			continue // it was tried
		}
		s.say("downloading %s", release.Archive(s.release.Version, p))
		if problem := s.release.Fetch(ctx, p, path); problem != nil {
			return installed, fmt.Errorf("%w. The download failed: %w", err, problem)
		}
		if installed, err = copied([]bootstrap.Binary{{Path: path, OS: p.OS, Arch: p.Arch}}); !errors.As(err, &unfit) {
			return installed, err
		}
	}
	return installed, err
}

// madeFor tells which machine a program is made for, in the words of Go.
func madeFor(path string) (goos, arch string, err error) {
	if _, err := os.Stat(path); err != nil {
		return "", "", fmt.Errorf("no such file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	// The beginnings of the headers alone: elf.Open and macho.Open would link what
	// unpacks sections, too.
	var head struct {
		Ident [elf.EI_NIDENT]byte
		_     uint16
		Elf   elf.Machine
	}
	if err := binary.Read(f, binary.LittleEndian, &head); err != nil {
		return "", "", fmt.Errorf("it is no program for Linux or macOS")
	}
	switch {
	case string(head.Ident[:len(elf.ELFMAG)]) == elf.ELFMAG:
		if elf.Data(head.Ident[elf.EI_DATA]) != elf.ELFDATA2LSB {
			return "", "", fmt.Errorf("it is made for a machine of the other byte order")
		}
		arch := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[head.Elf]
		if arch == "" {
			return "", "", fmt.Errorf("it is made for %s", head.Elf)
		}
		return "linux", arch, nil
	case binary.LittleEndian.Uint32(head.Ident[:]) == macho.Magic64:
		arch := map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[macho.Cpu(binary.LittleEndian.Uint32(head.Ident[4:]))]
		if arch == "" {
			return "", "", fmt.Errorf("it is made for another kind of Mac")
		}
		return "darwin", arch, nil
	}
	return "", "", fmt.Errorf("it is no program for Linux or macOS")
}
