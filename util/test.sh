#!/bin/sh
#
# Usage: test.sh plain|asan|asan-hiredis12 [FILE...]
#
# Runs the test suite (of asan-hiredis12 what depends on hiredis), or the files
# given, against one of the builds with a Redis of its own.  Everything is under
# build/test/FLAVOUR.PID, which is kept when something fails; ports are chosen
# free, so several runs may go on at once.  t/lib/WaitingQueue/Test.pm says what
# the tests find in their environment.
#
# WQ_WORKERS limits the run to one number of workers, WQ_JOBS=2 runs two files at
# once, WQ_KEEP=1 keeps the directory.

set -eu

flavour=${1:?usage: test.sh plain|asan|asan-hiredis12 [FILE...]}
shift

cd "$(dirname "$0")/.."
root=$(pwd)
build=$root/build
run=$build/test/$flavour.$$
redis_pid=
socket_dir=
parts=

case $flavour in
    plain)
        TEST_NGINX_BINARY=$(command -v nginx || echo /usr/sbin/nginx)
        TEST_NGINX_LOAD_MODULES=$build/ngx_http_waiting_queue_module.so
        export TEST_NGINX_LOAD_MODULES
        ;;
    asan | asan-hiredis12)
        TEST_NGINX_BINARY=$build/$flavour/nginx
        TEST_NGINX_TIMEOUT=${TEST_NGINX_TIMEOUT:-10}
        unset TEST_NGINX_LOAD_MODULES
        export TEST_NGINX_TIMEOUT
        ;;
    *)
        echo "test.sh: no flavour \"$flavour\"" >&2
        exit 2
        ;;
esac

finish() {
    status=$?
    trap - EXIT

    for started in $parts; do
        kill "${started#*:}" 2>/dev/null || true
        wait "${started#*:}" 2>/dev/null || true
    done

    if [ -n "$redis_pid" ]; then
        kill "$redis_pid" 2>/dev/null || true
        wait "$redis_pid" 2>/dev/null || true
    fi

    if [ -n "$socket_dir" ]; then
        rm -rf "$socket_dir"
    fi

    if [ "$status" -ne 0 ]; then
        util/check-run.sh "$run" || true
        echo "test.sh: failed; logs are in build/test/$flavour.$$" >&2
    elif [ -z "${WQ_KEEP-}" ]; then
        rm -rf "$run"
    fi

    exit "$status"
}

trap finish EXIT
trap 'exit 1' HUP INT TERM

# the workers may run as somebody else and must be able to write a report
mkdir -p "$run/redis" "$run/sanitizer" "$run/logs"
chmod 777 "$run/sanitizer"

# a socket's path is limited to 107 bytes, the checkout's is not
socket_dir=$(mktemp -d "${TMPDIR:-/tmp}/wq.XXXXXX")
chmod 755 "$socket_dir"


# Redis: its port may be taken between the choice and the start

WQ_REDIS_SOCKET=$socket_dir/redis.sock
answered=

for try in 1 2 3 4 5; do
    WQ_REDIS_PORT=$(util/free-port.sh)

    redis-server --bind 127.0.0.1 --port "$WQ_REDIS_PORT" \
        --unixsocket "$WQ_REDIS_SOCKET" --unixsocketperm 777 \
        --dir "$run/redis" --save '' --appendonly no \
        --enable-debug-command local > "$run/redis/redis-$try.out" 2>&1 &
    redis_pid=$!

    while kill -0 "$redis_pid" 2>/dev/null; do
        answered=$(redis-cli -s "$WQ_REDIS_SOCKET" ping 2>/dev/null || true)
        [ "$answered" != PONG ] || break 2
        sleep 0.05
    done
done

