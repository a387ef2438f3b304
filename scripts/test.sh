#!/usr/bin/env bash
# Runs the named test suites, all of them even when one fails, and closes with
# a line 'N passed, N failed, N skipped'.
#
#   test.sh [check] [go] [py] [e2e]
#
# check is gofmt, go vet and whether generated files are up to date; go is every
# package but internal/e2e, under the race detector; py is pytest over
# runtime/tests; e2e is internal/e2e. TESTFLAGS is handed to go test, e.g.
# TESTFLAGS='-run Cancel'.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GO=${GO:-go}
TESTFLAGS=${TESTFLAGS:-}
passed=0 failed=0 skipped=0

step() { printf '\n== %s\n' "$*"; }

# tally STATUS PASSED FAILED SKIPPED adds up. A step that failed without a
# failing test (it did not compile, say) counts as one failure.
tally() {
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    if [ "$1" != 0 ] && [ "$3" = 0 ]; then failed=$((failed + 1)); fi
}

check() {
    local unformatted status=0
    step "gofmt"
    unformatted=$(gofmt -s -l cmd internal runtime examples 2>&1)
    if [ -n "$unformatted" ]; then
        printf 'not formatted (make fmt mends it):\n%s\n' "$unformatted"
        status=1
    fi
    tally $status 0 0 0
    step "go vet"
    $GO vet ./...
    tally $? 0 0 0
    step "generated files"
    PYTHON=$CDUI_TEST_PYTHON scripts/gen.sh --check
    tally $? 0 0 0
}

go_test() {
    local counts status
    counts=$(mktemp)
    # shellcheck disable=SC2086
    $GO test -v -race -shuffle on "$@" $TESTFLAGS | awk -v counts="$counts" -f scripts/gotest.awk
    status=$?
    # shellcheck disable=SC2046
    tally $status $(cat "$counts")
    rm -f "$counts"
}

pytest_run() {
    local out status
    step "pytest runtime/tests"
    out=$(mktemp)
    "$CDUI_TEST_PYTHON" -m pytest -q -rsfE -p no:cacheprovider runtime/tests 2>&1 | tee "$out"
    status=$?
    # shellcheck disable=SC2046
    tally $status $(tail -1 "$out" | awk '{
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^passed/) p = $(i - 1)
            if ($i ~ /^failed/ || $i ~ /^error/) f += $(i - 1)
            if ($i ~ /^skipped/) s = $(i - 1)
        }
        print p + 0, f + 0, s + 0 }')
    rm -f "$out"
}

CDUI_TEST_PYTHON=${CDUI_TEST_PYTHON:-$(scripts/deps.sh python test)} || exit 1
export CDUI_TEST_PYTHON
export PYTHONDONTWRITEBYTECODE=1

for suite in "$@"; do
    case $suite in
    check) check ;;
    go)
        step "go test -race ./... without e2e"
        # shellcheck disable=SC2046
        go_test -timeout 10m $($GO list ./... | grep -v '/internal/e2e')
        ;;
    py) if [ -d runtime/tests ]; then pytest_run; fi ;;
    e2e)
        if [ -d internal/e2e ]; then
            step "go test -race ./internal/e2e/..."
            # Tests with machines of their own mostly wait: for lines to be
            # missed, for drivers to be asked.
            go_test -timeout 25m -p 1 -parallel 4 ./internal/e2e/...
        fi
        ;;
    *)
        echo "usage: scripts/test.sh [check] [go] [py] [e2e]" >&2
        exit 2
        ;;
    esac
done

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
