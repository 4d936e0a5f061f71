#!/bin/sh
# Runs the Criterion binary and closes with a summary: test.sh OUT [PATTERN]. The status is honest: a
# failed, crashed or hanging test fails, and so does a run without any test. What Criterion leaves out
# is added here: it does not name skipped tests, and a test whose process leaks counts as passed, so
# the sanitizers' reports are read. Wide campaigns (NC_FULL) may take longer before they are stopped.
# A run that stands still for over a minute (a suspended machine) hangs when it goes on, and is stopped at the
# same limit: Criterion's messages are sent once more after 60 s, and the second of two ends it.
set -u

out=$1 pattern=${2:-}
flavor=${out##*/}${NC_FULL:+, full}
seconds=${TEST_SECONDS:-$([ "${NC_FULL:-}" ] && echo 14400 || echo 1800)}
report=$out/tests.xml
log=$(cd "$out" && pwd)/sanitizer

: >"$report"
rm -f "$log".*
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}log_path=$log"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}log_path=$log"
case $flavor in # the thread sanitizer wants fixed addresses: it cannot place its own among 32 random bits
tsan*) fixed=$(setarch -R true 2>/dev/null && echo setarch -R) ;;
*) fixed= ;;
esac
# shellcheck disable=SC2086 # $fixed is a list of words
timeout -k 5 "$seconds" $fixed "$out/tests" --jobs 2 --xml="$report" ${pattern:+--filter "$pattern"} </dev/null
status=$?
own=
for one in "$log".*; do # Criterion leaks 48 bytes of its own per suite, where their timeouts differ
    if grep -qs libcriterion "$one" && ! grep -q -E '\.c:[0-9]|runtime error' "$one" &&
        awk '/ leak of / && $4 != 48 * $7 { other = 1 } END { exit other }' "$one"; then
        rm "$one"
        own=1
    fi
done
cat "$log".* 2>/dev/null && found=1 || found=

passed=$(grep -c 'status="PASSED"' "$report")
broken=$(grep 'status="' "$report" | grep -v -c -E 'PASSED|SKIPPED')
if [ "$own" ] && [ $status -eq 1 ] && [ "$broken" -eq 0 ]; then # the leak checker's status, for that alone
    status=0
fi
skipped=$(awk -F '"' '/<testsuite / { suite = $2 } /status="SKIPPED"/ { printf " %s/%s", suite, $2 }' "$report")
if [ -n "$skipped" ] && [ -z "$pattern" ]; then # a pattern skips all others
    echo "make test: skipped:$skipped"
fi
if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    verdict="FAILED, stopped after $seconds seconds"
elif [ $status -ne 0 ]; then
    verdict="FAILED, $passed passed, $broken did not"
elif [ "$found" ]; then
    verdict="FAILED, $passed passed, but a sanitizer reported the above"
elif [ "$passed" -eq 0 ]; then
    verdict="FAILED, no test ran"
else
    verdict="ok, $passed passed"
fi
echo "make test: $verdict ($flavor)."
case $verdict in
ok*) exit 0 ;;
*) exit 1 ;;
esac
