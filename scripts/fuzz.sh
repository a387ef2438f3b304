#!/usr/bin/env bash
# Runs each fuzz target of the project for a while: fuzz.sh [DURATION].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO=${GO:-go}
duration=${1:-10s}
status=0
count=0

# go test fuzzes one target of one package at a time.
while read -r package; do
    for target in $($GO test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
        printf '%s %s\n' "$package" "$target"
        $GO test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$package" || status=1
        count=$((count + 1))
    done
done < <($GO list ./...)

printf '%d fuzz targets ran for %s each\n' "$count" "$duration"
exit "$status"
