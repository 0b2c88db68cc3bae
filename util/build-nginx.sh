#!/bin/sh
#
# Usage: build-nginx.sh asan|asan-hiredis12
#
# Builds, from the Debian source package, an nginx with AddressSanitizer, UBSan
# and the module linked in: build/NAME/nginx.  asan-hiredis12 is the same with
# hiredis 1.2 in place of the system's.
#
# NGX_DEBUG_PALLOC makes every small pool allocation a malloc() of its own, so
# that the sanitizer sees what pools would hide.

set -eu

name=${1:?usage: build-nginx.sh asan|asan-hiredis12}
self=$(cd "$(dirname "$0")" && pwd)/build-nginx.sh

cd "$(dirname "$0")/.."
root=$(pwd)
out=$root/build/$name

# make's own flags belong to the outer make, not to nginx's Makefile
unset MAKEFLAGS MAKELEVEL MFLAGS

case $name in
    asan)
        unset WQ_HIREDIS_INC WQ_HIREDIS_LIB
        ;;
    asan-hiredis12)
        hiredis=$(util/build-hiredis.sh)
        WQ_HIREDIS_INC=$hiredis/include
        WQ_HIREDIS_LIB=$hiredis/lib
        export WQ_HIREDIS_INC WQ_HIREDIS_LIB
        ;;
    *)
        echo "build-nginx.sh: no build \"$name\"" >&2
        exit 2
        ;;
esac

src=$(util/fetch-source.sh nginx)
key=$(util/configure-key.sh "$self" "$src/auto/options")

if [ "$key" != "$(cat "$out/configured" 2>/dev/null)" ]; then
    echo "configuring build/$name"

    # objects of nginx itself survive: make knows whether they are still good
    mkdir -p "$out"
    rm -rf "$out/configured" "$out/addon" "$out/wq"

    # nginx's configure touches these even when nothing in them changes
    for header in ngx_auto_config.h ngx_auto_headers.h; do
        [ ! -f "$out/$header" ] || cp -p "$out/$header" "$out/$header.old"
    done

    sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"

    # memcpy() of nothing from NULL is everywhere in nginx, and so are reads of
    # several bytes at once from any address; and of a request line that goes on
    # in another buffer it moves pointers that are still NULL
    if ! (cd "$src" \
        && ./configure \
               --prefix="$out" --builddir="$out" \
               --user=nobody --group=nogroup \
               --with-compat --with-debug \
               --with-http_ssl_module --with-http_v2_module \
               --with-http_stub_status_module \
               --with-http_auth_request_module --with-http_realip_module \
               --with-cc-opt="-g -O1 $sanitize \
                   -fno-sanitize=nonnull-attribute,alignment,pointer-overflow \
                   -fno-omit-frame-pointer \
                   -DNGX_DEBUG_PALLOC=1" \
               --with-ld-opt="$sanitize" \
               --add-module="$root") > "$out/configure.log" 2>&1
    then
        tail -n 20 "$out/configure.log" >&2
        exit 1
    fi

    # the module itself has no such excuse
    echo "$out/addon/%.o: CFLAGS += -fsanitize=pointer-overflow" \
        >> "$out/Makefile"

    for header in ngx_auto_config.h ngx_auto_headers.h; do
        if cmp -s "$out/$header" "$out/$header.old"; then
            mv "$out/$header.old" "$out/$header"
        fi
    done

    # nginx's own objects do not depend on hiredis: those of the other build do
    if [ "$name" = asan-hiredis12 ] && ! [ -f "$out/nginx" ] \
        && [ -f build/asan/nginx ]
    then
        cp -R build/asan/src "$out/"
    fi

    echo "$key" > "$out/configured"
fi

make -s -C "$src" -f "$out/Makefile" -j "$(nproc)" binary

echo "build/$name/nginx"
