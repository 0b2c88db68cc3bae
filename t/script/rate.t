# The rate counts every entry, from the line and straight in, in periods that
# are back to back from the first entry on: so many in one and no more, whoever
# calls and however often.  What is not used of one is gone with it.  Time that
# passes is, here, a period that has begun earlier.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Script;

sub redis { return WaitingQueue::Script::redis(@_) }
sub stored { return WaitingQueue::Script::stored() }

my $n = 0;

sub line { return WaitingQueue::Script->new('r' . ++$n, @_) }

sub well {
    my ($line, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is_deeply([ $line->wrong ], [], "$what: invariants");
}

sub now_ms {
    my ($s, $us) = @{redis('TIME')};
    return $s * 1000 + int($us / 1000);
}

sub begin { my ($line) = @_; return $line->stat('period') }
sub used { my ($line) = @_; return $line->stat('used') }

sub write_by_hand {
    my ($line, @fields) = @_;
    redis('HSET', $line->key(11), @fields);
}

sub later {
    my ($line, $ms) = @_;
    write_by_hand($line, period => begin($line) - $ms);
}

sub seats { return 'seat:count:{' . $_[0]{event} . '}' }

# statuses(users): joins of each, in one word
sub statuses {
    my ($line, @users) = @_;
    return join ' ', map { $line->join($_)->{status} } @users;
}

# about(number, wanted, what): of a machine that may be slow
sub about {
    my ($got, $wanted, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok($got <= $wanted && $got > $wanted - 3000, "$what: $got of $wanted ms");
}


# so many and no more, though slots are free

{
    my $line = line(rate => '3/10000ms', capacity => 10);
    my $before = now_ms();

    is(statuses($line, qw(a b c d e)), 'ready ready ready waiting waiting',
       'three go in, whoever comes next waits');
    is($line->promote->{free}, 7, 'with free slots');
    is($line->stat('direct'), 3, 'three went straight in');
    is(used($line), 3, 'and were counted');
    ok(begin($line) >= $before && begin($line) <= now_ms(),
       'the period begins with the first');

    my ($since) = redis('HGET', $line->key(8), 'a') =~ /"since":(\d+)/;
    is(begin($line), $since, 'to the millisecond');

    my $promote = $line->promote;
    is($promote->{promoted}, 0, 'promotion lets in nobody either');
    about($promote->{opens}, 10000, 'it says when the next period begins');
    is($promote->{more}, 0, 'and that there is nothing to do until then');
    is_deeply([ @$promote{qw(all_rate_users all_rate_ms all_halted)} ],
              [ 3, 10000, 0 ], 'and the rate');

    later($line, 10000);
    $promote = $line->promote;
    is($promote->{promoted}, 2, 'the next period: those who wait');
    is($promote->{opens}, 0, 'nobody is left to wait for another');
    is(used($line), 2, 'counted in the new one');
    is(begin($line), $since, 'which began when the last one ended');

    is(statuses($line, qw(f g h)), 'ready waiting waiting',
       'and who comes gets what is left of it');
    later($line, 10000);
    is($line->promote->{promoted}, 2, 'and so on');
    is(statuses($line, 'i'), 'ready', 'straight in, with an empty line');
    is(used($line), 3, 'both kinds count in one');
    is(statuses($line, 'j'), 'waiting', 'together');
    well($line, 'a budget');
}


# each kind of entry counts, and what is none does not

{
    my $line = line(rate => '4/10000ms', capacity => 10);

    is($line->join('s')->{status}, 'ready', 'a stream');
    is($line->join('p', '', 'enter')->{status}, 'entered', 'one who enters');
    my $v = $line->join('v', '', 'visit');
    is($v->{status}, 'ready', 'a visit');
    is(used($line), 3, 'each counts');

    $line->join('s', 'i2');
    $line->join('s', '', 'enter');
    $line->join('v', '', 'enter');
    $line->touch('v', $v->{token});
    $line->status('p');
    is(used($line), 3, 'who comes again, enters, or asks, does not');

    $line->join('w');
    my $before = stored();
    my $none = $line->join('x', '', 'visit');
    is($none->{status}, 'none', 'used up: a visit is told to come again');
    is_deeply(stored(), $before, 'and nothing is stored');
    is($none->{crowded}, 0, 'slots are free');

    is($line->join('y')->{status}, 'waiting', 'a stream waits');
    is($line->join('z', '', 'enter')->{status}, 'waiting', 'and so does POST');
    is_deeply([ map { $_->{promoted} } $line->promote, $line->promote ],
              [ 0, 0 ], 'however often it is tried');

    $line->leave('y', 'i1');
    $line->join('y');
    is(used($line), 4, 'leaving and coming back is no entry');
    is($line->restore('t', 'i1', 50, 50, redis('HGET', $line->key(11),
                                               'epoch'))->{status},
       'waiting', 'one whose place was lost');
    is(used($line), 4, 'and put back, is none');
    well($line, 'kinds of entry');
}


# from the head, in order, as the batch goes

{
    my $line = line(rate => '5/10000ms', capacity => 100);

    $line->join("d$_") for 1 .. 5;
    $line->join(sprintf 'w%02d', $_) for 1 .. 12;
    later($line, 10000);
    redis('ZADD', $line->key(0), 6.5, 'garbage');

    my @calls = map { my $p = $line->promote(2); "$p->{promoted} $p->{more}" }
                1 .. 4;
    is_deeply(\@calls, [ '1 1', '2 1', '2 1', '0 0' ],
              'in several calls, of which one finds garbage: five');
    is(join(' ', @{$line->line}), join(' ', map { sprintf 'w%02d', $_ } 6 .. 12),
       'the first five');
    about($line->promote->{opens}, 10000, 'the others for the next period');
    well($line, 'order');
}


# back to back: whenever it is looked at, the grid is that of the first entry

{
    my $line = line(rate => '2/10000ms', capacity => 100);

    $line->join('a');
    my $first = begin($line);

    for my $ms (9000, 13000, 10000, 1000, 48000) {
        my $was = begin($line);

        later($line, $ms);
        $line->join("x$ms.$_") for 1 .. 3;
        $line->promote;
        my $moved = begin($line) - $was + $ms;
        is($moved % 10000, 0, "$ms ms later: whole periods have passed");
        ok(begin($line) <= now_ms() && begin($line) > now_ms() - 10000,
           'and it is the one that now belongs to');
        ok(used($line) <= 2, 'in which no more than two went in');
    }

    well($line, 'back to back');
}


# what was not used is gone

{
    my $line = line(rate => '3/10000ms', capacity => 100);

    $line->join('a');
    later($line, 35000);
    is(statuses($line, qw(b c d e)), 'ready ready ready waiting',
       'not used before: three, as always');
    later($line, 10000);
    is($line->promote->{promoted}, 1, 'one waits');
    later($line, 10000);
    is(statuses($line, qw(f g h i)), 'ready ready ready waiting', 'and again');
    well($line, 'not carried over');
}


# a slot alone does not let in, nor does the rate

{
    my $line = line(rate => '3/10000ms', capacity => 2);

    is(statuses($line, qw(a b c d)), 'ready ready waiting waiting',
       'the capacity is reached first');
    is(used($line), 2, 'one more could go in');
    is($line->promote->{opens}, 0, 'the period is not what they wait for');
    is($line->join('c')->{crowded}, 1, 'that no slot is free is said');

    is_deeply($line->release('a')->[1], 1, 'a visit ends: the next at once');
    is(used($line), 3, 'counted');
    is($line->release('b')->[1], 0, 'another: but the period is used up');
    is(join(' ', @{$line->line}), 'd', 'so one waits');
    about($line->promote->{opens}, 10000, 'for the next');

    later($line, 10000);
    is($line->promote->{promoted}, 1, 'which lets it in');
    is($line->promote->{promoted}, 0, 'once');
    well($line, 'capacity and rate');
}


# whatever frees a slot: not more than the rate

for my $case (
    [ 'done' => sub { $_[0]->release('a') } ],
    [ 'untold' => sub { $_[0]->release('a', 'untold', 'i1', '', 'left') } ],
    [ 'quit' => sub { $_[0]->quit('a') } ],
    [ 'expired' => sub { redis('ZADD', $_[0]->key(7), 1, 'a');
                         $_[0]->promote } ],
    [ 'expired, and somebody comes' => sub {
          redis('ZADD', $_[0]->key(7), 1, 'a'); $_[0]->join('z') } ],
    [ 'a higher capacity' => sub { $_[0]->set(capacity => 50);
                                   $_[0]->promote } ],
    [ 'a dead instance' => sub { $_[0]->set(grace => 0, release => 1);
                                 $_[0]->reap('i9', 100, 1);
                                 $_[0]->promote } ])
{
    my ($what, $end) = @$case;
    my $line = line(rate => '2/10000ms', capacity => 2);

    $line->join('a');
    $line->join('b', 'i9');
    $line->join($_) for qw(c d);
    $end->($line);
    is(join(' ', grep { $_ ne 'z' } @{$line->line}), 'c d',
       "$what: the period is used up");
    is(used($line), 2, 'and nothing was counted');
    later($line, 10000);
    $line->promote;
    ok((grep { $_ eq 'c' } @{$line->line}) == 0, "$what: the next lets in")
        or diag(join ' ', @{$line->line});
    cmp_ok(used($line), '<=', 2, 'two at most');
    well($line, $what);
}

{
    my $line = line(rate => '3/10000ms', capacity => 3);
    my $token = $line->join('a', '', 'enter')->{token};
    $line->join($_) for qw(b c d e);
    is($line->release('a', 'sold', '', $token, 'sold')->[1], 0,
       'sold: no slot for anybody');
    later($line, 10000);
    is($line->promote->{promoted}, 0, 'nor in the next period');
    $line->set(capacity => 4);
    is($line->promote->{promoted}, 1, 'until there is one');
    is(used($line), 1, 'counted');
    well($line, 'sold');
}


# Redis' clock was set back: who went in counts in a period that begins now, and
# nobody waits until the clock is where it was

for my $used (0, 1, 2, 3, 7) {
    my $line = line(rate => '3/10000ms', capacity => 10);
    my $left = $used < 3 ? 3 - $used : 0;

    $line->set(paused => 1);
    $line->join($_) for qw(a b c d e);
    $line->set(paused => 0);
    write_by_hand($line, period => now_ms() + 3600000, used => $used);

    my $before = now_ms();
    my $promote = $line->promote;
    is($promote->{promoted}, $left, "set back, $used used: $left go in");
    about($promote->{opens}, 10000, 'the others in a period at most');
    ok(begin($line) >= $before && begin($line) <= now_ms(),
       'which begins now');
    is(used($line), $used + $left, 'with all who went in in it');
    is($line->promote->{promoted}, 0, 'and nobody more');
    later($line, 10000);
    is($line->promote->{promoted}, 5 - $left < 3 ? 5 - $left : 3,
       'the next period is as any other');
    well($line, 'set back');
}

{
    my $line = line(rate => '1/10000ms', capacity => 10);

    $line->join('a');
    write_by_hand($line, period => now_ms() + 3600000);
    is($line->join('b')->{status}, 'waiting', 'set back: one who joins waits');
    later($line, 10000);
    is($line->promote->{promoted}, 1, 'for a period');

    write_by_hand($line, period => now_ms() + 3600000);
    $line->join('c');
    is($line->release('a')->[1], 0, 'set back: a release lets in nobody');
    later($line, 10000);
    is($line->release('b')->[1], 1, 'and in the next period does');
    well($line, 'set back, other calls');
}


# another rate in the middle of a period

{
    my $line = line(rate => '3/10000ms', capacity => 100);

    $line->join("a$_") for 1 .. 30;
    is(used($line), 3, 'three of thirty');
    my $first = begin($line);

    $line->set(rate => '5/10s');
    is($line->promote->{promoted}, 2, 'more: at once, what is left of it');
    $line->set(rate => '4/10s');
    is($line->promote->{promoted}, 0, 'fewer than there are: nobody');
    is(used($line), 5, 'they stay counted');
    later($line, 10000);
    is($line->promote->{promoted}, 4, 'so many in the next');

    # 4 of 4; a shorter period: the grid begins where this one began
    $line->set(rate => '4/1s');
    later($line, 5500);
    my $before = begin($line);
    is($line->promote->{promoted}, 4, 'shorter: the next has begun');
    is((begin($line) - $before) % 1000, 0, 'whole ones have passed');
    cmp_ok(begin($line), '>', now_ms() - 1100, 'up to now');

    # longer: who went in since this one began counts
    $line->set(rate => '4/1h');
    is($line->promote->{promoted}, 0, 'longer: used up for now');
    about($line->promote->{opens}, 3600000, 'for all of it');

    $line->set(rate => 'off');
    is($line->promote(5)->{promoted}, 5, 'off: as many as there are slots');
    is_deeply([ @{$line->promote(1)}{qw(all_rate_users all_rate_ms opens)} ],
              [ 0, 0, 0 ], 'and no rate is told');
    is(used($line), 4, 'nor counted');
    redis('HDEL', $line->key(13), 'rate');
    later($line, 10000);
    is($line->promote->{promoted}, 3, 'that of nginx.conf again');
    well($line, 'another rate');
}


# nobody

{
    my $line = line(rate => '3/10000ms', capacity => 10);

    $line->set(rate => '0/10s');
    my $join = $line->join('a');
    is_deeply([ @$join{qw(status halted rate_users rate_ms crowded)} ],
              [ 'waiting', 1, 0, 10000, 0 ], '0/10s: whoever comes waits');
    is($line->join('v', '', 'visit')->{status}, 'none', 'a visit too');
    my $promote = $line->promote;
    is_deeply([ @$promote{qw(promoted opens all_halted)} ], [ 0, 0, 1 ],
              'nobody is let in, and no time is said');
    later($line, 100000);
    is($line->promote->{promoted}, 0, 'never');
    is($line->positions(0)->{halted}, 1, 'the workers hear of it');
    $line->set(rate => '1/10s');
    is($line->promote->{promoted}, 1, 'until that is taken back');
    is($line->positions(0)->{halted}, 0, 'which they hear too');

    $line->set(paused => 1);
    later($line, 10000);
    $promote = $line->promote;
    $line->join('b');
    $promote = $line->promote;
    is_deeply([ @$promote{qw(promoted opens all_halted)} ], [ 0, 0, 1 ],
              'paused: the same');
    is($line->join('b')->{halted}, 1, 'who comes is told');
    is(used($line), 1, 'and nothing is counted');
    well($line, 'nobody');
}


# who is to call when the next period begins: whoever hears first that somebody
# waits for it, and not whoever hears of something else

{
    my $line = line(rate => '2/10000ms', capacity => 2);

    is($line->join('a')->{opens}, 0, 'let in: nothing to wait for');
    $line->join('b');
    is($line->join('c')->{opens}, 0, 'no slot: that is not what c waits for');
    $line->release('a');
    about($line->{opens}, 10000, 'a slot comes back: now it is');
    is($line->join('d')->{opens}, 0, 'd knows that somebody waits');
    is($line->status('c')->{opens}, 0, 'c was told');
    is($line->join('c')->{opens}, 0, 'for once');
    $line->quit('d');
    is($line->{opens}, 0, 'd goes: the same');
    $line->quit('b');
    about($line->{opens}, 10000, 'b, with a slot');
    $line->quit('b');
    is($line->{opens}, 0, 'a second time');
    later($line, 4000);
    about($line->promote->{opens}, 6000, 'as much as is left');
    $line->quit('c');
    about($line->join('e')->{opens}, 6000, 'the first in an empty line');
    $line->quit('e');
    about($line->join('f', '', 'enter')->{opens}, 6000, 'of whatever kind');
    is($line->join('v', '', 'visit')->{opens}, 0, 'but who takes no place');

    well($line, 'opens');

    $line = line(rate => '2/10000ms', capacity => 1);
    $line->join($_) for qw(a b c);
    is($line->release('a')->[1], 1, 'a release that lets in');
    is($line->{opens}, 0, 'leaves no slot');
    is($line->release('b')->[1], 0, 'and one that may not');
    about($line->{opens}, 10000, 'does');

    for my $over ([ paused => 1 ], [ closed => 1 ], [ rate => 'off' ],
                  [ rate => '0/10s' ])
    {
        $line->set(@$over);
        is($line->promote->{opens}, 0, "@$over: there is no period to wait for");
        $line->set($over->[0] => $over->[0] eq 'rate' ? '2/10s' : 0);
    }

    well($line, 'opens');
}


# the operator's word, if it is one

for my $case ([ '5/10s' => 5, 10000 ], [ '5/300ms' => 5, 300 ],
              [ '5/2m' => 5, 120000 ], [ '5/1h' => 5, 3600000 ],
              [ '5/24h' => 5, 86400000 ], [ '5/7' => 5, 7000 ],
              [ '5/10ms' => 5, 10 ], [ '007/010s' => 7, 10000 ],
              [ '100000000/1s' => 100000000, 1000 ],
              [ 'off' => 0, 0 ], [ '0/1s' => 0, 1000 ])
{
    my ($word, $users, $ms) = @$case;
    my $line = line(rate => '3/20000ms', capacity => 1);

    $line->set(rate => $word);
    my $join = $line->join('a');
    is_deeply([ @$join{qw(rate_users rate_ms)} ], [ $users, $ms ],
              "$word: $users in $ms ms");
}

for my $word ('', 'on', 'OFF', ' 5/10s', '5/10s ', '5 / 10s', '5/', '/10s', '5',
              '-5/10s', '+5/10s', '5/-10s', '5/10d', '5/10S', '5/0s', '5/25h',
              '5.5/10s', '5/1.5s', '0x5/10s', '1e3/10s', '5/10s/1s', '5/10 s',
              '9999999999999/10s', '5/9999999999999ms', "5/10s\n", "\0", 'nan/1s')
{
    my $line = line(rate => '3/20000ms', capacity => 10);

    $line->set(rate => $word);
    my $join = $line->join('a');
    is_deeply([ @$join{qw(status rate_users rate_ms)} ],
              [ 'ready', 3, 20000 ],
              'as if it was not said: "' . ($word =~ s/[\n\0]/?/gr) . '"');
}


# what was written there by hand, and is nonsense

for my $field (qw(period used)) {
    for my $garbage ('', ' ', 'abc', 'nan', '-nan', 'inf', '-inf', '1e400',
                     '-1', '-1000000000000000', '0', '1.5', '0x7',
                     '99999999999999999999999999', '-1e300', "\0")
    {
        my $line = line(rate => '3/10000ms', capacity => 100);

        $line->join($_) for qw(a b c d);
        write_by_hand($line, $field => $garbage);

        my $what = "$field \"" . ($garbage =~ s/\0/?/r) . '"';
        my $let_in = eval {
            my $n = $line->promote->{promoted};
            $n += $line->join($_)->{status} eq 'ready' for map { "e$_" } 1 .. 9;
            $n += $line->promote->{promoted};
            $n;
        };
        is($@, '', "$what: nothing breaks");
        ok(defined $let_in && $let_in <= 3, "$what: no more than three go in")
            or diag($let_in);
        later($line, 10000) if begin($line) =~ /^\d{13}$/;
        $line->promote;
        later($line, 10000) if begin($line) =~ /^\d{13}$/;
        is(eval { $line->promote->{promoted} } || $@, 3,
           "$what: all is well in the next period")
            or diag(begin($line), ' ', used($line));
        well($line, $what);
    }
}


# sold out: the rate does not matter; and when it is undone it goes on

for my $seats (0, -1) {
    my $line = line(rate => '2/10000ms', capacity => 10);

    $line->join($_) for qw(a b c d e);
    redis('SET', seats($line), $seats);
    is($line->promote->{opens}, 0,
       "$seats seats: the next period is not what they wait for");
    later($line, 10000);
    my $promote = $line->promote;
    is($promote->{promoted}, 0, "$seats seats: nobody is let in");
    is($line->release('a')->[1], 0, 'nor when a visit ends');
    is($line->join('z')->{status}, 'sold_out', 'who comes is told');
    is($line->positions(0)->{state}, 'sold_out', 'and so are the workers');
    is($promote->{all_seats}, $seats, 'it can be seen');

    redis('SET', seats($line), 5);
    is($line->positions(0)->{state}, 'open', 'seats again: open');
    is($line->promote->{promoted}, 2, 'and they are let in, within the rate');
    is($line->promote->{promoted}, 0, 'no more');
    about($line->promote->{opens}, 10000, 'the others later');
    well($line, 'seats');
}


# an hour of an event, minute by minute: whoever comes and goes, in each period
# no more than the rate, and exactly that while anybody waits

{
    my $line = line(rate => '4/10000ms', capacity => 12, ttl => 86400000,
                    claim => 86400000);
    my ($user, $let_in, @wrong) = (0);

    srand 17;

    for my $period (1 .. 300) {
        my $before = $line->stat('direct') + $line->stat('promoted');
        my $backlog = $line->promote->{total};
        my $slots = 1;

        for (1 .. 1 + int rand 12) {
            my $do = rand;

            if ($do < 0.45) {
                $line->join('u' . ++$user, 'i1', rand() < 0.5 ? 'enter'
                                                               : 'stream');
            } elsif ($do < 0.8) {
                my $inside = redis('ZRANGE', $line->key(7), 0, -1);
                $line->release($inside->[rand @$inside]) if @$inside;
            } else {
                $line->promote(1 + int rand 3);
            }
        }

        my $after = $line->promote;
        my $n = $line->stat('direct') + $line->stat('promoted') - $before;

        push @wrong, "period $period: $n" if $n > 4;
        push @wrong, "period $period: $n, but " . $after->{total} . ' wait'
            if $after->{total} && $after->{free} > 0 && $n < 4;
        push @wrong, $line->wrong;
        later($line, 10000) if begin($line);
    }

    is_deeply(\@wrong, [], 'three hundred periods');
    cmp_ok($line->stat('promoted'), '>', 200, $line->stat('promoted')
           . ' from the line, ' . $line->stat('direct') . ' straight in');
}


# what the operator may say has the bounds of the directive

for my $word ('100000001/10s', '5/9ms', '5/25h', '5000000000/10s', '5/1d') {
    my $line = WaitingQueue::Script->new('bound' . ++$n, capacity => 9,
                                         rate => '3/10000ms');
    $line->set(rate => $word);
    $line->join("u$_", 'i1') for 1 .. 4;
    is($line->join('u5', 'i1')->{rate_users}, 3, "$word is as if not said");
}

for my $word ('100000000/10s', '5/10ms', '5/24h') {
    my $line = WaitingQueue::Script->new('bound' . ++$n, capacity => 9);
    $line->set(rate => $word);
    is($line->join('u1', 'i1')->{rate_users} . '/', $word =~ s{/.*}{/}r,
       "$word is a rate");
}


# and numbers that are none let nobody in

for my $number (qw(nan -nan inf -inf 1e400 -5 0x10 1.5 x)) {
    my $line = WaitingQueue::Script->new('number' . ++$n, capacity => 1);
    $line->join('u1', 'i1');
    redis('HSET', $line->key(11), map { ($_ => $number) }
                                      qw(sold joined promoted gone direct left));
    my @in = grep { $line->join("v$_", 'i1')->{status} eq 'ready' } 1 .. 3;
    is(scalar @in, 0, "$number: nobody is let in over the capacity");
    my $figures = $line->promote;
    is((grep { !/^-?\d+$/ } @$figures{map { "all_$_" } qw(joined sold left)}),
       0, "$number: and the figures are numbers");
}


done_testing();
