# DISPATCH:{instance} is how the rest of the system speaks to one worker, and
# anybody who can write to Redis can put something there.  Whatever it is, the
# worker must deal with it, say so, keep the stream empty, and live on.

use WaitingQueue::Test;
use WaitingQueue::Live;

use Time::HiRes ();

my $workers = $ENV{WQ_WORKERS} || 1;


# "--- check" runs after the request, as one test; [error] lines are looked at
# there

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value('config', '    location = /status {
        waiting_queue_status;
    }');
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    Test::More::subtest($block->name => sub {
        eval $block->check . '; 1' or Test::More::fail("died: $@");
    });
});

plan tests => repeat_each() * (blocks() * 4);

redis('FLUSHALL');

run_tests();


sub stream {
    my ($status, $process) = @_;

    return "$status->{prefix}DISPATCH:{$process->{instance}}";
}


# streams(status): one for each worker

sub streams {
    my ($status) = @_;

    return [ map { stream($status, $_) } @{$status->{processes}} ];
}


# consumed(total): every worker has read so many messages since it began, and
# nothing of them is left; returns the status

sub consumed {
    my ($total) = @_;

    my $status = await("$total messages on every worker", sub {
        my $status = status();
        !(grep { $_->{dispatched} < $total } @{$status->{processes}})
            && $status;
    });

    for my $process (@{$status->{processes}}) {
        my $stream = stream($status, $process);

        await('an empty stream', sub {
            redis('XLEN', $stream) == 0
                && redis('XPENDING', $stream, 'waiting_queue') =~ /^0\b/;
        });

        is($process->{dispatched}, $total, 'dispatched');
        is($process->{dispatchGarbage}, $total, 'dispatchGarbage');
    }

    return $status;
}


# the worker is where it was: same processes, all links ready

sub healthy {
    my ($status) = @_;

    my @pids = sort map { $_->{pid} } @{$status->{processes}};

    my $now = await('all links ready', sub {
        my $now = status();
        !(grep { $_->{state} ne 'ready' || $_->{trouble} }
               map { values %{$_->{links}} } @{$now->{processes}}) && $now;
    });

    is_deeply([ sort map { $_->{pid} } @{$now->{processes}} ], \@pids,
              'the same workers');

    my %beats = map { $_->{pid} => $_->{heartbeats} } @{$now->{processes}};
    ok(await('a heartbeat', sub {
        !grep { $_->{heartbeats} <= $beats{$_->{pid}} }
              @{status()->{processes}};
    }), 'which are alive');

    return $now;
}


# the lines nginx has logged since the block began, that match

sub logged {
    my ($pattern) = @_;

    open my $log, '<', server_root() . '/logs/error.log' or die "log: $!";
    return grep { /$pattern/ } <$log>;
}

__DATA__

