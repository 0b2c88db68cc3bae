#!/bin/sh
#
# Runs every fuzz target in build/fuzz for FUZZ_SECONDS (60 by default) each.
# Seeds are t/fuzz/corpus/NAME; what the fuzzer finds worth keeping goes to
# build/fuzz/corpus/NAME, and an input that breaks a target to build/fuzz.

set -eu
cd "$(dirname "$0")/.."

for source in t/fuzz/fuzz_*.c; do
    [ -f "$source" ] || continue

    name=$(basename "$source" .c)
    corpus=build/fuzz/corpus/$name
    seeds=t/fuzz/corpus/$name

    mkdir -p "$corpus"
    [ -d "$seeds" ] || seeds=

    echo "== $name"

    # shellcheck disable=SC2086  # no word at all when there are no seeds
    "build/fuzz/$name" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=5 \
        -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="build/fuzz/$name-" "$corpus" $seeds
done
