#!/bin/bash
#
# Builds the dynamic module for the installed nginx, from nginx-dev's headers:
# build/ngx_http_waiting_queue_module.so.  Objects are under build/dist.
#
# bash, because the distribution's conf_flags is an array.

set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
src=${WQ_NGINX_SRC:-/usr/share/nginx/src}
out=$root/build/dist
so=ngx_http_waiting_queue_module.so

# make's own flags belong to the outer make, not to nginx's Makefile
unset MAKEFLAGS MAKELEVEL MFLAGS

. "$src/conf_flags"

mkdir -p "$out"

# what configure reads; a change of anything else is left to make
key=$("$root/util/configure-key.sh" "$src/conf_flags" "$0")

if [ "$key" != "$(cat "$out/configured" 2>/dev/null)" ]; then
    echo "configuring build/dist"
    rm -rf "$out"
    mkdir -p "$out"

    # conf_flags as they stand: the module's signature must be nginx's own
    if ! (cd "$src" \
        && ./configure "${NGX_CONF_FLAGS[@]}" \
               --with-cc-opt="-g -O2 -fstack-protector-strong -D_FORTIFY_SOURCE=2" \
               --with-ld-opt="-Wl,-z,relro -Wl,-z,now -Wl,--as-needed" \
               --builddir="$out" \
               --add-dynamic-module="$root") > "$out/configure.log" 2>&1
    then
        tail -n 20 "$out/configure.log" >&2
        exit 1
    fi

    echo "$key" > "$out/configured"
fi

make -s -C "$src" -f "$out/Makefile" -j "$(nproc)" modules

if ! cmp -s "$out/$so" "$root/build/$so"; then
    # a new file, never written in place: a running nginx has the old one mapped
    cp "$out/$so" "$root/build/$so.tmp"
    mv "$root/build/$so.tmp" "$root/build/$so"
fi

echo "build/$so"
