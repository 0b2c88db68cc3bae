#!/bin/sh
#
# Builds and runs the unit tests of src/core (t/unit/test_*.c), each a program
# of its own under AddressSanitizer and UBSan that fails by its exit status.

set -eu
cd "$(dirname "$0")/.."

make -s unit-build

# here, unlike in nginx with its pools, a leak is an error
ASAN_OPTIONS=detect_leaks=1
UBSAN_OPTIONS=print_stacktrace=1,halt_on_error=1
export ASAN_OPTIONS UBSAN_OPTIONS

for source in t/unit/test_*.c; do
    [ -f "$source" ] || continue

    name=$(basename "$source" .c)

    if "build/unit/$name" > "build/unit/$name.log" 2>&1; then
        echo "ok $name"
    else
        cat "build/unit/$name.log" >&2
        echo "not ok $name" >&2
        exit 1
    fi
done
