package runcmd

import (
	"os"
	"path/filepath"
	"strings"

	"cdui/internal/cli/env"
)

// condaPrefix finds a conda environment by folder or name, without starting
// conda, which takes a second: where conda itself looks, in the same order.
func condaPrefix(name, dir string, getenv func(string) string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		path := absolute(dir, name)
		if isConda(path) {
			return path, nil
		}
		return "", env.Usagef("--conda %s: no conda environment is there", name)
	}
	var known []string
	for _, root := range condaRoots(getenv) {
		path := filepath.Join(root, "envs", name)
		if name == "base" {
			path = root
		}
		if isConda(path) {
			return path, nil
		}
	}
	for _, list := range []string{getenv("CONDA_ENVS_PATH"), getenv("CONDA_ENVS_DIRS")} {
		for _, parent := range filepath.SplitList(list) {
			if path := filepath.Join(parent, name); isConda(path) {
				return path, nil
			}
		}
	}
	b, _ := os.ReadFile(filepath.Join(getenv("HOME"), ".conda", "environments.txt"))
	for line := range strings.Lines(string(b)) {
		path := strings.TrimSpace(line)
		if !isConda(path) {
			continue
		}
		if filepath.Base(path) == name {
			return path, nil
		}
		known = append(known, filepath.Base(path))
	}
	if len(known) > 0 {
		return "", env.Usagef("--conda %s: no such environment. Known: %s", name, strings.Join(known, ", "))
	}
	return "", env.Usagef("--conda %s: no such environment; name its folder", name)
}

// condaRoots lists where conda may be installed.
func condaRoots(getenv func(string) string) []string {
	var roots []string
	if exe := getenv("CONDA_EXE"); exe != "" {
		roots = append(roots, filepath.Dir(filepath.Dir(exe)))
	}
	if root := getenv("MAMBA_ROOT_PREFIX"); root != "" {
		roots = append(roots, root)
	}
	home := getenv("HOME")
	for _, name := range []string{".conda", "miniconda3", "miniforge3", "mambaforge", "anaconda3", "micromamba"} {
		roots = append(roots, filepath.Join(home, name))
	}
	return append(roots, "/opt/conda")
}

func isConda(path string) bool {
	_, err := os.Stat(filepath.Join(path, "conda-meta"))
	return path != "" && err == nil
}
