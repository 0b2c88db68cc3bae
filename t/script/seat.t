# The lock of a seat, by its two scripts alone: one holder, first come first
# served, handed on to who still waits, given away by its owner only; and
# whatever somebody has put into the keys, a seat is not lost for it.

use strict;
use warnings;

use Test::More;
use Time::HiRes ();
use WaitingQueue::Script;

sub redis { return WaitingQueue::Script::redis(@_) }

my $n = 0;
my ($event, $lock, $line);

# a new seat
sub seat {
    $event = 's' . ++$n;
    $lock = "lock:seat:{$event}:A-1";
    $line = "$lock/waiting";
}

# call(script, instance, number, wait, lease)
sub call {
    my ($script, $instance, $number, $wait, $lease) = @_;

    return WaitingQueue::Script::script(
        $script, 3, $lock, $line, 'ENTRY', $event, 'A-1', $instance, $number,
        defined $wait ? $wait : 3000, $lease || 5000);
}

sub lock { return call('seat_lock', @_) }
sub unlock { return call('seat_unlock', @_) }

sub held { return lock(@_)->[0] }
sub owner { return redis('GET', $lock) }

sub waiting {
    return [ map { m{^([^/]+/\d+)/} ? $1 : $_ }
                 @{redis('ZRANGE', $line, 0, -1)} ];
}

sub now_us {
    my ($s, $us) = @{redis('TIME')};
    return $s * 1000000 + $us;
}

# the messages since the last call: the fields of each, as they are stored
sub messages {
    my @messages = @{redis('XRANGE', 'ENTRY', '-', '+')};
    redis('XDEL', 'ENTRY', $_->[0]) for @messages;
    return [ map { $_->[1] } @messages ];
}

# to whom the lock was handed
sub told {
    return [ map { my %field = @$_; "$field{instanceId}/$field{idx}" }
                 @{messages()} ];
}

sub lapse {
    redis('PEXPIRE', $lock, 1);
    Time::HiRes::sleep(0.002) while redis('EXISTS', $lock);
}

# as if it had come so much earlier, in ms
sub older {
    my ($member, $ms) = @_;
    redis('ZINCRBY', $line, -1000 * $ms, $member);
}


# one holder

seat();
is_deeply(lock('i', 1), [ 1, 5000, undef ], 'free: taken');
is(owner(), 'i/1', 'by who asked');
ok(redis('PTTL', $lock) > 4000, 'for the lease');
is_deeply(messages(), [], 'nobody needs to be told');
is(redis('EXISTS', $line), 0, 'nobody waits');

my $answer = lock('i', 1);
is($answer->[0], 1, 'asked again: still held');
ok($answer->[1] > 4000 && $answer->[1] <= 5000, 'and for how long');
redis('PEXPIRE', $lock, 2000);
lock('i', 1);
ok(redis('PTTL', $lock) <= 2000, 'asking does not make it longer');

$answer = lock('j', 1);
is($answer->[0], 0, 'another: not held');
ok($answer->[1] > 1000 && $answer->[1] <= 2000, 'but told how long');
is($answer->[2], 0, 'and first in line');
is(owner(), 'i/1', 'the owner is who it was');
is(lock('i', 2)->[2], 1, 'another request of the same instance: the next');
is(lock('j', 1)->[2], 0, 'asked again: the same place');
is_deeply(waiting(), [ 'j/1', 'i/2' ], 'in line once each');
is_deeply(messages(), [], 'nobody is told by asking');
like(redis('ZRANGE', $line, 0, 0)->[0], qr{^j/1/3000/5000$}, 'the member');
ok(abs(redis('ZSCORE', $line, 'j/1/3000/5000') - now_us()) < 2000000,
   'its score is the time in us');
ok(redis('PTTL', $line) > 3000, 'the line is kept for those in it');


# handed on

is_deeply(unlock('i', 1), [ 1, 1 ], 'given back, and handed on');
is(owner(), 'j/1', 'to the first');
my $pttl = redis('PTTL', $lock);
ok($pttl > 4000 && $pttl <= 5000, 'for a lease of its own');
my ($message) = @{messages()};
my %field = @$message;
my $expires = delete $field{expiresAt};
ok(abs($expires - now_us() / 1000 - 5000) < 1000, 'the message tells its end');
is_deeply(\%field, { type => 'seat', userId => 'A-1', eventId => $event,
                     instanceId => 'j', idx => 1, token => '', serial => 0 },
          'and for whom it is');
is_deeply([ map { $message->[2 * $_] } 0 .. 7 ],
          [ qw(type userId eventId instanceId idx token expiresAt serial) ],
          'its fields have the order of all messages');
is_deeply(waiting(), [ 'i/2' ], 'who has it is not in line');
is_deeply(lock('j', 1)->[0], 1, 'and finds it when it asks');
is_deeply(waiting(), [ 'i/2' ], 'which puts nobody in line');


# its owner only

