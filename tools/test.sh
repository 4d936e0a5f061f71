#!/bin/sh
# Runs the Criterion binary and closes with a summary: test.sh OUT [PATTERN]. The status is honest: a
# failed, crashed or hanging test fails, and so does a run without any test. Criterion does not count
# skipped tests, so they are named here (a pattern skips all others; those are not). Wide campaigns (NC_FULL) get more time before they are stopped.
set -u

out=$1 pattern=${2:-}
report=$out/tests.xml
flavor=${out##*/}${NC_FULL:+, full}
limit=${TEST_SECONDS:-$([ "${NC_FULL:-}" ] && echo 14400 || echo 1800)}

rm -f "$report"
timeout -k 5 "$limit" "$out/tests" --jobs 2 --xml="$report" ${pattern:+--filter "$pattern"} </dev/null
status=$?
if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    echo "make test: stopped, the tests did not end within $limit seconds ($flavor)."
    exit 1
fi

passed=$(grep -c 'status="PASSED"' "$report")
failed=$(grep -c -E 'status="(FAILED|ERRORED|TIMED OUT|TIMEOUT)"' "$report")
skipped=$(awk -F '"' '/<testsuite / { suite = $2 } /status="SKIPPED"/ { printf " %s/%s", suite, $2 }' "$report")
if [ -n "$skipped" ] && [ -z "$pattern" ]; then
    echo "make test: skipped:$skipped"
fi
if [ $status -ne 0 ]; then
    echo "make test: FAILED, $passed passed, $failed did not ($flavor)."
    exit 1
fi
if [ "$passed" -eq 0 ]; then
    echo "make test: no test ran ($flavor)."
    exit 1
fi
echo "make test: ok, $passed passed ($flavor)."
