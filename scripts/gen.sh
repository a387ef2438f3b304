#!/usr/bin/env bash
# Writes what is generated and checked in: gen.sh BINARY. Each is made anew in
# a folder beside and then swapped in, so that a file whose source is gone goes
# too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

binary=$1
GO=${GO:-go}
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

mkdir "$fresh/completions" "$fresh/man"
for shell in bash zsh fish powershell; do
    "$binary" completion "$shell" >"$fresh/completions/cdui.$shell"
done
"$binary" man "$fresh/man"

for folder in completions man; do
    rm -rf "$folder"
    mv "$fresh/$folder" "$folder"
done

# docs/states.md is the transition matrix of internal/run, printed.
$GO test -count 1 -run TestTransitionMatrixIsTheDocument ./internal/run -update
