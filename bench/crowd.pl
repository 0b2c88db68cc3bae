#!/usr/bin/perl

# As many streams as the machine carries, with a new position for each of them
# every second: the longest time that any of them was without; and the same with
# a server that does nothing but write (floor.c), which shows what the machine
# carries at all.
#
# A process may have 20,000 descriptors on many a machine, so there are as many
# workers, and as many processes of the client, as that makes necessary.

use strict;
use warnings;

use WaitingQueue::Bench;

my $seconds = $ENV{SECONDS} || 20;
my @n = $ENV{STREAMS} ? $ENV{STREAMS} : (34_000, 100_000);


sub report {
    my ($name, $m, $result, $late) = @_;

    printf "  %-6s joined in %4.1f s; an event every %4.0f ms (p50), %4.0f ms "
           . "(p99), %4.0f ms at the longest; %5.2f us of CPU each, %3.0f %% "
           . "of a processor; %d ticks late, %d streams lost\n",
           $name, $result->{ramp_s}, @{$result->{gap_ms}}{qw(p50 p99 max)},
           $m->{cpu_us} / $m->{events},
           100 * $m->{cpu_us} / 1e6 / $m->{seconds}, $late, $result->{ended};
}


sub floor_once {
    my $n = shift;

    my $floor = start_floor(n => $n);
    my $load = start_load(port => $floor->port, path => '/', n => $n);

    $load->ready;

    my $m = measure($load, [ $floor->pids ], $seconds);

    report('floor', $m, $load->result, 0);
    $floor->stop;
}


sub room_once {
    my $n = shift;

    my $workers = procs_for($n);
    my $room = start_room(workers => $workers);
    my $load = start_load(room => $room, n => $n, report => 'promoted',
                          inflight => 200 * $workers);

    $load->ready;
    $room->step;

    my $m = measure($load, [ $room->workers ], $seconds, sub { $room->step });
    my $late = $room->nginx->sum('lateTicks');

    report('room', $m, $load->result, $late);
    $room->stop;
}


quiet();

for my $n (@n) {
    printf "%d streams, %d workers\n", $n, procs_for($n);
    floor_once($n);
    room_once($n);
}

finish();
