# Proves that what a backend says of a visit while Redis is away is not lost
# with the worker that has heard it, nor for want of room in the zone: whatever
# was answered is told to Redis when it is back, each word once, by whichever
# worker is there then.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Backend;
use WaitingQueue::Nodes;


my $backend = WaitingQueue::Backend->new;

my $nodes = WaitingQueue::Nodes->new(
    workers => 2, timeout => '1s',
    redis => start_redis(options => [qw(appendonly yes appendfsync always)]),
    http => 'waiting_queue_zone 512k; waiting_queue_promote_interval 50ms;',
    locations => { shop => 'waiting_queue_capacity 100000;' },
    server => <<"END");
        location ~ ^/visit/(?<wq_event>[^/]+)/ {
            waiting_queue on;
            waiting_queue_event \$wq_event;
            waiting_queue_user \$arg_user;
            waiting_queue_capacity 100000;
            proxy_pass http://127.0.0.1:${\ $backend->port};
        }
END

my $node = $nodes->node(0);


# visit(event, user, word): the status of the answer

sub visit {
    my ($event, $user, $word) = @_;

    my $answer = $node->get("/visit/$event/?user=$user"
                            . ($word ? "&say=$word" : ''));
    return $answer ? $answer->{status} : 0;
}


# all of them; for a while after Redis was away nobody is let in

sub all_are_in {
    my ($event, @users) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_until { visit($event, $users[0]) == 200 } 15, 'the first is in';
    is(scalar(grep { visit($event, $_) == 200 } @users), scalar(@users),
       'all are in');
}


sub endings { return ($node->status || {})->{endings} // -1 }


sub redis_dies {
    $nodes->redis->kill9;
    wait_until { !grep { $_->{state} eq 'ready' } $node->links } 10,
               'Redis is gone';
}


# told(event, done, sold): Redis knows of so many, and of no more a while later

sub told {
    my ($event, $done, $sold) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $line = $nodes->line('shop', $event);

    wait_until { endings() == 0 } 20, 'all is told';
    is($line->stat('done'), $done, "done: $done");
    is($line->stat('sold'), $sold, "sold: $sold");
    is_deeply([ $line->wrong ], [], 'and all is well in Redis');

    return $line;
}


# the workers that have heard it are killed, all of them

{
    my @users = map { "u$_" } 1 .. 60;
    my $line = $nodes->line('shop', 'killed');

    $line->call('SET', $line->key('seat:count'), 100);
    all_are_in('killed', @users);
    redis_dies();

    my $n = 0;
    is(scalar(grep { visit('killed', $_, $n++ % 3 ? 'done' : 'sold') == 200 }
                   @users), 60, 'all are answered, by what the node knows');
    is(endings(), 60, 'and the node remembers what the backend has said');

    my @workers = $node->workers;
    my $killed = join '|', @workers;
    $node->forgive(qr/worker process (?:$killed) exited on signal 9/);
    kill KILL => @workers;
    wait_until { !grep({ alive($_) } @workers) && $node->workers == 2
                 && $node->ok } 10, 'other workers';
    is(endings(), 60, 'who know it, too');

    $nodes->restart_redis('Redis is back');
    told('killed', 40, 20);
    is($line->call('GET', $line->key('seat:count')), 80, '20 seats are sold');
    is_deeply($line->inside, [], 'nobody is inside');
}


# they are killed while they tell it, and Redis gets to hear of it twice: what
# was on its way, and what the others say

{
    my @users = map { "u$_" } 1 .. 10;
    my @workers = $node->workers;
    my $killed = join '|', @workers;

    all_are_in('telling', @users);
    $nodes->redis->signal('STOP');
    my $n = 0;
    is(scalar(grep { visit('telling', $_, $n++ % 2 ? 'done' : 'sold') == 200 }
                   @users), 10, 'all are answered');
    # but for a machine that took longer for them than a command may
    note(endings() . ' could not be told in time');

    $node->forgive(qr/worker process (?:$killed) exited on signal 9/);
    kill KILL => @workers;
    wait_until { !grep({ alive($_) } @workers) && $node->workers == 2
                 && $node->ok } 10, 'other workers';
    is(endings(), 10, 'what they were telling is left to the others');
    $nodes->redis->signal('CONT');
    wait_until { $node->ready } 10, 'Redis goes on';
    told('telling', 5, 5);
}


# a reload while Redis is away: the old workers go, the new ones say it

{
    my @users = map { "u$_" } 1 .. 20;

    all_are_in('reloaded', @users);
    redis_dies();
    is(scalar(grep { visit('reloaded', $_, 'sold') == 200 } @users), 20,
       'all are answered');

    my @old = $node->workers;
    $node->signal('HUP');
    wait_until { my %old = map { $_ => 1 } @old;
                 2 == grep { !$old{$_} } $node->workers } 10, 'new workers';
    kill TERM => @old;
    wait_until { !grep { alive($_) } @old } 10, 'the old ones are gone';
    is(endings(), 20, 'and what they knew is not');

    $nodes->restart_redis('Redis is back');
    told('reloaded', 0, 20);
}


# as many as the zone has room for, and more

{
    my $room = $node->status->{tokens}{room};
    my @users = map { "u$_" } 1 .. $room + 50;

    cmp_ok($room, '<', 2000, "the zone has room for $room tokens");
    all_are_in('full', @users);
    redis_dies();

    my ($heard, $unknown) = (0, 0);
    for my $user (reverse @users) {
        my $status = visit('full', $user, 'done');
        $heard++ if $status == 200;
        $unknown++ if $status == 503;
    }

    is($heard + $unknown, scalar(@users), 'each is let in, or refused');
    cmp_ok($heard, '>', $room / 3, "$heard are let in");
    is(endings(), $heard, 'and what was said of each is kept');

    $nodes->restart_redis('Redis is back');
    my $line = told('full', $heard, 0);
    is(scalar(@{ $line->inside }), @users - $heard, 'the others are inside');
    is($node->log_lines(0, qr/was not told that the visit/), 0,
       'none was lost');
}


# the zone is not in the way of what comes after

all_are_in('after', 'x');
is(visit('after', 'x', 'done'), 200, 'and goes');
told('after', 1, 0);

$backend->stop;
$nodes->finish;
