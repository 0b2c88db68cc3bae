#!/bin/sh
#
# Usage: configure-key.sh FILE...
#
# Prints a key of all that nginx's configure depends on: the module's config,
# the lists of sources and scripts, and the files given (flags, build script).
# While the key is the same, a build is left to make.

set -eu
cd "$(dirname "$0")/.."

{
    cat config config.make util/exports.map "$@"
    find src lua -type f \( -name '*.[ch]' -o -name '*.lua' \) | LC_ALL=C sort
    echo "${WQ_HIREDIS_INC-} ${WQ_HIREDIS_LIB-}"
    pwd
    cc --version
} | sha1sum | cut -d ' ' -f 1
