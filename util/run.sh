#!/bin/sh
#
# Usage: run.sh [PORT]
#
# The demo: a Redis and an nginx of its own, in the foreground until Ctrl-C.
# Everything is under build/run.PID and a directory for the sockets, and gone
# afterwards.

set -eu

wanted=${1:-${PORT:-8080}}

cd "$(dirname "$0")/.."
root=$(pwd)
run=$root/build/run.$$
nginx=$(command -v nginx || echo /usr/sbin/nginx)
redis_pid=
nginx_pid=
socket_dir=

# the seats that are left of the hall; the others are sold before it begins
left="A2 A7 B4 B5 C1 C6 D3 D8 E4 E5"
seats=$(echo "$left" | wc -w)

# end PID SIGNAL: ends a process of ours and waits for it

end() {
    if [ -n "$1" ] && kill -s "$2" "$1" 2>/dev/null; then
        wait "$1" 2>/dev/null || true
    fi
}

# whatever happens here, to the terminal say: it goes on to its end

finish() {
    status=$?
    trap - EXIT
    trap '' HUP INT PIPE TERM
    set +e

    end "$nginx_pid" QUIT
    end "$redis_pid" TERM

    if [ "$status" -ne 0 ] && [ -s "$run/error.log" ]; then
        tail -n 20 "$run/error.log" >&2
    fi

    rm -rf "$run" ${socket_dir:+"$socket_dir"}
    exit "$status"
}

trap finish EXIT
trap 'echo || true; exit 0' HUP INT PIPE TERM

mkdir -p "$run/temp" "$run/seats"

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

redis-cli -s "$socket" set 'seat:count:{concert}' "$seats" > "$run/seats.log"

for row in A B C D E; do
    for number in 1 2 3 4 5 6 7 8; do
        case " $left " in
            *" $row$number "*) ;;
            *) mkdir "$run/seats/$row$number" ;;
        esac
    done
done


# start PORT: nginx serves there; false if somebody else does

start() {
    sed -e "s|@MODULE@|$root/build/ngx_http_waiting_queue_module.so|" \
        -e "s|@USER@|$(id -un) $(id -gn)|" \
        -e "s|@CONF@|$root/conf|" -e "s|@RUN@|$run|" \
        -e "s|@SOCKETS@|$socket_dir|" -e "s|@PORT@|$1|" \
        -e "s|@SEATS@|$seats|" conf/nginx.conf > "$run/nginx.conf"

    setsid "$nginx" -p "$run" -c "$run/nginx.conf" -e "$run/error.log" \
        2> "$run/start.log" &
    nginx_pid=$!

    # the file is there when the port is ours
    until [ -s "$run/nginx.pid" ] \
          && curl -sf -o "$run/status.json" "http://127.0.0.1:$1/status"
    do
        if ! kill -0 "$nginx_pid" 2>/dev/null; then
            nginx_pid=
            grep -q 'Address already in use' "$run/start.log" && return 1
            cat "$run/start.log" >&2
            exit 1
        fi
        sleep 0.05
    done
}

port=$(util/free-port.sh "$wanted")

# it may be taken between the choice and the start
until start "$port"; do
    rm -f "$socket_dir/shop.sock"
    port=$(util/free-port.sh $((port + 1)))
done

if [ "$port" != "$wanted" ]; then
    echo "Port $wanted is taken, using $port."
fi

url=http://127.0.0.1:$port

echo
echo "  Watch it     $url/"
echo "  The shop     $url/shop/"
echo "  As a stream  curl -NH 'Accept: text/event-stream' $url/sim/me/"
echo "  As JSON      curl $url/sim/me/"
echo "  Status       $url/status"
echo "  Metrics      $url/metrics"
echo
echo "Open the first in a browser, and send visitors into the line."
echo "Ctrl-C stops everything."

# When a terminal closes, only the leader of its session is told, which may be
# a make that waits for us.  A signal comes through a sleep that is short.

if [ -t 1 ]; then
    while kill -0 "$nginx_pid" 2>/dev/null; do
        [ -t 1 ] || exit 0
        sleep 0.5
    done
fi

wait "$nginx_pid"
