#!/bin/sh
#
# Usage: check-run.sh DIR
#
# Fails if a test run under DIR left a sanitizer report, or if an error log there
# tells of a crash or of a connection nobody closed.  Tests cannot see all of it
# themselves: nginx writes stderr into its log, a sanitizer's death is only a
# worker that "exited with code 1", and much happens after the last request.

set -eu

dir=${1:?usage: check-run.sh DIR}
found=0

for report in "$dir"/sanitizer/*; do
    if [ -f "$report" ]; then
        echo "sanitizer report: $report" >&2
        head -n 30 "$report" >&2
        found=1
    fi
done

# killed by signal 9 is what tests do on purpose
bad='AddressSanitizer|runtime error:|exited with code [1-9]'
bad="$bad|exited on signal (4|6|7|8|11)( |\$)"
bad="$bad|open socket #[0-9]+ left in connection"

lines=$(find "$dir" -name '*.log' -type f -exec grep -nHE "$bad" {} + || true)

if [ -n "$lines" ]; then
    echo "$lines" >&2
    found=1
fi

exit "$found"
