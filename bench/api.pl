#!/usr/bin/perl

# What the token API serves.
#
# POST by users who are new and have to wait, then GET by all of them in turn,
# 64 connections that are kept: requests per second, and what each costs.  One
# worker, and the same service in Node beside it (node/polling.js: one process, a
# call of Redis for each question), in turns, each with a Redis of its own on a
# socket.

use strict;
use warnings;

use WaitingQueue::Bench;

my $repeat = $ENV{REPEAT} || 3;
my $seconds = $ENV{SECONDS} || 5;
my $users = $ENV{USERS} || 200_000;


# load(method, port, users, pids): requests per second, and CPU in us of each

sub load {
    my ($method, $port, $users, @pids) = @_;

    my @before = map { cpu_us($_) } @pids;

    open my $wrk, '-|', 'wrk', '-t2', '-c64', "-d${seconds}s", '-s',
         'bench/users.lua', "http://127.0.0.1:$port", '--', $method, $users
        or die "wrk: $!\n";
    my $text = do { local $/; <$wrk> };
    close $wrk or die "wrk: $text\n";

    my ($n) = $text =~ /^\s*(\d+) requests in/m;
    my ($rate) = $text =~ m{^Requests/sec:\s+([\d.]+)}m;

    die "$method: not the answers that were expected\n$text"
        if $text =~ /Non-2xx|Socket errors/;
    die "$method: more requests than users\n"
        if $method eq 'POST' && $n > $users;

    return ($rate, $n, map { (cpu_us($pids[$_]) - $before[$_]) / $n }
                           0 .. $#pids);
}


my %rates;

sub once {
    my ($name, $port, @pids) = @_;

    my (undef, $joined) = my @post = load('POST', $port, $users, @pids);

    # Of those who have come, for the answer to others is 404: the two threads of
    # the load do not come equally far, and wrk tries the first requests itself.
    my @get = load('GET', $port, int 0.6 * $joined, @pids);

    for (['POST', @post], ['GET', @get]) {
        my ($method, $rate, undef, @cpu) = @$_;
        push @{$rates{$name}{$method}}, $rate;
        printf "  %-4s %-4s %6.0f requests/s; CPU of each: %3.0f us, in Redis "
               . "%2.0f\n", $name, $method, $rate, @cpu;
    }
}


quiet();

my $missing = node_missing();
print "no Node beside it: $missing\n" if $missing;

for (1 .. $repeat) {

    if (!$missing) {
        my $node = start_node(script => 'polling.js');
        once('Node', $node->port, $node->pid, $node->redis->pid);
        $node->stop;
    }

    my $room = start_room(workers => 1, api => 1);
    once('room', $room->port, $room->workers, $room->redis->pid);
    $room->stop;
}

for my $method (qw(POST GET)) {
    my @room = @{$rates{room}{$method}};
    my @node = @{$rates{Node}{$method} || []};

    printf "%-4s room %s requests/s\n", $method, spread('%.0f', @room);
    printf "%-4s Node %s requests/s, the room %s x\n", $method,
           spread('%.0f', @node),
           spread('%.2f', map { $room[$_] / $node[$_] } 0 .. $#node) if @node;
}

finish();
