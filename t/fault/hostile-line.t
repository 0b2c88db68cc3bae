# Proves that nothing a Redis may answer to the scripts of the line reaches a
# user but as a stream that is well-formed, or as a refusal: no answer ends or
# blocks a worker, and the line goes on as soon as Redis does.

use strict;
use warnings;

use feature 'state';

use Test::More;
use WaitingQueue::Fault;
use WaitingQueue::Sse;


# resp(value): as Redis writes it; a list, a number, undef for nil, text

sub resp {
    my $value = shift;

    return "\$-1\r\n" if !defined $value;
    return '*' . @$value . "\r\n" . join '', map { resp($_) } @$value
        if ref $value eq 'ARRAY';
    return $$value if ref $value;
    return ":$value\r\n" if $value =~ /^-?\d{1,18}$/;
    return sprintf "\$%d\r\n%s\r\n", length $value, $value;
}


# a list of values, of which some are others: with($list, index => value ...)

sub with {
    my ($list, %others) = @_;

    my @list = @$list;
    @list[keys %others] = values %others;

    return resp(\@list);
}


# answers of a kind that none of the scripts has

my %types = (
    integer => ":1\r\n",
    nil => "\$-1\r\n",
    no_array => "*-1\r\n",
    empty => "*0\r\n",
    status => "+OK\r\n",
    text => "\$3\r\nabc\r\n",
    nested => "*2\r\n*1\r\n*1\r\n:1\r\n*2\r\n\$-1\r\n:-1\r\n",
    nils => '*20' . "\r\n" . "\$-1\r\n" x 20,
    texts => '*20' . "\r\n" . "\$3\r\nabc\r\n" x 20,
    lists => '*20' . "\r\n" . "*0\r\n" x 20,
    errors => '*20' . "\r\n" . "-ERR no\r\n" x 20,
    error => "-ERR nonsense\r\n",
);

# those that differ for whoever reads them
my @kinds = qw(empty error integer lists nils texts);

my $most = '9223372036854775807';
my $token = '0123456789' x 4;

# as they should be: one waits, on place 5 of 9

my @waiting = ('waiting', 5, 4, 9, 0, 0, 9, undef, undef, undef, 0, 'epoch',
               1, 0, 0, 0, 0, 0, 0, 0, 0);
my @inside = ('ready', 5, undef, 9, 0, 0, 9, $token, $most, undef, 0, 'epoch',
              1, 0, 0, 0, 0, 0, 0, 0, 0);
my @figures = (9, 1, 0, 1, 0, -1, 9, (0) x 13);
my @positions = (0, 'epoch', 0, 0, [], 'open', \@figures);
my @ranks = (9, 0, 0, 9, 'epoch', [4]);
my @promote = (0, 0, 0, 0, \@figures);
my @tasks = (1, 1, []);
my @reap = ('', 0, 0, 0);
my @touch = (1, $most, 0, 0, 0, 0);

my %line = (
    join => resp(\@waiting),
    positions => resp(\@positions),
    ranks => resp(\@ranks),
    restore => resp(\@waiting),
    leave => resp([1]),
    release => resp([1, 0, 0, \@figures]),
    touch => resp(\@touch),
    promote_all_waiting_for_event => resp(\@promote),
    reap => resp(\@reap),
    bury_instance => resp([1]),
);

# all of it, but some

sub mode { return { %line, @_ } }

# the figures, but some of them

