#!/bin/sh
#
# Usage: symbols.sh ROOT
#
# A module shares the process's namespace.  Checks that every global symbol of
# the objects in ROOT/build/dist has one of our prefixes, and that the module
# in ROOT/build exports what nginx looks up and nothing else.

set -eu
cd "${1:?usage: symbols.sh ROOT}"

failed=0
prefix='^(ngx_http_wq_|wq_|ngx_http_waiting_queue_)'
exports="ngx_http_waiting_queue_module ngx_module_names ngx_module_order \
ngx_modules"

objects=$(find build/dist/addon -name '*.o' 2>/dev/null || true)

if [ -z "$objects" ]; then
    echo "no objects in build/dist: run make first"
    exit 1
fi

# shellcheck disable=SC2086  # a list of files
foreign=$(nm -A -g --defined-only $objects | awk -v prefix="$prefix" \
              '$NF !~ prefix { print $1 " global symbol " $NF }')

if [ -n "$foreign" ]; then
    echo "$foreign"
    failed=1
fi

found=$(nm -D --defined-only build/ngx_http_waiting_queue_module.so \
            | awk '{ print $NF }' | LC_ALL=C sort | tr '\n' ' ')

if [ "${found% }" != "$exports" ]; then
    echo "build/ngx_http_waiting_queue_module.so exports: ${found% }"
    echo "expected: $exports"
    failed=1
fi

exit "$failed"
