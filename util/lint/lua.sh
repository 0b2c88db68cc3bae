#!/bin/sh
#
# Usage: lua.sh ROOT
#
# Checks the Lua scripts as they are embedded, includes expanded: luacheck, and
# that Redis accepts each and names it by the SHA-1 in the generated header.

set -eu

tools=$(cd "$(dirname "$0")/.." && pwd)
cd "${1:?usage: lua.sh ROOT}"

redis_pid=
tmp=$(mktemp -d)

finish() {
    if [ -n "$redis_pid" ]; then
        kill "$redis_pid" 2>/dev/null || true
        wait "$redis_pid" 2>/dev/null || true
    fi
    rm -rf "$tmp"
}

trap finish EXIT
trap 'exit 1' HUP INT TERM

set -- lua/*.lua
if ! [ -f "$1" ]; then
    exit 0
fi

gen=build/dist/wq

if ! [ -f $gen/ngx_http_wq_scripts_generated.h ]; then
    gen=$tmp/gen
    sh "$tools/gen-scripts.sh" "$gen" "$@" || exit 1
fi

failed=0

luacheck --no-color -q --config "$tools/../.luacheckrc" "$gen"/lua/*.lua \
    > "$tmp/luacheck" || { cat "$tmp/luacheck"; failed=1; }

redis-server --port 0 --unixsocket "$tmp/s" --save '' --dir "$tmp" \
    > "$tmp/redis.log" 2>&1 &
redis_pid=$!

while kill -0 "$redis_pid" 2>/dev/null \
    && [ "$(redis-cli -s "$tmp/s" ping 2>/dev/null)" != PONG ]
do
    sleep 0.05
done

for script in "$gen"/lua/*.lua; do
    name=$(basename "$script" .lua)
    loaded=$(redis-cli -s "$tmp/s" -x SCRIPT LOAD < "$script" 2>&1)

    if ! grep -qF "X($name, \"$loaded\", " \
             "$gen/ngx_http_wq_scripts_generated.h"
    then
        echo "lua/$name.lua: Redis answers \"$loaded\", which is not the" \
             "SHA-1 of the generated header"
        failed=1
    fi
done

exit "$failed"
