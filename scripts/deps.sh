#!/usr/bin/env bash
# Installs what the project needs to build, to run its demo and to test.
#
#   deps.sh build    checks Go
#   deps.sh demo     Go, and a Python with torch and numpy
#   deps.sh test     all that the tests start
#   deps.sh package  what makes packages and looks into them, and what demo needs
#   deps.sh python demo|test
#                    prints the interpreter that has what demo or test needs
#
# On Debian and Ubuntu it installs packages, elsewhere it makes .venv with uv
# or pip. Where all is there it says nothing and takes a fraction of a second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

check_go() {
    local want got
    want=$(awk '$1 == "go" { print $2; exit }' go.mod)
    have go || die "Go is not installed; cdui needs Go $want or newer: https://go.dev/dl/ (unpack to /usr/local, add /usr/local/go/bin to PATH)"
    # With an older Go and no leave to fetch a newer one this fails.
    got=$(go env GOVERSION 2>/dev/null | sed 's/^go//; s/[ -].*//') || got=
    [ -n "$got" ] || got=$(GOTOOLCHAIN=local go version | awk '{ sub("go", "", $3); print $3 }')
    if [ "$(printf '%s\n%s\n' "$want" "$got" | sort -V | head -1)" != "$want" ]; then
        die "Go $got is too old; cdui needs Go $want or newer: https://go.dev/dl/"
    fi
}

modules() {
    case $1 in
    demo | package) echo torch numpy ;;
    test) echo torch numpy sklearn matplotlib PIL tqdm pytest ;;
    *) die "usage: scripts/deps.sh build | demo | test | package | python demo|test" ;;
    esac
}

# find_python MODE prints the first interpreter that has the mode's modules. An
# active environment comes first, then the project's own, then the system's. The
# modules are looked up, not imported: torch takes more than a second.
find_python() {
    local python probe='import sys, importlib.util as u; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))'
    for python in "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}" "${CONDA_PREFIX:+$CONDA_PREFIX/bin/python}" \
        "$PWD/.venv/bin/python" /usr/bin/python3 "$(command -v python3 || true)"; do
        # shellcheck disable=SC2046
        if [ -x "$python" ] && "$python" -c "$probe" $(modules "$1") </dev/null >/dev/null 2>&1; then
            printf '%s\n' "$python"
            return
        fi
    done
    return 1
}

# missing_packages MODE prints the Debian packages that the mode lacks.
missing_packages() {
    local module
    if ! find_python "$1" >/dev/null; then
        printf 'python3\n'
        for module in $(modules "$1"); do printf 'python3-%s\n' "$module"; done | tr '[:upper:]' '[:lower:]'
    fi
    if [ "$1" = package ]; then
        have gcc && [ -e /usr/include/stdlib.h ] || printf 'gcc\nlibc6-dev\n'
        have git || printf 'git\n'
        have man || printf 'man-db\n'
        [ -x /usr/sbin/sshd ] || printf 'openssh-server\n'
        have ssh || printf 'openssh-client\n'
        have ip || printf 'iproute2\n'
        have rpm || printf 'rpm\n'
        have systemd-analyze || printf 'systemd\n'
        # The other kind of machine needs a compiler of its own.
        [ "${PACKAGE:-}" != all ] || case $(go env GOARCH) in
        amd64) have aarch64-linux-gnu-gcc || printf 'gcc-aarch64-linux-gnu\nlibc6-dev-arm64-cross\n' ;;
        arm64) have x86_64-linux-gnu-gcc || printf 'gcc-x86-64-linux-gnu\nlibc6-dev-amd64-cross\n' ;;
        esac
    fi
    [ "$1" = test ] || return 0
    have "${CC:-gcc}" && [ -e /usr/include/stdlib.h ] || printf 'gcc\nlibc6-dev\n' # the race detector needs cgo
    have git || printf 'git\n'
    have ps || printf 'procps\n'
    have setpriv || printf 'util-linux\n'
    have tmux || printf 'tmux\n' # a terminal for cdui tui
    # The end-to-end tests log in over a real sshd, as accounts with these shells.
    [ "$(id -u)" != 0 ] || [ -x /usr/sbin/sshd ] || printf 'openssh-server\n'
    have ssh || printf 'openssh-client\n'
    have zsh || printf 'zsh\n'
    have fish || printf 'fish\n'
    have tcsh || printf 'tcsh\n'
    have curl || printf 'curl\n'
    have openssl || printf 'openssl\n'
    [ "$(id -u)" != 0 ] || have ip || printf 'iproute2\n' # network namespaces, which only root can make
    [ -e /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || printf 'dataset-fashion-mnist\n'
}

# apt runs apt-get and shows what it said only when it failed.
apt() {
    local log status=0
    log=$(mktemp)
    DEBIAN_FRONTEND=noninteractive $sudo apt-get -o DPkg::Lock::Timeout=120 "$@" </dev/null >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || tail -15 "$log" >&2
    rm -f "$log"
    return "$status"
}

install_packages() {
    local missing
    missing=$(missing_packages "$1" | tr '\n' ' ')
    [ -n "$missing" ] || return 0

    sudo=
    if [ "$(id -u)" != 0 ]; then
        if have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
            sudo='sudo --preserve-env=DEBIAN_FRONTEND'
        else
            die "these packages are missing and only root can install them: apt-get update && apt-get install --no-install-recommends $missing"
        fi
    fi
    # A third party's list that can't be fetched is no reason to stop.
    if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
        apt update -q || say "apt-get update had errors; going on"
    fi
    # The one package that not every release has; its tests skip without it.
    if [[ $missing == *dataset-fashion-mnist* ]] && [ -z "$(apt-cache show dataset-fashion-mnist 2>/dev/null)" ]; then
        say "this release has no dataset-fashion-mnist: the FashionMNIST example will not be tested"
        missing=${missing//dataset-fashion-mnist /}
        [ -n "$missing" ] || return 0
    fi
    say "installing ${missing% } (a minute or two)"
    # shellcheck disable=SC2086
    if ! apt install -qy --no-install-recommends $missing; then
        say "trying again with fresh package lists"
        apt update -q || say "apt-get update had errors; going on"
        apt install -qy --no-install-recommends $missing ||
            die "could not install: $missing. Run 'apt-get install --no-install-recommends $missing' to see why"
    fi
}

install_venv() {
    local names
    find_python "$1" >/dev/null && return 0
    names=$(modules "$1" | sed 's/sklearn/scikit-learn/; s/PIL/pillow/')
    # shellcheck disable=SC2086
    if have uv; then
        say "no apt here: making .venv with uv and installing $names"
        [ -x .venv/bin/python ] || uv venv .venv >&2
        uv pip install --python .venv/bin/python $names >&2
    elif have python3; then
        say "no apt here: making .venv with pip and installing $names"
        [ -x .venv/bin/python ] || python3 -m venv .venv >&2
        .venv/bin/python -m pip install --quiet $names >&2
    else
        die "Python 3.9 or newer is needed: install python3 or uv (https://docs.astral.sh/uv)"
    fi
}

case ${1:-} in
build)
    check_go
    ;;
demo | test | package)
    check_go
    if have apt-get; then install_packages "$1"; else install_venv "$1"; fi
    find_python "$1" >/dev/null || die "no Python with $(modules "$1") was found after installing; run 'scripts/deps.sh python $1' to look"
    ;;
python)
    find_python "${2:-test}" || die "no Python has $(modules "${2:-test}"): run 'scripts/deps.sh ${2:-test}'"
    ;;
*)
    modules usage
    ;;
esac
