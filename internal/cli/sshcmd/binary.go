package sshcmd

import (
	"debug/elf"
	"debug/macho"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"cdui/internal/bootstrap"
	"cdui/internal/cli/env"
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
			path := filepath.Join(dataDir, "binaries", bootstrap.FileName(goos, arch, version.String()))
			if _, err := os.Stat(path); err == nil {
				out = append(out, bootstrap.Binary{Path: path, OS: goos, Arch: arch})
			}
		}
	}
	return out, nil
}

// madeFor tells which machine a program is made for, in the words of Go.
func madeFor(path string) (goos, arch string, err error) {
	if _, err := os.Stat(path); err != nil {
		return "", "", fmt.Errorf("no such file")
	}
	if f, err := elf.Open(path); err == nil {
		defer f.Close()
		arch := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[f.Machine]
		if arch == "" {
			return "", "", fmt.Errorf("it is made for %s", f.Machine)
		}
		return "linux", arch, nil
	}
	if f, err := macho.Open(path); err == nil {
		defer f.Close()
		if f.Cpu == macho.CpuArm64 {
			return "darwin", "arm64", nil
		}
		return "darwin", "amd64", nil
	}
	return "", "", fmt.Errorf("it is no program for Linux or macOS")
}
