#!/usr/bin/perl

# What the link to Redis costs the rest of nginx, and how much it carries.
#
# untouched: requests per second of a location that has nothing to do with the
#   module, in an nginx without it, with a link that is up, with a Redis that is
#   not there, and with a Redis that does not answer.
# carried: how fast one worker reads messages from its stream and removes them.

use strict;
use warnings;

use WaitingQueue::Fault;

my $repeat = $ENV{REPEAT} || 5;
my $seconds = $ENV{SECONDS} || 3;
my $messages = $ENV{MESSAGES} || 200_000;

# measuring takes longer than a test may
alarm 0;

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return $sorted[$#sorted / 2];
}

sub requests_per_second {
    my $nginx = shift;
    my $url = 'http://127.0.0.1:' . $nginx->port . '/ok';
    my ($rate) = `wrk -t1 -c32 -d${seconds}s $url`
                 =~ m{^Requests/sec:\s+([\d.]+)}m;
    return $rate;
}

# user and system time of a process in s

sub cpu {
    my @stat = split ' ', slurp('/proc/' . shift . '/stat') =~ s/^.*\) //sr;
    return ($stat[11] + $stat[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}


sub untouched {
    my $redis = start_redis();
    my $stopped = start_redis();
    my $options = 'timeout=300ms';

    my $bare = do {
        local $ENV{TEST_NGINX_LOAD_MODULES} = '';
        start_nginx(workers => 1, status => 0);
    };

    my @nginx = (
        [ 'without the module', $bare ],
        [ 'link up', start_nginx(workers => 1, http =>
            'waiting_queue_redis ' . $redis->url . " $options;") ],
        [ 'Redis not there', start_nginx(workers => 1, http =>
            'waiting_queue_redis redis://127.0.0.1:' . free_port()
            . " $options;") ],
        [ 'Redis does not answer', start_nginx(workers => 1, http =>
            'waiting_queue_redis ' . $stopped->url . " $options;") ],
    );

    $nginx[1][1]->wait_ready;
    kill STOP => $stopped->pid;

    my %rates;

    for (1 .. $repeat) {
        for (@nginx) {
            push @{$rates{$_->[0]}}, requests_per_second($_->[1]);
        }
    }

    # against the base of the same round: the machine may change in between
    my $base = $rates{$nginx[0][0]};

    for (@nginx) {
        my $rates = $rates{$_->[0]};
        my @percent = sort { $a <=> $b }
                      map { 100 * $rates->[$_] / $base->[$_] } 0 .. $#$rates;
        printf "%-24s %8.0f requests/s  %5.1f %%  [%.0f - %.0f]\n", $_->[0],
               median(@$rates), median(@percent), $percent[0], $percent[-1];
    }

    kill CONT => $stopped->pid;
}


sub carried {
    my $redis = start_redis();
    my $nginx = start_nginx(workers => 1, http =>
        'waiting_queue_redis ' . $redis->url . ';');

    $nginx->wait_ready;

    my ($row) = $nginx->rows;
    my $key = "DISPATCH:{$row->{instance}}";

    # the worker waits while the stream is filled
    kill STOP => $row->{pid};
    $redis->cli('EVAL', "for i = 1, $messages do "
        . "redis.call('XADD', KEYS[1], '*', 'userId', 'u' .. i, "
        . "'eventId', 'e', 'instanceId', 'i') end", 1, $key);

    my @before = (time, cpu($row->{pid}), cpu($redis->pid));
    kill CONT => $row->{pid};

    wait_until { $redis->cli('XLEN', $key) == 0 } 120, 'all are carried';

    my $elapsed = time - $before[0];
    printf "%d messages in %.2f s: %.0f/s, %.1f us of CPU each in nginx, "
           . "%.1f in Redis\n", $messages, $elapsed, $messages / $elapsed,
           1e6 * (cpu($row->{pid}) - $before[1]) / $messages,
           1e6 * (cpu($redis->pid) - $before[2]) / $messages;
}


untouched();
carried();
finish();
