# The scripts are where the line is kept.  What each of them promises is tried
# here without nginx: who gets in and when, what is stored under which name, and
# that asking twice does nothing twice.

use strict;
use warnings;

use Test::More;
use Time::HiRes ();
use WaitingQueue::Script;

sub redis { return WaitingQueue::Script::redis(@_) }

sub stored { return WaitingQueue::Script::stored() }

my $n = 0;

sub line { return WaitingQueue::Script->new('e' . ++$n, @_) }

sub well {
    my ($line, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is_deeply([ $line->wrong ], [], "$what: invariants");
}

sub now_us {
    my ($s, $us) = @{redis('TIME')};
    return $s * 1000000 + $us;
}


# an empty line and a free slot

{
    my $line = line(capacity => 2);
    my $before = now_us();
    my $first = $line->join('u1', 'node-1-1');

    is($first->{status}, 'ready', 'a free slot: ready at once');
    like($first->{serial}, qr/^\d+$/, 'with a serial');
    ok($before <= $first->{serial} && $first->{serial} <= now_us(),
       'which is the time in us');
    like($first->{token}, qr/^[0-9a-f]{40}$/, 'with a token');
    is($first->{idx}, 1, 'and an idx');
    is($first->{rank}, undef, 'without a place in line');
    is(redis('GET', 'ENTRY_TOKEN:{e1}:u1'), $first->{token}, 'which is stored');
    ok(abs(redis('PTTL', 'ENTRY_TOKEN:{e1}:u1') - 60000) < 1000,
       'for the claim time');
    is(redis('ZSCORE', 'ENTRY_ACTIVE:{e1}', 'u1'), $first->{expires},
       'the lease ends when it was said');
    is(redis('HGET', 'ENTRY_QUEUE_SLOTS', 'e1'), 1, 'one slot is left');
    is(redis('SISMEMBER', 'WAITING_EVENTS', 'e1'), 1, 'the event is known');

    my $again = $line->join('u1', 'node-2-2');
    is($again->{status}, 'ready', 'again: still ready');
    is($again->{token}, $first->{token}, 'with the same token');
    is($again->{idx}, 1, 'and idx');
    is($again->{previous}, 'node-1-1', 'and the instance before');
    cmp_ok($again->{serial}, '>', $first->{serial}, 'and a higher serial');
    is_deeply($line->messages,
              [ [ type => 'replaced', userId => 'u1', eventId => 'e1',
                  instanceId => 'node-1-1', idx => 1,
                  token => $first->{token}, expiresAt => $first->{expires},
                  serial => $again->{serial} ] ],
              'which is told that it is replaced');
    is(redis('HGET', 'ENTRY_QUEUE_SLOTS', 'e1'), 1, 'no slot is taken twice');
    is($line->stat('joined'), 1, 'nor counted twice');

    my $entered = $line->join('u1', 'node-2-2', 'enter');
    is($entered->{status}, 'entered', 'entered with the token');
    is($entered->{previous}, 'node-2-2', 'at the same instance');
    is_deeply($line->messages, [], 'which need not be told');
    ok(abs(redis('PTTL', 'ENTRY_TOKEN:{e1}:u1') - 300000) < 1000,
       'for the whole time');
    is($line->join('u2', 'i', 'enter')->{status}, 'entered',
       'who enters needs no claim');
    well($line, 'a free slot');
}


# no free slot

{
    my $line = line(capacity => 1);
    my $event = "e$n";

    $line->join('inside');

    my $first = $line->join('u1', 'node-1-1');
    is_deeply([ @$first{qw(status idx rank total token expires)} ],
              [ 'waiting', 2, 0, 1, undef, undef ], 'no slot: first in line');
    is(redis('ZSCORE', "WAITING:{$event}", '{"userId":"u1"}'), 2,
       'the line holds the user by its idx');
    like(redis('HGET', "WAITING_QUEUE_INDEX_RECORD:{$event}", 'u1'),
         qr/^\{"userId":"u1","eventId":"\Q$event\E","idx":2,
             "instanceId":"node-1-1","since":\d{13},"serial":\d{16}\}$/x,
         'the record');
    is(redis('HGET', "WAITING_USER_IDS:{$event}", 'u1'), 'true', 'the id');
    is(redis('HGET', 'WAITING_QUEUE_IDX', $event), 2, 'the last idx');

    is($line->join('u2')->{rank}, 1, 'second in line');

    my $back = $line->join('u1', 'node-2-2');
    is_deeply([ @$back{qw(status idx rank previous)} ],
              [ 'waiting', 2, 0, 'node-1-1' ], 'back: the same place');
    is_deeply($line->messages,
              [ [ type => 'replaced', userId => 'u1', eventId => $event,
                  instanceId => 'node-1-1', idx => 2, token => '',
                  expiresAt => 0, serial => $back->{serial} ] ],
              'and the instance before is told');
    is($line->join('u1', 'node-2-2')->{previous}, 'node-2-2',
       'back at the same instance');
    is_deeply($line->messages, [], 'which need not be told');
    is($line->leave('u1', 'node-1-1'), 0, 'the old instance cannot end it');
    is($line->leave('u1', 'node-2-2'), 1, 'the new one can');
    is($line->leave('u1', 'node-2-2'), 0, 'once');
    is_deeply($line->line, [ 'u2' ], 'and the next is first');
    is($line->join('u1')->{idx}, 4, 'who left and comes again is the last');
    is($line->stat('left'), 1, 'counted');
    well($line, 'no slot');
}


# promotion

{
    my $line = line(capacity => 2);
    $line->join($_, "i-$_") for qw(a b c d e f);
    is_deeply($line->announced, [], 'nobody is told what its join has said');

    is_deeply($line->promote,
              { promoted => 0, expired => 0, more => 0, opens => 0, total => 4,
                free => 0, inside => 2,
                map({ ("all_$_" => 0) } qw(free sold promoted entered left
                                           expired done drift rate_users
                                           rate_ms concurrent halted hold)),
                all_total => 4, all_inside => 2, all_capacity => 2, all_origin => 1,
                all_seats => -1, all_joined => 6, all_direct => 2 },
              'no free slot: nobody');
    is_deeply($line->release('a'), [ 1, 1 ], 'a slot comes back: the next');
    my $told = $line->messages;
    my $ready = $line->join('c', 'i-c');
    is($ready->{status}, 'ready', 'who is ready');
    is_deeply($told,
              [ [ type => 'promoted', userId => 'c', eventId => "e$n",
                  instanceId => 'i-c', idx => 3, token => $ready->{token},
                  expiresAt => $ready->{expires}, serial => 0 ] ],
              'and whose worker is told');
    is_deeply($line->release('a'), [ 0, 0 ], 'a lease ends once');
    is_deeply($line->release('b', 'return', 'other'), [ 0, 0 ],
              'and only by its instance, where one is named');

    is_deeply($line->release('b', 'sold'), [ 1, 0 ], 'a seat is sold: no slot');
    is($line->stat('sold'), 1, 'counted');
    is(redis('EXISTS', "seat:count:{e$n}"), 0,
       'and where nobody counts seats, nobody does');
    well($line, 'sold');

    $line->set(capacity => 5);
    my $promoted = $line->promote(2);
    is_deeply([ @$promoted{qw(promoted more)} ], [ 2, 1 ],
              'a larger capacity: as many as one call may');
    is_deeply([ @{$line->promote(2)}{qw(promoted free more)} ], [ 1, 0, 0 ],
              'then the rest');
    is_deeply([ map { [ @$_[1, 3] ] } @{$line->announced} ],
              [ [ 'd', 4 ], [ 'e', 5 ], [ 'f', 6 ] ],
              'in the order of the line');
    is($line->promote->{all_promoted}, 4, 'counted in all');
    $line->promote;
    is($line->promote->{free}, 0, 'the difference is applied once');
    well($line, 'capacity');

    $line->set(capacity => 1);
    is($line->promote->{free}, -4, 'a smaller capacity: slots are owed');
    well($line, 'less capacity');
}


# refusals

{
    my $line = line(capacity => 1, max_waiting => 1);
    $line->join($_) for qw(a b);
    is($line->join('c')->{status}, 'full', 'max_waiting: full');
    is($line->join('b')->{status}, 'waiting', 'but who waits, waits');

    $line->set(closed => 1);
    is($line->join('d')->{status}, 'closed', 'closed');
    is_deeply($line->release('a'), [ 1, 0 ], 'closed: nobody is let in');
    $line->set(closed => 0);
    is($line->promote->{promoted}, 1, 'open again');

    redis('SET', "seat:count:{e$n}", 0);
    is($line->join('d')->{status}, 'sold_out', 'sold out');
    is($line->join('b')->{status}, 'ready', 'but who is in, is in');
    redis('SET', "seat:count:{e$n}", 1);
    is($line->join('d')->{status}, 'waiting', 'a seat came back');
    $line->release('b', 'sold');
    is(redis('GET', "seat:count:{e$n}"), 0, 'and is sold');

    my $paused = line(capacity => 1);
    $paused->set(paused => 1);
    is($paused->join('a')->{status}, 'waiting', 'paused: all wait');
    is($paused->promote->{promoted}, 0, 'paused: nobody is let in');
    $paused->set(paused => 0, capacity => 'many');
    is($paused->promote->{promoted}, 1, 'and a capacity of nonsense is none');

    my $unknown = line(capacity => undef);
    $unknown->set(ttl => 1000, capacity => 'many');
    my $before = stored();

    for my $capacity ('', 'abc', '-1', '1.5', '9' x 20) {
        my $answer = $unknown->join('a', 'i', 'stream', $capacity, 7);
        is_deeply([ @$answer{qw(status idx rank total token previous changed
                                epoch serial)} ],
                  [ 'unknown', undef, undef, 0, undef, undef, 0, '', 0 ],
                  "a capacity of \"$capacity\": none is known");
    }
    is_deeply(stored(), $before, 'and nothing is stored');

    is($unknown->join('a', 'i', 'stream', 1)->{status}, 'ready', 'now it is');
    is(redis('HGET', "WAITING_QUEUE_CONF:{e$n}", 'text'),
       $unknown->{settings}, 'with the settings');
    is($unknown->join('b', 'i', 'stream', 9)->{status}, 'waiting',
       'and the first word counts');
    well($unknown, 'capacity from elsewhere');

    my $said = line(capacity => undef);
    $said->set(capacity => 1);
    is($said->join('a')->{status}, 'ready', 'the operator may say it');
    is(redis('HGET', "WAITING_QUEUE_CONF:{e$n}", 'text'),
       $said->{settings}, 'with which the settings are kept');
    redis('HSET', "WAITING_QUEUE_CONF:{e$n}", 'service_capacity', 'garbage');
    $said->join('a', 'i', 'stream', 4);
    is(redis('HGET', "WAITING_QUEUE_CONF:{e$n}", 'service_capacity'), 4,
       'garbage is not the first word');
    well($said, 'capacity from the operator');
}


# nobody to tell

{
    my $line = line(capacity => 1);
    $line->join('a', '');
    $line->join('b', '');
    is($line->join('b', 'i')->{previous}, '', 'nobody held the connection');
    $line->join('b', '');
    is_deeply($line->announced, [], 'and who does is not replaced by nobody');

    redis('HSET', "WAITING_QUEUE_INDEX_RECORD:{e$n}", 'b', 'garbage');
    $line->release('a');
    redis('ZADD', "ENTRY_ACTIVE:{e$n}", 1, 'b');
    is($line->promote->{expired}, 1, 'promoted, and lapsed');
    is_deeply($line->announced, [], 'without anybody to be told');
    well($line, 'nobody to tell');
}


# leases that lapse

{
    my $line = line(capacity => 1, claim => 20);
    my $end = $line->join('a', 'i-a')->{expires};
    $line->join('b', 'i-b');
    $line->announced;

    my $promoted;
    for (1 .. 500) {
        $promoted = $line->promote;
        last if $promoted->{expired};
        Time::HiRes::sleep(0.002);
    }

    my ($s, $us) = @{redis('TIME')};
    ok($s * 1000 + $us / 1000 >= $end, 'not before its end');
    is_deeply([ @$promoted{qw(expired promoted)} ], [ 1, 1 ],
              'a lease that nobody used goes to the next');
    is_deeply($line->announced,
              [ [ 'expired', 'a', 'i-a', 1 ], [ 'promoted', 'b', 'i-b', 2 ] ],
              'and both are told');
    is($promoted->{all_expired}, 1, 'counted in all');
    is(redis('EXISTS', "ENTRY_TOKEN:{e$n}:a"), 0, 'the token is gone');
    well($line, 'lapsed');

    for (1 .. 500) {
        last if $line->join('c')->{status} eq 'ready';
        $line->leave('c');
        Time::HiRes::sleep(0.002);
    }
    is($line->join('c')->{status}, 'ready',
       'nobody waits: a lapsed lease does not keep a newcomer out');
    well($line, 'lapsed before a join');
}

{
    my $line = line(capacity => 2);
    my $token = $line->join('a', 'i-a')->{token};
    $line->join('b', 'i-b');
    redis('ZADD', "ENTRY_ACTIVE:{e$n}", 1, 'a', 2, 'b');
    redis('DEL', "ENTRY_TOKEN:{e$n}:b");
    is($line->promote->{expired}, 2, 'lapsed');
    is_deeply($line->messages,
              [ [ type => 'expired', userId => 'a', eventId => "e$n",
                  instanceId => 'i-a', idx => 1, token => $token,
                  expiresAt => 0, serial => 0 ],
                [ type => 'expired', userId => 'b', eventId => "e$n",
                  instanceId => 'i-b', idx => 2, token => '',
                  expiresAt => 0, serial => 0 ] ],
              'told with the idx, and with the token if it is still known');

    # whoever is first to see that a lease has lapsed, its holder is told
    $line->join('c', 'i-c');
    redis('ZADD', "ENTRY_ACTIVE:{e$n}", 1, 'c');
    my $again = $line->join('c', 'i-d');
    is_deeply([ @$again{qw(status idx previous)} ], [ 'ready', 4, undef ],
              'a lease after one that has lapsed is a new one');
    is_deeply($line->announced, [ [ 'expired', 'c', 'i-c', 3 ] ],
              'and the end of the old one is told');
    is($line->promote->{expired}, 0, 'once');
    well($line, 'lapsed and again');
}


# an event that is over leaves little

{
    my $line = line(capacity => 1);
    $line->join($_) for qw(a b);
    $line->join('c');
    $line->leave('c');
    $line->release('a');
    $line->release('b');
    $line->announced;
    $line->promote;

    is(redis('SISMEMBER', 'WAITING_EVENTS', "e$n"), 0, 'over: off the list');
    my ($marks, $left) = (0, []);
    for my $key (sort grep { /\{e$n\}/ } @{redis('KEYS', '*')}) {
        if ($key =~ m{^ENTRY_TOKEN:.*/} && redis('PTTL', $key) > 0) {
            $marks++;
        } else {
            push @$left, $key;
        }
    }
    is_deeply($left, [ "WAITING_QUEUE_CONF:{e$n}", "WAITING_STATS:{e$n}" ],
              'over: settings and counters are left');
    is($marks, 2, 'over: and for a while that two leases have ended');
}


# garbage

{
    my $line = line(capacity => 1);
    $line->join($_) for qw(a b c);
    redis('ZADD', "WAITING:{e$n}", 0, 'garbage');
    redis('HSET', "WAITING_QUEUE_INDEX_RECORD:{e$n}", 'b', 'garbage');

    is_deeply($line->release('a'), [ 1, 0 ], 'garbage at the head: left out');
    is($line->stat('garbage'), 1, 'counted');
    is($line->promote->{promoted}, 1, 'the next is let in');
    is($line->join('b')->{status}, 'ready', 'even with a broken record');
    redis('HSET', "WAITING_QUEUE_INDEX_RECORD:{e$n}", 'c', '{}');
    is($line->join('c')->{idx}, 3, 'a broken record costs nobody the place');
    redis('HDEL', "WAITING_QUEUE_INDEX_RECORD:{e$n}", 'c');
    is($line->join('c')->{idx}, 3, 'nor does a lost one');
    well($line, 'garbage');

    redis('HSET', 'ENTRY_QUEUE_SLOTS', "e$n", 99);
    is($line->promote->{promoted}, 0, 'made-up slots let nobody in');
    well($line, 'slots made up');
    redis('HDEL', 'WAITING_QUEUE_IDX', "e$n");
    is($line->join('d')->{rank}, 1, 'a lost idx puts nobody in front');

    redis('DEL', "ENTRY_TOKEN:{e$n}:b");
    like($line->join('b')->{token}, qr/^[0-9a-f]{40}$/,
         'a lost token is made anew');

    for my $nonsense ('inf', 'nan', '1.5', '-1', '1e3', '0x10', '', 'x',
                      '9' x 20)
    {
        $line->set(claim => $nonsense, ttl => $nonsense,
                   capacity => $nonsense, max_waiting => $nonsense);
        is($line->join('b', 'i', 'enter')->{status}, 'entered',
           "a setting of \"$nonsense\" is none");
    }
    well($line, 'settings of nonsense');

    redis('DEL', "WAITING_QUEUE_CONF:{e$n}", "WAITING_QUEUE_OVERRIDE:{e$n}");
    is_deeply($line->release('b'), [ 1, 1 ], 'lost settings: the defaults');
    well($line, 'settings lost');
}


# calls that are repeated because their answer was lost

{
    my $line = line(capacity => 1);
    my $token = $line->join('a')->{token};
    my $idx = $line->join('b')->{idx};

    is_deeply($line->release('a', 'sold', '', $token), [ 1, 0 ], 'sold');
    $line->set(capacity => 2);
    $line->leave('b', '', $idx);
    $line->join('a');
    is_deeply($line->release('a', 'sold', '', $token), [ 0, 0 ],
              'the same again does not end a new lease');
    is($line->stat('sold'), 1, 'nor sell twice');

    $idx = $line->join('b')->{idx};
    is($line->leave('b', '', $idx), 1, 'left');
    $line->join('b');
    is($line->leave('b', '', $idx), 0,
       'the same again does not end a new place');
    well($line, 'repeated');

    # the lease has lapsed, but the seat was sold all the same
    redis('ZADD', "ENTRY_ACTIVE:{e$n}", 1, 'a');
    is_deeply($line->release('a'), [ 0, 0 ], 'a lapsed lease is over');
    is_deeply($line->release('a', 'sold'), [ 1, 0 ], 'but a sale is a sale');
    well($line, 'sold late');
}


# settings that go

{
    my $line = line(capacity => 5);
    $line->join('a');
    my $changed = WaitingQueue::Script->new("e$n", capacity => undef);
    is($changed->join('b', 'i', 'stream', 'abc')->{changed}, 1,
       'settings have changed');
    $changed->join('b', 'i', 'stream', 2);
    $changed->join('b', 'i', 'stream', 9);
    is($changed->promote->{free}, 0, 'the capacity is the service\'s first');

    my $once_more = WaitingQueue::Script->new("e$n", capacity => undef,
                                              ttl => 1000);
    my $answer = $once_more->join('c');
    is_deeply([ @$answer{qw(status changed)} ], [ 'waiting', 1 ],
              'settings have changed again');
    is($once_more->join('c')->{changed}, 0, 'once');
    is_deeply([ @{redis('HMGET', "WAITING_QUEUE_CONF:{e$n}", 'capacity', 'ttl',
                        'service_capacity')} ], [ undef, 1000, 2 ],
              'and the service\'s word outlives it');
    well($changed, 'settings that go');
}


# restore

{
    my $line = line(capacity => 1);
    my $epoch = $line->join('in')->{epoch};
    ok(length $epoch, 'an epoch');
    is($line->join('m')->{epoch}, $epoch, 'which stays');

    # another worker has seen a loss
    my $moved = $line->restore('m', 'new', 2, 2, $epoch);
    is_deeply([ @$moved{qw(status idx rank previous)} ],
              [ 'waiting', 2, 0, 'i1' ], 'who is there stays there');
    is_deeply($line->messages,
              [ [ type => 'replaced', userId => 'm', eventId => "e$n",
                  instanceId => 'i1', idx => 2, token => '', expiresAt => 0,
                  serial => $moved->{serial} ] ],
              'and the instance before is told');
    is($moved->{epoch}, $epoch, 'nobody was missing: the epoch goes on');
    is($line->restore('m', 'new', 2, 2, $epoch)->{rank}, 0, 'once more');
    is($line->leave('m', 'i1'), 0, 'and the user is held by the caller');
    is_deeply($line->messages, [], 'who need not be told');

    my $in = $line->restore('in', 'new', 9, 9, $epoch);
    is_deeply([ @$in{qw(status idx rank previous)} ],
              [ 'ready', 1, undef, 'i1' ], 'who is in stays in');
    is_deeply($line->messages,
              [ [ type => 'replaced', userId => 'in', eventId => "e$n",
                  instanceId => 'i1', idx => 1, token => $in->{token},
                  expiresAt => $in->{expires}, serial => $in->{serial} ] ],
              'and the instance before is told that too');

    my $over = $line->restore('x', 'i', 5, 7, $epoch)->{epoch};
    isnt($over, $epoch, 'somebody was: the epoch is over');
    is($line->positions(0)->{epoch}, $over, 'for all');
    my $newcomer = $line->join('z');
    is($line->restore('y', 'i', 7, 7, $epoch)->{epoch}, $over, 'once');
    is_deeply($line->line, [ qw(m x y z) ], 'newcomers stand behind the known');
    well($line, 'restored');

    # who has gone elsewhere is not taken away from there by the one before
    WaitingQueue::Script::heartbeat($_) for qw(i new);
    my $held = $line->line;
    my $before = stored();
    is($line->restore('x', 'old', 5, 7, $epoch, '', 1)->{status}, 'replaced',
       'in line, held by another: replaced');
    is($line->restore('in', 'old', 9, 9, $epoch, '', 1)->{status}, 'replaced',
       'in, held by another: replaced');
    is_deeply(stored(), $before, 'replaced: nothing has changed');
    is($line->restore('x', 'i', 5, 7, $epoch)->{status}, 'waiting',
       'held by the caller: is not');
    redis('ZADD', 'WAITING_INSTANCES', -1, 'i');
    is($line->restore('x', 'old', 5, 7, $epoch)->{status}, 'waiting',
       'held by a dead one: is not');
    is_deeply($line->line, $held, 'and the line is as it was');
    redis('DEL', 'WAITING_INSTANCES');

    my $late = line(capacity => 1);
    $late->join('in');
    cmp_ok($late->join('z', 'i', 'stream', '', 500)->{idx}, '>', 500,
           'and behind what their worker knows, before anybody is restored');

    redis('ZADD', "ENTRY_ACTIVE:{e$n}", 1, 'in');
    $late->restore('in', 'i', 1, 1, 'x');
    well($late, 'a lapsed lease is not restored beside a place');
}


# a dead instance

{
    my $line = line(capacity => 4);
    $line->join("in$_", $_ % 2 ? 'dead' : 'alive') for 1 .. 4;
    $line->join("u$_", $_ % 2 ? 'dead' : 'alive') for 1 .. 1000;
    $line->join('u1', 'alive');
    $line->join('in1', 'alive');
    $line->announced;

    my $now = int(now_us() / 1000);
    my $before = stored();
    my ($left, $released, $wait) = $line->reap('dead', 100, $now - 10000);
    ok($wait > 15000 && $wait <= 20000, "grace: $wait ms to wait");
    is_deeply([ $left, $released, stored() ], [ 0, 0, $before ],
              'grace: nothing is done');
    $line->set(grace => 50000);
    (undef, undef, $wait) = $line->reap('dead', 100, $now - 10000);
    ok($wait > 35000 && $wait <= 40000, 'grace: the operator\'s');
    $line->set(grace => 10000);

    ($left, $released, $wait, my $calls)
        = $line->reap('dead', 100, $now - 10000);
    is_deeply([ $left, $released, $wait ], [ 499, 0, 0 ],
              'reaped: all of the dead instance in line');
    ok($calls >= 5, "reaped: some a call ($calls calls)");
    is_deeply($line->line,
              [ map { "u$_" } grep { $_ == 1 || $_ % 2 == 0 } 1 .. 1000 ],
              'reaped: nobody else, nor who came back');
    is(redis('ZCARD', "ENTRY_ACTIVE:{e$n}"), 4, 'reaped: no lease');
    is($line->stat('left'), 499, 'reaped: counted');
    is_deeply([ ($line->reap('dead', 100))[0, 1] ], [ 0, 0 ],
              'reaped: once');
    is(scalar @{$line->positions(0)->{entries}}, 499,
       'reaped: those behind are told');
    well($line, 'reaped');

    $line->set(release => 1);
    is_deeply([ ($line->reap('dead', 100))[0 .. 2] ], [ 0, 1, 0 ],
              'release: leases too');
    is_deeply([ sort @{redis('ZRANGE', "ENTRY_ACTIVE:{e$n}", 0, -1)} ],
              [ qw(in1 in2 in4) ], 'release: of the dead instance only');
    is(redis('EXISTS', "ENTRY_TOKEN:{e$n}:in3"), 0, 'release: no token');
    is(redis('HGET', 'ENTRY_QUEUE_SLOTS', "e$n"), 1, 'release: a slot');
    is($line->stat('left'), 500, 'release: counted as left');
    is_deeply([ ($line->reap('dead', 100))[0, 1] ], [ 0, 0 ],
              'release: once');
    is_deeply($line->announced, [], 'a dead instance is not told');
    well($line, 'leases reaped');

    is_deeply($line->call('reap', 'dead', 'x:y', 2000, 0),
              [ 'lease:0', 0, 0, 0 ], 'a cursor of nonsense begins anew');
    $line->set(release => 0);
    is_deeply($line->call('reap', 'alive', 'lease:0', 2000, 0),
              [ '', 0, 0, 0 ], 'release: not any more');

    # an instance that was silent for long, and is back
    my $back = line(capacity => 0, grace => 0);
    my $heartbeat = sub {
        WaitingQueue::Script::heartbeat('back')->{unknown};
    };
    $heartbeat->();
    $back->join($_, 'back') for qw(u1 u2);
    $before = $back->line;
    my @reaped = $back->reap('back', 100, $now - 10000);
    is_deeply([ @reaped[0, 1] ], [ 0, 0 ], 'back: nothing is given up');
    ok($reaped[2] > 0, 'back: and it is said so, though the grace time is 0');
    is_deeply($back->line, $before, 'back: all are in line');
    is($heartbeat->(), 0, 'back: it has missed nothing');

    my $last = redis('ZSCORE', 'WAITING_INSTANCES', 'back');
    is(($back->reap('back', 100, $last))[0], 2, 'silent: all are given up');
    is(($back->reap('back', 100, $last))[2], 0, 'silent: it still is');
    is($heartbeat->(), 1, 'silent: its next heartbeat tells it');
    is($heartbeat->(), 0, 'silent: once');
    redis('ZREM', 'WAITING_INSTANCES', 'back');

    my $none = line(capacity => 1);
    $before = stored();
    $none->reap('dead');
    is_deeply(stored(), $before, 'no such event: nothing is stored');
}


# news for those who wait

{
    my $line = line(capacity => 1);
    $line->join($_) for 'in', map { "u$_" } 1 .. 9;

    my $from = $line->positions(0);
    is_deeply([ @$from{qw(total promoted gone free inside joined resync
                          more)} ],
              [ 9, 0, 0, 0, 1, 10, 0, 0 ], 'news: how it stands');
    is_deeply($from->{entries}, [], 'news: nobody has left');
    is_deeply([ @$from{qw(state direct left expired)} ], [ 'open', 1, 0, 0 ],
              'news: the counters');

    $line->leave("u$_") for 3, 7, 5;
    $line->release('in');

    my $news = $line->positions(0);
    is_deeply($news->{entries}, [ 4, 8, 6 ], 'news: who left, in that order');
    is_deeply([ @$news{qw(total promoted gone more left)} ],
              [ 5, 1, 3, 0, 3 ], 'news: and how many were let in');

    my $part = $line->positions(1, 1);
    is_deeply([ @$part{qw(gone more)}, @{$part->{entries}} ], [ 2, 1, 8 ],
              'news: in parts, the oldest first');
    is($line->positions(3)->{resync}, 0, 'news: none');
    is($line->positions(4)->{resync}, 1, 'news: Redis knows less than we');

    redis('XTRIM', "WAITING_GONE:{e$n}", 'MAXLEN', 1);
    is($line->positions(2)->{resync}, 0, 'news: trimmed, but not what is new');
    is($line->positions(1)->{resync}, 1, 'news: trimmed too far');
}


# whether anybody can get in

{
    my $line = line(capacity => 1);
    $line->join('in');

    my $state = sub { return $line->positions(0)->{state} };

    redis('SET', "seat:count:{e$n}", 1);
    is($state->(), 'open', 'state: there are seats');
    redis('SET', "seat:count:{e$n}", 0);
    is($state->(), 'sold_out', 'state: there are none');
    redis('SET', "seat:count:{e$n}", -1);
    is($state->(), 'sold_out', 'state: less than none');
    redis('SET', "seat:count:{e$n}", 'x');
    is($state->(), 'open', 'state: nobody knows');
    $line->set(closed => 1);
    is($state->(), 'closed', 'state: closed');
    redis('SET', "seat:count:{e$n}", 0);
    is($state->(), 'closed', 'state: closed is the operator\'s word');
    $line->set(closed => 0);
    is($state->(), 'sold_out', 'state: not any more');

    redis('ZADD', "ENTRY_ACTIVE:{e$n}", 1, 'in');
    $line->promote;
    is($line->positions(0)->{expired}, 1, 'state: a lease has lapsed');

    my $none = line(capacity => 1);
    my $before = stored();
    is_deeply([ @{$none->positions(0)}{qw(total epoch state)} ],
              [ 0, '', 'open' ], 'no such event: no news');
    is_deeply(stored(), $before, 'no such event: nothing is stored');
}


# ranks

{
    my $line = line(capacity => 1);
    my $epoch = $line->join('in')->{epoch};
    $line->join("u$_") for 0 .. 499;
    $line->leave('u2');
    $line->release('in');

    my $before = stored();
    is_deeply($line->ranks('i1', map { "u$_" } 0 .. 499),
              { total => 498, promoted => 1, gone => 1, joined => 501,
                epoch => $epoch, ranks => [ -1, 0, -1, 1 .. 497 ] },
              'ranks: of all');
    is_deeply($line->ranks('i1', 'u499', 'in', 'nobody', 'u1', 'u499')->{ranks},
              [ 497, -1, -1, 0, 497 ], 'ranks: one for each who is named');
    is_deeply($line->ranks('i1')->{ranks}, [], 'ranks: of nobody');
    is_deeply($line->ranks('i2', 'u1', 'u3')->{ranks}, [ -1, -1 ],
              'ranks: of none who is held by another');

    my $none = line(capacity => 1);
    is_deeply($none->ranks('i1', 'u1'),
              { total => 0, promoted => 0, gone => 0, joined => 0,
                epoch => '', ranks => [ -1 ] }, 'ranks: no such event');
    is_deeply(stored(), $before, 'ranks: nothing is stored');
}


# any word in the list of tasks

{
    my $none = line(capacity => 1);
    redis('DEL', 'WAITING_EVENTS');
    my $before = stored();
    redis('SADD', 'WAITING_EVENTS', "e$n");

    is_deeply([ @{$none->promote}{qw(promoted expired total free inside more
                                     all_joined all_promoted all_direct
                                     all_left all_expired)} ],
              [ (0) x 11 ], 'no such event: nobody is let in');
    is_deeply(stored(), $before, 'no such event: nothing is left of it');

    # a place without a capacity is a place all the same
    my $known = line(capacity => undef);
    is($known->restore('a', 'i', 5, 5, '')->{status}, 'waiting', 'restored');
    is($known->promote->{total}, 1, 'without a capacity: still there');
    is(redis('SISMEMBER', 'WAITING_EVENTS', "e$n"), 1, 'and looked after');
    is($known->join('b')->{status}, 'unknown', 'but nobody can join');
    is($known->join('a', 'i', 'stream', 1)->{rank}, 0, 'until it is known');
    is($known->promote->{promoted}, 1, 'with which it goes on');
    well($known, 'without a capacity');
}


# rounds of promotion

{
    my @keys = (5, 'PROMOTION_TASK_LIST', 'WAITING_EVENTS', 'PROMOTION_LEASE',
                'WAITING_INSTANCES', 'PROMOTION_ROUND');
    redis('DEL', @keys[1 .. 5]);
    redis('SADD', 'WAITING_EVENTS', map { "t$_" } 1 .. 2500);
    redis('ZADD', 'WAITING_INSTANCES', 1234567890123, 'long-dead',
          '-inf', 'garbage', '1.5', 'rubbish',
          map { ('+inf', "alive$_") } 1 .. 20);

    my $round = sub {
        WaitingQueue::Script::script('fill_promotion_tasks', @keys, @_);
    };

    is_deeply($round->('i1', 100000, 5000), [ 1, 2500, [] ],
              'a round: one leads it, and has the list');
    is_deeply($round->('i2', 100000, 5000), [ 0, 2500, [] ],
              'a round: the others take part');
    redis('DEL', 'PROMOTION_LEASE');
    redis('RPOP', 'PROMOTION_TASK_LIST');
    is($round->('i2', 100000, 5000)->[1], 2499,
       'a round: not begun before the last is over');

    my @none = ('', '{', "\0\n", '{"userId":"u"}', 'x' x 129, 'a/b', "\xc3\xa9");
    redis('DEL', 'PROMOTION_LEASE', 'PROMOTION_TASK_LIST');
    redis('SADD', 'WAITING_EVENTS', @none, 'y' x 128, 'a.b_c~d@e:f-g');
    is($round->('i2', 100000, 5000)->[1], 2502, 'a round: of events alone');
    is(redis('SCARD', 'WAITING_EVENTS'), 2502,
       'a round: what is no event is taken out');

    # nobody is dead to the first who is back after a break
    redis('ZADD', 'WAITING_INSTANCES', map { (1, $_) } @none);
    redis('DEL', 'PROMOTION_LEASE');
    redis('HSET', 'PROMOTION_ROUND', 'since', 1, 'last', 1);
    is_deeply($round->('i2', 1000, 5000)->[2], [],
              'a round: silence counts for nothing after a break');
    redis('DEL', 'PROMOTION_LEASE');
    redis('HSET', 'PROMOTION_ROUND', 'since', 1);
    $round->('i2', 1000, 5000);
    is(redis('ZCARD', 'WAITING_INSTANCES'), 23,
       'a round: what is no instance is taken out');
    redis('DEL', 'PROMOTION_LEASE');
    is_deeply($round->('i2', 1000, 5000)->[2],
              [ garbage => 0, rubbish => 1, 'long-dead' => 1234567890123 ],
              'a round: but in a time of unbroken rounds it does');

    redis('DEL', 'PROMOTION_LEASE');
    redis('ZADD', 'WAITING_INSTANCES', map { ($_, "dead$_") } 1 .. 20);
    is(scalar @{$round->('i2', 1000, 5000)->[2]}, 20,
       'a round: ten of the dead at most');

    # nonsense in the place of what a round needs
    for my $rubbish (qw(nan inf -inf 1e300), '') {
        redis('DEL', 'PROMOTION_LEASE');
        redis('HSET', 'PROMOTION_ROUND', since => 1, turn => $rubbish);
        is(scalar @{$round->('i2', 1000, 5000)->[2]}, 20,
           "a round: turn \"$rubbish\" keeps no dead from being found");
    }

    for my $since (qw(nan inf 9000000000000)) {
        redis('DEL', 'PROMOTION_LEASE');
        redis('HSET', 'PROMOTION_ROUND', since => $since);
        $round->('i2', 1000, 5000);
        like(redis('HGET', 'PROMOTION_ROUND', 'since'), qr/^1\d{12}$/,
             "a round: since $since does not keep them for ever");
    }

    for my $key (@keys[1, 2, 3, 5]) {
        redis('DEL', @keys[1 .. 3]);
        redis('SADD', 'WAITING_EVENTS', 't1');
        redis('DEL', $key);
        redis('SET', $key, 'rubbish');
        is($round->('i2', 1000, 5000)->[0], 1,
           "a round: rubbish for $key stops none");
        redis('SADD', 'WAITING_EVENTS', 't1');
        redis('DEL', 'PROMOTION_LEASE');
        is_deeply([ @{$round->('i2', 1000, 5000)}[0, 1] ], [ 1, 1 ],
                  "a round: rubbish for $key, and all goes on");
    }

    redis('DEL', @keys[1 .. 5]);
}


# instances come and go

{
    my $heartbeat = sub {
        my $reply = WaitingQueue::Script::heartbeat(@_);
        return [ @$reply{qw(now instances unknown)} ];
    };

    redis('DEL', 'WAITING_INSTANCES');
    is_deeply([ @{$heartbeat->('i1')}[1, 2] ], [ 1, 1 ],
              'a heartbeat: of an instance that is new');
    is_deeply([ @{$heartbeat->('i1')}[1, 2] ], [ 1, 0 ],
              'a heartbeat: of one that is known');
    my $before = int(now_us() / 1000);
    my $answer = $heartbeat->('i2');
    is_deeply([ @$answer[1, 2] ], [ 2, 1 ], 'a heartbeat: of another');
    ok($before <= $answer->[0] && $answer->[0] <= now_us() / 1000,
       'a heartbeat: Redis\' time');
    is(redis('ZSCORE', 'WAITING_INSTANCES', 'i2'), $answer->[0],
       'a heartbeat: is stored');

    my $bury = sub {
        WaitingQueue::Script::script('bury_instance', 3, 'WAITING_INSTANCES',
                                     "DISPATCH:{$_[0]}", 'ENTRY', $_[0],
                                     'router', defined $_[1] ? $_[1] : '')
            ->[0];
    };

    my $heard = redis('ZSCORE', 'WAITING_INSTANCES', 'i2');
    is($bury->('i2', $heard - 1), 0, 'not buried: it is back');
    is(redis('ZSCORE', 'WAITING_INSTANCES', 'i2'), $heard,
       'not buried: it is listed');
    is($bury->('i2', $heard), 1, 'buried: it has been silent since');
    $heartbeat->('i2');

    # without ENTRY, without its group, with an ENTRY that is none
    redis('DEL', 'ENTRY');
    is($bury->('i2'), 1, 'buried: there is no ENTRY');
    is_deeply(redis('ZRANGE', 'WAITING_INSTANCES', 0, -1), [ 'i1' ],
              'buried: off the list, the others are not');
    is(redis('EXISTS', 'ENTRY'), 0, 'buried: ENTRY is not made');
    is($bury->('i2'), 1, 'buried: twice');
    is($heartbeat->('i2')->[2], 1, 'buried: it would know');
    redis('XADD', 'ENTRY', '*', 'a', 'b');
    is($bury->('i2'), 1, 'buried: there is no group');
    redis('DEL', 'ENTRY');
    redis('SET', 'ENTRY', 'x');
    is($bury->('i2'), 1, 'buried: ENTRY is garbage');
    redis('DEL', 'ENTRY');

    # i1 has read two messages and dealt with none
    redis('XGROUP', 'CREATE', 'ENTRY', 'router', '0', 'MKSTREAM');
    my @ids = map { redis('XADD', 'ENTRY', '*', 'n', $_) } 1 .. 3;
    redis('XREADGROUP', 'GROUP', 'router', 'i1', 'COUNT', 2, 'STREAMS',
          'ENTRY', '>');
    redis('XREADGROUP', 'GROUP', 'router', 'i3', 'COUNT', 1, 'STREAMS',
          'ENTRY', '>');
    redis('XGROUP', 'CREATECONSUMER', 'ENTRY', 'router', 'idle');
    redis('XADD', 'DISPATCH:{i1}', '*', 'a', 'b');
    $heartbeat->('i1');

    my $stored = stored();
    is($bury->('i1'), 0, 'not buried: messages are pending');
    is_deeply(stored(), $stored, 'not buried: nothing is changed');

    my $discard = sub {
        WaitingQueue::Script::script('discard_messages', 1, 'ENTRY', 'router',
                                     @_);
    };
    is_deeply($discard->($ids[0]), [ 1, 1 ], 'a message is dealt with');
    is($bury->('i1'), 0, 'not buried: another is pending');
    is_deeply($discard->(@ids[0, 1]), [ 1, 1 ], 'that one too');
    is_deeply($discard->(@ids[0, 1]), [ 0, 0 ], 'once');
    is($bury->('i1'), 1, 'buried: nothing is pending');

    my $consumers = sub {
        return [ sort map { my %about = @$_; $about{name} }
                          @{redis('XINFO', 'CONSUMERS', 'ENTRY', 'router')} ];
    };
    is_deeply($consumers->(), [ qw(i3 idle) ],
              'buried: off the group, the others are not');
    is(redis('EXISTS', 'DISPATCH:{i1}'), 0, 'buried: its stream is gone');
    is(redis('ZSCORE', 'WAITING_INSTANCES', 'i1'), undef,
       'buried: off the list');
    is(redis('XLEN', 'ENTRY'), 1, 'buried: what others have read is there');

    redis('SADD', 'DISPATCH:{idle}', 'garbage');
    is($bury->('idle'), 1, 'buried: a stream that is none');
    is(redis('EXISTS', 'DISPATCH:{idle}'), 0, 'buried: is gone too');
    is_deeply($consumers->(), [ 'i3' ], 'buried: with its consumer');
    redis('DEL', 'ENTRY');
}

done_testing();
