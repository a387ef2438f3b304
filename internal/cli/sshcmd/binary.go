package sshcmd

import (
	"debug/elf"
	"debug/macho"
	"encoding/binary"
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
