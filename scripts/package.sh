#!/usr/bin/env bash
# Makes packages as a release does, and tries them.
#
#   package.sh files                    what .goreleaser.yaml needs beside the sources
#   package.sh check GORELEASER [all]   a snapshot of the last commit for this machine, or
#                                       for all, in dist/; the deb is installed, used and
#                                       removed in a copy of this system
#
# The copy is an overlay in namespaces of its own: this system stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO=${GO:-go}
say() { printf '\n== %s\n' "$*"; }
die() { printf 'package.sh: %s\n' "$*" >&2; exit 1; }

# files writes man pages and documents as packages hold them, each time with equal
# bytes and times.
files() {
    rm -rf bin/package
    mkdir -p bin/package/man bin/package/doc
    git archive HEAD README.md CHANGELOG.md docs examples | tar -x -C bin/package/doc
    for page in man/*.1; do gzip -9n <"$page" >"bin/package/man/${page##*/}.gz"; done
    chmod 0644 bin/package/man/*
}

# tool installs the pinned goreleaser, as lint.sh does with its linter.
tool() {
    goreleaser=$PWD/.tools/bin/goreleaser
    if ! "$goreleaser" --version 2>/dev/null | grep -qE "GitVersion: +$1\$"; then
        echo "installing goreleaser $1 into .tools (about 4 minutes)" >&2
        GOBIN=$PWD/.tools/bin "$GO" install "github.com/goreleaser/goreleaser/v2@$1"
    fi
}

# snapshot FROM FOLDER makes archives and packages in FOLDER/dist, from a clone as
# a release is made from one.
snapshot() {
    git clone --quiet --no-hardlinks "$1" "$2"
    (cd "$2" && "$goreleaser" release --snapshot --clean) >"$2.log" 2>&1 || { cat "$2.log" >&2; die "goreleaser failed"; }
}

check() {
    local arch all=${2:-} deb rpm needs
    arch=$($GO env GOARCH)
    [ "$(id -u)" = 0 ] || die "only root can make a copy of this system to install into"
    tool "$1"
    say "goreleaser check"
    "$goreleaser" check
    if [ "$all" = all ]; then
        say "a snapshot for linux and darwin, amd64 and arm64"
    else
        export PACKAGE_ONLY=$arch
        say "a snapshot for linux/$arch; 'make package-check PACKAGE=all' makes the others too"
    fi
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    snapshot . "$work/one"
    rm -rf dist && mv "$work/one/dist" dist
    (cd dist && sha256sum --check --quiet SHA256SUMS && sed 's/^[0-9a-f]*  /    /' SHA256SUMS)

    say "made again in another folder, it has the same bytes"
    snapshot "$work/one" "$work/another" # of the same commit, whatever comes meanwhile
    diff dist/SHA256SUMS "$work/another/dist/SHA256SUMS"

    deb=$(echo dist/cdui_*_linux_"$arch".deb) rpm=$(echo dist/cdui_*_linux_"$arch".rpm)
    say "deb and rpm hold the same files, the rpm runs nothing"
    diff <(dpkg-deb --fsys-tarfile "$deb" | tar -t | sed 's/^\.//; /\/$/d; s,zsh/vendor-completions,zsh/site-functions,' | sort) <(rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$rpm" | sed -n 's/^-[^ ]* //p' | sort)
    [ -z "$(rpm -qp --scripts "$rpm")" ] || die "the rpm has scripts"
    [ "$(dpkg-deb --ctrl-tarfile "$deb" | tar -t | grep -cE 'inst$|rm$')" = 0 ] || die "the deb has scripts"

    needs=$(objdump -T dist/"$arch"_linux_*/cdui | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
    [ "$(printf '%s\n2.34\n' "${needs#GLIBC_}" | sort -V | tail -1)" = 2.34 ] || die "the program needs $needs, and the packages ask for 2.34"

    say "in a copy of this system"
    export PYTHON
    PYTHON=$(scripts/deps.sh python demo)
    VERSION=$(basename "$deb" "_linux_$arch.deb")
    VERSION=${VERSION#cdui_} DEB=$PWD/$deb \
        INSTALL=$(grep -m 1 '^sudo apt install' README.md) \
        unshare --mount --pid --fork --kill-child bash scripts/package.sh copy

    say "README.md's way to a training on a second machine, with the packaged program"
    dpkg-deb -x "$deb" "$work/deb"
    CDUI_BINARY=$work/deb/usr/bin/cdui CDUI_TEST_PYTHON=$PYTHON $GO test -count 1 -v -run TestREADME ./internal/e2e | tee "$work/readme.log"
    ! grep -q -e '--- SKIP' "$work/readme.log" || die "it was skipped"

    say "packages are fine"
}

# copy makes the copy of this system, and installs into it.
copy() {
    mount -t tmpfs -o mode=755 none /mnt
    mkdir /mnt/upper /mnt/work /mnt/root
    mount -t overlay none -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
    mount -t proc none /mnt/root/proc
    mount --rbind /dev /mnt/root/dev
    mount --rbind /sys /mnt/root/sys
    mount -t tmpfs -o mode=755 none /mnt/root/run
    mount -t tmpfs -o mode=1777 none /mnt/root/tmp
    mkdir -p /mnt/root/tmp/new
    cp "$DEB" scripts/package-inside.sh examples/digits/train.py examples/digits/digits.csv.gz /mnt/root/tmp/new/
    exec chroot /mnt/root bash /tmp/new/package-inside.sh
}

case ${1:-} in
files) files ;;
check) check "${@:2}" ;;
copy) copy ;;
*) die "usage: package.sh files | check GORELEASER [all]" ;;
esac
