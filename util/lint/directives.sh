#!/bin/sh
#
# Usage: directives.sh ROOT
#
# Checks that every directive in the sources is described in
# docs/directives.md and used by some test.

set -eu
cd "${1:?usage: directives.sh ROOT}"

failed=0

# the first field of a command, not other strings that begin alike
names=$(grep -rhoE '\{ *ngx_string\("waiting_queue[a-z_]*"\)' src \
            --include='*.c' | grep -oE 'waiting_queue[a-z_]*' \
            | LC_ALL=C sort -u || true)

for name in $names; do
    if ! grep -qsw "$name" docs/directives.md; then
        echo "$name is not in docs/directives.md"
        failed=1
    fi

    if ! grep -rqsw "$name" t --include='*.t'; then
        echo "$name is in no test"
        failed=1
    fi
done

exit "$failed"
