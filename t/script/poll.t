# What the token API asks: how things stand, and that somebody goes.  To ask
# keeps what one has and gives nothing; to go gives it back, once; and neither
# leaves anything behind of somebody who has nothing.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Script;

sub redis { return WaitingQueue::Script::redis(@_) }

sub stored { return WaitingQueue::Script::stored() }

my $n = 0;

sub line { return WaitingQueue::Script->new('p' . ++$n, @_) }

sub well {
    my ($line, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is_deeply([ $line->wrong ], [], "$what: invariants");
}

sub now_ms {
    my ($s, $us) = @{redis('TIME')};
    return $s * 1000 + int($us / 1000);
}

sub lease { return redis('HGET', "ENTRY_LEASE:{p$n}", $_[0]) }
sub ends { return redis('ZSCORE', "ENTRY_ACTIVE:{p$n}", $_[0]) }
sub token { return redis('GET', "ENTRY_TOKEN:{p$n}:$_[0]") }
sub seen { return redis('ZSCORE', "WAITING_SEEN:{p$n}", $_[0]) }

sub record {
    return redis('HGET', "WAITING_QUEUE_INDEX_RECORD:{p$n}", $_[0]);
}

# a lease that ends so many ms from now
sub lapses {
    my ($user, $ms) = @_;
    redis('ZADD', "ENTRY_ACTIVE:{p$n}", now_ms() + $ms, $user);
}

# one that was used first so many ms ago
sub entered_ago {
    my ($user, $ms) = @_;
    my $since = now_ms() - $ms;
    redis('HSET', "ENTRY_LEASE:{p$n}", $user,
          lease($user) =~ s/"since":\d+/"since":$since/r);
    return $since;
}

sub near {
    my ($is, $wanted, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok(defined $is && abs($is - $wanted) < 2000, $what)
        or diag(defined $is ? $is - $wanted . ' ms' : 'undef');
}


# status: of nobody

{
    my $line = line(capacity => 1);
    my $empty = stored();

    is_deeply([ @{$line->status('x')}{qw(status idx rank total token expires
                                         previous changed epoch)} ],
              [ 'none', undef, undef, 0, undef, undef, undef, 0, '' ],
              'an event that nobody knows: none');
    is_deeply(stored(), $empty, 'and still nobody does');

    $line->join('a', '', 'enter');
    $line->join('b', '', 'enter');
    my $before = stored();
    is_deeply([ @{$line->status('x')}{qw(status idx rank total token)} ],
              [ 'none', undef, undef, 1, undef ], 'a stranger: none');
    is_deeply($line->quit('x'), [ 0, 0 ], 'who has nothing to give back');
    is_deeply(stored(), $before, 'and nothing is stored of a stranger');

    # whatever a stranger brings along
    my $other = WaitingQueue::Script->new("p$n", capacity => 9, ttl => 1);
    is($other->status('x')->{status}, 'none', 'with other settings: none');
    is_deeply(stored(), $before, 'which are nobody\'s, either');

    for my $how ([ closed => 'closed' ], [ sold_out => 'sold_out' ]) {
        my ($name, $status) = @$how;
        $name eq 'closed' ? $line->set(closed => 1)
                          : redis('SET', "seat:count:{p$n}", 0);
        $before = stored();
        is($line->status('x')->{status}, $status, "$name: a stranger is told");
        is_deeply($line->quit('x'), [ 0, 0 ], "$name: and has nothing");
        is_deeply(stored(), $before, "$name: nothing is stored");
        $line->set(closed => 0);
    }
}


# status: in line

{
    my $line = line(capacity => 1);
    $line->join('in', '', 'enter');
    my $a = $line->join('a', '', 'enter');
    my $s = $line->join('s', 'i1');
    redis('ZADD', "WAITING_SEEN:{p$n}", now_ms() - 25000, 'a');
    my $record = record('a');

    my $polled = $line->status('a');
    is_deeply([ @$polled{qw(status idx rank total token expires previous)} ],
              [ 'waiting', $a->{idx}, 0, 2, undef, undef, undef ],
              'in line: where');
    near(seen('a'), now_ms(), 'seen now');
    is(record('a'), $record, 'the record is what it was');
    is($polled->{crowded}, 0, 'where there is no rate nobody asks for slots');

    # a stream and a poll
    $polled = $line->status('s');
    is_deeply([ @$polled{qw(status idx rank)} ], [ 'waiting', $s->{idx}, 1 ],
              'who has a stream may ask as well');
    like(record('s'), qr/"instanceId":"i1"/, 'which holds the place');
    is_deeply($line->announced, [], 'and hears nothing of it');
    near(seen('s'), now_ms(), 'and is seen');
    is($line->leave('s', 'i1', $s->{idx}), 0, 'the stream goes: who asks stays');
    like(record('s'), qr/"instanceId":""/, 'held by nobody');
    is($line->status('s')->{rank}, 1, 'where it was');

    my $before = stored();
    $line->status('a') for 1 .. 3;
    my $after = stored();
    delete $_->{"WAITING_SEEN:{p$n}"} for $before, $after;
    is_deeply($after, $before, 'again: nothing changes but the time');
    is($line->stat('joined'), 3, 'nobody has joined by asking');

    # it is never a way in
    $line->set(capacity => 5);
    is($line->status('a')->{status}, 'waiting',
       'slots that the next round fills are not taken');
    is($line->stat('capacity'), 5, 'but the setting is in force');
    is(redis('HGET', 'ENTRY_QUEUE_SLOTS', "p$n"), 4, 'and told to all');
    well($line, 'in line');
    is($line->promote->{promoted}, 2, 'the round');
    is_deeply($line->announced, [], 'tells nobody who has no stream');

    is($line->status('a')->{status}, 'ready', 'who asks is told');
}


# status: the event is over

for my $how ([ closed => 'closed', sub { $_[0]->set(closed => 1) } ],
             [ 'sold out' => 'sold_out',
               sub { redis('SET', "seat:count:{p$n}", -1) } ])
{
    my ($name, $status, $end) = @$how;
    my $line = line(capacity => 2);
    my $in = $line->join('in', '', 'enter');
    my $ready = $line->join('ready', '', 'visit');
    $line->join($_, '', 'enter') for qw(a b);
    my $gone = $line->positions(0)->{gone};
    $end->($line);

    my $told = $line->status('a');
    is_deeply([ @$told{qw(status idx rank token)} ],
              [ $status, undef, undef, undef ], "$name: who waits is told");
    is_deeply($line->line, [ 'b' ], "$name: and waits no more");
    is(seen('a'), undef, "$name: nor is seen");
    is($line->stat('left'), 1, "$name: counted");
    is_deeply($line->positions($gone)->{entries}, [ 3 ],
              "$name: those behind hear of it");

    my $before = stored();
    is($line->status('a')->{status}, $status, "$name: again the same");
    is_deeply(stored(), $before, "$name: and nothing more");

    is_deeply([ @{$line->status('in')}{qw(status token)} ],
              [ 'entered', $in->{token} ], "$name: who is in stays in");
    is_deeply([ @{$line->status('ready')}{qw(status token)} ],
              [ 'ready', $ready->{token} ], "$name: who was let in too");
    well($line, $name);

    is_deeply($line->quit('b'), [ 1, 0 ], "$name: one can go");
    is_deeply($line->quit('in'), [ 1, 0 ], "$name: and give a lease back");
    well($line, "$name, at the end");
}


# status: ready, and entered

{
    my $line = line(capacity => 1, ttl => 100000, claim => 50000,
                    ttl_max => 150000);
    $line->join('in', '', 'enter');
    $line->join('a', 'i1');
    $line->release('in');
    $line->announced;
    lapses('a', 30000);
    my $token = token('a');
    my $ends = ends('a');
    my $told = $line->status('a');

    is_deeply([ @$told{qw(status token expires rank)} ],
              [ 'ready', $token, $ends, undef ],
              'ready: the token, and no more time');
    is(ends('a'), $ends, 'the claim is not renewed');
    like(lease('a'), qr/"instanceId":"i1","state":"ready","since":\d{13},
                        "waited":\d+,"serial":\d{16},"told":true\}$/x,
         'whoever holds the stream holds it, and the user knows of it');
    is($line->stat('entered'), 1, 'nobody has entered by it');
    is_deeply($line->announced, [], 'nobody is told anything');

    my $before = stored();
    $line->status('a');
    is_deeply(stored(), $before, 'again: nothing changes');

    # the token is lost
    redis('DEL', "ENTRY_TOKEN:{p$n}:a");
    my $new = $line->status('a');
    isnt($new->{token}, $token, 'the token is lost: another one');
    is(token('a'), $new->{token}, 'which is stored');
    is($line->touch('a', $new->{token})->[0], 1, 'and good');

    # entered, now
    near(ends('a'), now_ms() + 100000, 'entered: for the ttl');
    lapses('a', 30000);
    $told = $line->status('a');
    is_deeply([ @$told{qw(status token)} ], [ 'entered', $new->{token} ],
              'entered: the same token');
    near($told->{expires}, now_ms() + 100000, 'renewed');
    is(ends('a'), $told->{expires}, 'in Redis too');
    ok(redis('PTTL', "ENTRY_TOKEN:{p$n}:a") > 90000, 'and with it the token');
    is($line->stat('entered'), 2, 'entered once');

    my $since = entered_ago('a', 120000);
    is($line->status('a')->{expires}, $since + 150000, 'up to the hard cap');
    is($line->status('a')->{expires}, $since + 150000, 'and never beyond');
    is($line->join('a', '', 'enter')->{expires}, $since + 150000,
       'by POST neither');
    well($line, 'leases');

    # the operator's word, from the next use on
    $line->set(ttl_max => 0, ttl => 7000);
    near($line->status('a')->{expires}, now_ms() + 7000, 'another ttl');
    $line->set(ttl => 200000);
    near($line->status('a')->{expires}, now_ms() + 200000, 'and another');

    # lapsed, but not yet taken back
    lapses('a', -1);
    $before = stored();
    is_deeply([ @{$line->status('a')}{qw(status token)} ], [ 'none', undef ],
              'lapsed: none');
    is_deeply($line->quit('a'), [ 0, 0 ], 'and nothing to give back');
    is_deeply(stored(), $before, 'the round takes it back, and nobody else');
    is($line->promote->{expired}, 1, 'as it does');
    is($line->stat('left'), 0, 'lapsed is not left');
    well($line, 'lapsed');
}


# status: the settings come with it, from whoever is somebody

{
    my $line = line(capacity => 1, ttl => 100000);
    $line->join('in', '', 'enter');
    $line->join('a', '', 'enter');
    is($line->status('a')->{changed}, 0, 'the settings are known');

    my $new = WaitingQueue::Script->new("p$n", capacity => 3, ttl => 50000);
    is($new->status('a')->{changed}, 1, 'a poll brings others');
    is($line->stat('capacity'), 3, 'which are in force');
    well($line, 'other settings');
    near($new->status('in')->{expires}, now_ms() + 50000, 'for those inside');
    is($new->status('a')->{changed}, 0, 'and are not new the second time');

    # with the event service the capacity is not one of them
    my $service = WaitingQueue::Script->new("p$n", capacity => undef);
    is($service->status('a')->{changed}, 1, 'none of the capacity');
    is($line->stat('capacity'), 3, 'which stays');
    redis('DEL', "WAITING_STATS:{p$n}", "WAITING_QUEUE_CONF:{p$n}");
    is($service->status('a')->{status}, 'waiting',
       'after a loss of it: a place is a place');
    is(redis('EXISTS', "WAITING_QUEUE_CONF:{p$n}"), 0, 'nothing is stored');
    is($service->promote->{promoted}, 0, 'and nobody let in');
    is($service->join('b', '', 'enter')->{status}, 'unknown',
       'but a join asks for it');
}


# quit: out of the line

{
    my $line = line(capacity => 1);
    $line->join('in', '', 'enter');
    my $a = $line->join('a', '', 'enter');
    my $s = $line->join('s', 'i1');
    $line->join('c', '', 'enter');
    my $gone = $line->positions(0)->{gone};

    is_deeply($line->quit('a'), [ 1, 0 ], 'out of the line');
    is_deeply($line->line, [ qw(s c) ], 'the others move up');
    is_deeply($line->positions($gone)->{entries}, [ $a->{idx} ], 'and hear it');
    is($line->stat('left'), 1, 'counted');
    is(seen('a'), undef, 'not seen any more');
    is(record('a'), undef, 'no record');
    is_deeply($line->announced, [], 'nobody held a stream');
    my $before = stored();
    is_deeply($line->quit('a'), [ 0, 0 ], 'again: there is nothing');
    is_deeply(stored(), $before, 'and nothing happens');
    is($line->status('a')->{status}, 'none', 'and is nobody');

    is_deeply($line->quit('s'), [ 1, 0 ], 'with a stream');
    is_deeply($line->announced, [ [ 'expired', 's', 'i1', $s->{idx} ] ],
              'which is told');
    $line->quit('s');
    is_deeply($line->announced, [], 'once');
    well($line, 'out of the line');

    my $again = $line->join('a', '', 'enter');
    is($again->{rank}, 1, 'who comes again is the last');
    ok($again->{idx} > $a->{idx}, 'with a new number');
    is($line->stat('joined'), 5, 'as somebody new');

    # a slot that is free stays so: the round fills it, as it was going to
    $line->set(capacity => 2);
    $line->quit('c');
    is_deeply($line->line, [ 'a' ], 'who leaves lets nobody in');
    well($line, 'at the end');
}


# quit: of a lease

for my $state (qw(ready entered)) {
    my $line = line(capacity => 1);
    my $in = $line->join('in', 'i1',
                         $state eq 'ready' ? 'stream' : 'enter');
    is($in->{status}, $state, "$state: in");
    $line->join('a', 'i2');
    $line->join('b', '', 'enter');

    is_deeply($line->quit('in'), [ 1, 1 ], "$state: the next is let in");
    is_deeply($line->announced,
              [ [ 'expired', 'in', 'i1', $in->{idx} ],
                [ 'promoted', 'a', 'i2', 2 ] ],
              "$state: both streams are told, in this order");
    is(lease('in'), undef, "$state: no lease");
    is(ends('in'), undef, "$state: no slot");
    is(token('in'), undef, "$state: no token");
    is($line->touch('in', $in->{token})->[0], 0, "$state: which is good for "
                                                 . 'nothing');
    is($line->stat('left'), 1, "$state: counted as left");
    is($line->stat('done'), 0, "$state: and as nothing else");
    well($line, $state);

    my $before = stored();
    is_deeply($line->quit('in'), [ 0, 0 ], "$state: again: there is nothing");
    is_deeply(stored(), $before, "$state: and nobody else is let in");

    is_deeply($line->quit('a'), [ 1, 1 ], "$state: who was just let in");
    is_deeply($line->line, [], "$state: the last one too");
    is_deeply($line->quit('b'), [ 1, 0 ], "$state: there is nobody behind");
    is(redis('HGET', 'ENTRY_QUEUE_SLOTS', "p$n"), 1, "$state: a free slot");
    well($line, "$state, at the end");
    $line->promote;
    is(redis('SISMEMBER', 'WAITING_EVENTS', "p$n"), 0,
       "$state: the event is at rest");
}


# quit: who may not come in does not, and who may do so at once

{
    my $line = line(capacity => 2);
    $line->join($_, '', 'enter') for qw(x y a b c);

    $line->set(paused => 1);
    is_deeply($line->quit('x'), [ 1, 0 ], 'paused: nobody');
    well($line, 'paused');
    $line->set(paused => 0, capacity => 1);
    is_deeply($line->quit('b'), [ 1, 0 ], 'from the middle');
    is_deeply($line->quit('y'), [ 1, 1 ], 'a smaller room: one');
    is_deeply($line->line, [ 'c' ], 'the first of them');
    well($line, 'a smaller room');

    $line->set(capacity => 4);
    $line->join($_, '', 'enter') for 1 .. 4;
    is_deeply($line->quit('a'), [ 1, 4 ], 'a larger one: as many as there are '
                                          . 'slots');
    is_deeply($line->line, [ 4 ], 'in their order');
    well($line, 'a larger room');
}


# "untold": the slot of who does not know, and not of who does

{
    my $line = line(capacity => 4, poll_timeout => 30000);
    $line->join("in$_", '', 'enter') for 1 .. 4;
    $line->join($_, 'i1') for qw(silent polled entered elsewhere);
    $line->release("in$_") for 1 .. 4;
    is_deeply($line->line, [], 'four are let in, with streams that have gone');
    my %token = map { $_ => token($_) } qw(silent polled entered elsewhere);

    $line->status('polled');
    $line->join('entered', '', 'enter');
    $line->join('elsewhere', 'i2');

    my $before = stored();
    for my $user (qw(polled entered elsewhere)) {
        is_deeply($line->release($user, 'untold', 'i1', $token{$user}, 'left'),
                  [ 0, 0 ], "$user: stays");
    }
    is_deeply($line->release('silent', 'untold', 'i1', 'f' x 40, 'left'),
              [ 0, 0 ], 'another lease is meant');
    is_deeply(stored(), $before, 'nothing has happened');

    is_deeply($line->release('silent', 'untold', 'i1', $token{silent}, 'left'),
              [ 1, 0 ], 'who has not asked makes room');
    is($line->stat('left'), 1, 'counted');
    is(lease('silent'), undef, 'and has no lease');
    is_deeply($line->release('silent', 'untold', 'i1', $token{silent}, 'left'),
              [ 0, 0 ], 'once');

    # who knows and does not come: by the claim time
    lapses('polled', -1);
    is($line->promote->{expired}, 1, 'who has asked has the claim time');

    # a lease that ends with the stream does so for all
    is_deeply($line->release('elsewhere', 'return', 'i2', $token{elsewhere},
                             'left'), [ 1, 0 ], 'where it ends with the stream');
    well($line, 'untold');
}


# "untold": who waited by asking when the turn came, and not by the stream

{
    my $line = line(capacity => 1, poll_timeout => 10000);
    $line->join('in', '', 'enter');
    $line->join($_, 'i1') for qw(asks asked);
    $line->status($_) for qw(asks asked);
    redis('ZADD', "WAITING_SEEN:{p$n}", now_ms() - 11000, 'asked');

    $line->release('in');
    is_deeply($line->release('asks', 'untold', 'i1', token('asks'), 'left'),
              [ 0, 0 ], 'who asks will ask again');
    $line->quit('asks');
    is_deeply($line->release('asked', 'untold', 'i1', token('asked'), 'left'),
              [ 1, 0 ], 'who has asked long ago will not');
    well($line, 'untold, but asks');
}


# garbage: whatever stands in the keys, there is an answer, and the books agree

{
    my @garbage = ('', 'garbage', '{}', '{"userId":"', "\0\xff", '[[[[', '-1',
                   '9' x 400, '{"idx":1e400,"since":-1,"state":7}', '%', '"');

    for my $garbage (@garbage) {
        my $what = substr $garbage, 0, 20;
        $what =~ s/[^ -~]/?/g;

        my $line = line(capacity => 2);
        $line->join($_, 'i1', 'enter') for qw(a b c d);
        redis('HSET', "ENTRY_LEASE:{p$n}", $_ => $garbage) for qw(a b);
        redis('HSET', "WAITING_QUEUE_INDEX_RECORD:{p$n}", c => $garbage);
        redis('HSET', "WAITING_QUEUE_OVERRIDE:{p$n}", $_ => $garbage)
            for qw(capacity ttl ttl_max claim paused closed rate);
        redis('SET', "seat:count:{p$n}", $garbage) if $garbage !~ /^-1$/;
        redis('HSET', 'ENTRY_QUEUE_SLOTS', "p$n", $garbage);
        redis('HSET', "WAITING_STATS:{p$n}", period => $garbage,
              used => $garbage);

        my $a = $line->status('a');
        like($a->{status}, qr/^(?:ready|entered)$/, "'$what': in is in");
        is($a->{token}, token('a'), "'$what': with the token");
        is($line->status('c')->{rank}, 0, "'$what': in line is in line");
        is_deeply($line->quit('d'), [ 1, 0 ], "'$what': one goes");
        is_deeply($line->quit('c'), [ 1, 0 ], "'$what': and another");
        is($line->quit('b')->[0], 1, "'$what': a lease is given back");
        is($line->status('b')->{status}, 'none', "'$what': and is gone");
        $line->promote;
        well($line, "'$what'");
    }

    # who holds a slot, but of whose lease nothing is left
    my $line = line(capacity => 1);
    $line->join('a', '', 'enter');
    redis('DEL', "ENTRY_LEASE:{p$n}", "ENTRY_TOKEN:{p$n}:a");
    my $a = $line->status('a');
    is($a->{status}, 'ready', 'no lease: as if it was new');
    like($a->{token}, qr/^[0-9a-f]{40}$/, 'with a token');
    well($line, 'no lease');
    is($line->touch('a', $a->{token})->[0], 1, 'that is good');

    # whose place has no record
    $line->join('b', '', 'enter');
    redis('DEL', "WAITING_QUEUE_INDEX_RECORD:{p$n}", "WAITING_USER_IDS:{p$n}");
    is($line->status('b')->{rank}, 0, 'no record: the place counts');
    is_deeply($line->quit('b'), [ 1, 0 ], 'and can be left');
    well($line, 'no record');

    # settings of another kind
    $line->join('b', '', 'enter');
    redis('DEL', "WAITING_QUEUE_CONF:{p$n}");
    redis('SET', "WAITING_QUEUE_CONF:{p$n}", 'a string');
    my $before = stored();
    ok(!eval { $line->status('b') }, 'a key of another type: an error');
    is_deeply(stored(), $before, 'and nothing half done');
    redis('DEL', "WAITING_QUEUE_CONF:{p$n}");
    is($line->status('b')->{rank}, 0, 'and then it goes on');
}


done_testing();
