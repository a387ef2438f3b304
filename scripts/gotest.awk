# Reads `go test -v` over several packages, whose output go test keeps apart.
# Prints one line a package, its skipped tests with their reasons, and all that
# a failed package said but for the noise. Writes 'passed failed skipped' into the file named by -v counts=,
# counting test functions, not subtests.

function flush_failure(   i) {
    for (i = 1; i <= n; i++) print lines[i]
}

/^=== (RUN|PAUSE|CONT|NAME)/ { next }
/^--- PASS: /                { passed++; next }
/^[ \t]+--- PASS: /          { next }
/^--- FAIL: /                { failed++ }
/^--- SKIP: /                { skipped++ }
/^[ \t]*--- SKIP: /          { skips[++k] = $0 " " (n ? lines[n] : "") }

/^ok +\t/ || /^\? +\t/ || /^\t[^ \t]+\t+coverage:/ {
    print
    for (i = 1; i <= k; i++) print "        " skips[i]
    n = k = 0
    next
}

/^FAIL\t/ {
    flush_failure()
    print
    n = k = 0
    bad = 1
    next
}

/^FAIL$/ { bad = 1; next }
/^PASS$/ { next }

{ lines[++n] = $0 }

# What is left belongs to no package: a go command that did not start.
END {
    flush_failure()
    print passed + 0, failed + 0, skipped + 0 > counts
    exit bad
}
