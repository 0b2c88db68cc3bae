#!/bin/sh
#
# Usage: shell.sh ROOT
#
# Checks the shell scripts with shellcheck, and that the Perl modules compile.

set -eu
cd "${1:?usage: shell.sh ROOT}"

failed=0
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT

for script in util/*.sh util/lint/*.sh bench/*.sh .ci/run; do
    [ -f "$script" ] || continue

    if ! [ -x "$script" ]; then
        echo "$script: not executable"
        failed=1
    fi

    # SC1091: sourced files that are not ours; SC2016: '$' meant literally;
    # SC2317: functions that a trap calls
    shellcheck -f gcc -e SC1091,SC2016,SC2317 "$script" || failed=1
done

# perl -c prints a line also when all is well
find t util -name '*.p[ml]' -exec sh -c '
    for module; do
        output=$(perl -It/lib -c "$module" 2>&1) || echo "$output"
    done' sh {} + 2>/dev/null > "$tmp"

if [ -s "$tmp" ]; then
    cat "$tmp"
    failed=1
fi

exit "$failed"