if [ "$answered" != PONG ]; then
    cat "$run"/redis/*.out >&2
    exit 1
fi


TEST_NGINX_REDIS_PORT=$WQ_REDIS_PORT
TEST_NGINX_REDIS_SOCKET=$WQ_REDIS_SOCKET
TEST_NGINX_PORT=$(util/free-port.sh)
TEST_NGINX_SERVROOT=$run/servroot
WQ_TEST_FLAVOUR=$flavour
WQ_BUILD=$build
WQ_ERROR_LOG=$run/logs/all-error.log

export WQ_REDIS_PORT WQ_REDIS_SOCKET WQ_TEST_FLAVOUR WQ_BUILD WQ_ERROR_LOG
export TEST_NGINX_REDIS_PORT TEST_NGINX_REDIS_SOCKET TEST_NGINX_PORT
export TEST_NGINX_SERVROOT TEST_NGINX_BINARY

# separated by commas, because Test::Nginx puts the test's name into log_path
# and knows no other separator
report=$run/sanitizer/report
ASAN_OPTIONS=detect_leaks=0,abort_on_error=0,log_path=$report
UBSAN_OPTIONS=print_stacktrace=1,halt_on_error=1,log_path=$report
export ASAN_OPTIONS UBSAN_OPTIONS


# Test::Nginx would try for half a minute to start an nginx that cannot start
cat > "$run/nginx.conf" <<END
${TEST_NGINX_LOAD_MODULES:+load_module $TEST_NGINX_LOAD_MODULES;}
pid $run/nginx.pid;
events { }
http { access_log off; }
END

"$TEST_NGINX_BINARY" -t -q -p "$run" -c "$run/nginx.conf" \
                     -e "$run/logs/start.log"


# prove_each WORKERS FILE...

prove_each() {
    workers=$1
    shift

    echo "== $flavour, $workers worker(s)"
    # shellcheck disable=SC2086  # no word at all when one after another
    WQ_WORKERS=$workers prove ${WQ_JOBS:+-j$WQ_JOBS} -It/lib "$@"
}


# part NAME WORKERS JOBS FILE...: a run of its own, beside the others

part() {
    name=$1
    workers=$2
    jobs=$3
    shift 3

    WQ_WORKERS=$workers WQ_JOBS=$jobs util/test.sh "$flavour" "$@" \
        > "$run/$name.out" 2>&1 &
    parts="$parts $name:$!"
}

if [ $# -gt 0 ]; then
    for count in ${WQ_WORKERS:-1 4}; do
        prove_each "$count" "$@"
    done
else
    if [ "$flavour" = plain ]; then
        echo "== unit tests"
        util/test-unit.sh
        prove_each 1 t/script/*.t
    else
        util/test-control.sh "$run"
    fi

    # What depends on hiredis is the link to Redis; all that lies above it is
    # the same code as with another one.

    if [ "$flavour" = asan-hiredis12 ]; then
        suite="t/000-*.t t/001-*.t t/004-*.t t/006-*.t t/011-*.t"
        faults=$(printf 't/fault/%s.t ' 00-control addresses connection \
                        errors hostile lifecycle slowness)
    else
        suite="t/*.t"
        faults="t/fault/*.t"
    fi

    # They mostly wait for something, so they go beside each other.  Those of
    # t/fault and t/browser have an nginx and a Redis each; the others share
    # theirs, and go one after another, in two parts that take turns at them.

    one=
    other=

    for file in $suite; do
        taken="$other $file"
        other=$one
        one=$taken
    done

    # shellcheck disable=SC2086  # lists of words
    for count in ${WQ_WORKERS:-1 4}; do
        part "workers-$count-a" "$count" "" $one
        part "workers-$count-b" "$count" "" $other
    done

    # with sanitizers each of them takes more of the machine
    jobs=2
    [ "$flavour" != plain ] || jobs=3

    # shellcheck disable=SC2086  # a list of words
    part fault 1 "$jobs" $faults

    # what a sanitizer would see is in the others; a browser at a time is enough
    if [ "$flavour" = plain ]; then
        part browser 1 "" t/browser/*.t
    fi

    failed=

    for started in $parts; do
        wait "${started#*:}" || failed="$failed ${started%:*}"
        cat "$run/${started%:*}.out"
    done

    parts=

    # once more, where the end of a long log shows it
    for name in $failed; do
        echo "== failed: $name"
        grep -nE -A 12 'Failed test|^died|not within|Test Summary' \
            "$run/$name.out" | tail -n 100
    done

    [ -z "$failed" ] || exit 1
fi

util/check-run.sh "$run"
