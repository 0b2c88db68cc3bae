#!/bin/sh
#
# Usage: run.sh [PORT]
#
# The demo: a Redis and an nginx of its own, in the foreground until Ctrl-C.
# Everything is under build/run.PID, and gone afterwards.

set -eu

wanted=${1:-${PORT:-8080}}

cd "$(dirname "$0")/.."
root=$(pwd)
run=$root/build/run.$$
redis_pid=
nginx_pid=
socket_dir=

# end PID SIGNAL: ends a process of ours and waits for it

end() {
    if [ -n "$1" ] && kill -s "$2" "$1" 2>/dev/null; then
        wait "$1" 2>/dev/null || true
    fi
}

finish() {
    status=$?
    trap - EXIT HUP INT TERM

    end "$nginx_pid" QUIT
    end "$redis_pid" TERM

    if [ "$status" -ne 0 ] && [ -s "$run/error.log" ]; then
        tail -n 20 "$run/error.log" >&2
    fi

    rm -rf "$run" ${socket_dir:+"$socket_dir"}
    exit "$status"
}

trap finish EXIT
trap 'echo; exit 0' HUP INT TERM

mkdir -p "$run/temp"

# a socket's path is limited to 107 bytes, the checkout's is not
socket_dir=$(mktemp -d "${TMPDIR:-/tmp}/wq.XXXXXX")
socket=$socket_dir/redis.sock

# Ctrl-C in a terminal reaches the whole group: setsid leaves the order of the
# end to this script

setsid redis-server conf/redis.conf --port 0 --unixsocket "$socket" \
    --dir "$run" > "$run/redis.log" 2>&1 &
redis_pid=$!

until redis-cli -s "$socket" ping 2>/dev/null | grep -q PONG; do
    if ! kill -0 "$redis_pid" 2>/dev/null; then
        cat "$run/redis.log" >&2
        exit 1
    fi
    sleep 0.05
done

port=$(util/free-port.sh "$wanted")

if [ "$port" != "$wanted" ]; then
    echo "port $wanted is taken, using $port"
fi

sed -e "s|@MODULE@|$root/build/ngx_http_waiting_queue_module.so|" \
    -e "s|@USER@|$(id -un) $(id -gn)|" \
    -e "s|@CONF@|$root/conf|" -e "s|@RUN@|$run|" \
    -e "s|@SOCKET@|$socket|" -e "s|@PORT@|$port|" \
    conf/nginx.conf > "$run/nginx.conf"

nginx=$(command -v nginx || echo /usr/sbin/nginx)

setsid "$nginx" -p "$run" -c "$run/nginx.conf" -e "$run/error.log" \
    2> "$run/start.log" &
nginx_pid=$!

until curl -sf -o "$run/status.json" "http://127.0.0.1:$port/status"; do
    if ! kill -0 "$nginx_pid" 2>/dev/null; then
        cat "$run/start.log" >&2
        exit 1
    fi
    sleep 0.05
done

echo
echo "  the line  http://127.0.0.1:$port/"
echo "  a stream  curl -N http://127.0.0.1:$port/events/demo/visitors/me"
echo "  status    http://127.0.0.1:$port/status"
echo "  metrics   http://127.0.0.1:$port/metrics"
echo
echo "Ctrl-C stops everything."

wait "$nginx_pid"
