#!/bin/sh
#
# Usage: local.sh ROOT
#
# Checks that no file of the repository mentions what is true only on this
# machine: where the checkout is, and where apt and npm fetch from.

set -eu
cd "${1:?usage: local.sh ROOT}"

failed=0
tmp=$(mktemp)
trap 'rm -f "$tmp" "$tmp.files"' EXIT

# a checkout right below / or in a home tells nothing that could be searched
parent=$(dirname "$(pwd)")
case $parent in
    / | /tmp | /root | /home | /srv | /opt) ;;
    *) echo "$parent/" > "$tmp" ;;
esac

{
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
        2>/dev/null || true

    if command -v npm > /dev/null; then
        npm config get registry 2>/dev/null || true
    fi
} | sed -n 's#^[a-z+]*://\([^/@]*@\)\{0,1\}\([^/:]*\).*#\2#p' | sort -u >> "$tmp"

if git rev-parse --show-toplevel > /dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard > "$tmp.files"
else
    find . -type f ! -path './build/*' -print0 > "$tmp.files"
fi

if xargs -0 grep -nHIFf "$tmp" < "$tmp.files"; then
    echo "an address or a path of this machine is in the files above"
    failed=1
fi

exit "$failed"
