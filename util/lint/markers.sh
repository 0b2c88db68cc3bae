#!/bin/sh
#
# Usage: markers.sh ROOT
#
# Checks that src and lua hold no marks of unfinished work.

set -eu
cd "${1:?usage: markers.sh ROOT}"

if grep -rnwE 'TODO|FIXME|XXX' src lua 2>/dev/null; then
    exit 1
fi
