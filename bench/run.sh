#!/bin/sh
#
# Usage: run.sh [NAME...]
#
# Runs the measurements bench/NAME.pl, all of them by default.  Each compares
# things side by side in one run; what is worth keeping goes to RESULTS.md.
# REPEAT and SECONDS change how often and how long.

set -eu
cd "$(dirname "$0")/.."

TEST_NGINX_BINARY=$(command -v nginx || echo /usr/sbin/nginx)
TEST_NGINX_LOAD_MODULES=$(pwd)/build/ngx_http_waiting_queue_module.so
WQ_BUILD=$(pwd)/build
export TEST_NGINX_BINARY TEST_NGINX_LOAD_MODULES WQ_BUILD

if [ $# -eq 0 ]; then
    set -- link
fi

for name in "$@"; do
    echo "== $name"
    perl -It/lib "bench/$name.pl"
done