=== TEST 1: garbage is counted, acknowledged and removed, and warned of once in 10 s
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-1:;
--- check
    my $streams = streams(ready());
    my $began = Time::HiRes::time();
    my %ids;

    for my $stream (@$streams) {
        $ids{$stream} = [
            redis('XADD', $stream, '*', 'a', 'b'),
            redis('XADD', $stream, '*', '', ''),
            redis('XADD', $stream, '*', 'type', "\x01\xff\r\n\"{%s%n}"),
            redis('XADD', $stream, '*', 'x' x 1000, 'y' x 100000),
            redis('XADD', $stream, '*', map { ($_, $_) } 1 .. 100),
        ];
    }

    my $status = consumed(5);
    my $allowed = 1 + int((Time::HiRes::time() - $began) / 10);

    for my $process (@{$status->{processes}}) {
        my @lines = logged(qr/ \[warn\] $process->{pid}#/);
        ok(@lines >= 1 && @lines <= $allowed, 'a warning, once in 10 s')
            or diag(@lines);

        like($lines[0], qr/waiting_queue:\ what\ was\ put\ into\ the\ dispatch
                           \ stream\ of\ "\Q$process->{instance}\E"
                           \ makes\ no\ sense/x, 'which tells the stream');

        my ($id) = $lines[0] =~ / from "(\d+-\d+)" on/;
        my $own = $ids{stream($status, $process)};
        is(scalar(grep { $_ eq $id } @$own), 1, 'and a message');
    }

    is(scalar logged(qr/\[(error|crit)\]/), 0, 'no error');
    healthy($status);



=== TEST 2: a thousand messages at once
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-2:;
--- check
    my $streams = streams(ready());

    redis('EVAL', 'for _, key in ipairs(KEYS) do for i = 1, 1000 do '
                  . 'redis.call("XADD", key, "*", "n", i) end end',
          scalar @$streams, @$streams);

    my $status = consumed(1000);
    healthy($status);

    for my $process (@{$status->{processes}}) {
        is($process->{links}{commands}{$_}, 0, $_) for qw(refused failed lost);
    }

    redis('XADD', $_, '*', 'a', 'b') for @$streams;
    consumed(1001);



=== TEST 3: a stream deleted by hand is made anew
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-3:;
--- check
    my $streams = streams(ready());
    my $status = status();

    redis('XADD', $_, '*', 'a', 'b') for @$streams;
    consumed(1);

    redis('DEL', @$streams);
    await('the streams and their groups', sub {
        redis('EXISTS', @$streams) == $workers
            && !grep { redis('XINFO', 'GROUPS', $_) !~ /waiting_queue/ }
                     @$streams;
    });

    redis('XADD', $_, '*', 'a', 'b') for @$streams;
    consumed(2);
    healthy($status);



=== TEST 4: a group destroyed by hand is made anew, and misses nothing
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-4:;
--- check
    my $streams = streams(ready());
    my $status = status();

    redis('XGROUP', 'DESTROY', $_, 'waiting_queue') for @$streams;
    redis('XADD', $_, '*', 'a', 'b') for @$streams;

    consumed(1);
    healthy($status);



=== TEST 5: a key of another type: lives, says it now and then, recovers
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-5:;
--- check
    my $streams = streams(ready());
    my $status = status();
    my $began = Time::HiRes::time();

    redis('SET', $_, 'not a stream') for @$streams;

    await('several refusals on every worker', sub {
        !grep { $_->{links}{reader}{failed} < 3 } @{status()->{processes}};
    });

    is(redis('GET', $_), 'not a stream', 'the key is left alone')
        for @$streams;

    my @lines = logged(qr/WRONGTYPE/);
    my $allowed = 1 + int((Time::HiRes::time() - $began) / 10);

    for my $process (@{$status->{processes}}) {
        my @own = grep { /\] $process->{pid}#/ } @lines;
        ok(@own >= 1 && @own <= $allowed, 'said, and not more than once in 10 s')
            or diag(@own);
    }

    like($_, qr/\[error\] .* waiting_queue: redis answered with an error/,
         'at error') for @lines;

    redis('DEL', @$streams);
    await('the streams', sub { redis('EXISTS', @$streams) == $workers });

    redis('XADD', $_, '*', 'a', 'b') for @$streams;
    consumed(1);
    healthy($status);



=== TEST 6: a heartbeat key of another type: lives and recovers
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-6:;
--- check
    ready();
    my $status = status();

    redis('SET', 't004-6:WAITING_INSTANCES', 'not a zset');

    await('a refusal on every worker', sub {
        !grep { $_->{links}{commands}{failed} < 2 } @{status()->{processes}};
    });

    for my $process (@{$status->{processes}}) {
        is(scalar(grep { /\] $process->{pid}#/ } logged(qr/WRONGTYPE/)), 1,
           'said once');
    }

    redis('DEL', 't004-6:WAITING_INSTANCES');
    healthy($status);

    is(redis('ZCARD', 't004-6:WAITING_INSTANCES'), $workers, 'all are back');



=== TEST 7: what is too much for in_flight is refused, counted and done later
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET in_flight=1;
    waiting_queue_prefix t004-7:;
--- check
    ready();
    my $status = status();

    # more than one read's worth, until the answer to one removal is late
    await('a refusal on every worker', sub {
        my $now = status();
        my @streams = map { stream($now, $_) }
                      grep { $_->{links}{commands}{refused} == 0 }
                           @{$now->{processes}};

        return 1 if !@streams;

        redis('EVAL', 'for _, key in ipairs(KEYS) do for i = 1, 200 do '
                      . 'redis.call("XADD", key, "*", "n", i) end end',
              scalar @streams, @streams);
        return 0;
    });

    for my $process (@{status()->{processes}}) {
        my $link = $process->{links}{commands};
        ok($link->{refused} > 0, 'refused is counted');
        is($link->{$_}, 0, $_) for qw(failed lost timedOut reconnects);
        ok($link->{inFlight} <= 1, 'not more than one in flight');
    }

    my $streams = streams(ready());
    ok(await('empty streams', sub {
        !grep { redis('XLEN', $_)
                || redis('XPENDING', $_, 'waiting_queue') !~ /^0\b/ }
              @$streams;
    }), 'in the end nothing is left');

    my $now = healthy($status);
    is((grep { $_->{links}{commands}{reconnects} } @{$now->{processes}}), 0,
       'no reconnect');
