#!/bin/sh
# Runs libFuzzer programs one after another: soak.sh SECONDS OUT PROGRAM..., sharing SECONDS among them.
# Seeds come from tests/regress (a sub-folder named like the target, when there is one); what is found
# stays in OUT/corpus, and an input that breaks something is kept as OUT/corpus/TARGET-crash-*.
set -eu

seconds=$1 out=$2
shift 2
if [ $# -eq 0 ]; then
    echo "soak: there are no targets in tests/fuzz yet" >&2
    exit 1
fi
each=$((seconds / $#))
if [ "$each" -lt 1 ]; then
    echo "soak: $seconds seconds are too few for $# targets" >&2
    exit 1
fi
for program in "$@"; do
    name=${program##*/}
    corpus=$out/corpus/$name
    mkdir -p "$corpus"
    seeds=tests/regress
    if [ -d "$seeds/$name" ]; then
        seeds=$seeds/$name
    fi
    if [ ! -d "$seeds" ]; then
        seeds=
    fi
    echo "== $name, $each seconds"
    "$program" -max_total_time="$each" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$corpus-" "$corpus" ${seeds:+"$seeds"} </dev/null
done
echo "soak: $# targets, $each seconds each, nothing broke"
