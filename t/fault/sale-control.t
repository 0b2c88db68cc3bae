# Proves that the sale sees what it must see: each kind of problem that it looks
# for is brought about here once, by hand or by a broken client, and must be
# found.  A sale in which nothing can be wrong proves nothing.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Fault;
use WaitingQueue::Sale;


my $sale = WaitingQueue::Sale->new(seed => $ENV{WQ_SEED} || 1, users => 40);
my $line = $sale->line;

$sale->open;
$sale->settle('at peace');
$sale->verdict('at peace');


# finds(kind, what, deed, undo): the deed, again and again until the problem is
# seen; others may come of it

sub finds {
    my ($kind, $what, $deed, $undo) = @_;

    $sale->expect;

    my $found = $sale->run_until(sub {
        $deed->();
        $sale->turn for 1 .. 10;
        return $sale->problems($kind);
    }, 20);

    ok($found, "$what: it is seen");
    $undo->() if $undo;
    $sale->run_until(sub { 0 }, 0.5);
    $sale->forget_problems;
}


# somebody in line, of those who have a stream: the last, who is there longest

sub last_one {
    my ($user) = sort { $b->{idx} <=> $a->{idx} }
                 grep { $_->{kind} eq 'stream' && defined $_->{idx}
                        && $_->{stream} && !$_->{token}
                        && defined $line->idx($_->{name}) } $sale->users;

    die "nobody\n" if !$user;
    return $user;
}


sub move {
    my ($name, $idx) = @_;

    my $record = $line->call('HGET', $line->key('WAITING_QUEUE_INDEX_RECORD'),
                             $name);

    $record =~ s/"idx":\d+/"idx":$idx/;
    $line->call('ZADD', $line->key('WAITING'), $idx, qq({"userId":"$name"}));
    $line->call('HSET', $line->key('WAITING_QUEUE_INDEX_RECORD'), $name,
                $record);
}


finds('books', 'a slot more than there is', sub {
    $line->call('HINCRBY', $line->key('ENTRY_QUEUE_SLOTS'), 'e1', 1);
});

finds('place', 'a place that is gone', sub {
    my $name = last_one()->{name};
    $line->call('ZREM', $line->key('WAITING'), qq({"userId":"$name"}));
    $line->call('HDEL', $line->key($_), $name)
        for qw(WAITING_QUEUE_INDEX_RECORD WAITING_USER_IDS);
});

finds('place', 'a place that has become another', sub {
    my $user = last_one();
    move($user->{name}, $user->{idx} + 500);
});

# who is in came after who is in line
finds('order', 'somebody is let in out of turn', sub {
    my $lease = $line->key('ENTRY_LEASE');
    my ($name, $record) = @{ $line->call('HGETALL', $lease) };

    return if !defined $name;
    $record =~ s/"idx":\d+/"idx":99999999/;
    $line->call('HSET', $lease, $name, $record);
});

finds('position', 'somebody falls back', sub {
    my @user = grep { defined $_->{rank} && $_->{stream} && !$_->{token} }
               $sale->users;
    $_->{rank} = -1 for @user;
});

finds('slots', 'more are inside than there is room', sub {
    $sale->{capacity} = 0;
}, sub { $sale->{capacity} = 14 });

finds('token', 'a second token', sub {
    $_->{token} = 'f' x 40
        for grep { $_->{kind} eq 'poll' && $_->{state} eq 'in'
                   && !$_->{entered} } $sale->users;

    # who polls is told again what he has
    for my $user (grep { $_->{token} && $_->{stream} } $sale->users) {
        $user->{token} = 'f' x 40;
        $user->{stream}{sse}->close;
        delete $user->{stream};
        $user->{stream} = {
            sse => $line->open($user->{name}), node => 0, at => time };
    }
});

finds('lease', 'a lease that is taken away', sub {
    $line->script('release', $_, 'return', "control$$." . rand, '', '', 'done')
        for @{ $line->inside };
});

finds('out', 'somebody who does not go', sub {
    $sale->{gone}{ last_one()->{name} } = { at => 0, bound => 0, user => {} };
    $sale->{calm_since} = 0;
});

finds('answer', 'a worker that stands still', sub {
    my ($pid) = $sale->node(0)->workers;
    freeze($pid);
    $sale->run_until(sub { $sale->problems('answer') }, 8);
    kill CONT => $pid;
});

# it is as if they had been told to come again
finds('end', 'streams that break', sub {
    my $node = $sale->node(0);
    my ($pid) = $node->workers;

    $_->{stream}{sse}{parser}{latest}{''} = { event => 'reconnect',
                                              retry => 500 }
        for grep { $_->{stream} } $sale->users;
    $node->forgive(qr/worker process $pid exited on signal 9/);
    kill KILL => $pid;
    wait_until { !alive($pid) && $node->ready } 10, 'it is another one';
});

# a seat that was sold, and nobody has counted it
$sale->expect;
$line->call('HSET', $line->key('WAITING_STATS'), 'sold', 0);
$sale->{sold}{nobody} = 'has';
is(scalar(() = $sale->seats_wrong), 1, 'a seat that was not counted: it is seen');
$line->call('HSET', $line->key('WAITING_STATS'), 'sold', 100);
is(scalar(() = $sale->seats_wrong), 1, 'one that was counted twice: too');

# what nobody has cleaned up
$line->call('SET', 'ENTRY_TOKEN:{e1}:nobody', 'x');
$line->call('SET', 'DISPATCH:{nobody}', 'x');
$line->call('ZADD', 'WAITING_INSTANCES', 1, 'dead');
is(scalar(grep { /nobody|dead/ } $sale->traces), 3, 'what is left: it is seen');

# what clients were told by then was of a line that was changed by hand
splice @{ $sale->sse->{violations} };
$sale->abandon;
