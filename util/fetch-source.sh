#!/bin/sh
#
# Usage: fetch-source.sh PACKAGE [SUITE]
#
# Fetches a Debian source package (of this system's suite unless another is
# named), unpacks it with Debian's patches applied under build/src, and prints
# the directory.  What is there already is not fetched again.

set -eu

package=${1:?usage: fetch-source.sh PACKAGE [SUITE]}
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}

root=$(cd "$(dirname "$0")/.." && pwd)
src=$root/build/src
stamp=$src/$package.$suite

if [ -f "$stamp" ] && [ -d "$src/$(cat "$stamp")" ]; then
    echo "$src/$(cat "$stamp")"
    exit 0
fi

work=$src/tmp.$$
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

(cd "$work" \
 && "$root/util/apt-private.sh" "$suite" \
        apt-get -qq source --download-only --only-source "$package" \
 && dpkg-source -x ./*.dsc unpacked) > "$work/log" 2>&1 \
    || { cat "$work/log" >&2; exit 1; }

version=$(sed -n 's/^Version: *//p' "$work"/*.dsc | head -n 1)
dir=$package-${version#*:}

rm -rf "${src:?}/$dir"
mv "$work/unpacked" "$src/$dir"
echo "$dir" > "$stamp"

echo "$src/$dir"
