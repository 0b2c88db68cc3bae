# What the scripts do when Redis has lost data, or another process serves them:
# nobody is let in for a while, and what workers and nodes know is put back, in
# whatever order they come.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Script;

sub redis { return WaitingQueue::Script::redis(@_) }
sub heartbeat { return WaitingQueue::Script::heartbeat(@_) }

my $n = 0;

sub line { return WaitingQueue::Script->new('r' . ++$n, claim => 50000, @_) }

sub well {
    my ($line, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is_deeply([ $line->wrong ], [], "$what: invariants");
}


# over(): the time in which nobody is let in is over

sub over { redis('HSET', 'WAITING_ORIGIN', until => 0) }


# a loss, after which a worker that knew the data before comes first

sub lose {
    my ($known) = @_;

    redis('FLUSHDB');
    return heartbeat('i1', $known || 1);
}


# who comes first, and what is heard of it

redis('PING');
redis('FLUSHDB');

my $first = heartbeat('i1');
is($first->{hold}, 0, 'data new to all: nobody has to wait');
cmp_ok($first->{origin}, '>', 1e15, 'they are there since now');
is(heartbeat('i2')->{origin}, $first->{origin}, 'another hears the same');
is(heartbeat('i1', $first->{origin})->{hold}, 0, 'and so it stays');

redis('FLUSHDB');
my $lost = heartbeat('i1', $first->{origin});
cmp_ok($lost->{origin}, '>', $first->{origin}, 'lost: said to who knew them');
is($lost->{hold}, 5000, 'lost: nobody is let in for a while');
my $other = heartbeat('i2', $first->{origin});
is($other->{origin}, $lost->{origin}, 'lost: the next hears the same');
cmp_ok($other->{hold}, '<=', 5000, 'lost: and it takes no longer');

redis('FLUSHDB');
my $new = heartbeat('new');
is($new->{hold}, 0, 'lost, and a newcomer was first');
my $old = heartbeat('i1', $lost->{origin});
is($old->{origin}, $new->{origin}, 'who knew more hears it');
cmp_ok($old->{hold}, '>', 4000, 'and nobody is let in from then on');

my $run = redis('HGET', 'WAITING_ORIGIN', 'run');
like(redis('INFO', 'server'), qr/run_id:$run\b/, 'the process is known');
redis('HSET', 'WAITING_ORIGIN', run => 'f' x 40, until => 0);
my $moved = heartbeat('i1', $old->{origin});
cmp_ok($moved->{origin}, '>', $old->{origin}, 'another process: it is said');
is($moved->{hold}, 5000, 'another process: nobody is let in');
is(heartbeat('i1', $moved->{origin})->{origin}, $moved->{origin}, 'once');

redis('HSET', 'WAITING_ORIGIN', until => 1e15);
is(heartbeat('i1', $moved->{origin})->{hold}, 0,
   'a clock that was set back keeps nobody out');
redis('SET', 'WAITING_ORIGIN', 'rubbish');
is(heartbeat('i1', $moved->{origin})->{hold}, 5000,
   'rubbish in its place: as if it was lost');
is(redis('TYPE', 'WAITING_ORIGIN'), 'hash', 'and it is mended');

for my $rubbish ('', 'x', 'nan', '-inf', 'inf', '-5', '0', '1.5', '1e300') {
    redis('HSET', 'WAITING_ORIGIN', since => $rubbish, until => 0);
    my $heard = heartbeat('i1', $moved->{origin});
    like($heard->{origin}, qr/^\d{16}$/, "since \"$rubbish\": another is made");
    is($heard->{hold}, 5000, "since \"$rubbish\": as if it was lost");
    redis('HSET', 'WAITING_ORIGIN', until => $rubbish);
    is(heartbeat('i1', $heard->{origin})->{hold}, 0,
       "until \"$rubbish\": keeps nobody out");
}

redis('SET', 'WAITING_INSTANCES', 'rubbish');
is(heartbeat('i1', 1)->{unknown}, 1, 'rubbish for the list of instances');
is(redis('TYPE', 'WAITING_INSTANCES'), 'zset', 'and it is mended');

my $leaves = heartbeat('i1', $moved->{origin}, 3000);
is(redis('ZSCORE', 'WAITING_INSTANCES', 'i1'), -($leaves->{now} + 3000),
   'one that leaves is for others to look after, when its clients are back');


# nobody is let in meanwhile

WaitingQueue::Script::flush();
my $line = line(capacity => 3);
my %in = map { $_ => $line->join($_, 'i1', 'enter') } qw(a b);
my %ready = (c => $line->join('c'));
my %place = map { $_ => $line->join($_) } qw(u v w x);
my $epoch = $line->positions(0)->{epoch};
my $highest = $place{x}{idx};

redis('FLUSHDB');
is($line->join('z', 'i2')->{status}, 'waiting',
   'before any worker has seen the loss: even the first waits');
cmp_ok($line->join('z', 'i2')->{hold}, '>', 0, 'and it is said why');
is($line->join('y', '', 'visit')->{status}, 'none', 'a visit: does not go in');

lose();
$line->join('z', 'i2', 'stream', '', $highest);
is($line->promote->{promoted}, 0, 'a round lets nobody in');
is($line->touch('a', $in{a}{token})->[0], 0, 'the token of who was in: unknown');
cmp_ok($line->touch('a', $in{a}{token})->[3], '>', 0, 'but perhaps only now');


# those inside come back, to the same token

for my $user (qw(a b)) {
    my $back = $line->restore_lease($user, $in{$user});

    is_deeply([ @$back{qw(good ends idx restored)} ],
              [ 1, @{$in{$user}}{qw(expires idx)}, 1 ],
              "$user: is inside again");
    is($line->restore_lease($user, $in{$user})->{restored}, 0, 'once');
    is($line->touch($user, $in{$user}{token})->[0], 1, 'and the token is good');
}

is($line->restore_lease('c', $ready{c})->{restored}, 1, 'c: is let in again');
is($line->stat('entered'), 0, 'and has not entered by that');
well($line, 'leases');
is($line->restore('u', 'i1', $place{u}{idx}, $highest, $epoch)->{rank}, 0,
   'u: is the first again, before who came meanwhile');
$line->restore($_, 'i1', $place{$_}{idx}, $highest, $epoch) for qw(x w v);
is_deeply($line->line, [ qw(u v w x z) ], 'all: in their order');
over();
is($line->promote->{promoted}, 0, 'no slot is free: nobody is let in');
is($line->join('a', 'i1')->{token}, $in{a}{token}, 'a: still has the token');
$line->release('a');
is_deeply($line->line, [ qw(v w x z) ], 'one goes, and the first comes in');
well($line, 'a loss');


# not what has ended, nor when it is too late

is($line->restore_lease('a', $in{a})->{good}, 0, 'too late: is not put back');
redis('HSET', 'WAITING_ORIGIN', until => 1000 * time + 4000);
is($line->restore_lease('a', $in{a})->{good}, 0,
   'given back before: is not put back');
$line->release('b', 'sold');
is($line->restore_lease('b', $in{b})->{good}, 0, 'sold before: neither');
$line->quit('c');
is($line->restore_lease('c', $ready{c})->{good}, 0, 'gone before: neither');
$line->call('release', 'd', 'return', 'x', '', 'd' x 40, 'done');
is($line->restore_lease('d', { %{$in{a}}, token => 'd' x 40 })->{good}, 0,
   'given back while nobody knew it: neither');
$line->call('release', 'e', 'untold', 'x', 'i1', 'e' x 40, 'left');
is($line->restore_lease('e', { %{$in{a}}, token => 'e' x 40, idx => 99 })
        ->{good}, 1, 'not told by who had no time to hear that it was used: is');
$line->release('e');
is($line->restore_lease('d', $in{a}, expires => 1000 * time - 1)->{good}, 0,
   'lapsed: neither');
well($line, 'ended leases');


# a replica that was behind: some writes are missing

WaitingQueue::Script::flush();
my $behind = line(capacity => 2);
my $p = $behind->join('p', 'i1');
my $q = $behind->join('q', 'i1', 'enter');
$behind->join($_, 'i1') for qw(r s);
my $was = redis('ZRANGE', $behind->key(0), 0, -1, 'WITHSCORES');

redis('HSET', 'WAITING_ORIGIN', until => 1000 * time + 4000);
redis('ZREM', $behind->key(7), 'p');
redis('DEL', $behind->key(6) . 'p', $behind->key(8));
redis('ZADD', $behind->key(0), 1, '{"userId":"p"}');
redis('HSET', $behind->key(1), 'p', '{"userId":"p","eventId":"x","idx":1,'
                                    . '"instanceId":"i9","since":1}');
redis('HSET', $behind->key(2), 'p', 'true');
$behind->announced;

my $again = $behind->restore_lease('p', $p, state => 'entered');
is($again->{restored}, 1, 'let in by a write that is missing: is in again');
is($behind->join('p', '')->{status}, 'entered', 'and has entered');
is_deeply($behind->line, [ qw(r s) ], 'and is not in line any more');
is_deeply($behind->announced, [ [ 'promoted', 'p', 'i9', $p->{idx} ] ],
          'and the stream that waits is told');

my $short = $behind->join('q', '');
redis('ZADD', $behind->key(7), $short->{expires} - 5000, 'q');
$behind->restore_lease('q', $short);
is(redis('ZSCORE', $behind->key(7), 'q'), $short->{expires},
   'renewed by a write that is missing: is renewed');
$behind->restore_lease('q', $short, expires => $short->{expires} - 9000);
is(redis('ZSCORE', $behind->key(7), 'q'), $short->{expires},
   'and not by what is known of before');
is($behind->restore_lease('q', { %$short, token => 'e' x 40 })->{good}, 0,
   'who has a newer lease keeps that');
$behind->restore_lease('q', $short, state => 'entered');
is($behind->join('q', '')->{status}, 'entered',
   'used by a write that is missing: has entered');
$behind->restore_lease('q', $short, state => 'ready',
                       expires => $short->{expires} + 9000);
is($behind->join('q', '')->{status}, 'entered',
   'who has entered has not, to a node that has not heard of it: has entered');
is(redis('ZSCORE', $behind->key(7), 'q'), $short->{expires},
   'and for no longer');

redis('DEL', $behind->key(6) . 'q');
is($behind->restore_lease('q', { %$short, token => 'e' x 40, idx => 9 })
          ->{good}, 0, 'the token alone is missing: not that of another lease');
is($behind->restore_lease('q', $short)->{good}, 1, 'but its own');
is(redis('GET', $behind->key(6) . 'q'), $short->{token}, 'is put back');
is($behind->touch('q', $short->{token})->[0], 1, 'and is good');


# who has come back before it was known

WaitingQueue::Script::flush();
my $back = line(capacity => 0);
my %idx = map { $_ => $back->join($_, 'i1')->{idx} } qw(a b c d);
$epoch = $back->positions(0)->{epoch};
lose();
my $anew = $back->join('b', 'i2', 'stream', '', $idx{d});
cmp_ok($anew->{idx}, '>', $idx{d}, 'b has come anew, behind all');
$back->restore($_, 'i1', $idx{$_}, $idx{d}, $epoch) for qw(a c d);
heartbeat('i2');
$back->announced;
is($back->restore('b', 'i1', $idx{b}, $idx{d}, $epoch, 'absent')->{rank}, 1,
   'the worker that knew b puts b where he stood');
is_deeply($back->line, [ qw(a b c d) ], 'between the same');
is_deeply($back->announced, [ [ 'moved', 'b', 'i2', $idx{b} ] ],
          'and the one that has the stream is told');
is($back->restore('b', 'i1', $idx{b}, $idx{d}, $epoch, '', 1)->{status},
   'replaced', 'the other is not the holder any more');
is($back->restore('e', 'i1', 2.5 * $idx{d}, $idx{d}, $epoch, 'absent')->{status},
   'waiting', 'one in his grace time is put back');
well($back, 'come back');


# who has come from elsewhere, of which a replica did not hear: the newer
# connection is the one that counts, whoever says so first

for my $in (0, 1) {
    WaitingQueue::Script::flush();
    my $behind = line(capacity => $in);
    my $what = $in ? 'in' : 'in line';
    my $first = $behind->join('u', 'i1');
    my @were = map { redis('DUMP', $behind->key($_)) } 1, 8;
    my $second = $behind->join('u', 'i2');

    $epoch = $behind->positions(0)->{epoch};
    cmp_ok($second->{serial}, '>', $first->{serial}, "$what: a newer one");

    # the move is lost
    redis('DEL', map { $behind->key($_) } 1, 8);
    redis('RESTORE', $behind->key($$_[0]), 0, $$_[1])
        for grep { defined $$_[1] } [ 1, $were[0] ], [ 8, $were[1] ];
    $behind->announced;
    heartbeat($_, 1) for qw(i1 i2);

    is_deeply($behind->ranks('i2', 'u')->{ranks}, [ -1 ],
              "$what: who holds it finds out");

    my $back = $behind->restore('u', 'i2', $first->{idx}, $first->{idx},
                                $epoch, '', $second->{serial});
    is_deeply([ @$back{qw(status idx serial)} ],
              [ $first->{status}, $first->{idx}, $second->{serial} ],
              "$what: and has it again");
    is_deeply($behind->announced, [ [ 'replaced', 'u', 'i1', $first->{idx} ] ],
              "$what: the other is told");
    is($behind->restore('u', 'i1', $first->{idx}, $first->{idx}, $epoch, '',
                        $first->{serial})->{status},
       'replaced', "$what: and cannot take it back");
    is_deeply($behind->ranks('i2', 'u')->{ranks}, [ $in ? -1 : 0 ],
              "$what: all is as it was");

    next if $in;

    # gone from there by then, the place is to be given up there all the same
    redis('RESTORE', $behind->key(1), 0, $were[0], 'REPLACE');
    $behind->restore('u', 'i2', $first->{idx}, $first->{idx}, $epoch, 'absent',
                     $second->{serial});
    is($behind->leave('u', 'i1'), 0, "$what: the one before cannot");
    is($behind->leave('u', 'i2'), 1, "$what: this one can");
    well($behind, "$what: come from elsewhere");
}


# what is said of the seats when one is sold

WaitingQueue::Script::flush();
my $says = line(capacity => 5);
my %buys = map { $_ => $says->join($_, '', 'enter') } qw(a b c);
my $sells = sub {
    $says->release($_[0], 'sold', '', $buys{$_[0]}{token}, 'sold');
    return [ $says->{figures}[4], $says->{figures}[5] ];
};

is_deeply($sells->('a'), [ 1, -1 ], 'sold: one, of seats that nobody counts');
redis('SET', $says->key(15), 7);
is_deeply($sells->('b'), [ 2, 6 ], 'sold: of seven');
is_deeply($sells->('b'), [ 2, 6 ], 'sold: said again');
redis('SET', $says->key(15), 'rubbish');
is_deeply($sells->('c'), [ 3, -1 ], 'sold: rubbish counts none');
is($says->stat('sold'), 3, 'and stops nobody');
well($says, 'sold');

lose();
$buys{d} = $says->join('d', '', 'enter');
$sells->('d');
cmp_ok($says->{figures}[-2], '>', 0, 'sold: it is said that it is after a loss');


# what somebody had may have been lost

WaitingQueue::Script::flush();
my $gives = line(capacity => 5);
my $given = $gives->join('a', '', 'enter');
is_deeply([ @{$gives->quit('nobody')}, $gives->{hold} ], [ 0, 0, 0 ],
          'quit: there is nothing');
lose();
is_deeply($gives->quit('a'), [ 0, 0 ], 'quit: nothing is known of it');
cmp_ok($gives->{hold}, '>', 4000, 'but perhaps only now');
$gives->restore_lease('a', $given);
is_deeply([ @{$gives->quit('a')}, $gives->{hold} ], [ 1, 0, 0 ],
          'quit: what was put back');
# who comes to one that knows nobody: a worker without streams, the API

for my $seen (0, 1) {
    WaitingQueue::Script::flush();
    my $blind = line(capacity => 0);
    my $what = $seen ? 'after the loss was seen' : 'before the loss is seen';
    my %was = map { $_ => $blind->join($_)->{idx} } qw(a b c d);

    $blind->leave($_) for qw(a b);
    $epoch = $blind->positions(0)->{epoch};
    lose() if $seen;
    redis('FLUSHDB') if !$seen;
    $blind->join($_, '', 'enter') for qw(x y);
    heartbeat('i1', 1) if !$seen;
    $blind->join('z', '', 'enter');
    $blind->restore($_, 'i1', $was{$_}, $was{d}, $epoch) for qw(d c);
    is_deeply($blind->line, [ qw(c d x y z) ],
              "blind $what: stands behind all who come back");
    over();
    $blind->join('last');
    is_deeply($blind->line, [ qw(c d x y z last) ], "blind $what: and so on");
    well($blind, "blind $what");
}

WaitingQueue::Script::flush();
my $tie = line(capacity => 0);
my %tied = map { $_ => $tie->join($_)->{idx} } qw(a b c);
$epoch = $tie->positions(0)->{epoch};
$tie->leave('c');
redis('HSET', 'WAITING_QUEUE_IDX', "r$n", $tied{b});
redis('HSET', 'WAITING_ORIGIN', run => 'f' x 40);
heartbeat('i1', 1);
$tie->join('d', 'i2', 'stream', '', $tied{b});
$tie->restore('c', 'i1', $tied{c}, $tied{c}, $epoch);
is_deeply($tie->line, [ qw(a b c d) ], 'behind: the idx of one is no other\'s');
cmp_ok(redis('ZSCORE', $tie->key(0), '{"userId":"d"}'), '>', $tied{c},
       'behind: nor is it given again');


# what a node knows of the event

WaitingQueue::Script::flush();
my $sale = line(capacity => undef);
$sale->join($_, 'i1', 'enter', 4) for qw(a b);
my $token = $sale->join('a', '')->{token};
redis('SET', 'seat:count:{r' . $n . '}', 10);
$sale->release('a', 'sold');
lose();
is($sale->join('c', 'i1')->{status}, 'unknown', 'no capacity is known any more');
is_deeply($sale->call('restore_event', 4, 1, 9), [ 1 ], 'it is put back');
is_deeply($sale->call('restore_event', 4, 1, 9), [ 0 ], 'once');
is_deeply($sale->call('restore_event', 4, 0, 8), [ 0 ],
          'and not lowered by who knows less');
is($sale->join('c', 'i1')->{status}, 'waiting', 'then people can wait');
over();
my $round = $sale->promote;
is($round->{promoted}, 1, 'and come in');
is_deeply([ @$round{qw(all_capacity all_sold all_seats all_free)} ],
          [ 4, 1, 9, 2 ], 'into what was not sold');
is_deeply($sale->call('restore_event', 9, 9, 9), [ 0 ],
          'too late: nothing is put back');
well($sale, 'event');


# what is sold before that was put back

for my $seen (0, 1) {
    WaitingQueue::Script::flush();
    my $fast = line(capacity => 100);
    my $what = $seen ? 'after the loss was seen' : 'before the loss is seen';
    my $seats = 'seat:count:{r' . $n . '}';
    my %lease = map { $_ => $fast->join($_, '', 'enter') } qw(a b c);

    lose() if $seen;
    redis('FLUSHDB') if !$seen;
    $fast->join('z');
    $fast->release('a', 'sold', '', $lease{a}{token}, 'sold');
    heartbeat('i1', 1) if !$seen;
    $fast->call('restore_event', 100, 10, 50);
    is($fast->stat('sold'), 11, "sold $what: one more than was known");
    is(redis('GET', $seats), 49, "sold $what: and a seat less");
    $fast->release('b', 'sold', '', $lease{b}{token}, 'sold');
    $fast->call('restore_event', 100, 10, 50);
    is($fast->stat('sold'), 12, "sold $what: and so is the next");
    is(redis('GET', $seats), 48, "sold $what: with its seat");
    $fast->call('restore_event', 100, 12, 50);
    is($fast->stat('sold'), 14, "sold $what: another node has known of more");
    is($fast->restore_lease('a', $lease{a})->{good}, 0,
       "sold $what: the lease is over");
    cmp_ok($fast->positions(0)->{hold}, '>', 0, "sold $what: not to be told yet");
    over();
    is($fast->positions(0)->{hold}, 0, "sold $what: now it is");
    $fast->release('c', 'sold', '', $lease{c}{token}, 'sold');
    is($fast->stat('sold'), 15, "sold $what: then as ever");
    redis('HSET', 'WAITING_ORIGIN', run => 'f' x 40);
    heartbeat('i1', 1);
    $fast->call('restore_event', 100, 15, 50);
    is($fast->stat('sold'), 15, "sold $what: not once more after another loss");
    well($fast, "sold $what");
}

# what two nodes know of the seats, one of them of long ago

sub seats_of {
    my ($line, @known) = @_;

    $line->call('restore_event', 10, @$_) for @known;
    return redis('GET', $line->key(15));
}

WaitingQueue::Script::flush();
my $stale = line(capacity => 10);
my %sells = map { $_ => $stale->join($_, '', 'enter') } qw(a b);
lose();
is(seats_of($stale, [ 1, 50 ], [ 10, 41 ]), 41,
   'seats: of who has heard of the event last');
is(seats_of($stale, [ 1, 50 ], [ 9, 30 ]), 41, 'seats: of nobody else');
$stale->release('a', 'sold', '', $sells{a}{token}, 'sold');
is(seats_of($stale), 40, 'seats: one is sold meanwhile');
is(seats_of($stale, [ 10, 41 ]), 40, 'seats: and stays so');
is(seats_of($stale, [ 12, 39 ]), 38, 'seats: also by who knows of more');
is($stale->stat('sold'), 13, 'seats: all that were sold');
redis('SET', $stale->key(15), 45);
is(seats_of($stale, [ 14, 30 ]), 45, 'seats: what the backend has said stays');
redis('HSET', $stale->key(11), seats_back => 'rubbish');
is(seats_of($stale, [ 15, 30 ]), 45, 'seats: rubbish says nothing');

lose();
redis('SET', $stale->key(15), 45);
is(seats_of($stale, [ 1, 50 ], [ 10, 41 ]), 45,
   'seats: and what it said before');

WaitingQueue::Script::flush();
my $unsaid = line(capacity => undef);
lose();
is_deeply($unsaid->call('restore_event', 0, 0, -1), [ 0 ],
          'a capacity that no node knew is not put back');
is($unsaid->join('a')->{status}, 'unknown', 'it is to be asked for');


# numbers that nobody can count on from

for my $rubbish ('9000000000000000000', '100000000000000000', 'inf', 'x', '',
                 '-3', '1.5')
{
    WaitingQueue::Script::flush();
    redis('HSET', 'WAITING_ORIGIN', until => 1000 * time + 4000);

    my $hand = line(capacity => 0);
    my $what = "\"$rubbish\"";

    $hand->join('a');
    redis('HSET', 'WAITING_QUEUE_IDX', "r$n", $rubbish);
    is($hand->join('b')->{idx}, 2, "$what for the last idx: counted anew");

    if ($rubbish =~ /^\d+$|inf/) {
        redis('ZADD', $hand->key(0), $rubbish, '{"userId":"hand"}');
        is($hand->join('c')->{idx}, 3, "$what in line: others are counted");
        redis('ZREM', $hand->key(0), '{"userId":"hand"}');
    }

    if ($rubbish =~ /^\d+$/) {
        $hand->restore_lease('in', $in{a}, idx => $rubbish, state => 'ready',
                             expires => 1000 * time + 60000);
        is($hand->join('d', 'i1', 'stream', '', $rubbish)->{idx}, 4,
           "$what put back, and known: people can join");
    }

    $hand->join($_) for 'e', 'f';
    my $users = join ' ', @{$hand->line};
    is($users, join(' ', sort split ' ', $users), "$what: in their order");
    well($hand, $what);
}

done_testing();
