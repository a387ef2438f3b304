#!/usr/bin/env bash
# Runs golangci-lint in the version that the Makefile pins: lint.sh VERSION.
# It installs it into .tools when the one in PATH is another one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$1
pinned() { "$1" version 2>/dev/null | grep -qF "version ${version#v} "; }

linter=$(command -v golangci-lint || true)
if [ -z "$linter" ] || ! pinned "$linter"; then
    linter=$PWD/.tools/bin/golangci-lint
    if ! [ -x "$linter" ] || ! pinned "$linter"; then
        echo "installing golangci-lint $version into .tools (about 2 minutes)" >&2
        GOBIN=$PWD/.tools/bin go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
    fi
fi
exec "$linter" run "${@:2}"
