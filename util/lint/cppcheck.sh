#!/bin/sh
#
# Usage: cppcheck.sh ROOT
#
# Static analysis of ROOT/src with nginx's headers.  The system's headers are
# left out (cppcheck knows the C library, and stumbles over OpenSSL's), so the
# hiredis version they would give is stated here.

set -eu
cd "${1:?usage: cppcheck.sh ROOT}"

nginx=${WQ_NGINX_SRC:-/usr/share/nginx/src}/src

cppcheck --quiet --std=c99 --language=c --error-exitcode=1 -j 2 \
    --enable=warning,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem --suppress="*:$nginx/*" \
    -D__linux__ -D__GNUC__ -D__x86_64__ \
    -DHIREDIS_MAJOR=0 -DHIREDIS_MINOR=14 \
    -I src -I src/core -I src/redis -I src/queue -I src/http \
    -I build/dist -I build/dist/wq \
    -I "$nginx/core" -I "$nginx/event" -I "$nginx/event/modules" \
    -I "$nginx/os/unix" -I "$nginx/http" -I "$nginx/http/modules" \
    -I "$nginx/http/v2" \
    src
