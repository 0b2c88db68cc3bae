#!/bin/sh
#
# Usage: free-port.sh [PORT]
#
# Prints a loopback port that nothing listens on: PORT or the first free one
# after it, or else a random one, below those that the kernel hands out.

set -eu

perl -MIO::Socket::INET -e '
    my ($port) = @ARGV;

    for (my $try = 0; $try < 1000; $try++) {
        my $candidate = $port ? $port + $try : 10000 + int rand 20000;
        my $free = IO::Socket::INET->new(LocalAddr => "127.0.0.1",
                                         LocalPort => $candidate,
                                         Listen => 1, ReuseAddr => 1);
        if ($free) {
            print "$candidate\n";
            exit;
        }
    }

    die "no free port\n";' "$@"
