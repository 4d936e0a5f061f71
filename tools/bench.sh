#!/bin/sh
# The whole table of generated kernels as markdown: bench.sh OUT [THREADS ...], by default all threads and 1.
# A row is one `nanocompile bench`: default schedule, the fastest of a small sweep, weights in place, our best
# hand-written kernel, OpenBLAS and oneDNN, alternated in one process. Percentages are of the roofline by
# the probes beside (FMA rate; where cold, a ring's read bandwidth too), with what they are at least at 95% over blocks.
# $SWEEP: points tried a row (40). $ROWS: an extended regular expression that a row must match.
# A benchmark that fails has its status in its row, and the script ends with 1.
set -eu

out=$1
shift
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=0
many=${SWEEP:-40} few=$((${SWEEP:-40} / 8 + 1)) # few: where laying out a candidate takes its time
sweep=$many
config=tests/data/qwen2.5/config.json

row() { # threads, what, options of bench
    threads=$1 what=$2
    shift 2
    case $threads in all) t= ;; *) t="--threads $threads" ;; esac
    if ! printf '%s %s threads\n' "$what" "$threads" | grep -qE "${ROWS:-.}"; then
        return
    fi
    status=0
    # shellcheck disable=SC2086 # $t is a list of words
    "$out/nanocompile" bench "$@" $t --sweep "$sweep" --blocks 8 --format csv >"$said" || status=$?
    if [ $status -ne 0 ]; then
        failed=1
        printf '| %s | failed with status %s ||||||||||\n' "$what" $status
        return
    fi
    tr -d '"' <"$said" | awk -F, -v what="$what" '
        function cell(name) { return name in rate ? sprintf("%s%% (%s)", part[name], least[name]) : "" }
        NR > 1 { time[$1] = $2; rate[$1] = $5; part[$1] = $7; least[$1] = $8; times[$1] = $9; times_least[$1] = $10 }
        $1 ~ /^hand/ && (!hand || $2 + 0 < time[hand] + 0) { hand = $1 }
        END {
            printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", what, time["default"],
                rate["default"], cell("default"), cell("swept"), cell("in place"), cell(hand),
                cell("openblas"), cell("onednn"),
                "openblas" in rate ? sprintf("%s (%s)", times["default"], times_least["default"]) : "",
                hand ? sprintf("%.3f", time[hand] / time["default"]) : ""
        }'
}

products() { # threads
    for nk in n=896,k=896 n=128,k=896 n=4864,k=896 n=896,k=4864; do
        row "$1" "cold m=1 $nk" --shape "m=1,$nk" --regime cold
        row "$1" "cold m=1 $nk bf16" --shape "m=1,$nk" --regime cold --bf16
        row "$1" "cold m=64 $nk" --shape "m=64,$nk" --regime cold
        for m in 11 64 128 512; do
            row "$1" "hot m=$m $nk" --shape "m=$m,$nk"
        done
    done
    sweep=$few
    row "$1" "cold m=1 lm_head" --shape m=1,n=151936,k=896 --regime cold
    for m in 11 64 128; do
        row "$1" "lm_head m=$m" --shape "m=$m,n=151936,k=896"
    done
    sweep=$many
    row "$1" "hot m=64 n=4864,k=896, from tests/bench/product.ncg" tests/bench/product.ncg --kernel 0 --set rows=64
}

others() { # threads
    for seq in 1 64; do
        at="$config --cache --seq $seq --past 512 --set capacity=$((512 + seq))"
        # shellcheck disable=SC2086 # $at is a list of words
        {
            row "$1" "scores, $seq of 512" $at --kernel 8
            row "$1" "cold scores, $seq of 512" $at --kernel 8 --regime cold
            row "$1" "context, $seq of 512" $at --kernel 11
            row "$1" "cold context, $seq of 512" $at --kernel 11 --regime cold
            row "$1" "causal softmax, $seq of 512" $at --kernel 9
        }
    done
    row "$1" "softmax 64 x 576" tests/bench/softmax.ncg --kernel 0 --set seq=64
    row "$1" "rms_norm 64 x 896" tests/bench/rms_norm.ncg --kernel 0 --set seq=64
    row "$1" "SwiGLU 8 x 4864" tests/bench/swiglu.ncg --kernel 0 --set seq=8
}

"$out/nanocompile" bench --peaks --format md
[ $# -gt 0 ] || set -- all 1
for threads in "$@"; do
    printf '\n%s threads; default: us a call, GFLOP/s\n\n' "$threads"
    echo '| what | us | GFLOP/s | default | swept | in place | by hand | OpenBLAS | oneDNN | x OpenBLAS | x by hand |'
    echo '|---|---|---|---|---|---|---|---|---|---|---|'
    products "$threads"
    others "$threads"
done
exit $failed
