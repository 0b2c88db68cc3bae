# Proves what is promised for the failures that every waiting room has, one part
# for each: Redis is lost; something goes wrong in the middle of a promotion;
# the stream breaks after the promotion; somebody is let in who is not there;
# somebody comes twice.  And the rules by which a user goes from one state to
# the next, as they are where a place and a lease end with the stream.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Nodes;


my $nodes = WaitingQueue::Nodes->new(
    nodes => 2,
    http => 'waiting_queue_interval 100ms; waiting_queue_promote_interval '
            . '100ms;',
    locations => {
        # the plain rule: what is held ends with the stream
        plain => 'waiting_queue_capacity 1; waiting_queue_grace 0; '
                 . 'waiting_queue_release disconnect;',
        back => 'waiting_queue_capacity 1; waiting_queue_grace 1s; '
                . 'waiting_queue_release disconnect;',
        keep => 'waiting_queue_capacity 1; waiting_queue_grace 0; '
                . 'waiting_queue_ttl 1m claim=2s;',
        wait => 'waiting_queue_capacity 1; waiting_queue_grace 2s;',
        none => 'waiting_queue_capacity 0; waiting_queue_grace 0;',
    });
my $redis = $nodes->redis;
my $sse = $nodes->sse;


# sound(line, what): the invariants hold, and nothing is under way

