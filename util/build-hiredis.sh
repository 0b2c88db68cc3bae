#!/bin/sh
#
# Builds hiredis 1.2 from Debian's source package as a static library with
# AddressSanitizer, and prints its directory (include/hiredis, lib).  This
# system's hiredis is older; the module supports both.

set -eu

cd "$(dirname "$0")/.."
out=$(pwd)/build/hiredis-1.2

if ! [ -f "$out/lib/libhiredis.a" ]; then
    unset MAKEFLAGS MAKELEVEL MFLAGS

    src=$(util/fetch-source.sh hiredis trixie)

    make -s -C "$src" -j "$(nproc)" OPTIMIZATION=-O1 \
        CFLAGS="-g -fsanitize=address -fno-omit-frame-pointer" static >&2

    mkdir -p "$out/include/hiredis" "$out/lib"
    cp "$src"/*.h "$out/include/hiredis/"
    cp "$src/libhiredis.a" "$out/lib/"
fi

echo "$out"
