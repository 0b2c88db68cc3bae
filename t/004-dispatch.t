# DISPATCH:{instance} is how the rest of the system speaks to one worker, and
# ENTRY to whichever is free.  Anybody who can write to Redis can put something
# there.  Whatever it is, a worker must deal with it, say so, keep the stream
# empty, and live on.

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


# empty(stream): nothing is in it, and nothing read but not acknowledged

sub empty {
    my ($stream) = @_;

    return redis('XLEN', $stream) == 0
           && redis('XPENDING', $stream, 'waiting_queue') =~ /^0\b/;
}


# message(instance, more): a message as it should be, for XADD

sub message {
    my ($instance, %more) = @_;

    my %fields = (type => 'expired', userId => 'u1', eventId => 'e1',
                  instanceId => $instance, idx => 1, token => '',
                  expiresAt => 0, serial => 0, %more);

    return map { ($_, $fields{$_}) }
           grep { defined $fields{$_} }
                qw(type userId eventId instanceId idx token expiresAt serial);
}


# sum(status, counter): of all workers

sub sum {
    my ($status, $counter) = @_;

    my $sum = 0;
    $sum += $_->{$counter} for @{$status->{processes}};

    return $sum;
}


# consumed(total, garbage): every worker has read so many messages since it
# began, all of them garbage or as many as said, and nothing of them is left;
# returns the status

sub consumed {
    my ($total, $garbage) = @_;

    my $status = await("$total messages on every worker", sub {
        my $status = status();
        !(grep { $_->{dispatched} < $total } @{$status->{processes}})
            && $status;
    });

    for my $process (@{$status->{processes}}) {
        my $stream = stream($status, $process);

        await('an empty stream', sub { empty($stream) });

        is($process->{dispatched}, $total, 'dispatched');
        is($process->{dispatchGarbage},
           defined $garbage ? $garbage : $total, 'dispatchGarbage');
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

        my $name = stream($status, $process);
        like($lines[0], qr/waiting_queue:\ what\ was\ put\ into\ the\ stream
                           \ "\Q$name\E"\ makes\ no\ sense/x,
             'which tells the stream');

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
        ok(@own >= 1 && @own <= $allowed,
           'said, and not more than once in 10 s')
            or diag(@own);
    }

    like($_, qr/\[error\] .* waiting_queue: redis answered with an error/,
         'at error') for @lines;

    redis('DEL', @$streams);
    await('the streams', sub { redis('EXISTS', @$streams) == $workers });

    redis('XADD', $_, '*', 'a', 'b') for @$streams;
    consumed(1);
    healthy($status);



=== TEST 6: a heartbeat key of another type: is mended
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-6:;
--- check
    ready();
    my $status = status();

    redis('SET', 't004-6:WAITING_INSTANCES', 'not a zset');

    await('a set of instances, with all of them', sub {
        redis('TYPE', 't004-6:WAITING_INSTANCES') eq 'zset'
            && redis('ZCARD', 't004-6:WAITING_INSTANCES') == $workers;
    });

    healthy($status);
    is(scalar(logged(qr/WRONGTYPE/)), 0, 'nobody was refused');



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
        !grep { !empty($_) } @$streams;
    }), 'in the end nothing is left');

    my $now = healthy($status);
    is((grep { $_->{links}{commands}{reconnects} } @{$now->{processes}}), 0,
       'no reconnect');



=== TEST 8: messages of users who are not here are dealt with and removed
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-8:;
--- check
    my $status = ready();

    for my $process (@{$status->{processes}}) {
        my $stream = stream($status, $process);
        my $instance = $process->{instance};

        redis('XADD', $stream, '*', message($instance));
        redis('XADD', $stream, '*', message($instance, type => 'replaced',
                                            serial => '1700000000000000'));
        redis('XADD', $stream, '*', message($instance, token => 'a' x 40,
                                            idx => '9223372036854775807',
                                            userId => 'u' x 128,
                                            eventId => 'e' x 128));
        redis('XADD', $stream, '*', message($instance, idx => 0));

        # a lease that waits for its user to come back
        redis('XADD', $stream, '*', message($instance, type => 'promoted',
                                            token => '0123456789' x 4,
                                            expiresAt => '9999999999999'));
    }

    my $now = consumed(5, 0);
    is($_->{absent}, 1, 'one is waited for') for @{$now->{processes}};

    is(scalar logged(qr/\[(warn|error|crit)\]/), 0, 'nothing is logged');
    healthy($status);



=== TEST 9: a message with one field that is wrong is garbage
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-9:;
--- check
    my $status = ready();

    my @wrong = (
        (map { [ type => $_ ] } undef, '', 'Expired', 'expire', 'expiredx',
                                'none'),
        (map { my $field = $_;
               map { [ $field => $_ ] } undef, '', 'a b', 'a"b', 'a{b}',
                                        "a\n", "\xc3\xa9", 'x' x 129 }
             qw(userId eventId instanceId)),
        (map { my $field = $_;
               map { [ $field => $_ ] } undef, '', '-1', '1.5', '1e3', ' 1',
                                        '01', 'one', '9223372036854775808',
                                        '9' x 100 }
             qw(idx expiresAt serial)),
        (map { [ token => $_ ] } 'a' x 39, 'a' x 41, 'a', 'a' x 39 . '"',
                                 'a' x 39 . "\n"),
        [ type => 'promoted' ],
    );

    for my $process (@{$status->{processes}}) {
        redis('XADD', stream($status, $process), '*',
              message($process->{instance}, @$_)) for @wrong;
    }

    my $now = consumed(scalar @wrong);
    is($_->{absent}, 0, 'nobody is waited for') for @{$now->{processes}};

    # each of them but for this field would have been right
    redis('XADD', stream($status, $_), '*', message($_->{instance}))
        for @{$status->{processes}};
    consumed(@wrong + 1, scalar @wrong);

    healthy($status);



