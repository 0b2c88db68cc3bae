# What the gate asks: whether a token is good, and whether somebody who is not
# connected can come in.  A place is kept by asking again, and a lease by being
# used; neither takes anything from a stream of the same user.

use strict;
use warnings;

use Test::More;
use Time::HiRes ();
use WaitingQueue::Script;

sub redis { return WaitingQueue::Script::redis(@_) }

sub stored { return WaitingQueue::Script::stored() }

my $n = 0;

sub line { return WaitingQueue::Script->new('v' . ++$n, @_) }

sub well {
    my ($line, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is_deeply([ $line->wrong ], [], "$what: invariants");
}

sub now_ms {
    my ($s, $us) = @{redis('TIME')};
    return $s * 1000 + int($us / 1000);
}

sub lease { return redis('HGET', "ENTRY_LEASE:{v$n}", $_[0]) }
sub ends { return redis('ZSCORE', "ENTRY_ACTIVE:{v$n}", $_[0]) }
sub seen { return redis('ZSCORE', "WAITING_SEEN:{v$n}", $_[0]) }

# as if it had been so long ago, in ms
sub silent {
    my ($user, $ms) = @_;
    redis('ZADD', "WAITING_SEEN:{v$n}", now_ms() - $ms, $user);
}

sub record {
    return redis('HGET', "WAITING_QUEUE_INDEX_RECORD:{v$n}", $_[0]);
}


# who enters at once

{
    my $line = line(capacity => 1);
    my $in = $line->join('a', '', 'enter');

    is($in->{status}, 'entered', 'a free slot: in at once');
    is($in->{waited}, 0, 'without a wait');
    ok(abs($in->{expires} - now_ms() - 300000) < 2000, 'for the whole ttl');
    like(lease('a'), qr/"instanceId":"","state":"entered","since":\d{13},
                        "waited":0\}$/x, 'the lease');
    is($line->stat('entered'), 1, 'counted');

    my $again = $line->join('a', '', 'enter');
    is_deeply([ @$again{qw(status token)} ], [ 'entered', $in->{token} ],
              'again: the same token');
    is($line->stat('entered'), 1, 'and counted once');

    my $b = $line->join('b', '', 'enter');
    is_deeply([ @$b{qw(status rank total)} ], [ 'waiting', 0, 1 ],
              'no slot: in line');
    like(record('b'), qr/"instanceId":""/, 'held by nobody');
    ok(abs(seen('b') - now_ms()) < 2000, 'seen now');
    is($line->join('c', '', 'enter')->{rank}, 1, 'the next behind');
    well($line, 'enter');

    # promoted meanwhile: the next question enters
    $line->release('a');
    is_deeply($line->line, [ 'c' ], 'a slot is free: the first is let in');
    like(lease('b'), qr/"state":"ready"/, 'ready');
    is(seen('b'), undef, 'and waits no more');
    is_deeply($line->announced, [], 'nobody is to be told');

    my $entered = $line->join('b', '', 'enter');
    is($entered->{status}, 'entered', 'asks again: entered');
    ok(abs(ends('b') - now_ms() - 300000) < 2000, 'for the ttl');
    like(lease('b'), qr/"waited":\d+\}$/, 'having waited');
    well($line, 'entered');
}


# how long one has waited

{
    my $line = line(capacity => 1);
    $line->join('a', '', 'enter');
    $line->join('b', '', 'enter');
    $line->join('c', 'i1');

    # as if they had come earlier
    for my $user (qw(b c)) {
        my $record = record($user);
        my $since = now_ms() - 90000;
        $record =~ s/"since":\d+/"since":$since/;
        redis('HSET', "WAITING_QUEUE_INDEX_RECORD:{v$n}", $user, $record);
    }

    $line->join('b', 'i2');
    $line->join('c', 'i2');
    $line->release('a');
    my $b = $line->join('b', '', 'enter');
    ok(abs($b->{waited} - 90000) < 2000, 'the wait, of who had a stream');
    is($line->touch('b', $b->{token})->[2], $b->{waited}, 'touch says it too');
    $line->release('b');
    ok(abs($line->join('c', 'i2')->{waited} - 90000) < 2000,
       'coming back does not begin it anew');
}


# a visit: who has no cookie yet

