#!/bin/sh
#
# Usage: gen-scripts.sh OUTDIR [LUAFILE...]
#
# Turns the Lua scripts into one C header: OUTDIR/ngx_http_wq_scripts_generated.h
# with, for each NAME.lua, its bytes and an entry of NGX_HTTP_WQ_SCRIPTS(X), which
# is X(NAME, "sha1", length) for every script in sorted order.  The bytes are
# seen only by the one file that defines NGX_HTTP_WQ_SCRIPT_BODIES.
#
# A line "-- @include NAME" is replaced by lib/NAME.lua next to the script, once
# per script.  Functions that a script does not use are left out of it: Redis
# would make each of them anew with every call.  The expanded text is left in
# OUTDIR/lua/NAME.lua: what is hashed, embedded, linted and tested is the same
# file.
#
# Files are replaced only when they change, so that make rebuilds no more than
# it has to.

set -eu
LC_ALL=C
export LC_ALL

out=${1:?usage: gen-scripts.sh OUTDIR [LUAFILE...]}
shift

header=$out/ngx_http_wq_scripts_generated.h
tmp=$out/tmp.$$

mkdir -p "$out/lua"
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp"


# put FILE TARGET: moves FILE to TARGET unless they are the same

put() {
    if ! cmp -s "$1" "$2"; then
        mv "$1" "$2"
    fi
}


# expand FILE: the script with its includes, to standard output

expand() {
    awk -v libdir="$(dirname "$1")/lib" '
        function fail(file, line, text) {
            printf "%s:%d: %s\n", file, line, text > "/dev/stderr"
            failed = 1
            exit 1
        }

        function copy(file, from, from_line,    line, number, status, name) {
            while ((status = (getline line < file)) > 0) {
                number++

                if (line !~ /^[ \t]*--[ \t]*@include/) {
                    print line
                    continue
                }

                if (line !~ /^-- @include [A-Za-z0-9_]+$/) {
                    fail(file, number, "malformed include: " line)
                }

                name = substr(line, 13)

                if (!(name in seen)) {
                    seen[name] = 1
                    copy(libdir "/" name ".lua", file, number)
                }
            }

            if (status < 0) {
                fail(from, from_line, "cannot read " file)
            }

            close(file)
        }

        BEGIN {
            copy(ARGV[1], ARGV[1], 0)
            exit failed
        }
    ' "$1"
}


# shake FILE: the text without the functions that nobody in it calls, by their
# names; a function begins with its word at the beginning of a line, and ends
# with an "end" there

shake() {
    awk '
        function uses(text, name,    at, before, after) {
            while ((at = index(text, name)) > 0) {
                before = at > 1 ? substr(text, at - 1, 1) : " "
                after = substr(text, at + length(name), 1)

                if (before !~ /[A-Za-z0-9_.]/ && after !~ /[A-Za-z0-9_]/) {
                    return 1
                }

                text = substr(text, at + length(name))
            }

            return 0
        }

        {
            if (inside == "" && match($0, /^(local )?function [a-z_.]+\(/)) {
                inside = $0
                sub(/^(local )?function /, "", inside)
                sub(/\(.*/, "", inside)
                blocks++
                name[blocks] = inside
                own = blocks

                if ($0 ~ /[^A-Za-z0-9_]end[ )]*$/) {
                    # its end would not be found
                    printf "%s: a function in one line\n", $0 > "/dev/stderr"
                    failed = 1
                    exit 1
                }
            } else if (inside == "") {
                if (own != 0 || blocks == 0) {
                    blocks++
                }

                own = 0
            }

            body[blocks] = body[blocks] $0 "\n"
            code = $0
            sub(/--.*/, "", code)
            calls[blocks] = calls[blocks] code "\n"

            if (inside != "" && $0 == "end") {
                inside = ""
            }
        }

        END {
            if (failed) {
                exit 1
            }

            do {
                gone = 0

                for (i = 1; i <= blocks; i++) {
                    if (name[i] == "" || dropped[i]) {
                        continue
                    }

                    used = 0

                    for (j = 1; j <= blocks && !used; j++) {
                        used = j != i && !dropped[j] && uses(calls[j], name[i])
                    }

                    if (!used) {
                        dropped[i] = gone = 1
                    }
                }
            } while (gone)

            for (i = 1; i <= blocks; i++) {
                if (!dropped[i]) {
                    printf "%s", body[i]
                }
            }
        }
    ' "$1"
}


printf '%s\n' "$@" | sort -u > "$tmp/files"
: > "$tmp/arrays"
: > "$tmp/names"
printf '#define NGX_HTTP_WQ_SCRIPTS(X)' > "$tmp/list"

while read -r file; do
    [ -n "$file" ] || continue

    name=$(basename "$file" .lua)
    script=$tmp/$name.lua

    case $name in
        *[!a-z0-9_]* | [0-9]*)
            echo "$file: a script's name has only a-z, 0-9 and _" >&2
            exit 1
            ;;
    esac

    expand "$file" > "$tmp/expanded"
    shake "$tmp/expanded" > "$script"

    if ! [ -s "$script" ]; then
        echo "$file: the script is empty" >&2
        exit 1
    fi

    sha=$(sha1sum < "$script")
    sha=${sha%% *}
    length=$(($(wc -c < "$script")))

    {
        echo
        echo "static u_char  ngx_http_wq_lua_${name}[] = {"
        od -An -v -tx1 "$script" | sed -e 's/ \(..\)/ 0x\1,/g' -e 's/^/   /'
        echo "};"
    } >> "$tmp/arrays"

    printf " \\\\\n    X(%s, \"%s\", %s)" "$name" "$sha" "$length" \
        >> "$tmp/list"

    echo "$name.lua" >> "$tmp/names"
    put "$script" "$out/lua/$name.lua"
done < "$tmp/files"


# a script that was removed must not linger where the lint looks

for file in "$out"/lua/*.lua; do
    if [ -f "$file" ] && ! grep -qxF "${file##*/}" "$tmp/names"; then
        rm "$file"
    fi
done

{
    echo "/* Generated by util/gen-scripts.sh from lua/: do not edit. */"
    echo
    echo "#ifndef _NGX_HTTP_WQ_SCRIPTS_GENERATED_H_INCLUDED_"
    echo "#define _NGX_HTTP_WQ_SCRIPTS_GENERATED_H_INCLUDED_"
    echo
    cat "$tmp/list"
    echo
    echo "#ifdef NGX_HTTP_WQ_SCRIPT_BODIES"
    cat "$tmp/arrays"
    echo
    echo "#endif"
    echo
    echo "#endif /* _NGX_HTTP_WQ_SCRIPTS_GENERATED_H_INCLUDED_ */"
} > "$tmp/header"

put "$tmp/header" "$header"
