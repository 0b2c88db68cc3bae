#!/bin/sh
#
# Usage: lint.sh [ROOT]
#
# Runs every checker of util/lint on the tree ROOT (this one by default), all of
# them even if one fails.  ROOT is there for util/lint-selftest.sh.

set -eu

lint=$(cd "$(dirname "$0")" && pwd)/lint
root=$(cd "${1:-$(dirname "$0")/..}" && pwd)
failed=

check() {
    name=$1
    shift

    if output=$("$@" 2>&1); then
        echo "ok $name"
    else
        echo "$output"
        echo "not ok $name"
        failed="$failed $name"
    fi
}

style() {
    (cd "$root" && find src -name '*.[ch]' -exec perl "$lint/style.pl" {} +)
}

check style       style
check layers      perl "$lint/layers.pl" "$root"
check symbols     "$lint/symbols.sh" "$root"
check cppcheck    "$lint/cppcheck.sh" "$root"
check lua         "$lint/lua.sh" "$root"
check shell       "$lint/shell.sh" "$root"
check directives  "$lint/directives.sh" "$root"
check rights      perl "$lint/rights.pl" "$root"
check local       "$lint/local.sh" "$root"
check markers     "$lint/markers.sh" "$root"

if [ -n "$failed" ]; then
    echo "lint failed:$failed" >&2
    exit 1
fi