is_deeply(unlock('i', 1), [ 0, 0 ], 'who had it cannot give it back again');
is_deeply(unlock('k', 1), [ 0, 0 ], 'nor can a stranger');
is_deeply(unlock('j', 10), [ 0, 0 ], 'nor another of the instance');
is(owner(), 'j/1', 'it stays where it is');
is_deeply(messages(), [], 'nobody is told');
is_deeply(unlock('j', 1), [ 1, 1 ], 'its owner can');
is_deeply(unlock('i', 2), [ 1, 0 ], 'and the last of all');
is(redis('EXISTS', $lock, $line), 0, 'nothing is left');
is_deeply(unlock('i', 2), [ 0, 0 ], 'there is nothing to give back');
is_deeply(told(), [ 'i/2' ], 'told were those it was handed to');


# the order of those who come, and those who leave

seat();
lock('i', 0);
lock('i' . $_ % 3, $_) for 1 .. 50;
is_deeply(waiting(), [ map { 'i' . ($_ % 3) . "/$_" } 1 .. 50 ],
          'fifty in the order in which they came');
is(scalar(grep { !$_ } map { redis('ZSCORE', $line, $_) }
               @{redis('ZRANGE', $line, 0, -1)}), 0, 'with a time each');
my %scores = map { $_ => 1 } grep { !m{/} }
             @{redis('ZRANGE', $line, 0, -1, 'WITHSCORES')};
is(scalar(keys %scores), 50, 'no two the same');

is_deeply(unlock('i' . $_ % 3, $_), [ 0, 0 ], "$_ leaves the line")
    for 1, 25, 50;
my @order;
my ($instance, $number) = ('i', 0);
while (unlock($instance, $number)->[1]) {
    ($instance, $number) = split m{/}, owner();
    push @order, $number;
}
is_deeply(\@order, [ 2 .. 24, 26 .. 49 ], 'all others have it in turn');
is_deeply(told(), [ map { 'i' . ($_ % 3) . "/$_" } @order ], 'and are told');
is(redis('EXISTS', $lock, $line), 0, 'nothing is left');


# the clock of Redis goes back: who comes later stands behind all the same

seat();
lock('i', 1);
lock('i', 2);
redis('ZADD', $line, now_us() + 60000000, 'i/2/3000/5000');
lock('i', 3);
lock('i', 4);
is_deeply(waiting(), [ 'i/2', 'i/3', 'i/4' ], 'behind, by the time that was');


# no waiting

seat();
lock('i', 1);
is_deeply([ @{lock('i', 2, 0)}[0, 2] ], [ 0, undef ], 'wait=0: told at once');
is(redis('EXISTS', $line), 0, 'not in line');
unlock('i', 1);
is(held('i', 2, 0), 1, 'taken if it is free');
unlock('i', 2, 0);
is(redis('EXISTS', $lock), 0, 'given back');


# the lease is over: the first in line has it, whoever asks

seat();
lock('i', 1);
lock('i', $_) for 2 .. 4;
lapse();
is(held('i', 4), 0, 'the third asks: no');
is(owner(), 'i/2', 'the first has it');
is_deeply(told(), [ 'i/2' ], 'and is told');
lapse();
is_deeply([ @{lock('i', 3)}[0, 1] ], [ 1, 5000 ], 'the first asks itself: yes');
is_deeply(told(), [], 'and need not be told');
is_deeply(waiting(), [ 'i/4' ], 'it is in line no more');
lapse();
is(held('j', 1), 0, 'a newcomer does not get in front');
is(owner(), 'i/4', 'of who waits');
is_deeply(waiting(), [ 'j/1' ], 'but stands behind');
told();
lapse();
is(held('j', 2, 0), 0, 'nor one who would not wait');
is(owner(), 'j/1', 'the first in line is it');
told();

# the one whose lease was over comes to give it back: the next is not kept
lock('j', 3);
lapse();
is_deeply(unlock('j', 1), [ 0, 1 ], 'too late, but it is handed on');
is_deeply([ owner(), told() ], [ 'j/3', [ 'j/3' ] ], 'to the next');


# each has its own lease

seat();
lock('i', 1, 3000, 5000);
lock('i', 2, 3000, 200);
lock('i', 3, 3000, 60000);
unlock('i', 1);
ok(redis('PTTL', $lock) <= 200, 'a short one');
unlock('i', 2, 3000, 200);
ok(redis('PTTL', $lock) > 50000, 'a long one');
told();


# those who have not waited to the end, because their worker is dead

seat();
lock('i', 1);
lock('dead', $_) for 1 .. 5;
lock('i', 2);
older("dead/$_/3000/5000", 3001) for 1 .. 5;
is_deeply(unlock('i', 1), [ 1, 1 ], 'handed on');
is(owner(), 'i/2', 'to the first who is there');
is_deeply(told(), [ 'i/2' ], 'nobody else is told');
is(redis('EXISTS', $line), 0, 'the dead are dropped');
lock('dead', 6);
older('dead/6/3000/5000', 3001);
is_deeply(unlock('i', 2), [ 1, 0 ], 'only they are left: it is free');
is(redis('EXISTS', $lock, $line), 0, 'and nothing is left');

