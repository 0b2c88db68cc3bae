#!/usr/bin/perl

# From the end of a request for a seat to the next one for it at the backend.
#
# N requests for 10 seats, all at once, and 20, two for each; with the lock of
# the module, and with one in Lua that asks again every 50 ms (seats.lua).  The
# backend takes 3 ms for each request, and looks itself: when the one before has
# ended, whether there are two at once, and who came before whom.  One nginx with
# two workers, one Redis, the two locks in turns.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use WaitingQueue::Bench;

my $repeat = $ENV{REPEAT} || 5;
my $n = $ENV{REQUESTS} || 1_000;
my $seats = 10;
my $ms = 3;

my @lua = map { "/usr/lib/nginx/modules/$_.so" } qw(ndk_http_module
                                                    ngx_http_lua_module);
my $has_lua = !grep { !-f } @lua;

my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 4096)
    or die "listen: $!\n";
my $backend = $listen->sockport;
my $backend_pid = start_backend();
my $port = free_port();
my $redis = start_redis(socket => 1);
my $nginx = start_shop();


# The backend: GET /report?anew says what was since the last one.

sub start_backend {
    my $parent = $$;
    my $pid = fork;

    die "fork: $!\n" if !defined $pid;

    if ($pid == 0) {
        $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM ALRM);
        eval { serve($parent); 1 } or warn $@;
        POSIX::_exit(0);
    }

    close $listen;

    return $pid;
}

END { kill 'KILL', $backend_pid if $backend_pid }


sub serve {
    my ($parent) = @_;

    my $select = IO::Select->new($listen);
    my (%ends, %ended, %busy, @gaps, %order, $two);

    my $answer = sub {
        my ($socket, $text) = @_;
        print $socket "HTTP/1.1 200 OK\r\nContent-Length: " . length($text)
                      . "\r\nConnection: close\r\n\r\n$text";
        $select->remove($socket);
        close $socket;
    };

    while (getppid == $parent) {
        my ($next) = sort { $a <=> $b } map { $_->[0] } values %ends;
        my $wait = defined $next ? ($next - now_us()) / 1e6 : 0.5;

        for my $socket ($select->can_read($wait > 0 ? $wait : 0)) {
            if ($socket == $listen) {
                $select->add($listen->accept);
                next;
            }

            if (!sysread $socket, my $in, 4096) {
                $select->remove($socket);
                close $socket;
                next;
            } elsif ($in =~ /seat=(\w+)&id=(\d+)/) {
                my $now = now_us();
                push @gaps, ($now - $ended{$1}) / 1000 if $ended{$1};
                push @{$order{$1}}, $2;
                $two++ if $busy{$1}++;
                $ends{fileno $socket} = [ $now + 1000 * $ms, $socket, $1 ];
            } else {
                $answer->($socket, JSON::PP::encode_json({
                    gaps => \@gaps, order => \%order, two => $two || 0 }));
                @gaps = %order = %ended = ();
                $two = 0;
            }
        }

        my $now = now_us();

        for my $end (grep { $_->[0] <= $now } values %ends) {
            delete $ends{fileno $end->[1]};
            $busy{$end->[2]}--;
            $ended{$end->[2]} = now_us();
            $answer->($end->[1], "ok\n");
        }
    }
}


sub report {
    my $answer = http_get($backend, '/report');
    return JSON::PP::decode_json($answer->{body});
}


sub start_shop {
    my $bench = "$ENV{WQ_BUILD}/../bench";
    my $address = 'unix:' . $redis->path;

    local $ENV{TEST_NGINX_LOAD_MODULES} =
        join ' ', $ENV{TEST_NGINX_LOAD_MODULES}, $has_lua ? @lua : ();

    my $started = WaitingQueue::Bench::_start(
        'Nginx', workers => 2, connections => 8192, timeout => 30, http => "
            waiting_queue_redis $address;
            waiting_queue_event bench;" . ($has_lua ? "
            lua_package_path '$bench/?.lua;;';
            init_by_lua_block {
                require('seats').init('$address', 0.05)
            }" : ''),
        server => "
        listen 127.0.0.1:$port reuseport backlog=4096;
        location /lock/ {
            waiting_queue_seat_lock \$arg_seat wait=60s;
            proxy_pass http://127.0.0.1:$backend;
        }" . ($has_lua ? "
        location /poll/ {
            access_by_lua_block { require('seats').lock() }
            log_by_lua_block { require('seats').unlock() }
            proxy_pass http://127.0.0.1:$backend;
        }" : ''));

    $started->wait_ready;

    return $started;
}


# so many at once, and their answers

sub requests {
    my ($how, $count) = @_;

    my $select = IO::Select->new;
    my $start = now_us();

    for my $id (1 .. $count) {
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                           PeerPort => $port)
            or die "connect: $!\n";

        syswrite $socket, "GET /$how/?seat=s" . $id % $seats . "&id=$id "
                          . "HTTP/1.1\r\nHost: bench\r\nConnection: close"
                          . "\r\n\r\n";
        $select->add($socket);
    }

    while ($select->count) {
        for my $socket ($select->can_read(10)) {
            if (sysread $socket, my $in, 4096) {
                die "not a 200: $in\n" if $in !~ m{^HTTP/1.1 200};
                next;
            }
            $select->remove($socket);
            close $socket;
        }
    }

    return now_us() - $start;
}


# how many were served before one who had come long before

sub overtaken {
    my ($order) = @_;

    my $overtaken = 0;

    for my $ids (values %$order) {
        my $least;
        for my $id (reverse @$ids) {
            # those who come at the same moment come in any order
            $overtaken++ if defined $least && $id > $least + 20 * $seats;
            $least = $id if !defined $least || $id < $least;
        }
    }

    return $overtaken;
}


sub once {
    my ($how, $count) = @_;

    my @pids = ([ $nginx->workers ], [ $redis->pid ]);
    my @before = map { cpu_us(@$_) } @pids;
    my $us = requests($how, $count);
    my @cpu = map { (cpu_us(@{$pids[$_]}) - $before[$_]) / $count } 0, 1;
    my $seen = report();

    return { us => $us, gaps => $seen->{gaps}, two => $seen->{two}, cpu => \@cpu,
             overtaken => overtaken($seen->{order}) };
}


quiet();
print "no Lua beside it: libnginx-mod-http-lua is not installed\n"
    if !$has_lua;

for my $case ([ $n, 1 ], [ 2 * $seats, 50 ]) {
    my ($count, $times) = @$case;
    my %all;

    for (1 .. $repeat) {
        for my $how ('lock', $has_lua ? 'poll' : ()) {
            push @{$all{$how}}, once($how, $count) for 1 .. $times;
        }
    }

    printf "%d requests for %d seats, %d times:\n", $count, $seats,
           $repeat * $times;

    for my $how (sort keys %all) {
        my @runs = @{$all{$how}};
        my @gaps = map { @{$_->{gaps}} } @runs;
        my $two = 0;
        my $overtaken = 0;
        $two += $_->{two}, $overtaken += $_->{overtaken} for @runs;

        printf "  %s: hand-over p50 %5.2f ms, p99 %6.2f ms, longest %6.2f ms; "
               . "all answered after %s ms; CPU of a request %.0f us in "
               . "nginx, %.0f in Redis; %d overtaken, %d two at once\n", $how,
               (map { percentile($_, @gaps) } 50, 99, 100),
               spread('%.0f', map { $_->{us} / 1000 } @runs),
               (map { my $i = $_; median(map { $_->{cpu}[$i] } @runs) } 0, 1),
               $overtaken, $two;
    }
}

finish();
