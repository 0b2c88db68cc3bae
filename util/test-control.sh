#!/bin/sh
#
# Usage: test-control.sh DIR
#
# The control of a sanitizer run: a worker of this build is made to crash, and
# util/check-run.sh must notice.  Without it a run whose reports go nowhere
# would look like a run without errors.  TEST_NGINX_BINARY and ASAN_OPTIONS are
# those of the run; the crash is kept apart from its directory DIR.

set -eu

dir=${1:?usage: test-control.sh DIR}/control
options=${ASAN_OPTIONS%log_path=*}

cd "$(dirname "$0")/.."
mkdir -p "$dir/logs" "$dir/sanitizer"
chmod 777 "$dir/sanitizer"

cat > "$dir/nginx.conf" <<END
worker_processes 1;
pid $dir/nginx.pid;
error_log $dir/logs/error.log info;
events { }
http { }
END

ASAN_OPTIONS=${options}log_path=$dir/sanitizer/report \
    "$TEST_NGINX_BINARY" -p "$dir" -c "$dir/nginx.conf" \
                         -e "$dir/logs/error.log"

# daemon mode: the pid file and the worker are there a moment later
worker=
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    if [ -s "$dir/nginx.pid" ]; then
        master=$(cat "$dir/nginx.pid")
        worker=$(ps -o pid= --ppid "$master" | head -n 1 | tr -d ' ')
        [ -z "$worker" ] || break
    fi
    sleep 0.1
done

kill -SEGV "$worker"
sleep 1
kill -QUIT "$master"

if util/check-run.sh "$dir" > /dev/null 2>&1; then
    echo "control: a crash of a worker went unnoticed" >&2
    exit 1
fi

if ! ls "$dir"/sanitizer/* > /dev/null 2>&1; then
    echo "control: a crash of a worker left no sanitizer report" >&2
    exit 1
fi

rm -rf "$dir"
