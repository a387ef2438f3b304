package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
)

// Binary is a cdui that could be copied.
type Binary struct {
	// Path is where it lies here.
	Path, OS, Arch string
	// Asked: somebody named it, so that no other is taken.
	Asked bool
}

// Installed is a cdui on the machine.
type Installed struct {
	Path string
	// Copied is how many bytes were sent; 0 when it was there already.
	Copied int64
	// Passed are binaries that didn't start there, and why.
	Passed []string
}

const hashing = `
sum() {
  if command -v sha256sum >/dev/null 2>&1; then s=$(sha256sum <"$1"); elif command -v shasum >/dev/null 2>&1; then s=$(shasum -a 256 <"$1"); else s=$(openssl dgst -sha256 <"$1" 2>/dev/null); s=${s##* }; fi
  printf '%s' "${s%% *}"
}
`

const present = hashing + `
d=$base/$version
mkdir -p "$d" 2>/dev/null
rm -f "$d"/*.part
[ -x "$d/cdui" ] && tell sum "$(sum "$d/cdui")"
`

// upload takes the binary from standard input. What breaks off in the middle
// leaves a .part behind at most, which is never started.
const upload = hashing + `
d=$base/$version
mkdir -p "$d" && chmod 700 "$d" || fail place "$d can't be made"
p=$d/$mark.part
trap 'rm -f "$p"' EXIT
e=$(cat 2>&1 >"$p") || { n=$(wc -c <"$p" 2>/dev/null); fail full "$e; $(df -Pk "$d" 2>/dev/null | awk 'NR==2 {print $4}') KiB are free"; }
s=$(sum "$p")
[ -n "$s" ] || fail nosum "neither sha256sum nor shasum nor openssl is there to check it with"
[ "$s" = "$want" ] || fail torn "$(wc -c <"$p") bytes came"
chmod 700 "$p" && mv -f "$p" "$d/cdui" || fail place "it can't be put into $d"
`

const check = `
o=$("$exe" --version 2>&1 </dev/null) && tell ok "$o" || tell bad "$o"
`

// Install copies the first of the binaries that starts there, unless it is there
// already. progress is told how much was sent.
func Install(ctx context.Context, r Remote, f Facts, version string, binaries []Binary, progress func(sent, all int64)) (Installed, error) {
	var out Installed
	for _, b := range f.Fits(binaries) {
		sum, size, err := hashFile(b.Path)
		if err != nil {
			return out, err
		}
		copied, err := put(ctx, r, f.Base, version, b.Path, sum, size, progress)
		out.Copied += copied
		if err != nil {
			return out, err
		}
		out.Path = f.Base + "/" + version + "/cdui"
		a, err := sh(ctx, r, check, map[string]string{"exe": out.Path}, nil)
		if err != nil {
			return out, err
		}
		if a.get("ok") != "" {
			return out, nil
		}
		out.Passed = append(out.Passed, b.Path+": "+a.get("bad"))
	}
	return out, unfit(f, version, binaries, out.Passed)
}

// UnfitError says that none of the binaries starts on a machine.
type UnfitError struct{ text string }

func (e *UnfitError) Error() string { return e.text }

// unfit says which file to give where none fits.
func unfit(f Facts, version string, binaries []Binary, passed []string) error {
	how := fmt.Sprintf("GOOS=%s GOARCH=%s make release BIN=FILE makes a static one; give it with --binary FILE, or put it into the data folder as binaries/%s", f.OS, f.Arch, FileName(f.OS, f.Arch, version))
	system := f.OS + "/" + f.Arch
	if f.Libc != "" {
		system += " with " + f.Libc
	}
	for _, b := range binaries {
		if b.Asked && (b.OS != f.OS || b.Arch != f.Arch) {
			return fmt.Errorf("%s is made for %s/%s, and the machine is %s", b.Path, b.OS, b.Arch, system)
		}
	}
	if len(passed) > 0 {
		return &UnfitError{fmt.Sprintf("no cdui at hand starts there (%s): %s. %s", system, strings.Join(passed, "; "), how)}
	}
	return &UnfitError{fmt.Sprintf("no cdui at hand is made for %s. %s", system, how)}
}

// FileName is what a binary for another kind of machine is called in the data
// folder.
func FileName(goos, arch, version string) string {
	return "cdui-" + goos + "-" + arch + "-" + version
}

func put(ctx context.Context, r Remote, base, version, path, sum string, size int64, progress func(sent, all int64)) (int64, error) {
	vars := map[string]string{"base": base, "version": version, "want": sum}
	a, err := sh(ctx, r, present, vars, nil)
	if err != nil {
		return 0, err
	}
	if a.get("sum") == sum {
		return 0, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	src := &told{r: f, all: size, progress: progress}
	_, err = sh(ctx, r, upload, vars, src)
	switch code, text := asFailure(err); code {
	case "full":
		return src.sent, fmt.Errorf("cdui can't be written to %s there: %s. Free %d MiB", base, text, size>>20+1)
	case "torn":
		return src.sent, fmt.Errorf("the copy of cdui did not arrive whole: %s of %d; try again", text, size)
	case "nosum", "place":
		return src.sent, fmt.Errorf("cdui can't be copied there: %s", text)
	}
	return src.sent, err
}

func hashFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// told tells how far a copy is.
type told struct {
	r         io.Reader
	sent, all int64
	progress  func(sent, all int64)
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.sent += int64(n)
	if t.progress != nil && n > 0 {
		t.progress(t.sent, t.all)
	}
	return n, err
}

// Size is how large the largest of the binaries is.
func Size(binaries []Binary) int64 {
	var most int64
	for _, b := range binaries {
		if info, err := os.Stat(b.Path); err == nil {
			most = max(most, info.Size())
		}
	}
	return most
}