sub figures {
    my %others = @_;
    return [ map { exists $others{$_} ? $others{$_} : $figures[$_] }
                 0 .. $#figures ];
}


# [name, mode]: whoever comes is refused

my @refused = (
    (map { ["join answered with $_", mode(join => $types{$_})] }
         sort keys %types),
    (map { my ($name, $list, @others) = @$_;
           ["join with $name", mode(join => with($list, @others))] }
         ['another word', \@waiting, 0 => 'nonsense'],
         ['no word', \@waiting, 0 => ''],
         ['a long word', \@waiting, 0 => 'waiting' x 100],
         ['a status that is no answer', \@waiting, 0 => 'none'],
         ['no place', \@waiting, 1 => undef],
         ['no rank', \@waiting, 2 => undef],
         ['a negative rank', \@waiting, 2 => -1],
         ['a rank too large', \@waiting, 2 => '9223372036854775808'],
         ['a rank of letters', \@waiting, 2 => 'four'],
         ['a negative place', \@waiting, 1 => -5],
         ['a negative total', \@waiting, 3 => -1],
         ['no total', \@waiting, 3 => undef],
         ['a list for a total', \@waiting, 3 => [9]],
         ['a long epoch', \@waiting, 11 => 'e' x 10000],
         ['no epoch', \@waiting, 11 => undef],
         ['a negative serial', \@waiting, 12 => -1],
         ['a negative wait', \@waiting, 13 => -1],
         ['no wait', \@inside, 13 => undef],
         ['a negative rate', \@waiting, 14 => -1],
         ['a rate too large', \@waiting, 15 => 4294967296],
         ['halted by half', \@waiting, 16 => 2],
         ['crowded by letters', \@waiting, 17 => 'x'],
         ['a period that begins in less than no time', \@waiting, 18 => -1],
         ['a period of letters', \@waiting, 18 => 'soon'],
         ['a long instance', \@waiting, 9 => 'i' x 10000],
         ['no token', \@inside, 7 => undef],
         ['an empty token', \@inside, 7 => ''],
         ['a short token', \@inside, 7 => 'a' x 39],
         ['a long token', \@inside, 7 => 'a' x 41],
         ['a token with a quote', \@inside, 7 => 'a' x 39 . '"'],
         ['a token with a backslash', \@inside, 7 => '\\' . 'a' x 39],
         ['a token with a zero', \@inside, 7 => 'a' x 39 . "\0"],
         ['a token with an event',
          \@inside, 7 => "\"}\n\nevent: promoted\ndata: {}\n\n" . 'a' x 6],
         ['no end of the lease', \@inside, 8 => undef],
         ['a negative end', \@inside, 8 => -1]),
);

# [name, mode, what is told]: whoever comes is told that

my @told = (
    ['the largest numbers', mode(join => with(\@waiting, 1 => $most,
                                              2 => $most, 3 => $most,
                                              4 => $most, 5 => $most,
                                              6 => $most, 12 => $most)),
     'position'],
    ['a place of 0', mode(join => with(\@waiting, 1 => 0, 2 => 0)),
     'position'],
    ['numbers as text',
     mode(join => with(\@waiting, map { $_ => \"\$1\r\n7\r\n" } 1 .. 6)),
     'position'],
    ['an empty epoch', mode(join => with(\@waiting, 11 => '')), 'position'],
    ['an epoch of any bytes',
     mode(join => with(\@waiting, 11 => "\0\r\n\"\xff")), 'position'],
    ['an instance of any bytes',
     mode(join => with(\@waiting, 9 => "\0\r\n\"\xff")), 'position'],
    ['more fields than there are', mode(join => resp([@waiting, 1, 2])),
     'position'],
    ['a lease for ever', mode(join => resp(\@inside)), 'promoted'],
    ['a lease that is over', mode(join => with(\@inside, 8 => 0)),
     'promoted'],
);

# [name, mode]: while somebody waits; he goes on to wait

my $entries = 0;

my @broadcast = (
    (map { my $type = $_;
           (["positions answered with $type",
             mode(positions => $types{$type})],
            ["ranks answered with $type",
             mode(positions => with(\@positions, 2 => 1),
                  ranks => $types{$type})],
            ["restore answered with $type",
             mode(positions => with(\@positions, 2 => 1),
                  ranks => with(\@ranks, 5 => [-1]),
                  restore => $types{$type})]) }
         @kinds),
    (map { my ($name, @others) = @$_;
           ["positions with $name",
            mode(positions => with(\@positions, @others))] }
         (map { my ($what, @figures) = @$_;
                [$what, 6 => figures(@figures)] }
              ['a negative total', 0 => -1],
              ['the largest numbers', map { $_ => $most } 0 .. 13, 16],
              ['the smallest number of slots',
               2 => \":-9223372036854775808\r\n"],
              ['slots that are owed', 2 => "-$most"],
              ['fewer joined than before', 6 => 1],
              ['more in line than have come', 6 => 9, 0 => 99],
              ['a rate of nobody', 14 => 0, 15 => 1000],
              ['a rate in no time', 14 => 5, 15 => 0],
              ['the largest rate', 14 => 4294967295, 15 => 4294967295],
              ['a rate too large', 14 => 4294967296],
              ['halted by half', 17 => 2],
              ['letters', map { $_ => 'x' } 0 .. 17],
              ['nils', map { $_ => undef } 0 .. 17],
              ['lists', map { $_ => [] } 0 .. 17]),
         ['no figures', 6 => []],
         ['figures that are too few', 6 => [1 .. 5]],
         ['figures that are too many', 6 => [(1) x 1000]],
         ['another epoch', 1 => 'another'],
         ['a long epoch', 1 => 'e' x 10000],
         ['entries of zero', 0 => 3, 4 => [0, 0, 0]],
         ['entries that are too many', 4 => [1 .. 1001]],
         ['entries for fewer numbers', 0 => 1, 4 => [1 .. 100]],
         ['entries for more numbers', 0 => 1000, 4 => [1]],
         ['entries of letters', 0 => 2, 4 => ['a', 'b']],
         ['entries of lists', 0 => 2, 4 => [[], [1]]],
         ['entries of nil', 0 => 2, 4 => [undef, undef]],
         ['the largest entries', 0 => 2, 4 => [$most, "-$most"]],
         ['the smallest entry', 0 => 1,
          4 => [\":-9223372036854775808\r\n"]],
         ['more gone than there are', 0 => 9, 4 => [1 .. 4, 1 .. 4, 4]],
         ['himself gone', 0 => 1, 4 => [5]],
         ['another state', 5 => 'nonsense'],
         ['no state', 5 => ''],
         ['ranks to be asked for, for ever', 2 => 1]),
    ['positions with more, for ever',
     mode(positions => with(\@positions, 3 => 1))],
    ['positions with more entries, for ever',
     mode(positions => sub {
         my $reached = 1000 * ++$entries;
         return with(\@positions, 0 => $reached, 3 => 1,
                     4 => [map { 5 + $_ } 1 .. 1000]);
     })],
    (map { my ($name, @others) = @$_;
           ["ranks with $name",
            mode(positions => with(\@positions, 2 => 1),
                 ranks => with(\@ranks, @others))] }
         ['none', 5 => []],
         ['two', 5 => [1, 2]],
         ['as many as there may be', 5 => [1 .. 200]],
         ['too many', 5 => [1 .. 1000]],
         ['the largest', map { $_ => $most } 0 .. 3],
         ['the largest rank', 5 => [$most]],
         ['a rank below none', 5 => [-2]],
         ['a rank of letters', 5 => ['four']],
         ['a list', 5 => [[]]],
         ['another epoch', 4 => 'another'],
         ['no epoch', 4 => '']),
    (map { my ($name, $list, @others) = @$_;
           ["restore with $name",
            mode(positions => with(\@positions, 2 => 1),
                 ranks => with(\@ranks, 5 => [-1]),
                 restore => with($list, @others))] }
         ['another word', \@waiting, 0 => 'nonsense'],
         ['sold_out', \@waiting, 0 => 'sold_out'],
         ['unknown', \@waiting, 0 => 'unknown'],
         ['a token with a quote', \@inside, 7 => 'a' x 39 . '"'],
         ['another place', \@waiting, 1 => 77],
         ['the largest numbers', \@waiting, map { $_ => $most } 1 .. 6]),
);

# [name, mode]: rounds of promotion, with and without dead instances; heartbeats
# go on

my @dead = ('dead-1-1', 5);

sub reaping { return mode(fill_promotion_tasks => with(\@tasks, 2 => \@dead),
                          SMEMBERS => resp(['e1', 'e2']), @_) }

# the list is empty after that
sub popping { my @popped = shift;
              return mode(fill_promotion_tasks => resp(\@tasks),
                          RPOP => sub { return shift @popped
                                               || $types{nil} }, @_) }

my @rounds = (
    (map { my $type = $_;
           (["RPOP answered with $type", popping($types{$type})],
            ["promote answered with $type",
             popping(resp(['e1', 'e2']),
                     promote_all_waiting_for_event => $types{$type})],
            ["SMEMBERS answered with $type",
             reaping(SMEMBERS => $types{$type})],
            ["reap answered with $type", reaping(reap => $types{$type})],
            ["bury_instance answered with $type",
             reaping(bury_instance => $types{$type})]) }
         @kinds),
    (map { my ($name, $events) = @$_;
           (["RPOP with $name", popping(resp($events))],
            ["SMEMBERS with $name", reaping(SMEMBERS => resp($events))]) }
         ['no ids', ['', 'a b', "\0", 'x' x 129, 'a{b}', "\xff"]],
         ['many ids', [map { "e$_" } 1 .. 1000]],
         ['the same id', [('e') x 8]],
         ['lists', [[], ['e1'], undef, 5]]),
    (map { my ($name, @others) = @$_;
           ["promote with $name",
            popping(resp(['e1']), promote_all_waiting_for_event
                                      => with(\@promote, @others))] }
         ['more, for ever', 2 => 1],
         ['a period that opens at once, for ever', 3 => 1],
         ['a period that never opens', 3 => $most],
         ['a negative period', 3 => -1],
         ['more than is asked for', 0 => 1001],
         ['the largest numbers',
          4 => figures(map { $_ => $most } 0 .. 13, 16)],
         ['negative numbers', 4 => figures(map { $_ => -1 } 0 .. 17)],
         ['no figures', 4 => []],
         ['nil for figures', 4 => undef]),
    (map { my ($name, $dead) = @$_;
           ["dead: $name", mode(fill_promotion_tasks
                                    => with(\@tasks, 2 => $dead),
                                SMEMBERS => resp(['e1']))] }
         ['no heartbeat', ['dead-1-1']],
         ['a heartbeat of letters', ['dead-1-1', 'x']],
         ['a negative heartbeat', ['dead-1-1', -1]],
         ['names that are none', ['a b', 1, '', 2, "\0", 3, 'x' x 129, 4]],
         ['lists', [[], [], ['dead-1-1', 1]]],
         ['too many', [map { ("dead-$_-1", 1) } 1 .. 100]],
         ['the same again', [('dead-1-1', 1) x 10]]),
    (map { my ($name, @others) = @$_;
           ["reap with $name", reaping(reap => with(\@reap, @others))] }
         ['a place to go on, for ever', 0 => '7'],
         ['a long place to go on', 0 => '7' x 1000],
         ['the largest numbers', 1 => $most, 2 => $most, 3 => $most],
         ['negative numbers', 1 => -1, 2 => -1, 3 => -1]),
);

# [name, mode]: a token at the gate, of which Redis says nothing sensible

my @untouched = (
    (map { ["touch answered with $_", mode(touch => $types{$_})] }
         sort keys %types),
    (map { my ($name, @others) = @$_;
           ["touch with $name", mode(touch => with(\@touch, @others))] }
         ['neither yes nor no', 0 => 2],
         ['no word', 0 => undef],
         ['a negative end', 1 => -1],
         ['an end too large', 1 => '9223372036854775808'],
         ['no end', 1 => undef],
         ['a negative wait', 2 => -1]),
);

my $serial = 0;
my %table = map { ++$serial . " $_->[0]" => $_->[1] }
            @refused, @told, @broadcast, @rounds, @untouched;

$table{line} = mode();
$table{inside} = mode(join => resp(\@inside));
$table{moved} = mode(positions => with(\@positions,
                                       6 => figures(0 => 7, 8 => 2)));

for my $script (qw(leave release)) {
    $table{"$script $_"} = mode($script => $types{$_}) for @kinds;
}

my $fake = start_fake(modes => \%table);
my $nginx = start_nginx(
    workers => 1,
    http => 'waiting_queue_redis redis://127.0.0.1:' . $fake->port
            . ' timeout=2s;'
            . 'waiting_queue_interval 50ms;'
            . 'waiting_queue_promote_interval 50ms;',
    server => 'location = /stream { waiting_queue_stream;'
              . ' waiting_queue_event e1; waiting_queue_user $arg_user;'
              . ' waiting_queue_capacity 10; waiting_queue_grace 0;'
              . ' waiting_queue_release disconnect; }'
              . 'location = /gate { waiting_queue on;'
              . ' waiting_queue_event e1; waiting_queue_user $arg_user;'
              . ' waiting_queue_capacity 10; waiting_queue_grace 0;'
              . ' waiting_queue_release disconnect;'
              . ' proxy_pass http://127.0.0.1:$server_port/behind?$args; }'
              . 'location = /behind {'
              . ' add_header X-Waiting-Queue $arg_word; return 200 behind; }');

my $sse = WaitingQueue::Sse->new(port => $nginx->port);
my $user = 0;

$serial = 0;


# well(mode): it holds, and all links are ready

sub well {
    my ($mode, $what) = @_;

    $fake->mode($mode);

    my $heartbeats = $nginx->sum('heartbeats');

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return $sse->run_until(sub {
        $nginx->has_state('ready') && $nginx->sum('heartbeats') > $heartbeats;
    }, 10, defined $what ? $what : "$mode: ready");
}


my @streams;

sub enter {
    push @streams, $sse->open(path => '/stream?user=u' . ++$user);
    return $streams[-1];
}


# no stream, and nobody who is waited for

sub empty {
    my $what = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return $sse->run_until(sub {
        !grep { $_->{streams} || $_->{absent} } $nginx->rows;
    }, 10, $what);
}


# bad(): answers that were counted as wrong

sub bad {
    return $nginx->sum('badReplies', 'commands')
           + $nginx->sum('failed', 'commands');
}


# gate(token): the answer to somebody new at the gate

sub gate {
    my ($shown) = @_;

    my $g = $sse->open(path => '/gate?user=g' . ++$user,
                       headers => { Accept => 'application/json',
                                    'X-Waiting-Queue-Token' => $shown });

    $sse->run_until(sub { defined $g->ended || defined $g->json
                          || $g->body =~ /^behind/ }, 10)
        or diag('no answer at the gate');
    $g->close;

    return $g;
}


$fake->mode('line');
$nginx->wait_ready('a fake Redis in good order is taken for one');

my ($worker) = $nginx->workers;


# to come

for my $case (@refused) {
    my ($name) = @$case;

    well(++$serial . " $name") or next;

    my $before = bad();
    my $s = enter();

    $sse->run_until(sub { defined $s->ended }, 10, "$name: answered");
    is($s->status, 503, "$name: refused");
    ok($s->json && $s->json->{error}, "$name: in JSON") or diag($s->body);
    ok(bad() > $before, "$name: counted");
    $nginx->unharmed("after $name");
}

for my $case (@refused) {
    my ($name) = @$case;

    state $n = 0;
    well(++$n . " $name") or next;

    my $g = gate();

    is($g->status, 503, "$name: kept back at the gate");
    ok($g->json, "$name: in JSON") or diag($g->body);
    $nginx->unharmed("after $name, at the gate");
}

for my $case (@told) {
    my ($name, undef, $event) = @$case;

    well(++$serial . " $name") or next;

    my $s = enter();

    $sse->run_until(sub { $s->last($event) }, 10, "$name: $event");
    $s->close;
    $nginx->unharmed("after $name");
}


# to wait

well('line');

my $s = enter();

$sse->run_until(sub { $s->last('position') }, 10, 'one waits');

for my $case (@broadcast) {
    my ($name) = @$case;

    my $broadcasts = $nginx->sum('broadcasts');
    my $asked = $nginx->sum('sent', 'commands');

    $fake->mode(++$serial . " $name");

    # some of these never come to an end by themselves
    $sse->run_until(sub {
        $nginx->sum('broadcasts') >= $broadcasts + 3
            || $nginx->sum('sent', 'commands') >= $asked + 1000;
    }, 10, "$name: done several times");

    $nginx->unharmed("after $name");

    next if $s->is_open;

    # told that it is over, which some of these say
    ok($s->last && $s->last->{event} =~ /^(?:sold_out|promoted|expired)$/,
       "$name: the stream has ended with a word")
        or diag($s->describe);

    well('line');
    $s = enter();
    $sse->run_until(sub { $s->last('position') }, 10, 'another waits');
}

well('line');
$s->close;
empty('he leaves');
$s = enter();
$sse->run_until(sub { $s->last('position') }, 10, 'another one comes');
is($s->rank, 4, 'with a rank');
$fake->mode('moved');
$sse->run_until(sub { $s->rank == 2 }, 10,
                'the line moves when Redis is in order again');


# to leave

$fake->mode('line');
$s->close;
empty('he leaves too');

for my $script (qw(leave release)) {
    my $counter = $script . 's';
    my $before = $nginx->sum($counter);
    my $left = 0;

    for my $type (@kinds) {
        well($script eq 'leave' ? 'line' : 'inside', "$script $type: well")
            or next;

        my $s = enter();
        $sse->run_until(sub { $s->last }, 10, "$script $type: one is there");

        $fake->mode("$script $type");
        $sse->run_until(sub { $nginx->has_state('ready') }, 10,
                        "$script $type: ready");

        my $bad = bad();
        my $sent = $nginx->sum('sent', 'commands');

        $s->close;
        $sse->run_until(sub { bad() > $bad }, 10, "$script $type: counted");
        cmp_ok($nginx->sum('sent', 'commands') - $sent, '<', 500,
               "$script $type: it is not tried at full speed");
        $nginx->unharmed("after $script $type");

        $fake->mode('line');
        $left++;
        $sse->run_until(sub { $nginx->sum($counter) >= $before + $left }, 10,
                        "$script $type: done when Redis is in order");
    }
}


# rounds

for my $case (@rounds) {
    my ($name) = @$case;

    my $rounds = $nginx->sum('promoteRounds') + bad();
    my $heartbeats = $nginx->sum('heartbeats');

    my $calls = $nginx->sum('promoteCalls');

    # a round that is none is counted as a wrong answer, and one that never
    # ends by its calls
    $fake->mode(++$serial . " $name");
    $sse->run_until(sub {
        ($nginx->sum('promoteRounds') + bad() >= $rounds + 2
         || $nginx->sum('promoteCalls') >= $calls + 100)
            && $nginx->sum('heartbeats') > $heartbeats;
    }, 10, "$name: goes on");
    $nginx->unharmed("after $name");
}

well('line');
$nginx->wait_ready('all is well in the end');
is_deeply([$nginx->workers], [$worker], 'the worker of the beginning');

# what Redis says may be absurd, but not how it is told

my $number = '(?:null|0|[1-9]\d{0,18})';
my $data = qr/^\{"status":"[a-z_]+"(?:,"eventId":"e1","userId":"u\d+")?
               ,"rank":$number,"waitingPosition":$number
               ,"aheadCount":$number,"total":$number,"etaSeconds":$number
               (?:,"token":(?:null|"$token"),"expiresAt":$number)?\}$/x;

is_deeply([grep { $_ !~ $data } map { $_->{raw} } map { $_->events } @streams],
          [], 'all data are well-formed');

my $absurd = join '|', 'data of', 'total is too small',
                       'position and rank differ', 'promoted without a token';

is_deeply([grep { !/: (?:$absurd)/ } $sse->violations], [],
          'all streams are well-formed');
is(scalar($nginx->log_lines(0, qr/\n.|[\x00-\x08\x0b-\x1f\x7f]/)), 0,
   'no control characters in the log');

# to use a token

for my $case (@untouched) {
    my ($name) = @$case;

    well(++$serial . " $name") or next;

    my $before = bad();
    my $g = gate($token);

    is($g->status, 503, "$name: kept back");
    is($g->json && $g->json->{error}, 'redis_unavailable', "$name: says why");
    ok(bad() > $before, "$name: counted");
    $nginx->unharmed("after $name");
}

well('line');
is(gate($token)->body, 'behind', 'a token for ever: let in');
is(gate()->json->{status}, 'waiting', 'without one: not');

for my $kind (@kinds) {
    well("release $kind");

    # the end of the visit is said again and again
    my $before = bad();
    my $g = $sse->open(path => '/gate?user=over' . ++$user . '&word=done',
                       headers => { 'X-Waiting-Queue-Token' => $token,
                                    Accept => '*/*' });
    $sse->run_until(sub { $g->body =~ /^behind/ }, 10, "$kind: let in");
    $g->close;
    wait_until { bad() > $before } 10, "$kind: no sensible answer to the end";
    $nginx->unharmed("after $kind");
}

well('line');
wait_until { $nginx->sum('visitsDone') == @kinds } 10,
           'the ends of all visits are heard at last';

finish();
