#!/usr/bin/perl

# What it costs the others that a crowd connects and says nothing.
#
# Honest streams get a position each second, and honest visitors come through
# the gate on connections of their own: alone, beside the crowd, and while nginx
# closes the crowd, when client_header_timeout is over.  The time that a visitor
# takes is from connect() to the end of the answer.
#
# Then with fewer worker_connections than there are in the crowd, which says
# nothing, or half of a request, and comes again when it is sent away.
#
# SILENT is the size of the crowd, STREAMS the number of honest streams, SECONDS
# how long each is measured.

use strict;
use warnings;

use IO::Socket::INET;
use WaitingQueue::Bench;

my $n = $ENV{SILENT} || 100_000;
my $streams = $ENV{STREAMS} || 1_000;
my $seconds = $ENV{SECONDS} || 20;

my $half = "GET /shop/ HTTP/1.1\r\nHost: loc";

my $gate = '
        location = /shop/ {
            waiting_queue on;
            waiting_queue_event gate;
            waiting_queue_user $arg_user;
            waiting_queue_capacity 100000000;
            empty_gif;
        }';

my $visitors = 0;


sub room {
    my ($timeout, %o) = @_;

    # without a line for each that is timed out
    return start_room(server => $gate, %o, http => "
        error_log error.log warn;
        client_header_timeout $timeout;");
}


# visit(room): somebody new through the gate; how many ms it took, or undef

sub visit {
    my $room = shift;

    my $start = now_us();
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', Timeout => 5,
                                       PeerPort => $room->port) or return;

    print $socket 'GET /shop/?user=v' . ++$visitors . " HTTP/1.1\r\n"
                  . "Host: localhost\r\nConnection: close\r\n\r\n";
    $socket->flush;
    my $answer = '';
    while (sysread $socket, $answer, 65536, length $answer) { }

    return $answer =~ m{^HTTP/1\.1 200 } ? (now_us() - $start) / 1000 : undef;
}


sub kb { my $kb = 0; $kb += rss_kb($_) for @_; return $kb }


# beside(what, room, first, until): honest ones, for SECONDS or until code says
# so

sub beside {
    my ($what, $room, $first, $until) = @_;

    my $load = start_load(room => $room, n => $streams, first => $first,
                          report => 'promoted');

    $load->ready;

    my (@ms, $refused);
    my $start = time;
    my $step = $start;
    my @cpu = (cpu_us($room->workers), time);

    until ($until ? $until->() : time >= $start + $seconds) {
        if (time >= $step) {
            $step += 0.5;
            $room->step;
        }

        my $ms = visit($room);
        if (defined $ms) { push @ms, $ms } else { $refused++ }
        sleep 0.02;
    }

    my $cpu = (cpu_us($room->workers) - $cpu[0]) / 1e4 / (time - $cpu[1]);
    my $result = $load->result;

    printf "  %-22s an event every %4.0f ms (p50), %4.0f ms (p99), %4.0f ms "
           . "at the longest; %d streams lost; a visit %4.1f ms (p50), %5.1f "
           . "ms (p99), %5.1f ms at the longest, of %d, %d refused; %3.0f %% "
           . "of a processor\n",
           $what, @{$result->{gap_ms}}{qw(p50 p99 max)}, $result->{ended},
           (map { percentile($_, @ms) || 0 } 50, 99, 100), scalar @ms,
           $refused || 0, $cpu;

    # their places are given up after the grace time
    wait_until { !@{$room->line->waiting} } 60, 'all have left';
}


sub crowd {
    my $workers = procs_for($n + 2 * $streams);
    my $room = room('90s', workers => $workers);
    my @pids = $room->workers;

    printf "%d silent connections, %d workers, %d streams\n", $n, $workers,
           $streams;

    beside('alone', $room, 0);

    my $before = kb(@pids);
    my $start = time;
    my $silent = start_silent(port => $room->port, n => $n);
    my ($open) = $silent->ready;

    printf "  %d are open after %.1f s: %.0f bytes of the workers each\n",
           $open, time - $start, (kb(@pids) - $before) * 1024 / $n;

    beside('beside them', $room, $streams);
    ($open) = $silent->count;
    print "  $open of them are still open\n";
    beside('while they are closed', $room, 2 * $streams,
           sub { !($silent->count)[0] });

    my $result = $silent->result;
    printf "  %d were closed by nginx, when they were %.1f s to %.1f s old, "
           . "%.1f s in the mean\n",
           @$result{qw(closed youngest_s oldest_s mean_s)};
    printf "  %.0f bytes of the workers each are left\n",
           (kb(@pids) - $before) * 1024 / $n;

    $room->stop;
}


# with room for a part of them: visits while they are there, and after

sub short {
    my ($what, $say) = @_;

    my $connections = 4_000;
    my $room = room('10s', workers => 2, connections => $connections);
    my $load = start_load(room => $room, n => $streams);

    $load->ready;

    my $nginx = $room->nginx;
    my $mark = $nginx->mark;
    my $silent = start_silent(port => $room->port, n => 5 * $connections,
                              say => $say, again => 1);

    $nginx->forgive(qr/worker_connections are not enough/);
    $silent->ready;
    sleep 3;

    my ($come, $served) = (200, 0);
    my ($open) = $silent->count;

    $served += defined visit($room) for 1 .. $come;

    $silent->stop;
    my $result = $load->result;
    my $log = sub { scalar $nginx->log_lines($mark, @_) };

    printf "%s, %d of them, again and again, 2 x %d worker_connections: %d "
           . "are open; of %d visits %d are served; %d streams lost; the log "
           . "has %d lines \"reusing connections\", %d \"are not enough\" "
           . "without\n",
           $what, 5 * $connections, $connections, $open, $come, $served,
           $result->{ended}, $log->(qr/reusing connections/),
           $log->(qr/worker_connections are not enough(?!, reusing)/);

    $room->stop;
}


quiet();
crowd();
short('silent', '');
short('half a request', $half);
finish();
