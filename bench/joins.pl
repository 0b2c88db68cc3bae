#!/usr/bin/perl

# How many can join in a second.
#
# N users open a stream each, on a new connection, 200 at a time: how long it
# takes until the last has its answer.  One worker, and a room of the usual kind
# in Node beside it (node/waiting.js: one process, four calls of Redis for a
# join), in turns, each with a Redis of its own on a socket.

use strict;
use warnings;

use WaitingQueue::Bench;

my $repeat = $ENV{REPEAT} || 3;
my $n = $ENV{STREAMS} || 10_000;
my $inflight = $ENV{INFLIGHT} || 200;


sub once {
    my ($name, $where, @pids) = @_;

    my @before = map { cpu_us($_) } @pids;
    my $load = start_load(
        port => $where->port, path => $where->path, n => $n, browser => 0,
        inflight => $inflight,
        headers => $where->isa('WaitingQueue::Bench::Node')
                   ? [ 'X-User-Id: u%d' ] : []);

    $load->ready;

    my @cpu = map { (cpu_us($pids[$_]) - $before[$_]) / $n } 0 .. $#pids;
    my $result = $load->result;
    my $rate = $n / $result->{ramp_s};

    printf "  %-5s %6.0f joins/s, answer p50 %5.1f ms, p99 %5.1f ms; CPU of a "
           . "join: %3.0f us, in Redis %2.0f, in the client %2.0f\n",
           $name, $rate, @{$result->{head_ms}}{qw(p50 p99)}, @cpu,
           1e6 * $result->{cpu_s} / $n;

    return $rate;
}


quiet();

my $missing = node_missing();
my (@room, @node);

print "no Node beside it: $missing\n" if $missing;

for (1 .. $repeat) {

    if (!$missing) {
        my $node = start_node();
        push @node, once('Node', $node, $node->pid, $node->redis->pid);
        $node->stop;
    }

    my $room = start_room(workers => 1);
    push @room, once('room', $room, $room->workers, $room->redis->pid);
    $room->stop;
}

printf "room %s joins/s\n", spread('%.0f', @room);
printf "Node %s joins/s, the room %s x\n", spread('%.0f', @node),
       spread('%.2f', map { $room[$_] / $node[$_] } 0 .. $#node) if @node;

finish();