# one who waits longer than others, by its own word
seat();
lock('i', 1);
lock('i', 2, 60000);
lock('i', 3, 100);
older('i/2/60000/5000', 59000);
unlock('i', 1);
is(owner(), 'i/2', 'whoever may wait longer is waited for longer');
ok(redis('PTTL', $line) > 55000, 'and so is the line kept');
is_deeply(told(), [ 'i/2' ], 'it is told');

# many
seat();
lock('i', 1);
lock('dead', $_) for 1 .. 1500;
lock('i', 2);
older("dead/$_/3000/5000", 3001) for 1 .. 1500;
is_deeply(unlock('i', 1), [ 1, 0 ], 'too many at once: free for a moment');
is(redis('ZCARD', $line), 501, 'so many are dropped in a call');
is(held('i', 3), 0, 'but who comes does not get in front');
is(owner(), 'i/2', 'of who waits');
told();

seat();
lock('i', 1);
lock('dead', $_) for 1 .. 2500;
lock('i', 2);
older("dead/$_/3000/5000", 3001) for 1 .. 2500;
unlock('i', 1);
is_deeply([ held('i', 3), owner() ], [ 0, undef ], 'nor while it takes longer');
is(held('i', 2), 1, 'then the first gets it');
is_deeply(waiting(), [ 'i/3' ], 'before the other');
told();


# nothing stays for ever

seat();
lock('i', 1, 3000, 5000);
lock('i', 2, 100, 5000);
ok(redis('PTTL', $_) > 0, "$_ ends by itself") for $lock, $line;
ok(redis('PTTL', $line) <= 1100, 'the line when all have waited');


# what somebody has put there

seat();
redis('SET', $lock, 'closed by the operator');
is_deeply(lock('i', 1), [ 0, undef, 0 ], 'a lock without end: nobody gets it');
is_deeply(unlock('j', 1), [ 0, 0 ], 'nor can give it away');
is(owner(), 'closed by the operator', 'but who put it there');
redis('DEL', $lock);
is(held('i', 1), 1, 'and then it is free');
unlock('i', 1);

for my $key ('x', 'i', 'i/1', 'i/1/2', '//', 'i/x/3000/5000', 'i/1/3000/0',
             'i/1/3000/5000/1', 'i i/1/3000/5000', '/1/3000/5000', '{"a":1}',
             "i/1/3000/5000\n", 'i/-1/3000/5000', 'i/1/1e9/5000')
{
    seat();
    redis('ZADD', $line, now_us(), $key);
    is(held('i', 1), 1, "in line is \"$key\": taken");
    redis('ZADD', $line, 1 + now_us(), $key);
    is_deeply([ unlock('i', 1), redis('EXISTS', $lock, $line) ],
              [ [ 1, 0 ], 0 ], 'and given back, and nothing is left');
    is_deeply(messages(), [], 'nobody is told');
}

for my $kind ([ 'SET', 'x' ], [ 'SADD', 'x' ], [ 'RPUSH', 'x' ],
              [ 'HSET', 'a', 'b' ])
{
    my ($command, @what) = @$kind;

    seat();
    redis($command, $line, @what);
    is(held('i', 1), 1, "the line is made by $command: taken");
    redis($command, $line, @what);
    is_deeply([ unlock('i', 1), redis('EXISTS', $lock, $line) ],
              [ [ 1, 0 ], 0 ], 'given back, and nothing is left');

    next if $command eq 'SET';

    redis($command, $lock, @what);
    ok(!eval { lock('i', 1); 1 }, "the lock is made by $command: an error");
    like($@, qr/WRONGTYPE/, 'which says so');
    ok(!eval { unlock('i', 1); 1 }, 'and again');
    is(redis('EXISTS', $line), 0, 'nobody is put in line');
    is(redis('EXISTS', $lock), 1, 'and it is not touched');
}

# where no message can be left, nothing changes
seat();
lock('i', 1);
lock('i', 2);
redis('RENAME', 'ENTRY', 'kept');
redis('SET', 'ENTRY', 'x');
ok(!eval { unlock('i', 1); 1 }, 'ENTRY is no stream: an error');
is_deeply([ owner(), waiting() ], [ 'i/1', [ 'i/2' ] ], 'nobody is forgotten');
redis('RENAME', 'kept', 'ENTRY');
is_deeply(unlock('i', 1), [ 1, 1 ], 'and then it is handed on');


# seats and events have nothing to do with each other

seat();
lock('i', 1);
is(WaitingQueue::Script::script('seat_lock', 3, "lock:seat:{$event}:A-2",
       "lock:seat:{$event}:A-2/waiting", 'ENTRY', $event, 'A-2', 'i', 2, 3000,
       5000)->[0], 1, 'another seat is another lock');


done_testing();
