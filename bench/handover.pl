#!/usr/bin/perl

# From a slot that is free to the event `promoted` in the hands of the next.
#
# N wait, and everybody's position changes each second.  At random times the one
# inside is released by the script that the gate calls; the clock runs from
# before the call until the next client has read.  Those at the head of the line
# are in a process of their own: what is measured is not how long a client with
# ten thousand streams takes to look at one of them.

use strict;
use warnings;

use WaitingQueue::Bench;

my $repeat = $ENV{REPEAT} || 3;
my $n = $ENV{STREAMS} || 10_000;
my $times = $ENV{TIMES} || 400;
my $workers = $ENV{WORKERS} || 1;


sub once {
    my $room = start_room(workers => $workers);
    my $head = start_load(room => $room, n => $times + 1, browser => 0,
                          report => 'promoted', inflight => 1);

    $head->ready;

    my $crowd = start_load(room => $room, n => $n, first => 1_000_000);

    $crowd->ready;

    # the first has found the slot free
    my (undef, $inside) = $head->event;
    my @ms;

    for (1 .. $times) {
        sleep rand 0.05;

        my $start = now_us();

        $room->line->release("u$inside");
        (my $end, $inside) = $head->event;
        push @ms, ($end - $start) / 1000;
    }

    $_->stop for $head, $crowd, $room;

    return @ms;
}


quiet();

my (@p50, @p99, @max);

for (1 .. $repeat) {
    my @ms = once();

    push @p50, percentile(50, @ms);
    push @p99, percentile(99, @ms);
    push @max, percentile(100, @ms);

    printf "  %d times: p50 %.2f ms, p99 %.2f ms, longest %.2f ms\n",
           scalar @ms, $p50[-1], $p99[-1], $max[-1];
}

printf "%d waiting: p50 %s ms, p99 %s ms, longest %s ms\n", $n,
       spread('%.2f', @p50), spread('%.2f', @p99), spread('%.2f', @max);

finish();
