#!/bin/sh
# The tour behind `make quickstart`: takes one small graph through the compiler and shows each form,
# then runs the small model that comes with the source.
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
printf '\nNext: write a graph of your own (README.md), or read compiler/compile.c.\n'
