#!/bin/sh
# Checks who includes whom: reads every #include line under the current folder and refuses what the
# table below does not allow. A file may always include its own folder. main.c files, cli folders and
# tests wire folders together and are exempt. `--self-test` shows that forbidden lines are caught.
set -eu

# folder, then what it may include: a folder of compiler/ (its *_int.h headers stay private to it), one
# header, or a library's header that is otherwise refused.
table='
compiler/base   libcpuid.h libcpuid/libcpuid.h
compiler/runtime base
compiler/graph  base
compiler/loop   base
compiler/emit   base loop runtime
compiler/lower  base graph loop
compiler/model  base graph
compiler/run    base graph loop emit lower model runtime compile.h
compiler        base graph loop emit lower model runtime run
schedules       compile.h
db              base sqlite3.h
tuner           run compile.h schedules/schedules.h db/db.h
experiments/baselines base
experiments     run compile.h schedules/schedules.h db/db.h tuner/tuner.h experiments/baselines
reports         base db/db.h tuner/stat.h
'
guarded='libcpuid.h libcpuid/libcpuid.h sqlite3.h'

# Prints one line for each forbidden include; status 1 when there is any.
check_layers() {
    find compiler schedules db tuner experiments reports -name '*.[ch]' 2>/dev/null | sort |
        grep -v -e '/cli/' -e '/main\.c$' |
        xargs -r grep -HnE '^[[:space:]]*#[[:space:]]*include' /dev/null |
        awk -v table="$table" -v guarded="$guarded" '
function folder(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "" }
function short(name) { sub(/^compiler\//, "", name); return name }
BEGIN {
    n = split(table, row, "\n")
    for (i = 1; i <= n; i++) {
        n_words = split(row[i], word, " ")
        if (n_words) { known[word[1]] = known[short(word[1])] = 1 }
        for (j = 2; j <= n_words; j++) { allowed[word[1], word[j]] = 1 }
    }
    n = split(guarded, word, " ")
    for (i = 1; i <= n; i++) { is_guarded[word[i]] = 1 }
}
{
    split($0, part, ":")
    from = folder(part[1])
    match($0, /["<][^">]*[">]/)
    quoted = substr($0, RSTART, 1) == "\""
    target = short(substr($0, RSTART + 1, RLENGTH - 2))
    to = folder(target)
    system_header = !quoted && !(to in known) && target != "compile.h"
    if (system_header && !(target in is_guarded)) { next }
    own = to == short(from) || (quoted && to == "" && target != "compile.h")
    if (from == "compiler" && target == "compile.h") { own = 1 }
    private = target ~ /_int\.h$/
    if ((own && !(target in is_guarded)) || (from, target) in allowed) { next }
    if ((from, to) in allowed && !private) { next }
    printf "%s:%s: %s may not include %s\n", part[1], part[2], from, target
    bad = 1
}
END { exit bad }'
}

self_test() {
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    cd "$dir"
    mkdir -p compiler/base compiler/graph compiler/loop compiler/cli db tuner reports
    printf '#include <stdio.h>\n#include <libcpuid.h>\n#include "base/base.h"\n' >compiler/base/cpu.c
    printf '#include "graph/graph_int.h"\n#include "base/base.h"\n' >compiler/graph/good.c
    printf '#include "db/db.h"\n#include "tuner/tuner.h"\n' >compiler/cli/bench.c
    printf '#include "schedules/schedules.h"\n' >db/main.c
    printf '#include "graph/graph.h"\n#include "loop/loop.h"\n#include "compile.h"\n' >compiler/compile.c
    printf '#include <sqlite3.h>\n#include "base/base.h"\n' >db/query.c
    printf '#include "db/db.h"\n#include "tuner/stat.h"\n' >reports/table.c
    if ! out=$(check_layers); then
        printf 'layers self-test: allowed lines were refused:\n%s\n' "$out" >&2
        return 1
    fi
    printf '#include "loop/loop.h"\n' >compiler/graph/bad1.c
    printf '#  include <graph/graph.h>\n' >compiler/loop/bad2.h
    printf '#include "../db/db.h"\n' >compiler/loop/bad3.c
    printf '#include <sqlite3.h>\n' >compiler/graph/bad4.c
    printf '#include "graph/graph_int.h"\n' >compiler/bad5.c
    printf '#include "compiler/compile.h"\n' >compiler/base/bad6.c
    printf '#include "tuner/tuner.h"\n' >reports/bad7.c
    out=$(check_layers) || true
    for i in 1 2 3 4 5 6 7; do
        if [ "$(printf '%s\n' "$out" | grep -c "/bad$i\.")" -ne 1 ]; then
            printf 'layers self-test: forbidden line %s was not caught once:\n%s\n' "$i" "$out" >&2
            return 1
        fi
    done
    if [ "$(printf '%s\n' "$out" | wc -l)" -ne 7 ]; then
        printf 'layers self-test: expected 7 refusals:\n%s\n' "$out" >&2
        return 1
    fi
}

if [ "${1:-}" = --self-test ]; then
    self_test
elif check_layers >&2; then
    echo "layers: ok"
else
    echo "layers: the lines above break the table in tools/layers.sh" >&2
    exit 1
fi
