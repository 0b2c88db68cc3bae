#!/bin/sh
#
# Installs the module for the installed nginx, below DESTDIR if that is set: the
# .so where nginx looks for modules, and the line that loads it where Debian
# keeps such lines.  Enabling it is left to the administrator:
#
#   ln -s /usr/share/nginx/modules-available/mod-http-waiting-queue.conf \
#         /etc/nginx/modules-enabled/50-mod-http-waiting-queue.conf

set -eu
cd "$(dirname "$0")/.."

so=ngx_http_waiting_queue_module.so
nginx=$(command -v nginx || echo /usr/sbin/nginx)
available=${DESTDIR-}/usr/share/nginx/modules-available

modules=$("$nginx" -V 2>&1 | tr ' ' '\n' | sed -n 's/^--modules-path=//p')

if [ -z "$modules" ]; then
    echo "install.sh: $nginx -V tells no --modules-path" >&2
    exit 1
fi

install -d "${DESTDIR-}$modules" "$available"
install -m 644 "build/$so" "${DESTDIR-}$modules/$so"

echo "load_module modules/$so;" > "$available/mod-http-waiting-queue.conf"
chmod 644 "$available/mod-http-waiting-queue.conf"

echo "${DESTDIR-}$modules/$so"
echo "$available/mod-http-waiting-queue.conf"
