#!/bin/sh
# install.sh install|uninstall OUT VERSION DESTDIR PREFIX "PROGRAMS" "HEADERS": one list of files says
# what both do, so that uninstall removes exactly what install put there, and the folders of our own
# that are empty then. Programs and headers are lists of words, relative to the source folder.
set -eu

verb=$1 out=$2 version=$3 dest=$4 prefix=$5 programs=$6 headers=$7
share=$prefix/share
include=$prefix/include/nanocompile
own=$share/nanocompile
so=libnanocompile.so.$version

install_file() { # mode source target
    install -D -m "$1" "$2" "$dest$3"
}
install_link() {
    ln -sf "$2" "$dest$3"
}
install_pc() {
    mkdir -p "$dest${3%/*}"
    sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$2" >"$dest$3"
    chmod "$1" "$dest$3"
}
remove() {
    rm -f "$dest$3"
}

each_file() { # program: how to place a file, a link and the pkg-config template
    for program in $programs; do
        "$1" 755 "$program" "$prefix/bin/${program##*/}"
    done
    "$1" 644 "$out/libnanocompile.a" "$prefix/lib/libnanocompile.a"
    "$1" 755 "$out/libnanocompile.so" "$prefix/lib/$so"
    "$2" - "$so" "$prefix/lib/libnanocompile.so"
    for header in $headers; do
        "$1" 644 "$header" "$include/${header#compiler/}"
    done
    "$3" 644 tools/nanocompile.pc.in "$prefix/lib/pkgconfig/nanocompile.pc"
    for file in config generation_config tokenizer tokenizer_config; do # the model that `run` takes by itself
        "$1" 644 "tests/data/tiny-qwen2/$file.json" "$own/tiny-qwen2/$file.json"
    done
    "$1" 644 tests/data/tiny-qwen2/model.safetensors "$own/tiny-qwen2/model.safetensors"
    for page in docs/man/*.1; do
        "$1" 644 "$page" "$share/man/man1/${page##*/}"
    done
    for completion in docs/completion/*; do
        "$1" 644 "$completion" "$share/bash-completion/completions/${completion##*/}"
    done
}

case $verb in
install)
    each_file install_file install_link install_pc
    if [ -z "$dest" ] && [ "$(id -u)" -eq 0 ]; then
        ldconfig
    fi
    ;;
uninstall)
    each_file remove remove remove
    for folder in "$dest$include" "$dest$own"; do
        if [ -d "$folder" ]; then
            find "$folder" -depth -type d -empty -delete
        fi
    done
    ;;
*)
    echo "install.sh: unknown verb $verb" >&2
    exit 2
    ;;
esac