{
    my $line = line(capacity => 1, max_waiting => 1);
    my $in = $line->join('a', '', 'visit');

    is($in->{status}, 'ready', 'a free slot and nobody waits: in');
    ok(abs($in->{expires} - now_ms() - 60000) < 2000, 'for the claim time');
    is($line->stat('entered'), 0, 'not entered');

    my $before = stored();
    my $out = $line->join('b', '', 'visit');
    is_deeply([ @$out{qw(status idx rank token total)} ],
              [ 'none', undef, undef, undef, 0 ], 'no slot: no place');
    is_deeply(stored(), $before, 'and nothing is stored');

    my ($good, $ends) = @{$line->touch('a', $in->{token})};
    is($good, 1, 'comes back: good');
    ok(abs($ends - now_ms() - 300000) < 2000, 'and a full lease');
    like(lease('a'), qr/"state":"entered"/, 'entered');

    $line->join('w');
    is($line->join('c', '', 'visit')->{status}, 'full', 'full: said so');
    $line->release('a');
    $line->leave('w');
    $line->release('w');
    $line->set(paused => 1);
    is($line->join('d', '', 'visit')->{status}, 'none', 'paused: no');
    $line->set(closed => 1);
    is($line->join('d', '', 'visit')->{status}, 'closed', 'closed: said so');
    well($line, 'visit');
}

{
    my $line = line(capacity => 2);
    $line->join($_) for qw(a b w);
    $line->release('a');
    $line->join('x');
    redis('ZREM', "ENTRY_ACTIVE:{v$n}", 'b');
    is($line->join('c', '', 'visit')->{status}, 'none',
       'a free slot, but somebody waits: no');

    my $unknown = line(capacity => undef);
    my $before = stored();
    is($unknown->join('a', '', 'visit')->{status}, 'unknown',
       'no capacity: unknown');
    is_deeply(stored(), $before, 'and nothing is stored');
    is($unknown->join('a', '', 'visit', 1)->{status}, 'ready',
       'with the word of the service: in');
}


# touch

{
    my $line = line(capacity => 2, ttl => 100000, claim => 50000,
                    ttl_max => 150000);
    my $a = $line->join('a');
    my $b = $line->join('b');
    my $before = stored();

    is_deeply($line->touch('a', $b->{token}), [ (0) x 6 ],
              'the token of somebody else: no');
    is_deeply($line->touch('a', 'f' x 40), [ (0) x 6 ], 'a forged one: no');
    is_deeply($line->touch('a', ''), [ (0) x 6 ], 'an empty one: no');
    is_deeply($line->touch('nobody', $a->{token}), [ (0) x 6 ],
              'a good one of a stranger: no');
    is_deeply(stored(), $before, 'and nothing has changed');

    my $other = line(capacity => 2);
    is($other->touch('a', $a->{token})->[0], 0, 'of another event: no');
    $n--;

    is($line->touch('a', $a->{token})->[0], 1, 'its own: good');
    ok(abs(ends('a') - now_ms() - 100000) < 2000, 'entered, for the ttl');
    like(lease('a'), qr/"instanceId":"i1"/, 'whoever holds a stream holds it');
    is(redis('GET', "ENTRY_TOKEN:{v$n}:a"), $a->{token}, 'the token stays');
    ok(redis('PTTL', "ENTRY_TOKEN:{v$n}:a") > 90000, 'as long as the lease');

    # the hard cap counts from the first use
    my $record = lease('a');
    my $since = now_ms() - 120000;
    $record =~ s/"since":\d+/"since":$since/;
    redis('HSET', "ENTRY_LEASE:{v$n}", 'a', $record);
    is($line->touch('a', $a->{token})->[1], $since + 150000,
       'used again: up to the hard cap');
    is($line->join('a', '', 'enter')->{expires}, $since + 150000,
       'by any road');
    is($line->stat('entered'), 1, 'entered once');

    redis('ZADD', "ENTRY_ACTIVE:{v$n}", now_ms() - 1, 'a');
    is($line->touch('a', $a->{token})->[0], 0, 'lapsed: no');
    is($line->promote->{expired}, 1, 'and taken back');
    $line->release('b');
    is($line->touch('b', $b->{token})->[0], 0, 'given back: no');
    well($line, 'touch');
}


