#!/bin/sh
#
# Usage: run.sh [NAME...]
#
# Runs the measurements bench/NAME.pl, all of them by default.  Each compares
# things side by side in one run; what is worth keeping goes to RESULTS.md.
# REPEAT, SECONDS and STREAMS change how often, how long and how many.

set -eu
cd "$(dirname "$0")/.."

TEST_NGINX_BINARY=$(command -v nginx || echo /usr/sbin/nginx)
TEST_NGINX_LOAD_MODULES=$(pwd)/build/ngx_http_waiting_queue_module.so
WQ_BUILD=$(pwd)/build
export TEST_NGINX_BINARY TEST_NGINX_LOAD_MODULES WQ_BUILD

mkdir -p build/bench
for name in sseload silent floor churn; do
    cc -O2 -Wall -Wextra -o "build/bench/$name" "bench/$name.c" -lm
done

if [ $# -eq 0 ]; then
    set -- link positions memory commands joins handover crowd gate api seats \
        silent
fi

for name in "$@"; do
    echo "== $name"
    perl -It/lib -Ibench/lib "bench/$name.pl"
done
