#!/bin/sh
# Installs what the build needs, by Debian package name, and says which packages those are. Arguments
# are further tools a target wants (clang, clang-tidy, cppcheck). Instant when nothing is missing;
# asks no question. Off Debian it names what to install and leaves the rest to the compiler.
set -eu

packages="gcc libc6-dev make pkg-config
    libjansson-dev libxxhash-dev libcpuid-dev libsqlite3-dev libpcre2-dev libutf8proc-dev
    libopenblas-dev libcriterion-dev $*"

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    if pkg-config --exists jansson libxxhash libcpuid sqlite3 libpcre2-8 libutf8proc openblas criterion 2>/dev/null; then
        exit 0
    fi
    echo "make setup: this is not a Debian system, so nothing was installed. Install a C compiler, make," >&2
    echo "pkg-config and the libraries jansson, xxhash, libcpuid, sqlite3, pcre2, utf8proc, openblas, criterion." >&2
    exit 1
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package} ${Provides}\n' 2>/dev/null |
    sed -n 's/^installed //p' | tr -d ',' | tr ' ' '\n')
missing=
for package in $packages; do
    if ! printf '%s\n' "$installed" | grep -qxF "$package"; then
        missing="$missing $package"
    fi
done
if [ -z "$missing" ]; then
    exit 0
fi
echo "make setup: missing:$missing"

if [ "$(id -u)" -eq 0 ]; then
    as_root="env"
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n env"
else
    echo "make setup: neither root nor sudo without a password. Run this, then make again:" >&2
    echo "    sudo apt-get install$missing" >&2
    exit 1
fi

# A fresh container has no package lists, or old ones: refresh them only when the first try fails.
install() {
    # shellcheck disable=SC2086 # lists of words
    $as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -q $missing </dev/null
}
install || { $as_root apt-get update -q </dev/null && install; } || {
    echo "make setup: apt-get could not install:$missing (its own words are above)." >&2
    exit 1
}
