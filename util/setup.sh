#!/bin/sh
#
# Usage: setup.sh GROUP...
#
# Installs the Debian packages of the groups that are missing, and does nothing
# (no network, no root) when none is.  The groups are listed below.

set -eu

root=$(cd "$(dirname "$0")/.." && pwd)

packages=
for group in "$@"; do
    case $group in
        build)
            list="gcc libc6-dev make nginx nginx-dev libhiredis-dev \
                  libcjson-dev libssl-dev libpcre2-dev zlib1g-dev"
            ;;
        run)
            list="nginx redis-server redis-tools curl"
            ;;
        test)
            list="nginx redis-server redis-tools curl openssl perl procps \
                  libtest-nginx-perl"
            ;;
        browser)
            list="chromium chromium-driver fonts-nanum"
            ;;
        lint)
            list="binutils cppcheck git libtest-nginx-perl lua-check perl \
                  redis-server redis-tools shellcheck"
            ;;
        bench)
            list="libnginx-mod-http-lua nginx perl redis-server redis-tools \
                  wrk"
            ;;
        fuzz)
            list="clang libclang-rt-14-dev"
            ;;
        source)
            list="debian-archive-keyring dpkg-dev patch xz-utils"
            ;;
        *)
            echo "setup.sh: no group \"$group\"" >&2
            exit 2
            ;;
    esac

    packages="$packages $list"
done

# shellcheck disable=SC2086  # a list of words
installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages \
                  2>/dev/null | sed -n 's/^installed //p' | tr '\n' ' ') "

missing=
for package in $packages; do
    case "$installed$missing " in
        *" $package "*) ;;
        *) missing="$missing $package" ;;
    esac
done

[ -n "$missing" ] || exit 0


give_up() {
    echo "setup.sh: cannot install packages without root or sudo;" \
         "install these first:" >&2
    echo "   $missing" >&2
    exit 1
}

if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo > /dev/null && sudo true; then
    as_root=sudo
else
    give_up
fi


# nginx and redis-server would start on their packages' default ports; the
# policy that forbids it is there only as long as this script runs

policy=/usr/sbin/policy-rc.d
own_policy=
log=$(mktemp)

finish() {
    if [ -n "$own_policy" ]; then
        $as_root rm -f "$policy"
    fi

    rm -f "$log"
}

trap finish EXIT
trap 'exit 1' HUP INT TERM

if ! [ -e "$policy" ]; then
    own_policy=yes
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" > /dev/null
    $as_root chmod 755 "$policy"
fi


apt() {
    if ! $as_root env DEBIAN_FRONTEND=noninteractive \
             apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" > "$log" 2>&1
    then
        cat "$log" >&2
        exit 1
    fi
}


# libtest-nginx-perl is in no release of this age: that one package comes from
# a later suite, the ones it needs from this system's

is_known() {
    apt-cache policy "$1" | grep -q '^  Candidate: [0-9]'
}

fetch_newer() {
    mkdir -p "$root/build/deb"

    for suite in forky sid; do
        if (cd "$root/build/deb" && rm -f "$1"_*.deb \
            && "$root/util/apt-private.sh" "$suite" apt-get -qq download "$1")
        then
            return 0
        fi
    done

    echo "setup.sh: $1 was found neither here nor in later suites" >&2
    return 1
}


echo "setup.sh: installing$missing"
apt update

wanted=
for package in $missing; do
    if [ "$package" = libtest-nginx-perl ] && ! is_known "$package"; then
        fetch_newer "$package"
        wanted="$wanted $(echo "$root/build/deb/$package"_*.deb)"
    else
        wanted="$wanted $package"
    fi
done

# shellcheck disable=SC2086  # a list of words
apt install --no-install-recommends $wanted