sub sound {
    my ($line, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $nodes->run_until(sub { !$nodes->busy && !$line->wrong }, 10,
                      "$what: all is sound")
        or diag(join "\n", $nodes->busy, $line->wrong);
}


# names of all who are inside, and of all who wait

sub inside { return join ' ', @{$_[0]->inside} }
sub waiting { return join ' ', @{$_[0]->waiting} }


# ghost(line, user, of): takes a place in the name of the worker that holds
# "of", which knows nothing of it

sub ghost {
    my ($line, $user, $of) = @_;

    my $record = $line->record($of) || $line->lease($of);
    my $text = $nodes->call('HGET', $line->key('WAITING_QUEUE_CONF'), 'text');

    return $line->script('join', $user, $record->{instanceId}, 'stream',
                         'f' x 64, $text, '', 0)->[0];
}


# 1. Redis is lost: whoever comes is told to try again, whoever waits goes on
# waiting, and nobody loses a place

{
    my $what = 'Redis lost';
    my $line = $nodes->line('none', 'lost');
    my @s = map { $line->join("l$_", $nodes->at($_ % 2)) } 1 .. 6;
    my %idx = map { $_->{user} => $line->idx($_->{user}) } @s;

    $redis->cli('SAVE');
    $redis->kill9;

    my $start = time;
    my @refused = map { $line->join("late$_", $nodes->at($_)) } 0, 1;

    ok(time - $start < patience(5), "$what: who comes is answered soon");

    for my $s (@refused) {
        is($s->status, 503, "$what: with 503");
        is(($s->json || {})->{error}, 'redis_unavailable', "$what: and why");
        like($s->header('Retry-After') || '', qr/^[1-9]$/,
             "$what: and when to try again");
    }

    $sse->run_for(0.5);
    is(scalar(grep { $_->is_open } @s), 6, "$what: whoever waits goes on");
    $_->unharmed("while Redis is lost") for $nodes->nodes;

    $nodes->restart_redis("$what: it is back");

    is(waiting($line), join(' ', map { $_->{user} } @s),
       "$what: the line is as it was");
    is_deeply({ map { $_->{user} => $line->idx($_->{user}) } @s }, \%idx,
              "$what: each with the old idx");

    my $late = $line->join('late0');

    is($late->rank, 6, "$what: who tries again stands behind");
    $line->set(capacity => 2);
    $nodes->run_until(sub { 2 == grep { $_->token } @s
                            and $nodes->exact($line, @s[2 .. 5], $late) },
                      15, "$what: then people are let in again");
    is(join(' ', map { $_->{user} } grep { $_->token } @s), 'l1 l2',
       "$what: the first of them");

    # only the connections, all at once
    $nodes->call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    $line->set(capacity => 4);
    $nodes->run_until(sub { 4 == grep { $_->token } @s
                            and $nodes->exact($line, @s[4, 5], $late) },
                      15, "$what: the same when only the connections break");
    sound($line, $what);
}


# 2. Something goes wrong in the middle of a promotion: what cannot be made
# sense of is left out, alone; what fails as a whole has let in nobody

{
    my $what = 'exception in a promotion';
    my $line = $nodes->line('none', 'broken');
    my @s = $line->joins(map { "x$_" } 1 .. 8);
    my @garbage = ('garbage', '{"userId":""}', '{"userId":"a","b":1}',
                   "\0\1\377", '{"userId":"x"y"}', 'x' x 10000);

    $nodes->call('ZADD', $line->key('WAITING'), $_ + 1.5, $garbage[$_])
        for 0 .. 3;
    # in front of everybody, and behind
    $nodes->call('ZADD', $line->key('WAITING'), -7, $garbage[4]);
    $nodes->call('ZADD', $line->key('WAITING'), 99, $garbage[5]);

    $line->set(capacity => 5);
    $nodes->run_until(sub { 5 == grep { $_->token } @s }, 10,
                      "$what: garbage in the line is passed over");
    is(inside($line), 'x1 x2 x3 x4 x5', "$what: the first five are in");
    is($line->stat('garbage'), 5, "$what: five things are left out");
    is($line->stat('promoted'), 5, "$what: and nobody else");
    is($line->slots, 0, "$what: they have taken no slots");
    $nodes->run_until(sub { $nodes->exact($line, @s[5 .. 7])
                            && $s[5]->rank == 0 }, 10,
                      "$what: those who still wait know their place");
    $nodes->call('ZREM', $line->key('WAITING'), $garbage[5]);

    # a record that is gone or damaged does not hold up anybody
    $nodes->call('HDEL', $line->key('WAITING_QUEUE_INDEX_RECORD'), 'x6');
    $nodes->call('HSET', $line->key('WAITING_QUEUE_INDEX_RECORD'), 'x7', '{"');
    $line->set(capacity => 8);
    $nodes->run_until(sub { inside($line) eq 'x1 x2 x3 x4 x5 x6 x7 x8' }, 10,
                      "$what: nor do damaged records");
    $nodes->run_until(sub { $s[7]->token }, 10, "$what: all are let in");
    $nodes->run_until(sub { $s[5]->token && $s[6]->token }, 15,
                      "$what: and all are told, though Redis does not know "
                      . 'where they are');

    # Redis refuses the script: all or nothing

    my @more = $line->joins(qw(y1 y2 y3));

    my $failed = $nodes->node(0)->sum('failed', 'commands');

    $nodes->call('CONFIG', 'SET', 'maxmemory', '1');

    my @before = ($line->wrong, waiting($line), inside($line));

    $nodes->run_until(
        sub { $nodes->node(0)->sum('failed', 'commands') > $failed }, 10,
        "$what: Redis has no memory");
    is(eval { $line->release('x1'); 1 }, undef, "$what: a script fails");
    is_deeply([$line->wrong, waiting($line), inside($line)], \@before,
              "$what: then nothing has changed at all");
    $nodes->call('CONFIG', 'SET', 'maxmemory', '0');
    $line->set(capacity => 11);
    $nodes->run_until(sub { 3 == grep { $_->token } @more }, 10,
                      "$what: and afterwards it goes on");
    sound($line, $what);
}


# 3. The stream breaks after the promotion

{
    my $what = 'stream broken after the promotion';
    my $line = $nodes->line('plain', 'cut');
    my @s = $line->joins(qw(c1 c2 c3));

    $s[0]->close;
    $nodes->run_until(sub { $s[1]->token }, 10,
                      "$what, disconnect: the slot goes to the next");
    is($line->token('c1'), undef, "$what, disconnect: the token is gone");
    is(inside($line), 'c2', "$what, disconnect: and so is the lease");
    $s[1]->reset;
    $nodes->run_until(sub { $s[2]->token }, 10,
                      "$what, disconnect: the same by a reset");
    $s[2]->close;
    $nodes->run_until(sub { $line->slots == 1 }, 10,
                      "$what, disconnect: with nobody waiting it is free");
    sound($line, "$what, disconnect");

    # with a grace time it may be a phone in a tunnel

    $line = $nodes->line('back', 'tunnel');
    @s = $line->joins(qw(t1 t2));

    my $token = $s[0]->token;

    $s[0]->close;
    $sse->run_for(0.3);

    my $back = $line->join('t1', $nodes->at(1));

    is($back->token, $token, "$what, grace: back in time, the same token");
    $sse->run_for(1.2);
    is($s[1]->names, 'position', "$what, grace: and it stays");

    my $closed = time;

    $back->close;
    $nodes->run_until(sub { $s[1]->token }, 15,
                      "$what, grace: not back in time, it goes to the next");
    ok($s[1]->last('promoted')->{at} - $closed >= 0.95,
       "$what, grace: not before the grace time is over");
    sound($line, "$what, grace");

    # where a lease ends by its time only, the stream does not matter

    $line = $nodes->line('keep', 'kept');
    @s = $line->joins(qw(k1 k2));
    $token = $s[0]->token;

    my $expires = $s[0]->last->{data}{expiresAt};

    $s[0]->close;
    $sse->run_for(0.5);
    is($line->token('k1'), $token, "$what, expiry: the token stays");
    is($s[1]->names, 'position', "$what, expiry: and so does the lease");

    $back = $line->join('k1', $nodes->at(1));
    is($back->token, $token, "$what, expiry: who comes back is told it again");
    is($back->last->{data}{expiresAt}, $expires,
       "$what, expiry: and no other end");
    $back->close;

    $nodes->run_until(sub { $s[1]->token }, 15,
                      "$what, expiry: when its time is over the next is in");
    ok(1000 * $s[1]->last('promoted')->{at} >= $expires - 50,
       "$what, expiry: not before");
    sound($line, "$what, expiry");
}


# 4. Let in, and nobody is there

{
    my $what = 'promoted, nobody connected';
    my $line = $nodes->line('plain', 'ghost');
    my @s = $line->joins('g1');

    is(ghost($line, 'ghost', 'g1'), 'waiting', "$what: one waits who is gone");
    push @s, $line->join('g2');

    my $releases = $nodes->sum('releases');

    # g1 stays connected, so that its worker knows the rules of the event
    $line->release('g1');
    $nodes->run_until(sub { $s[1]->token }, 10,
                      "$what, grace 0: the slot goes on at once");
    is($nodes->sum('releases') - $releases, 1,
       "$what, grace 0: it was given back by the one who found nobody");
    is($line->token('ghost'), undef, "$what, grace 0: the token is gone");
    is(inside($line), 'g2', "$what, grace 0: and so is the lease");
    sound($line, "$what, grace 0");

    # within the grace time the lease waits

    $line = $nodes->line('wait', 'away');
    @s = $line->joins(qw(a1 a2 a3));

    my $closed = time;

    $s[1]->close;
    $nodes->run_until(sub { $nodes->sum('absent') }, 10,
                      "$what, grace: one goes away");
    $line->release('a1');
    is(inside($line), 'a2', "$what, grace: and is let in all the same");
    $nodes->run_until(sub { !$nodes->busy }, 10, "$what, grace: nobody hears");
    is(inside($line), 'a2', "$what, grace: the lease waits");

    $nodes->run_until(sub { $s[2]->token }, 15,
                      "$what, grace: then it goes to the next");
    ok($s[2]->last('promoted')->{at} - $closed >= 1.95,
       "$what, grace: not before the grace time is over");
    is($line->token('a2'), undef, "$what, grace: the token is gone");

    # and who is back in time has it

    push @s, $line->join('a4');
    $s[3]->close;
    $nodes->run_until(sub { $nodes->sum('absent') }, 10,
                      "$what, back in time: one goes away");
    $line->release('a3');

    my $token = $line->token('a4');
    my $back = $line->join('a4', $nodes->at(1));

    is($back->names, 'promoted', "$what, back in time: told at once");
    is($back->token, $token, "$what, back in time: with the token");
    $sse->run_for(2.3);
    is(inside($line), 'a4', "$what, back in time: and it stays");
    sound($line, "$what, grace");
}


# 5. The same user comes many times at once

{
    my $what = 'double entry';
    my $line = $nodes->line('none', 'double');
    my @s = $line->joins(qw(d1 d2));

    push @s, map { $line->open('d3', $nodes->at($_ % 2)) } 1 .. 24;
    push @s, $line->open('d4');
    $nodes->run_until(sub { !grep { !$_->events } @s }, 15,
                      "$what: all are answered");
    $nodes->run_until(sub { 4 == grep { $_->is_open } @s }, 15,
                      "$what: one stream is left of each user");
    is(join(' ', sort map { $_->{user} } grep { $_->is_open } @s),
       'd1 d2 d3 d4', "$what: of each one");
    is_deeply([sort @{$line->waiting}], [qw(d1 d2 d3 d4)],
              "$what: each has one place");
    is_deeply([sort @{$nodes->call('HKEYS', $line->key('WAITING_USER_IDS'))}],
              [qw(d1 d2 d3 d4)], "$what: and is noted once");
    is($line->stat('joined'), 4, "$what: and was counted once");
    is($nodes->call('HGET', 'WAITING_QUEUE_IDX', 'double'), 4,
       "$what: and took one idx");
    is(scalar(grep { $_->names =~ /replaced$/ && $_->ended eq 'clean' } @s), 23,
       "$what: the other streams were told that they are replaced");

    $line->set(capacity => 4);
    $nodes->run_until(sub { 4 == grep { $_->is_open && $_->token } @s }, 10,
                      "$what: all are let in, once");
    is($line->slots, 0, "$what: into one slot each");
    push @s, map { $line->open('d3', $nodes->at($_ % 2)) } 1 .. 12;
    $nodes->run_until(sub { 4 == grep { $_->is_open && $_->token } @s }, 15,
                      "$what: the same with one who is in");
    is(scalar(keys %{{ map { $_->token => 1 }
                       grep { $_->{user} eq 'd3' && $_->token } @s }}), 1,
       "$what: each time the same token");
    sound($line, $what);
}


# the rules of the states

{
    my %ways = (
        'end of the stream' => sub { $_[0]->close },
        'reset of the stream' => sub { $_[0]->reset },
    );

    for my $way (sort keys %ways) {
        my $event = 'rules.' . (split ' ', $way)[0];
        my $line = $nodes->line('plain', $event);
        my @s = $line->joins(qw(r1 r2 r3 r4));

        is(waiting($line), 'r2 r3 r4', "$way: in line");

        # in line, the stream ends: removed
        $ways{$way}->($s[2]);
        $nodes->run_until(sub { waiting($line) eq 'r2 r4' }, 10,
                          "$way, in line: the place is removed");
        is($line->record('r3'), undef, "$way, in line: its record too");
        is($nodes->call('HGET', $line->key('WAITING_USER_IDS'), 'r3'), undef,
           "$way, in line: and its mark");
        is($line->slots, 0, "$way, in line: no slot is given back");

        # let in, the stream ends: removed, and the slot is given back; in line
        # and let in: told
        $ways{$way}->($s[0]);
        $nodes->run_until(sub { $s[1]->token }, 10,
                          "$way, in: the slot is given back, the next is told");
        is($line->token('r1'), undef, "$way, in: the token is removed");
        is(inside($line), 'r2', "$way, in: the lease is handed on");

        $ways{$way}->($s[3]);
        $nodes->run_until(sub { waiting($line) eq '' }, 10,
                          "$way: nobody waits any more");
        $ways{$way}->($s[1]);
        $nodes->run_until(sub { inside($line) eq '' && $line->slots == 1 }, 10,
                          "$way, in: with nobody in line the slot is free");
        $nodes->run_until(sub { !$line->leftovers }, 10,
                          "$way: nothing of anybody is left")
            or diag(join "\n", $line->leftovers);

        my $again = $line->join('r3');

        is($again->names, 'promoted', "$way: who comes again begins anew");
        is($line->lease('r3')->{idx}, 5, "$way: with a new idx");
    }
}


# an answer that was lost: the user was told to try again, but Redis has given
# a place; nobody holds it, and it is gone in time

{
    my $what = 'answer lost';
    my $hasty = WaitingQueue::Nodes->new(
        workers => 1, redis => $redis, timeout => '300ms', prefix => 'hasty:',
        http => 'waiting_queue_interval 100ms; waiting_queue_promote_interval '
                . '100ms;',
        locations => { short => 'waiting_queue_capacity 0; '
                                . 'waiting_queue_grace 500ms;' });
    my $line = $hasty->line('short', 'hasty');
    my $first = $line->join('h1');

    $redis->signal('STOP');

    my $second = $line->open('h2');

    $hasty->run_until(sub { $second->ended }, 10, "$what: it is answered");
    $redis->signal('CONT');
    is($second->status, 503, "$what: with 503");
    $_->wait_ready for $nodes->nodes, $hasty->nodes;
    $hasty->run_until(sub { $line->stat('joined') == 2 }, 10,
                      "$what: Redis carries it out all the same");
    $hasty->run_until(sub { waiting($line) eq 'h1' }, 15,
                      "$what: the place that nobody holds is given up");
    ok($first->is_open, "$what: nobody else has noticed anything");

    my $again = $line->join('h2');

    is($again->rank, 1, "$what: who tries again has a place");
    is_deeply([$hasty->sse->violations], [],
              "$what: all that was sent is well-formed");
}

$nodes->finish;