=== TEST 10: ENTRY: each message goes to its instance, garbage to nobody
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-10:;
--- check
    my $status = ready();
    my $entry = 't004-10:ENTRY';
    my ($s) = split /\n/, redis('TIME');

    # it was written a minute ago, by its id
    redis('XADD', $entry, ($s - 60) . '000-1', message('nobody-1-1'));

    my $now = await('that one', sub {
        my $now = status();
        sum($now, 'unroutable') && $now;
    });

    my $lag = sum($now, 'routerLagMs');
    ok($lag >= 59000 && $lag < 300000, 'the status tells the lag')
        or diag($lag);
    is(redis('EXISTS', 't004-10:DISPATCH:{nobody-1-1}'), 0,
       'nothing is written for an instance that is none');

    redis('XADD', $entry, '*', 'a', 'b');
    redis('XADD', $entry, '*', message('nobody-1-1', idx => 'x'));
    redis('XADD', $entry, '*', message(''));
    redis('XADD', $entry, '*', message($_->{instance}))
        for @{$status->{processes}};

    consumed(1, 0);

    $now = await('all of it', sub {
        my $now = status();
        sum($now, 'routed') >= 4 + $workers && $now;
    });

    is(sum($now, 'routed'), 4 + $workers, 'routed');
    is(sum($now, 'routerGarbage'), 3, 'routerGarbage');
    is(sum($now, 'unroutable'), 1, 'unroutable');
    is(sum($now, 'claimed'), 0, 'claimed');

    ok(await('an empty ENTRY', sub { empty($entry) }), 'nothing is left');

    my @lines = logged(qr/\[warn\]/);
    ok(@lines >= 1 && @lines <= 3, 'a warning') or diag(@lines);
    like($_, qr/what was put into the stream "\Q$entry\E" makes no sense/,
         'which tells the stream') for @lines;

    is(scalar logged(qr/\[(error|crit)\]/), 0, 'no error');
    healthy($status);



=== TEST 11: ENTRY: deleted, without its group, of another type
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-11:;
--- check
    my $status = ready();
    my $entry = 't004-11:ENTRY';
    my $total = 0;

    my $goes_on = sub {
        redis('XADD', $entry, '*', message($_->{instance}))
            for @{$status->{processes}};
        consumed(++$total, 0);
    };

    my $made_anew = sub {
        ok(await('the stream and its group', sub {
            redis('TYPE', $entry) eq 'stream'
                && redis('XINFO', 'GROUPS', $entry) =~ /waiting_queue/;
        }), 'is made anew');
    };

    $goes_on->();

    redis('DEL', $entry);
    $made_anew->();
    $goes_on->();

    redis('XGROUP', 'DESTROY', $entry, 'waiting_queue');
    $goes_on->();

    redis('SET', $entry, 'not a stream');
    await('refusals on every worker', sub {
        !grep { $_->{links}{router}{failed} < 3 } @{status()->{processes}};
    });
    is(redis('GET', $entry), 'not a stream', 'the key is left alone');

    redis('DEL', $entry);
    $made_anew->();
    $goes_on->();

    healthy($status);



=== TEST 12: ENTRY: what a dead worker has read and not handed on is claimed
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t004-12:;
--- check
    my $status = ready();
    my $entry = 't004-12:ENTRY';

    # more than one claim gives, read by it before anybody else can
    redis('EVAL', 'for i = 1, 250 do '
                  . 'redis.call("XADD", KEYS[1], "*", unpack(ARGV)) end '
                  . 'redis.call("XADD", KEYS[1], "*", "a", "b") '
                  . 'local read = redis.call("XREADGROUP", "GROUP", '
                  . '"waiting_queue", "dead-1-1", "STREAMS", KEYS[1], ">") '
                  . 'for _, message in ipairs(read[1][2]) do '
                  . 'redis.call("XCLAIM", KEYS[1], "waiting_queue", '
                  . '"dead-1-1", 0, message[1], "IDLE", 60000, "JUSTID") end',
          1, $entry, message($status->{processes}[0]{instance}));

    my $now = await('all of it', sub {
        my $now = status();
        sum($now, 'routed') >= 251 && sum($now, 'dispatched') >= 250 && $now;
    });

    is(sum($now, 'claimed'), 251, 'claimed');
    is(sum($now, 'routed'), 251, 'routed');
    is(sum($now, 'routerGarbage'), 1, 'garbage too');
    is(sum($now, 'dispatched'), 250, 'and told');
    is($now->{processes}[0]{dispatched}, 250, 'to whom they are for');

    ok(await('an empty ENTRY', sub { empty($entry) }), 'nothing is left');
    healthy($status);
