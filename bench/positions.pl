#!/usr/bin/perl

# What one position event costs.
#
# N streams on one worker, and once a second everybody's position changes,
# because one more is let in; against a server that does nothing but write
# (floor.c), with the same client, in turns.  CPU is that of the server, all it
# did in that time, over the events that the clients read.

use strict;
use warnings;

use WaitingQueue::Bench;

my $repeat = $ENV{REPEAT} || 3;
my $seconds = $ENV{SECONDS} || 10;
my $n = $ENV{STREAMS} || 10_000;

my (%cost, @redis);


sub floor_once {
    my $floor = start_floor(n => $n);
    my $load = start_load(port => $floor->port, path => '/', n => $n);

    $load->ready;

    my $m = measure($load, [ $floor->pids ], $seconds);

    $load->stop;
    $floor->stop;

    return $m;
}


sub room_once {
    my $room = start_room(workers => 1);
    my $load = start_load(room => $room, n => $n);

    $load->ready;
    $room->step;

    my $redis = cpu_us($room->redis->pid);
    my $m = measure($load, [ $room->workers ], $seconds, sub { $room->step });

    push @redis, (cpu_us($room->redis->pid) - $redis) / $m->{seconds};

    # all of them, each tick
    my $ticks = $m->{events} / $n;
    die "only $ticks ticks in $m->{seconds} s\n"
        if $ticks < 0.9 * $m->{seconds} - 1;

    $load->stop;
    $room->stop;

    return $m;
}


quiet();

for (1 .. $repeat) {
    for ([ floor => \&floor_once ], [ room => \&room_once ]) {
        my ($name, $once) = @$_;
        my $m = $once->();

        push @{$cost{$name}}, $m->{cpu_us} / $m->{events};
        printf "  %-6s %7d events in %4.1f s, %.2f us of CPU each\n", $name,
               $m->{events}, $m->{seconds}, $cost{$name}[-1];
    }
}

my @ratio = map { $cost{room}[$_] / $cost{floor}[$_] } 0 .. $repeat - 1;

printf "%d streams: floor %s us, room %s us an event, %s x floor\n", $n,
       spread('%.2f', @{$cost{floor}}), spread('%.2f', @{$cost{room}}),
       spread('%.2f', @ratio);
printf "Redis %s ms of CPU a second\n", spread('%.1f',
                                               map { $_ / 1000 } @redis);

finish();
