#!/bin/sh
# The tour behind `make quickstart`: takes one small graph through the compiler and shows each form,
# then runs the small model that comes with the source, tunes a product for a minute and shows the report.
# quickstart.sh OUT: the folder that holds the built programs.
set -eu

program=$1/nanocompile
graph=examples/softmax.ncg
model=tests/data/tiny-qwen2

show() {
    printf '\n$'
    for word in "$@"; do
        case $word in
        *' '*) printf ' "%s"' "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}

show cat "$graph"
show "$program" dump loops "$graph"
show "$program" dump c "$graph"
show "$program" eval "$graph" --compare=interp,nest,c --seq=4
show "$program" run --model "$model" --raw --prompt "Once upon a time" --max-tokens 40
show "$1/tune" --shape m=64,n=896,k=896 --budget 60s
show "$1/report"
printf '\nNext: write a graph of your own (README.md), or read compiler/compile.c.\n'
