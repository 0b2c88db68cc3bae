# Proves that the line does what it is for, through real nginx and real Redis:
# who comes stands behind those who came before, is told the exact position as
# it changes and only then, is let in in turn and told a token; and what is in
# Redis meanwhile is what docs/protocol.md says, and nothing is left behind.

use strict;
use warnings;

use JSON::PP ();
use List::Util qw(shuffle);
use Test::More;
use WaitingQueue::Nodes;

WaitingQueue::Nodes::need_descriptors(6000);


my $quick = 'waiting_queue_interval 100ms; waiting_queue_promote_interval '
            . '100ms;';
my $nodes = WaitingQueue::Nodes->new(http => $quick, locations => {
    one => 'waiting_queue_capacity 1; waiting_queue_grace 0;',
    none => 'waiting_queue_capacity 0; waiting_queue_grace 0;',
    claim => 'waiting_queue_capacity 1; waiting_queue_ttl 1m claim=1s; '
             . 'waiting_queue_grace 0;',
    few => 'waiting_queue_capacity 1; waiting_queue_max_waiting 2; '
           . 'waiting_queue_grace 0;',
});
my $sse = $nodes->sse;
my %instances = $nodes->instances;


# sound(line, what): the invariants hold, and nothing is under way

sub sound {
    my ($line, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $nodes->run_until(sub { !$nodes->busy && !$line->wrong }, 10,
                      "$what: it comes to rest")
        or diag(join "\n", $nodes->busy, $line->wrong);
}


# all that have been told to be in, by name

sub told {
    return join ' ', sort map { $_->{user} } grep { $_->token } @_;
}


# the table after a heading of docs/protocol.md: its rows, as lists of cells

sub table {
    my $heading = shift;

    my ($text) = slurp('docs/protocol.md')
                 =~ /^## \Q$heading\E\n(.*?)(?=^## |\z)/ms;

    return map { [map { s/^\s+|\s+$//gr } split /(?<!\\)\|/, s/^\||\|$//gr] }
           grep { /^\| `/ } split /\n/, $text;
}


# what is in Redis, name by name

my $show = $nodes->line('one', 'show');
my $first = $show->join('u1');
my @behind = $show->joins(qw(u2 u3 u4));
my $now = 1000 * time;

is($first->names, 'promoted', 'with a free slot nobody waits');
is($first->status, 200, 'status 200');

my $told = $first->last->{data};

is_deeply([@$told{qw(status eventId userId rank)}],
          ['ready', 'show', 'u1', undef], 'it is ready, in its event');
is($told->{token}, $show->token('u1'), 'the token is that of Redis');
is($nodes->call('PEXPIRETIME', 'ENTRY_TOKEN:{show}:u1'), $told->{expiresAt},
   'and ends when it was told');
is($nodes->call('ZSCORE', 'ENTRY_ACTIVE:{show}', 'u1'), $told->{expiresAt},
   'and so does the lease');
ok($told->{expiresAt} > $now && $told->{expiresAt} <= $now + 61000,
   'which is in a minute');

is_deeply([map { $_->names } @behind], [('position') x 3],
          'the others wait');
is_deeply([map { $_->rank } @behind], [0, 1, 2], 'one behind the other');
is_deeply([map { $_->last->{data}{total} } @behind], [1, 2, 3],
          'and know how many there are');
is_deeply($nodes->call('ZRANGE', 'WAITING:{show}', 0, -1, 'WITHSCORES'),
          ['{"userId":"u2"}', 2, '{"userId":"u3"}', 3, '{"userId":"u4"}', 4],
          'WAITING: JSON of the user, score idx');

for my $n (2 .. 4) {
    my $record = $nodes->call('HGET', 'WAITING_QUEUE_INDEX_RECORD:{show}',
                              "u$n");

    like($record, qr/^\{"userId":"u$n","eventId":"show","idx":$n,
                     "instanceId":"(node1-\d+-\d{13})","since":\d{13},
                     "serial":\d{16}\}$/x,
         "the record of u$n");
    ok($instances{ $show->record("u$n")->{instanceId} },
       'which names a living instance');
}

is_deeply({ @{$nodes->call('HGETALL', 'WAITING_USER_IDS:{show}')} },
          { map { $_ => 'true' } qw(u2 u3 u4) }, 'WAITING_USER_IDS');
is($nodes->call('HGET', 'WAITING_QUEUE_IDX', 'show'), 4, 'WAITING_QUEUE_IDX');
is($show->slots, 0, 'ENTRY_QUEUE_SLOTS');
like($nodes->call('HGET', 'ENTRY_LEASE:{show}', 'u1'),
     qr/^\{"userId":"u1","eventId":"show","idx":1,"instanceId":"node1-\d+-\d+"
        ,"state":"ready","since":\d{13},"waited":0
        ,"serial":\d{16}\}$/x, 'ENTRY_LEASE');
is_deeply($nodes->call('ZRANGE', 'ENTRY_ACTIVE:{show}', 0, -1), ['u1'],
          'ENTRY_ACTIVE');
ok($nodes->call('SISMEMBER', 'WAITING_EVENTS', 'show'), 'WAITING_EVENTS');
is($show->stat('joined'), 4, 'WAITING_STATS: joined');
is($show->stat('direct'), 1, 'WAITING_STATS: direct');
is($show->stat('capacity'), 1, 'WAITING_STATS: capacity');
is_deeply([sort @{$nodes->call('ZRANGE', 'WAITING_INSTANCES', 0, -1)}],
          [sort keys %instances], 'WAITING_INSTANCES: the workers');

for my $instance (keys %instances) {
    my $groups = $nodes->call('XINFO', 'GROUPS', "DISPATCH:{$instance}");
    is($groups->[0][1], 'waiting_queue', "$instance has a stream");
}

is($nodes->call('XINFO', 'GROUPS', 'ENTRY')->[0][1], 'waiting_queue',
   'ENTRY has one group');


# messages as they are written: while the workers are held, nobody takes them

freeze(map { $_->[1] } values %instances);
ok($show->release('u1'), 'a visit ends');

my $messages = $nodes->call('XRANGE', 'ENTRY', '-', '+');
my ($fields) = map { $_->[1] } @$messages;
my %field = @{$fields || []};

is(scalar(@$messages), 1, 'one message');
is_deeply([map { $fields->[2 * $_] } 0 .. $#$fields / 2],
          [map { $_->[0] =~ /`(\w+)`/g } table('Messages')],
          'its fields are those of the page, in their order');
is_deeply(\%field, { type => 'promoted', userId => 'u2', eventId => 'show',
                     instanceId => $show->lease('u2')->{instanceId}, idx => 2,
                     token => $show->token('u2'), serial => 0,
                     expiresAt => $nodes->call('ZSCORE', 'ENTRY_ACTIVE:{show}',
                                               'u2') },
          'and what they say is so');

kill CONT => map { $_->[1] } values %instances;
$nodes->run_until(sub { $behind[0]->token }, 10, 'the next is told');
is($behind[0]->token, $field{token}, 'the token of the message');
sound($show, 'after a promotion');


# every key that there is, is on the page, and of the type that stands there

$show->set(paused => 0);

my %type;

for my $row (table('Keys')) {
    my ($name) = $row->[0] =~ /`(.*)`/;
    my $pattern = quotemeta($name) =~ s/\\\{e\\\}/\\{[^}]+\\}/r
                  =~ s/\\\{instance\\\}/\\{[^}]+\\}/r =~ s/\\:u$/:.+/r;
    $type{$pattern} = lc $row->[1];
}

my (%seen, @undocumented);

for my $key (@{$nodes->call('KEYS', '*')}) {
    my ($pattern) = grep { $key =~ /^$_$/ } keys %type;
    my $type = $nodes->call('TYPE', $key);

    next if $type eq 'none';
    push @undocumented, "$key: $type" if !$pattern || $type{$pattern} ne $type;
    $seen{$pattern} = 1 if $pattern;
}

is_deeply(\@undocumented, [], 'all keys are documented, with their types');
ok(keys %seen >= 15, 'of ' . keys(%type) . ' kinds, ' . keys(%seen)
                     . ' are there');

my %settings = map { $_->[0] =~ /`(\w+)`/ ? ($1, 1) : () } table('Settings');
my @settings = @{$nodes->call('HKEYS', 'WAITING_QUEUE_CONF:{show}')};

is_deeply([grep { !$settings{$_} && $_ ne 'text' && $_ ne 'service_capacity' }
           @settings], [], 'all settings are documented');

my %counters = map { $_ => 1 } map { $_->[2] =~ /`(\w+)`/g }
               grep { $_->[0] =~ /WAITING_STATS/ } table('Keys');

is_deeply([grep { !$counters{$_} }
           @{$nodes->call('HKEYS', 'WAITING_STATS:{show}')}], [],
          'all counters are documented');


# leaving: those behind come nearer, those in front hear nothing

my $middle = $nodes->line('one', 'middle');
my @m = $middle->joins(map { "m$_" } 1 .. 6);

is_deeply([map { $_->rank } @m], [undef, 0 .. 4], 'six come');
$m[3]->close;
$nodes->run_until(sub { $m[5]->rank == 3
                        && $nodes->exact($middle, @m[1, 2, 4, 5]) }, 10,
                  'one leaves: those behind come nearer');
is_deeply($middle->waiting, [qw(m2 m3 m5 m6)], 'the place is gone');
is($middle->stat('left'), 1, 'counted as one who left');
is_deeply($nodes->call('XRANGE', 'WAITING_GONE:{middle}', '-', '+'),
          [['1-0', ['idx', 4]]], 'WAITING_GONE tells the idx');
is_deeply([map { $_->count('position') } @m[1, 2, 4, 5]], [1, 1, 2, 2],
          'only those are told whose position has changed');
$nodes->rounds(6, 'broadcasts');
is_deeply([map { $_->count('position') } @m[1, 2, 4, 5]], [1, 1, 2, 2],
          'and not again');

$middle->release('m1');
$nodes->run_until(sub { $m[1]->token && $nodes->exact($middle, @m[2, 4, 5]) },
                  10, 'one is let in: all others come nearer');
is_deeply([map { $_->count('position') } @m[2, 4, 5]], [2, 3, 3],
          'by one event each');
$_->reset for @m[1, 2];
$nodes->run_until(sub { $nodes->exact($middle, @m[4, 5]) && $m[5]->rank == 1 },
                  10, 'one is reset: those behind come nearer');
is_deeply($middle->inside, ['m2'], 'a lease outlives its stream');
sound($middle, 'after those who left');


# the order of promotion is that of coming, whoever holds the connection

my $order = $nodes->line('none', 'order');
my @pids = $nodes->node(0)->pids;
my @o = map { $order->join(sprintf('o%02d', $_),
                           $nodes->at(0, $pids[$_ % 2])) } 1 .. 24;
my %by_name = map { $_->{user} => $_ } @o;

is(scalar(keys %{{ map { $order->record($_->{user})->{instanceId} => 1 } @o }}),
   2, 'both workers hold some of them');
is_deeply([map { $order->idx($_->{user}) } @o], [1 .. 24],
          'their idx are in the order in which they came');
$nodes->rounds(3, 'promoteRounds');
is(told(@o), '', 'without a slot nobody is let in');

$order->set(capacity => 10);
$nodes->run_until(sub { 10 <= grep { $_->token } @o }, 10,
                  'capacity raised while it runs: ten are let in');
is(told(@o), join(' ', map { sprintf 'o%02d', $_ } 1 .. 10), 'the first ten');

my @inside = map { sprintf 'o%02d', $_ } 1 .. 10;
my @wrong;

for my $n (11 .. 24) {
    my $next = sprintf 'o%02d', $n;

    @inside = shuffle(@inside);
    $order->release(shift @inside);
    push @wrong, "$next: " . join ' ', @{$order->inside}
        if join(' ', @{$order->inside}) ne join ' ', sort @inside, $next;
    push @inside, $next;
}

is_deeply(\@wrong, [], 'each time the one who came first is the next');
$nodes->run_until(sub { 24 == grep { $_->token } @o }, 10, 'all are told');
is(scalar(keys %{{ map { $_->token => 1 } @o }}), 24, 'each his own token');

$order->set(capacity => 3);
$nodes->run_until(sub { $order->slots == -7 }, 10,
                  'capacity lowered below those inside: no slot, seven over');

my $late = $order->join('late');

is($late->names, 'position', 'who comes now waits');
$order->release($_) for @inside[0 .. 6];
$nodes->rounds(3, 'promoteRounds');
is($late->names, 'position', 'also when it is just full again');
$order->release($inside[7]);
$nodes->run_until(sub { $late->token }, 10, 'and is let in when one more left');
sound($order, 'after the capacity was changed');


# paused: everybody may wait, nobody is let in

my $paused = $nodes->line('one', 'paused');

# settings are written with the first join
$paused->set(paused => 1);

my @p = $paused->joins(qw(p1 p2));

is_deeply([map { $_->rank } @p], [0, 1], 'paused: they wait, with a slot free');
$nodes->rounds(3, 'promoteRounds');
is(told(@p), '', 'paused: nobody is let in');
$paused->set(paused => 0);
$nodes->run_until(sub { told(@p) eq 'p1' && $p[1]->rank == 0 }, 10,
                  'not paused any more: it goes on');


# full

my $few = $nodes->line('few', 'few');
my @f = $few->joins(qw(f1 f2 f3));
my $refused = $few->join('f4');

is($refused->status, 429, 'full: refused');
is($refused->json->{status}, 'full', 'full: and told so');
ok($refused->header('Retry-After'), 'full: and when to come again');
is_deeply($few->waiting, [qw(f2 f3)], 'full: it has no place');
is($few->stat('joined'), 3, 'full: nor was it counted');

my $again = $few->join('f3');

is($again->rank, 1, 'full: who is in line already may come again');
$nodes->run_until(sub { $f[2]->last('replaced') }, 10,
                  'full: and replaces the stream before');
$f[1]->close;
$nodes->run_until(sub { $few->join('f4')->rank }, 10,
                  'when one has left there is room for another');
sound($few, 'after it was full');


# two events at once, and the same users in both

my @events = map { $nodes->line('one', $_) } qw(left right);
my %both = map { my $line = $_;
                 $line->event => [map { $line->join("b$_") } 1 .. 4] } @events;

isnt($both{left}[0]->token, $both{right}[0]->token,
     'two events: one user has two tokens');
is_deeply([map { [map { $_->idx("b3") } $_] } @events], [[3], [3]],
          'two events: each counts for itself');
$both{left}[1]->close;
$events[0]->release('b1');
$nodes->run_until(sub { $both{left}[2]->token && $both{left}[3]->rank == 0 },
                  10, 'two events: one of them moves');
$nodes->rounds(4, 'broadcasts');
is_deeply([map { $_->names } @{$both{right}}], ['promoted', ('position') x 3],
          'two events: the other does not');
is_deeply($events[1]->waiting, [qw(b2 b3 b4)], 'two events: it is as it was');
sound($_, 'two events') for @events;


# the claim time, and a lease that has lapsed

my $claim = $nodes->line('claim', 'claim');
my @c = $claim->joins(qw(c1 c2));
my $start = 1000 * time;

ok($c[0]->last->{data}{expiresAt} <= $start + 1000,
   'the lease of one who has not entered is that of the claim time');
$nodes->run_until(sub { $c[0]->last('expired') && $c[1]->token }, 10,
                  'it lapses: its holder hears it, and the next is let in');
is($c[0]->names, 'promoted expired', 'nothing else');
is($c[0]->ended, 'clean', 'that stream has ended');
is($c[0]->last->{data}{token}, undef, 'its token is no more');
is($claim->token('c1'), undef, 'nor in Redis');
ok($c[0]->last('expired')->{at} - $c[0]->first('promoted')->{at} >= 0.9,
   'not before its time');
is($claim->stat('expired'), 1, 'counted as expired');

# what the gate will do: who enters has the long lease, on the same token

my $token = $c[1]->token;
my $lease = $claim->lease('c2');

$claim->script('join', 'c2', $lease->{instanceId}, 'enter', 'x' x 64,
               $nodes->call('HGET', 'WAITING_QUEUE_CONF:{claim}', 'text'), '',
               0);
is($claim->lease('c2')->{state}, 'entered', 'one who enters');
is($claim->token('c2'), $token, 'keeps the token');
ok($nodes->call('ZSCORE', 'ENTRY_ACTIVE:{claim}', 'c2') > 1000 * time + 50000,
   'for longer');

my $c3 = $claim->join('c3');

$sse->run_for(1.2);
is($c[1]->names, 'position promoted', 'and is not expired by the claim time');
is($c3->names, 'position', 'nor is another let in');

my $c2 = $claim->join('c2');

is($c2->last('promoted')->{data}{status}, 'entered',
   'the stream tells who comes again that it has entered');
is($c2->token, $token, 'and the token again');
sound($claim, 'after leases have lapsed');


# an event that is over leaves nothing of anybody

my @lines = ($show, $middle, $order, $paused, $few, @events, $claim);

$sse->close_all;

for my $line (@lines) {
    # whoever is let in by this is let out again
    $nodes->run_until(sub {
        $line->release($_) for @{$line->inside};
        !@{$line->inside} && !@{$line->waiting};
    }, 15, $line->event . ': all have gone');
}

$nodes->run_until(sub { !map { $_->leftovers } @lines }, 15,
                  'nothing of anybody is left in Redis')
    or diag(join "\n", map { $_->leftovers } @lines);
is_deeply([$nodes->busy], [], 'and nothing is under way');

for my $line (@lines) {
    my $free = $line->stat('capacity');
    is($line->slots, $free, $line->event . ": all $free slots are free");
}

is($nodes->sum($_), 0, "the workers have no $_") for qw(streams absent);
is($nodes->sum('streamsOpened') - $nodes->sum('streamsClosed'), 0,
   'as many streams were closed as were opened');


# a slot that is given back is handed over without a tick: there are none

my $still = WaitingQueue::Nodes->new(
    workers => 1, redis => $nodes->redis, connections => 4096,
    prefix => 'still:',
    http => 'waiting_queue_interval 60s; waiting_queue_promote_interval 60s;',
    locations => { one => 'waiting_queue_capacity 1;' });
my $quiet = $still->line('one', 'quiet');
my @q = $quiet->joins(map { "q$_" } 1 .. 5);

for my $n (1 .. 4) {
    $quiet->release("q$n");
    $still->run_until(sub { $q[$n]->token }, 5, "the slot of q$n is handed on");
}

is(join(' ', map { $_->count('position') } @q), '0 1 1 1 1',
   'no tick came meanwhile');


# thousands in one process

my $many = WaitingQueue::Nodes->new(
    workers => 1, redis => start_redis(), connections => 8192, http => $quick,
    locations => { none => 'waiting_queue_capacity 0; waiting_queue_grace 0;' }
);
my $crowd = $many->line('none', 'crowd');
my @s;

while (@s < 2000) {
    push @s, map { $crowd->open("s$_") } @s + 1 .. @s + 100;
    $many->run_until(sub { !grep { !$_->events } @s[-100 .. -1] }, 20);
}

is(scalar(grep { $_->events } @s), 2000, '2,000 streams are answered');
$many->run_until(sub { $many->exact($crowd, @s) }, 20, 'their ranks are exact');

my $asked = $many->node(0)->sum('sent', 'commands');
my $ticks = $many->sum('broadcasts');

@s = shuffle(@s);
$_->close for splice @s, 0, 200;
$many->run_until(sub { @{$crowd->waiting} == 1800 && $many->exact($crowd, @s) },
                 30, '200 leave, here and there: all ranks are exact');

my $sent = $many->sum('positionsSent');

$many->rounds(5, 'broadcasts');
is($many->sum('positionsSent'), $sent, 'at rest nobody is told anything');

$crowd->set(capacity => 300);
$many->run_until(sub { 300 == grep { $_->token } @s }, 30, '300 are let in');
@s = grep { !$_->token } @s;
is(scalar(@s), 1500, '1,500 still wait');
$many->run_until(sub { $many->exact($crowd, @s) }, 30, 'their ranks are exact');

$asked = $many->node(0)->sum('sent', 'commands') - $asked;
$ticks = $many->sum('broadcasts') - $ticks;

# 200 leave, 300 are routed and discarded; per tick there are a few, and not
# one for each who waits
cmp_ok($asked, '<', 1000 + 20 * $ticks,
       "Redis was asked $asked times in $ticks ticks");
is($many->sum('resyncs'), 0, 'and never for all ranks');

is_deeply([$_->sse->violations], [], 'all that was sent is well-formed')
    for $still, $many;
$nodes->finish;
