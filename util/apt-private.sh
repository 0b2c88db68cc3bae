#!/bin/sh
#
# Usage: apt-private.sh SUITE COMMAND [ARGUMENT...]
#
# Runs an apt command that sees SUITE of this system's Debian mirror, packages
# and sources, through a state of its own under build/apt: the system's package
# lists, sources and preferences are neither used nor changed.  The mirror's
# address comes from apt's configuration, and so does whatever else (a proxy)
# is needed to reach it.

set -eu

suite=${1:?usage: apt-private.sh SUITE COMMAND [ARGUMENT...]}
command=${2:?usage: apt-private.sh SUITE COMMAND [ARGUMENT...]}
shift 2

root=$(cd "$(dirname "$0")/.." && pwd)
state=$root/build/apt/$suite
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")

# Without lists on the disk apt knows no label, but still the release's name.
# Of this system's own suite the updates and the security fixes are seen too,
# so that a source is the one of the package that is installed.
sources=$(apt-get indextargets \
              --format '$(REPO_URI)|$(LABEL)|$(RELEASE)' \
              'Created-By: Packages' \
          | awk -F '|' -v codename="$codename" -v suite="$suite" '
                $2 != "" && $2 !~ /^Debian/ {
                    next
                }
                $3 == codename {
                    print $1, suite
                }
                suite == codename && index($3, codename "-") == 1 {
                    print $1, $3
                }' \
          | sort -u)

if [ -z "$sources" ]; then
    echo "no Debian $codename mirror in apt's configuration" >&2
    exit 1
fi

mkdir -p "$state/lists/partial" "$state/cache/archives/partial"

echo "$sources" | while read -r mirror release; do
    echo "deb [signed-by=$keyring] $mirror $release main"
    echo "deb-src [signed-by=$keyring] $mirror $release main"
done > "$state/sources.list"

# apt's download user may not be able to enter the checkout, hence no sandbox
run() {
    apt_command=$1
    shift

    "$apt_command" \
        -o Dir::Etc::SourceList="$state/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences=/dev/null \
        -o Dir::Etc::PreferencesParts=/dev/null \
        -o Dir::State="$state" \
        -o Dir::State::Lists="$state/lists" \
        -o Dir::State::Status=/var/lib/dpkg/status \
        -o Dir::Cache="$state/cache" \
        -o Acquire::Languages=none \
        -o APT::Sandbox::User=root \
        "$@"
}

# the lists are fetched once, and again when an hour old
if [ -z "$(find "$state/updated" -mmin -60 2>/dev/null)" ]; then
    run apt-get -qq update >&2
    touch "$state/updated"
fi

run "$command" "$@"
