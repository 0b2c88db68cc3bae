#!/bin/sh
#
# Runs each of FUZZ_TARGETS (all by default) for FUZZ_SECONDS (60 by default).
#
# fuzz_NAME is the program of t/fuzz/fuzz_NAME.c.  Its seeds are
# t/fuzz/corpus/fuzz_NAME; what the fuzzer finds worth keeping goes to
# build/fuzz/corpus, and an input that breaks it to build/fuzz.
#
# "http" is t/fault/http-fuzz.t: requests to an nginx with sanitizers.  When one
# is not answered as it should be the test says what it was, and the seed.

set -eu
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-60}

# program NAME

program() {
    corpus=build/fuzz/corpus/$1
    seeds=t/fuzz/corpus/$1

    mkdir -p "$corpus"
    [ -d "$seeds" ] || seeds=

    # shellcheck disable=SC2086  # no word at all when there are no seeds
    "build/fuzz/$1" -max_total_time="$seconds" -timeout=5 \
        -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="build/fuzz/$1-" "$corpus" $seeds
}

if [ -z "${FUZZ_TARGETS-}" ]; then
    FUZZ_TARGETS=$(basename -s .c t/fuzz/fuzz_*.c)
    FUZZ_TARGETS="$FUZZ_TARGETS http"
fi

for target in $FUZZ_TARGETS; do
    echo "== $target"

    case $target in
        http)
            WQ_WORKERS=1 WQ_FUZZ_SECONDS=$seconds \
                util/test.sh asan t/fault/http-fuzz.t
            ;;
        fuzz_*)
            program "$target"
            ;;
        *)
            echo "fuzz.sh: no target \"$target\"" >&2
            exit 2
            ;;
    esac
done
