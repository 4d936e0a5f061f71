#!/bin/sh
# A whole model of Qwen2.5-0.5B's shape as one library, as markdown: bench_model.sh OUT [THREADS ...], by default all
# threads and 1. Builds from nothing and again, starts with and without a pack file, prompts and single tokens, and
# a prompt of 512 beside the product that takes most of its time. Weights are seeded: $MODEL names another folder.
# needs: 3 GB of memory, and as much on disk under OUT; both are given back.
set -eu

out=$1
shift
[ $# -gt 0 ] || set -- all 1
work=$(mktemp -d "$out/bench-model.XXXXXX")
trap 'rm -rf "$work"' EXIT
export NANOCOMPILE_CACHE="$work/cache"
config=tests/data/qwen2.5/config.json

if [ -z "${MODEL:-}" ]; then
    MODEL=$work/model
    "$out/nanocompile" synth -s 1 tests/data/qwen2.5 "$MODEL" >/dev/null
fi

row() { # what, and a command: a row of the seconds that it took; its output is shown where it fails
    what=$1
    shift
    start=$(date +%s.%N)
    if ! "$@" >"$work/said" 2>&1; then
        cat "$work/said" >&2
        exit 1
    fi
    end=$(date +%s.%N)
    awk "BEGIN { printf \"| $what | %.2f |\\n\", $end - $start }"
}

built() { "$out/nanocompile" build --model "$MODEL" -o "$work/lib" --no-db; }

# A whole process, threads and weights included, until what four tokens foretell is there.
first_token() {
    "$out/nanocompile" logits --lib "$work/lib/model.so" --ids 1,2,3,4 -o "$work/logits.npy" "$@"
}

printf '| what | seconds |\n|---|---|\n'
row 'build, nothing cached' built
row 'build, all cached' built
row 'start to first token' first_token
row 'the same, and the pack file is written' first_token --pack-file
row 'start to first token, the pack file mapped' first_token --pack-file
row 'start to first token, the pack file copied' first_token --pack-file --pack-copy

flops=$("$out/nanocompile" dump traffic "$config" --cache --seq 512 --set capacity=512 |
    awk '/^Float operations:/ { print $3 }')
for threads in "$@"; do
    case $threads in all) t= ;; *) t="--threads $threads" ;; esac
    printf '\n%s threads\n\n' "$threads"
    # shellcheck disable=SC2086 # $t is a list of words
    "$out/nanocompile" bench --lib "$work/lib/model.so" $t --format md >"$work/table"
    cat "$work/table"
    # shellcheck disable=SC2086
    "$out/nanocompile" bench --shape m=512,n=4864,k=896 --bf16 --regime cold $t --format csv >"$work/product"
    awk -F'|' -v flops="$flops" -v product="$(awk -F, '$1 == "default" { print $5 }' "$work/product")" '
        $2 ~ /prefill 512/ {
            rate = flops / 512 * $4 / 1e9
            printf "\nA prompt of 512: %.1f GFLOP/s, %.3f of the product 512 x 4864 x 896 alone (%.1f).\n", rate,
                rate / product, product
        }' "$work/table"
done