# a lease whose token is lost: nobody can have it

{
    my $line = line(capacity => 1);
    my $a = $line->join('a', '', 'enter');
    redis('DEL', "ENTRY_TOKEN:{v$n}:a");
    is($line->touch('a', $a->{token})->[0], 0, 'the token is gone: no');
    is($line->touch('a', '')->[0], 0, 'nor with none');
    my $new = $line->join('a', '', 'enter');
    isnt($new->{token}, $a->{token}, 'but the user gets another');
    is($line->touch('a', $new->{token})->[0], 1, 'which is good');
}


# a stream and a poll of one user

{
    my $line = line(capacity => 1);
    $line->join('in');
    my $s = $line->join('a', 'i1');
    $line->join('b', 'i1');

    my $polled = $line->join('a', '', 'enter');
    is_deeply([ @$polled{qw(status idx rank previous)} ],
              [ 'waiting', $s->{idx}, 0, undef ], 'polled: the same place');
    like(record('a'), qr/"instanceId":"i1"/, 'held by the stream');
    is_deeply($line->announced, [], 'which is not replaced');

    # the stream ends, and the grace time: the place is kept by asking
    is($line->leave('a', 'i1', $s->{idx}), 0, 'the stream is gone: stays');
    is_deeply($line->line, [ qw(a b) ], 'in line');
    like(record('a'), qr/"instanceId":"","since":\d{13}/, 'held by nobody');
    is($line->leave('b', 'i1'), 1, 'who has not asked leaves');

    # and the other way round
    my $back = $line->join('a', 'i2');
    is_deeply([ @$back{qw(idx previous)} ], [ $s->{idx}, '' ],
              'a stream again: the same place');
    is(seen('a'), undef, 'which counts from now on');
    is_deeply($line->announced, [], 'nobody to be replaced');
    is($line->leave('a', 'i2'), 1, 'and when it is gone, the user is');

    # who is let in
    $line->join('c', 'i3');
    $line->join('c', '', 'enter');
    $line->release('in');
    is_deeply($line->announced, [ [ 'promoted', 'c', 'i3', 4 ] ],
              'let in: the stream is told');
    is($line->join('c', '', 'enter')->{status}, 'entered', 'enters by a poll');
    is_deeply($line->announced, [], 'the stream is not replaced');
    like(lease('c'), qr/"instanceId":"i3"/, 'and holds it as before');
    well($line, 'stream and poll');
}


# silence

{
    my $line = line(capacity => 1, poll_timeout => 10000);
    $line->join('in');
    $line->join($_, '', 'enter') for qw(a b c);
    $line->join('s', 'i1');
    $line->join('s', '', 'enter');

    silent(a => 9000);
    silent(b => 11000);
    silent(s => 11000);
    my $known = $line->positions(0)->{gone};
    my $promote = $line->promote;
    is_deeply($line->line, [ qw(a c s) ], 'who was silent for too long leaves');
    is($line->stat('left'), 1, 'counted');
    is($promote->{all_left}, 1, 'and told');
    is(seen('b'), undef, 'not waited for any more');
    is(seen('s'), undef, 'whoever has a stream need not ask');
    is_deeply($line->positions($known)->{entries}, [ 3 ],
              'those behind hear of it');
    is($line->join('c', '', 'enter')->{rank}, 1, 'and have moved up');

    $line->set(poll_timeout => 5000);
    $line->promote;
    is_deeply($line->line, [ qw(c s) ], "the operator's word counts");

    silent($_ => 6000) for qw(c);
    $line->set(paused => 1);
    $line->promote;
    is_deeply($line->line, [ 's' ], 'paused: they leave too');
    well($line, 'silence');

    # some a call
    $line->join("p$_", '', 'enter') for 1 .. 5;
    silent("p$_" => 6000) for 1 .. 5;
    is($line->promote(3)->{more}, 1, 'more than the limit: again');
    is_deeply($line->line, [ qw(s p4 p5) ], 'so many at once');
    is($line->promote(3)->{more}, 0, 'and then it is done');
    is_deeply($line->line, [ 's' ], 'all of them');

    # a lapse that nobody noted
    silent('ghost' => 6000);
    $line->promote;
    is(seen('ghost'), undef, 'one who is not in line is forgotten');
    is($line->stat('left'), 8, 'and not counted');
}


