#!/usr/bin/perl

# What Redis is asked for positions, with few and with many who wait.
#
# Calls counted by Redis itself, also those that scripts make: per second, while
# nobody moves, and while everybody does because two are let in each second (the
# calls that do this are in it).

use strict;
use warnings;

use WaitingQueue::Bench;

my $seconds = $ENV{SECONDS} || 10;
my @n = (100, $ENV{STREAMS} || 10_000);


sub calls {
    my $redis = shift;

    my %calls = $redis->cli('INFO', 'commandstats')
                =~ /^cmdstat_([^:]+):calls=(\d+)/mg;
    my $sum = 0;
    $sum += $calls{$_} for grep { $_ ne 'info' } keys %calls;

    return ($sum, $calls{evalsha} || 0);
}


for my $n (@n) {
    my $room = start_room(workers => 1);
    my $load = start_load(room => $room, n => $n);

    $load->ready;
    $room->step;

    for ([ 'nobody moves', undef ], [ 'all move', sub { $room->step } ]) {
        my ($name, $code) = @$_;
        my @before = (calls($room->redis), cpu_us($room->redis->pid));
        my $m = measure($load, [ $room->workers ], $seconds, $code);
        my @after = (calls($room->redis), cpu_us($room->redis->pid));

        printf "%6d streams, %-12s %6.1f commands a second, %5.1f of them "
               . "scripts, %5.1f ms of CPU in Redis, %6.0f events\n",
               $n, $name, (map { ($after[$_] - $before[$_]) / $m->{seconds} }
                               0, 1),
               ($after[2] - $before[2]) / 1000 / $m->{seconds},
               $m->{events} / $m->{seconds};
    }

    $load->stop;
    $room->stop;
}

finish();
