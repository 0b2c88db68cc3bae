#!/usr/bin/perl

# What a stream takes of a worker's memory.
#
# N streams on one worker, opened with the headers of a browser: how much the
# resident memory of the worker has grown when all are open, and after so many
# ticks with an event for each.  What nginx allocates for worker_connections
# when it starts is not in it.
#
# HTTP/2 and TLS keep more, which is not the module's: a tenth of the streams,
# each on a connection of its own, to know how much.

use strict;
use warnings;

use WaitingQueue::Bench;
use WaitingQueue::Http2;
use WaitingQueue::Sse;

my $n = $ENV{STREAMS} || 10_000;
my $ticks = $ENV{TICKS} || 100;


sub bytes {
    my ($kb, $n) = @_;
    return $kb * 1024 / $n;
}


sub plain {
    my $room = start_room(workers => 1, interval => '200ms');
    my ($worker) = $room->workers;

    my $before = rss_kb($worker);
    my $load = start_load(room => $room, n => $n);

    $load->ready;

    my $open = rss_kb($worker);
    my (undef, $first) = $load->count;
    my $events = $first;

    while ($events - $first < $n * $ticks) {
        $room->step;
        sleep 0.1;
        (undef, $events) = $load->count;
    }

    printf "HTTP/1.1: %.0f bytes when open, %.0f after %.0f events each\n",
           bytes($open - $before, $n), bytes(rss_kb($worker) - $before, $n),
           ($events - $first) / $n;

    $load->stop;

    # those who come later find the memory of those who went
    wait_until { !@{$room->line->waiting} } 60, 'all have left';

    $load = start_load(room => $room, n => $n, first => $n);
    $load->ready;

    printf "HTTP/1.1: %.0f bytes when as many others have come\n",
           bytes(rss_kb($worker) - $before, $n);

    $load->stop;
    $room->stop;
}


# few(name, room, code): code opens the stream of a number

sub few {
    my ($name, $room, $code) = @_;

    my $few = int($n / 10);
    my ($worker) = $room->workers;
    my @open = map { $code->($_) } 1 .. 10;
    my $before = rss_kb($worker);

    push @open, map { $code->($_) } 11 .. $few + 10;

    printf "%s: %.0f bytes when open\n", $name,
           bytes(rss_kb($worker) - $before, $few);

    $room->stop;
}


sub http2 {
    my $room = start_room(workers => 1, listen => 'http2');
    my $sse = WaitingQueue::Sse->new(port => $room->port);

    few('HTTP/2', $room, sub {
        my $number = shift;
        my $h2 = WaitingQueue::Http2->new($sse, $room->port);
        my $s = $h2->open(sprintf($room->path, $number), $number);

        $sse->run_until(sub { $s->events }, 10) or die "no answer\n";
        return $h2;
    });
}


sub tls {
    if (!eval { require IO::Socket::SSL }) {
        print "TLS: not measured, there is no IO::Socket::SSL\n";
        return;
    }

    my $dir = "$ENV{WQ_BUILD}/bench";

    system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=bench "
           . "-keyout '$dir/key.pem' -out '$dir/certificate.pem' 2>/dev/null")
        == 0 or die "no certificate\n";

    my $room = start_room(workers => 1, listen => 'ssl', http => "
        ssl_certificate $dir/certificate.pem;
        ssl_certificate_key $dir/key.pem;");

    few('TLS, HTTP/1.1', $room, sub {
        my $socket = IO::Socket::SSL->new(
            PeerAddr => '127.0.0.1', PeerPort => $room->port,
            SSL_verify_mode => 0) or die "no TLS: $!\n";

        printf $socket "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
               sprintf $room->path, shift;
        readline $socket;

        return $socket;
    });
}


plain();
http2();
tls();
finish();
