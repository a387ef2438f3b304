#!/usr/bin/env bash
# Writes what is generated and checked in.
#
#   gen.sh            writes it
#   gen.sh --check    says what differs, and fails when something does
#
# Each folder is made anew, so that a file whose source is gone goes too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO=${GO:-go}
PYTHON=${PYTHON:-python3}
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

# A build without a version of its own: pages must not change with each commit.
$GO build -buildvcs=false -o "$fresh/cdui" ./cmd/cdui
mkdir "$fresh/completions" "$fresh/man"
for shell in bash zsh fish; do
    "$fresh/cdui" completion "$shell" >"$fresh/completions/cdui.$shell"
done
"$fresh/cdui" man "$fresh/man" >/dev/null
# The node types that the Python package has; any Python lists them, without torch.
"$PYTHON" -I -B runtime/cdui/registry.py >"$fresh/builtin.json"

if [ "${1:-}" = --check ]; then
    # docs/states.md is compared by the test of internal/run.
    $GO test -count 1 -run TestConformanceIsTheDocument ./internal/archtest
    for folder in completions man; do
        if ! diff -ru "$folder" "$fresh/$folder"; then
            echo "$folder/ is out of date: run 'make gen' and commit it" >&2
            exit 1
        fi
    done
    if ! diff -u internal/catalog/builtin.json "$fresh/builtin.json"; then
        echo "internal/catalog/builtin.json is out of date: run 'make gen' and commit it" >&2
        exit 1
    fi
    exit 0
fi

for folder in completions man; do
    rm -rf "$folder"
    mv "$fresh/$folder" "$folder"
done
cat "$fresh/builtin.json" >internal/catalog/builtin.json
# The transition matrix of internal/run, printed.
$GO test -count 1 -run TestTransitionMatrixIsTheDocument ./internal/run -update
# Which tests bear which ids of the contract.
$GO test -count 1 -run TestConformanceIsTheDocument ./internal/archtest -update
# What commands print with --json, from its Go types and their comments.
$GO test -count 1 -run 'TestJSONIsTheDocument|TestJSONIsStable' ./internal/cli -update
