#!/bin/sh
# The tour behind `make quickstart`: takes one small graph through the compiler and shows each form.
# quickstart.sh OUT: the folder that holds the built programs.
set -eu

program=$1/nanocompile
graph=examples/softmax.ncg

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

show cat "$graph"
show "$program" dump loops "$graph"
show "$program" dump c "$graph"
show "$program" eval "$graph" --compare=interp,nest,c --seq=4
printf '\nNext: write a graph of your own (README.md), or read compiler/compile.c.\n'
