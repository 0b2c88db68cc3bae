# The scripts are where the line is kept.  What each of them promises is tried
# here without nginx: who gets in and when, what is stored under which name, and
# that asking twice does nothing twice.

use strict;
use warnings;

use Test::More;
use Time::HiRes ();
use WaitingQueue::Script;

sub redis { return WaitingQueue::Script::redis(@_) }

my $n = 0;

sub line { return WaitingQueue::Script->new('e' . ++$n, @_) }

sub well {
    my ($line, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is_deeply([ $line->wrong ], [], "$what: invariants");
}


# an empty line and a free slot

{
    my $line = line(capacity => 2);
    my $first = $line->join('u1', 'node-1-1');

    is($first->{status}, 'ready', 'a free slot: ready at once');
    like($first->{token}, qr/^[0-9a-f]{40}$/, 'with a token');
    is($first->{idx}, undef, 'without a place');
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
    is($again->{previous}, 'node-1-1', 'and the instance before');
    is(redis('HGET', 'ENTRY_QUEUE_SLOTS', 'e1'), 1, 'no slot is taken twice');
    is($line->stat('joined'), 1, 'nor counted twice');

    my $entered = $line->join('u1', 'node-2-2', 'enter');
    is($entered->{status}, 'entered', 'entered with the token');
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
    is(redis('HGET', "WAITING_QUEUE_INDEX_RECORD:{$event}", 'u1'),
       qq({"userId":"u1","eventId":"$event","idx":2,"instanceId":"node-1-1"}),
       'the record');
    is(redis('HGET', "WAITING_USER_IDS:{$event}", 'u1'), 'true', 'the id');
    is(redis('HGET', 'WAITING_QUEUE_IDX', $event), 2, 'the last idx');

    is($line->join('u2')->{rank}, 1, 'second in line');

    my $back = $line->join('u1', 'node-2-2');
    is_deeply([ @$back{qw(status idx rank previous)} ],
              [ 'waiting', 2, 0, 'node-1-1' ], 'back: the same place');
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
    $line->announced;

    is_deeply($line->promote, { promoted => 0, expired => 0, total => 4,
                                free => 0, inside => 2, more => 0 },
              'no free slot: nobody');
    is_deeply($line->release('a'), [ 1, 1 ], 'a slot comes back: the next');
    is_deeply($line->announced, [ [ 'promoted', 'c', 'i-c' ] ],
              'whose worker is told');
    is($line->join('c')->{status}, 'ready', 'who is ready');
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
    is_deeply([ map { $_->[1] } @{$line->announced} ], [ qw(d e f) ],
              'in the order of the line');
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
    is($unknown->join('a')->{status}, 'unknown', 'no capacity is known');
    is(redis('EXISTS', "WAITING:{e$n}", "ENTRY_ACTIVE:{e$n}",
             "WAITING_STATS:{e$n}"), 0, 'and nothing is stored');
    is($unknown->join('a', 'i', 'stream', 1)->{status}, 'ready', 'now it is');
    is($unknown->join('b', 'i', 'stream', 9)->{status}, 'waiting',
       'and the first word counts');
    well($unknown, 'capacity from elsewhere');
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
              [ [ 'expired', 'a', 'i-a' ], [ 'promoted', 'b', 'i-b' ] ],
              'and both are told');
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
    is_deeply([ sort grep { /\{e$n\}/ } @{redis('KEYS', '*')} ],
              [ "WAITING_QUEUE_CONF:{e$n}", "WAITING_STATS:{e$n}" ],
              'over: settings and counters are left');
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
    is($line->promote->{promoted}, 0, 'a made-up counter of slots lets none in');
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
    isnt($moved->{epoch}, $epoch, 'but the epoch is over');
    is($line->restore('m', 'new', 2, 2, $epoch)->{epoch}, $moved->{epoch},
       'once');
    is($line->leave('m', 'i1'), 0, 'and the user is held by the caller');

    $line->restore('x', 'i', 5, 7, $epoch);
    my $newcomer = $line->join('z');
    $line->restore('y', 'i', 7, 7, $epoch);
    is_deeply($line->line, [ qw(m x y z) ], 'newcomers stand behind the known');
    well($line, 'restored');

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
    my $line = line(capacity => 1);
    $line->join('in');
    $line->join("u$_", $_ % 2 ? 'dead' : 'alive') for 1 .. 1000;

    my ($cursor, $left) = (0, 0);
    do {
        my $reaped = $line->call('reap', 'dead', $cursor, 100);
        $cursor = $reaped->[0];
        $left += $reaped->[1];
    } while ($cursor);

    is($left, 500, 'reaped: all of the dead instance');
    is_deeply($line->line, [ map { "u$_" } grep { $_ % 2 == 0 } 1 .. 1000 ],
              'and nobody else');
    well($line, 'reaped');
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

    $line->leave("u$_") for 3, 7, 5;
    $line->release('in');

    my $news = $line->positions(0);
    is_deeply($news->{entries}, [ 4, 8, 6 ], 'news: who left, in that order');
    is_deeply([ @$news{qw(total promoted gone more)} ], [ 5, 1, 3, 0 ],
              'news: and how many were let in');

    my $part = $line->positions(1, 1);
    is_deeply([ @$part{qw(gone more)}, @{$part->{entries}} ], [ 2, 1, 8 ],
              'news: in parts, the oldest first');
    is($line->positions(3)->{resync}, 0, 'news: none');
    is($line->positions(4)->{resync}, 1, 'news: Redis knows less than we');

    redis('XTRIM', "WAITING_GONE:{e$n}", 'MAXLEN', 1);
    is($line->positions(2)->{resync}, 0, 'news: trimmed, but not what is new');
    is($line->positions(1)->{resync}, 1, 'news: trimmed too far');
}


# rounds of promotion

{
    my @keys = (5, 'PROMOTION_TASK_LIST', 'WAITING_EVENTS', 'PROMOTION_LEASE',
                'WAITING_INSTANCES', 'PROMOTION_ROUND');
    redis('DEL', @keys[1 .. 5]);
    redis('SADD', 'WAITING_EVENTS', map { "t$_" } 1 .. 2500);
    redis('ZADD', 'WAITING_INSTANCES', 1, 'long-dead');

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

    # nobody is dead to the first who is back after a break
    redis('DEL', 'PROMOTION_LEASE');
    redis('HSET', 'PROMOTION_ROUND', 'since', 1, 'last', 1);
    is_deeply($round->('i2', 1000, 5000)->[2], [],
              'a round: silence counts for nothing after a break');
    redis('DEL', 'PROMOTION_LEASE');
    redis('HSET', 'PROMOTION_ROUND', 'since', 1);
    is_deeply($round->('i2', 1000, 5000)->[2], [ 'long-dead' ],
              'a round: but in a time of unbroken rounds it does');
}

done_testing();
