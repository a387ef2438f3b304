#!/usr/bin/env bash
# Runs every Go benchmark of the project, and that of the Python engine. Each
# prints its baseline, measured in the same run, or the ratio to it. The
# numbers of one noisy run mean little; the ratios do.
#
# BENCH limits it to benchmarks that match, BENCHTIME sets how long each runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO=${GO:-go}
CDUI_TEST_PYTHON=${CDUI_TEST_PYTHON:-$(scripts/deps.sh python test)}
# The program as it is shipped, not the test binary, where a package can use it.
# What gcc's linker has just written lies in the page cache in large pieces, which
# all count as memory of whoever touches them; a release has no such file.
export CDUI_TEST_PYTHON CDUI_BENCH_EXE=$PWD/.test/cdui CDUI_BINARY=$PWD/.test/cdui

printf 'cores %s, %s\n' "$(getconf _NPROCESSORS_ONLN)" "$($GO version)"
# One package at a time: they would measure each other.
$GO test -p 1 -run '^$' -bench "${BENCH:-.}" -benchtime "${BENCHTIME:-1s}" -benchmem -timeout 60m ./... |
    grep -v -E '^(PASS|\?.*no test files)'

# A node of a graph, in the engine and in a bare loop.
if [[ engine =~ ${BENCH:-.} ]]; then
    "$CDUI_TEST_PYTHON" runtime/tests/bench_engine.py
fi