# the event is over for who waits without a stream

for my $how ([ closed => 'closed', sub { $_[0]->set(closed => 1) } ],
             [ 'sold out' => 'sold_out',
               sub { redis('SET', "seat:count:{v$n}", 0) } ])
{
    my ($name, $status, $end) = @$how;
    my $line = line(capacity => 1);
    $line->join('in', '', 'enter');
    $line->join('a', '', 'enter');
    $line->join('s', 'i1');
    $end->($line);

    is($line->join('a', '', 'enter')->{status}, $status, "$name: said so");
    is_deeply($line->line, [ 's' ], "$name: and the place is gone");
    is($line->stat('left'), 1, "$name: counted");
    is($line->join('s', '', 'enter')->{status}, $status,
       "$name: of who has a stream too");
    is($line->join('in', '', 'enter')->{status}, 'entered',
       "$name: who is in stays in");
    well($line, $name);
}


# a promotion that nobody was told of, and who came in all the same

{
    my $line = line(capacity => 1);
    $line->join('in');
    $line->join($_, 'i1') for qw(a b);
    $line->release('in');
    my $token = redis('GET', "ENTRY_TOKEN:{v$n}:a");

    # the stream is gone, and the visitor comes to the gate
    is($line->join('a', '', 'enter')->{status}, 'entered', 'in without one');
    is_deeply($line->release('a', 'untold', 'i1', $token, 'left'), [ 0, 0 ],
              'the grace time of the stream does not end the visit');
    is($line->touch('a', $token)->[0], 1, 'which goes on');
    $line->release('a');
    $token = redis('GET', "ENTRY_TOKEN:{v$n}:b");
    is_deeply($line->release('b', 'untold', 'i1', $token, 'left'), [ 1, 0 ],
              'who did not come has left');
    is($line->stat('left'), 1, 'counted');
    well($line, 'untold');
}


# a seat that is sold stays so

{
    my $line = line(capacity => 3);
    redis('SET', "seat:count:{v$n}", 10);
    my %token = map { $_ => $line->join($_, '', 'enter')->{token} } qw(a b c);

    is_deeply($line->release('a', 'sold', '', $token{a}, 'sold'), [ 1, 0 ],
              'sold');
    is_deeply($line->release('a', 'sold', '', $token{a}, 'sold'), [ 0, 0 ],
              'once, however often it is said');
    is($line->stat('sold'), 1, 'counted once');
    is(redis('GET', "seat:count:{v$n}"), 9, 'and a seat less');

    # lapsed, with its token
    redis('ZADD', "ENTRY_ACTIVE:{v$n}", 1, 'b');
    redis('DEL', "ENTRY_TOKEN:{v$n}:b");
    is($line->release('b', 'sold', '', $token{b}, 'sold')->[0], 1,
       'lapsed: sold all the same');

    # lapsed and taken back, and the user has come anew
    redis('ZADD', "ENTRY_ACTIVE:{v$n}", 1, 'c');
    redis('DEL', "ENTRY_TOKEN:{v$n}:c");
    $line->promote;
    my $new = $line->join('c', '', 'enter')->{token};
    is($line->release('c', 'sold', '', $token{c}, 'sold')->[0], 1,
       'taken back: sold all the same');
    is($line->touch('c', $new)->[0], 1, 'and the new visit goes on');
    is($line->stat('sold'), 3, 'all are counted');
    is(redis('GET', "seat:count:{v$n}"), 7, 'and the seats');
    ok(redis('PTTL', "ENTRY_TOKEN:{v$n}:a/$token{a}") > 0,
       'what is kept for it goes away by itself');
    well($line, 'sold');
}


# a dead instance

{
    my $line = line(capacity => 1, grace => 0);
    $line->join('in', '');
    $line->join($_, 'dead') for qw(a b c);
    $line->join('b', '', 'enter');
    my ($left) = $line->reap('dead', 100, 1);
    is($left, 2, 'who has not asked leaves');
    is_deeply($line->line, [ 'b' ], 'who has stays');
    like(record('b'), qr/"instanceId":""/, 'held by nobody');
    well($line, 'a dead instance');
}


done_testing();
