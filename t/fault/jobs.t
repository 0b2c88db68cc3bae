# Proves what the jobs of the workers do when something comes between: messages
# that another has left, that make no sense, or that are lost; rounds of
# promotion that are not done; workers and nodes that die; news that are no
# longer there; a slow Redis, and one that has lost everything.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Nodes;


my $quick = 'waiting_queue_interval 100ms; waiting_queue_promote_interval '
            . '100ms;';
my $group = 'waiting_queue';


# what lies there when the first worker starts

my $nodes = WaitingQueue::Nodes->new(
    nodes => 2, workers => 1, http => $quick, start => 0,
    locations => {
        none => 'waiting_queue_capacity 0; waiting_queue_grace 1m;',
        one => 'waiting_queue_capacity 1; waiting_queue_grace 1m;',
    });
my $sse = $nodes->sse;
my $redis = $nodes->redis;


# message(fields): one of ENTRY or a worker's stream, with these instead

sub message {
    my %field = (type => 'promoted', userId => 'u1', eventId => 'e1',
                 instanceId => 'other-1-1', idx => 1, token => 'a' x 40,
                 expiresAt => 1000 * int(time + 60), serial => 0, @_);

    return map { defined $field{$_} ? ($_, $field{$_}) : () }
           qw(type userId eventId instanceId idx token expiresAt serial);
}


sub sound {
    my ($line, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $nodes->run_until(sub { !$nodes->busy && !$line->wrong }, 10,
                      "$what: all is sound")
        or diag(join "\n", $nodes->busy, $line->wrong);
}


# ends a connection of a worker: commands, reader or router

sub cut {
    my ($instance, $link) = @_;

    for my $client ($redis->clients) {
        $nodes->call('CLIENT', 'KILL', 'ID', $client->{id})
            if $client->{name} eq "$instance:$link";
    }
}


# reads what is new in a stream as if the instance had, and dies of it: ids of
# what is pending now, and long has been

sub read_as {
    my ($instance, $stream) = @_;

    my $answer = $nodes->call('XREADGROUP', 'GROUP', $group, $instance,
                              'STREAMS', $stream, '>') || [];
    my @ids = map { $_->[0] } @{$answer->[0][1] || []};

    $nodes->call('XCLAIM', $stream, $group, $instance, 0, $_, 'IDLE', 60000,
                 'JUSTID') for @ids;

    return @ids;
}


{
    my $what = 'left by a former life';

    for my $stream ('ENTRY', 'DISPATCH:{other-1-1}') {
        $nodes->call('XGROUP', 'CREATE', $stream, $group, 0, 'MKSTREAM');
    }

    $nodes->call('XADD', 'ENTRY', '*', message(userId => "u$_")) for 1 .. 3;
    is(scalar(read_as('dead-1-1', 'ENTRY')), 3, "$what: some was read");
    $nodes->call('XADD', 'ENTRY', '*', message(userId => "u$_")) for 4 .. 5;

    $_->launch for $nodes->nodes;
    $_->wait_ready for $nodes->nodes;
    $nodes->run_until(sub { $nodes->call('XLEN', 'ENTRY') == 0 }, 15,
                      "$what: all is dealt with");

    my $routed = $nodes->call('XRANGE', 'DISPATCH:{other-1-1}', '-', '+');
    my @users = sort map { my %field = @{$_->[1]}; $field{userId} } @$routed;

    is("@users", 'u1 u2 u3 u4 u5', "$what: and handed to whom it is for");
    is_deeply($routed->[0][1], [message(userId => $routed->[0][1][3],
                                        expiresAt => $routed->[0][1][13])],
              "$what: as it was, field by field");
    is($nodes->sum('claimed'), 3, "$what: what was read was claimed");
    cmp_ok($nodes->sum('routed'), '>=', 5, "$what: and all were counted");
    $nodes->call('DEL', 'DISPATCH:{other-1-1}');
    is_deeply([$nodes->busy], [], "$what: nothing is pending");
}

my @pids = map { ($_->pids)[0] } $nodes->nodes;
my @instances = map { $nodes->node($_)->instance($pids[$_]) } 0, 1;


{
    my $what = 'read and not dealt with';
    my $line = $nodes->line('one', 'unread');
    my @s = map { $line->join("u$_", $nodes->at(0)) } 1, 2;

    # the worker's connection breaks with the message in it
    freeze($pids[0]);
    cut($instances[0], $_) for qw(reader router);
    $line->release('u1');
    wait_until { $nodes->call('XLEN', "DISPATCH:{$instances[0]}") } 15,
               "$what: there is a message for a worker";
    is(scalar(read_as($instances[0], "DISPATCH:{$instances[0]}")), 1,
       "$what: it has read it");
    kill CONT => $pids[0];
    $nodes->run_until(sub { $s[1]->token }, 15,
                      "$what: when it is connected again it deals with it");
    sound($line, $what);
}


{
    my $what = 'read by one who was killed';
    my $line = $nodes->line('one', 'claimed');
    my @s = map { $line->join("u$_", $nodes->at(1)) } 1, 2;
    my $claimed = $nodes->node(1)->sum('claimed');

    freeze(@pids);
    cut($_, 'router') for @instances;
    $line->release('u1');
    is(scalar(read_as($instances[0], 'ENTRY')), 1, "$what: a message");
    $nodes->node(0)->kill_worker($pids[0]);
    kill CONT => $pids[1];

    $nodes->run_until(sub { $s[1]->token }, 20, "$what: another hands it on");
    is($nodes->sum('claimed') - $claimed, 1, "$what: which has claimed it");

    $pids[0] = ($nodes->node(0)->pids)[0];
    $instances[0] = $nodes->node(0)->instance($pids[0]);
    sound($line, $what);
}


{
    my $what = 'read, and no way to hand it on';
    my $line = $nodes->line('one', 'stuck');
    my @s = map { $line->join("u$_", $nodes->at(0)) } 1, 2;
    my %commands = map { $_->{id} => 1 } grep { $_->{name} =~ /:commands$/ }
                   $redis->clients;

    # the message comes with the end of the connection that is to take it on
    $nodes->call('MULTI');
    $nodes->call('CLIENT', 'KILL', 'ID', $_) for keys %commands;
    $line->script('release', 'u1', 'return', 'seed', '', '', 'done');
    is($nodes->call('EXEC')->[-1][1], 1, "$what: one is let in");

    $nodes->run_until(sub { $s[1]->token }, 15, "$what: it is told");
    sound($line, $what);
}


{
    my $what = 'a lost message';
    my $line = $nodes->line('none', 'vanished');
    my @s = map { $line->join("u$_", $nodes->at($_ % 2)) } 1 .. 6;

    freeze(@pids);
    cut($_, 'router') for @instances;
    $line->set(capacity => 2);
    $line->script('promote_all_waiting_for_event', 'seed', 1000);
    is(join(' ', @{$line->inside}), 'u1 u2', "$what: two are let in");
    is($nodes->call('XTRIM', 'ENTRY', 'MAXLEN', 0), 2,
       "$what: of which nobody hears");
    kill CONT => @pids;
    $nodes->run_until(sub { $s[0]->token && $s[1]->token }, 20,
                      "$what: they are told all the same");
    $nodes->run_until(sub { $nodes->exact($line, @s[2 .. 5]) }, 10,
                      "$what: the others know their place");
    is_deeply([map { $_->token } @s[0, 1]], [map { $line->token("u$_") } 1, 2],
              "$what: with their tokens");
    sound($line, $what);
}


{
    my $what = 'garbage';
    my $line = $nodes->line('one', 'garbage');
    my @s = map { $line->join("u$_", $nodes->at(0)) } 1, 2;
    my $mine = $instances[0];

    my @garbage = (
        ['x', 'y'],
        ['', ''],
        ["\0\1", "\377\n\r\"\\"],
        ['field', 'x' x 100000],
        [map { ("f$_", $_) } 1 .. 500],
        [message(type => 'Promoted')],
        [message(type => undef)],
        [message(type => 'promoted ')],
        [message(userId => '')],
        [message(userId => undef)],
        [message(userId => 'a b')],
        [message(userId => 'u' x 129)],
        [message(eventId => '{e1}')],
        [message(eventId => undef)],
        [message(instanceId => '')],
        [message(instanceId => "$mine}")],
        [message(idx => -1)],
        [message(idx => '1.5')],
        [message(idx => '99999999999999999999')],
        [message(idx => undef)],
        [message(token => 'a' x 39)],
        [message(token => '')],
        [message(token => undef)],
        [message(token => '"' x 40)],
        [message(expiresAt => 'never')],
        [message(expiresAt => undef)],
        [message(serial => '0x10')],
        [message(serial => undef)],
    );

    for my $stream (['ENTRY', 'routerGarbage'],
                    ["DISPATCH:{$mine}", 'dispatchGarbage'])
    {
        my ($name, $counter) = @$stream;
        my $before = $nodes->sum($counter);
        my @marks = map { $_->mark } $nodes->nodes;

        $nodes->call('XADD', $name, '*', @$_) for @garbage;
        $nodes->run_until(sub { !$nodes->busy }, 10,
                          "$what in $counter: all is removed")
            or diag(join "\n", $nodes->busy);
        is($nodes->sum($counter) - $before, scalar @garbage,
           "$what in $counter: and counted, once each");

        my @lines = map { $nodes->node($_)->log_lines(
                              $marks[$_], qr/\[warn\].*makes no sense/) } 0, 1;

        ok(@lines >= 1 && @lines <= 2, "$what in $counter: and logged, but "
                                       . 'not each')
            or diag(@lines);
        $sse->run_for(0.3);
        is($nodes->sum($counter) - $before, scalar @garbage,
           "$what in $counter: it does not come back");
    }

    # what is well-formed, but of nobody who is here
    my $unroutable = $nodes->sum('unroutable');

    $nodes->call('XADD', 'ENTRY', '*', message(instanceId => 'nobody-1-1',
                                               type => $_))
        for qw(promoted expired replaced);
    $nodes->run_until(sub { !$nodes->busy }, 10,
                      "$what: messages for nobody are removed");
    is($nodes->sum('unroutable') - $unroutable, 3, "$what: and counted");
    is($nodes->call('EXISTS', 'DISPATCH:{nobody-1-1}'), 0,
       "$what: no stream is made for them");

    for my $type (qw(promoted expired replaced)) {
        # of an event that nobody has, of a user that the event has not, and of
        # a place that the user does not have
        $nodes->call('XADD', 'ENTRY', '*',
                     message(type => $type, instanceId => $mine, @$_))
            for [eventId => 'none'], [eventId => 'garbage', userId => 'none'],
                [eventId => 'garbage', userId => 'u2', idx => 77];
    }

    $nodes->run_until(sub { !$nodes->busy }, 10,
                      "$what: messages of nobody are removed");
    is($s[0]->names . ' ' . $s[1]->names, 'promoted position',
       "$what: nobody was told anything wrong");
    $line->release('u1');
    $nodes->run_until(sub { $s[1]->token }, 10,
                      "$what: and what makes sense is told");
    is($s[1]->token, $line->token('u2'), "$what: as it is");

    # not even a stream
    my $third = $line->join('u3');
    my $sent = $nodes->sum('promoteRounds');

    $nodes->call('DEL', 'ENTRY');
    $nodes->call('SET', 'ENTRY', 'garbage');

    my $asked = 0;
    $asked += $_->sum('sent', 'router') for $nodes->nodes;
    $sse->run_for(2.5);
    $asked = -$asked;
    $asked += $_->sum('sent', 'router') for $nodes->nodes;
    cmp_ok($asked, '<=', 12, "$what: a key of another type is not asked for "
                             . "without a pause ($asked times in 2.5 s)");
    is(eval { $line->release('u2'); 1 }, undef,
       "$what: who should be told by it is not let in");
    is($third->names, 'position', "$what: but waits");
    $nodes->call('DEL', 'ENTRY');
    $line->release('u2');
    $nodes->run_until(sub { $third->token }, 15,
                      "$what: when it is gone all is well again");
    $_->unharmed('after garbage') for $nodes->node(1);
    sound($line, $what);
}


{
    my $what = 'rounds of promotion';
    my @lines = map { $nodes->line('none', "round.$_") } 1 .. 5;
    my @s = map { $_->join('u1', $nodes->at(1)) } @lines;

    # the other events of this test are in the list too
    my $events = $nodes->call('SCARD', 'WAITING_EVENTS');
    my (%lengths, $rounds);

    # nobody can take a task
    $nodes->call('ACL', 'SETUSER', 'default', '-rpop');
    $_->set(capacity => 1) for @lines;
    $nodes->run_until(sub { $nodes->call('LLEN', 'PROMOTION_TASK_LIST') }, 10,
                      "$what: there are tasks");
    $rounds = $nodes->sum('promoteRounds');
    $nodes->run_until(sub {
        $lengths{ $nodes->call('LLEN', 'PROMOTION_TASK_LIST') } = 1;
        $nodes->sum('promoteRounds') >= $rounds + 8;
    }, 20, "$what: more rounds come, and the last is not done");
    is(join(' ', keys %lengths), $events,
       "$what: the list is that of one, however many come");
    is(scalar(grep { $_->token } @s), 0, "$what: nobody was let in");
    $nodes->call('ACL', 'SETUSER', 'default', '+rpop');
    $nodes->run_until(sub { 5 == grep { $_->token } @s }, 10,
                      "$what: then all of it is done");
    $nodes->run_until(sub { !$nodes->busy }, 10, "$what: and nothing is left");

    # taken by somebody who died with it
    $what = 'a task that was lost';
    @s = map { $_->join('u2', $nodes->at(1)) } @lines;
    freeze(@pids);
    $_->set(capacity => 2) for @lines;

    my @keys = qw(PROMOTION_TASK_LIST WAITING_EVENTS PROMOTION_LEASE
                  WAITING_INSTANCES PROMOTION_ROUND);
    my $fill = slurp("$ENV{WQ_BUILD}/dist/wq/lua/fill_promotion_tasks.lua");

    $nodes->call('DEL', @keys[0, 2]);
    is($lines[0]->redis->eval($fill, \@keys, 'dead-1-1', 90, 10000)->[0], 1,
       "$what: one leads a round");
    is(scalar(@{$nodes->call('RPOP', 'PROMOTION_TASK_LIST', 100)}), $events,
       "$what: and takes all tasks, and dies");
    kill CONT => @pids;
    $nodes->run_until(sub { 5 == grep { $_->token } @s }, 15,
                      "$what: they come back with the next round");

    # a script that fails is not the end of its event, nor of the others
    $what = 'a task that failed';
    @s = map { $_->join('u3', $nodes->at(1)) } @lines;

    my $stats = $lines[2]->key('WAITING_STATS');

    $nodes->call('RENAME', $stats, 'aside');
    $nodes->call('SET', $stats, 'garbage');
    $_->set(capacity => 3) for @lines;
    $nodes->run_until(sub { 4 == grep { $_->token } @s }, 10,
                      "$what: the other events go on");
    is($s[2]->token, undef, "$what: that one does not");
    $nodes->call('RENAME', 'aside', $stats);
    $nodes->run_until(sub { $s[2]->token }, 15,
                      "$what: and does when it can");
    sound($_, $what) for @lines;
}


# news that are no longer there

{
    my $what = 'many leave at once';
    my $line = $nodes->line('none', 'gone');
    my $text;
    my (@s, @extras);

    for my $n (1 .. 2505) {
        my $user = "u$n";

        if ($n % 501 == 1) {
            push @s, $line->join($user, $nodes->at($n % 2));
            $text ||= $nodes->call('HGET', $line->key('WAITING_QUEUE_CONF'),
                                   'text');
            next;
        }

        # of nobody who will ever be missed
        $line->script('join', $user, 'extra-1-1', 'stream', 'f' x 64, $text,
                      '', 0);
        push @extras, $user;
    }

    $nodes->run_until(sub { $nodes->exact($line, @s) }, 10,
                      "$what: thousands wait");

    my $resyncs = $nodes->sum('resyncs');
    my @leaving = grep { $_ % 10 } 1 .. @extras;

    $line->script('leave', $extras[-1], '', '');
    pop @extras;
    $nodes->call('MULTI');
    $line->script('leave', $extras[$_], '', '') for @leaving[0 .. 2199];
    is(scalar(@{$nodes->call('EXEC')}), 2200, "$what: 2,200 leave");
    $nodes->run_until(sub { $nodes->exact($line, @s) }, 15,
                      "$what: all ranks are exact");
    is($nodes->sum('resyncs'), $resyncs, "$what: without asking for them");

    $what = 'news trimmed';
    @extras = grep { /^u/ } @{$line->waiting};
    @extras = grep { my $user = $_; !grep { $_->{user} eq $user } @s } @extras;
    $nodes->call('MULTI');
    $line->script('leave', $_, '', '') for @extras[0 .. 99];
    $nodes->call('XTRIM', $line->key('WAITING_GONE'), 'MAXLEN', 10);
    $nodes->call('EXEC');
    $nodes->run_until(sub { $nodes->exact($line, @s) }, 15,
                      "$what: all ranks are exact");
    is($nodes->sum('resyncs') - $resyncs, 2,
       "$what: each worker has asked for them, once");

    $nodes->call('MULTI');
    $line->script('leave', $_, '', '') for @extras[100 .. 109];
    $nodes->call('DEL', $line->key('WAITING_GONE'));
    $nodes->call('EXEC');
    $nodes->run_until(sub { $nodes->exact($line, @s) }, 15,
                      "$what: the same when all of them are gone");
    $line->script('leave', $extras[110], '', '');
    $nodes->run_until(sub { $nodes->exact($line, @s) }, 15,
                      "$what: and it goes on from there");
    $nodes->call('XADD', $line->key('WAITING_GONE'), '999999-0', 'x', 'y');
    $line->script('leave', $extras[111], '', '');
    $nodes->run_until(sub { $nodes->exact($line, @s) }, 15,
                      "$what: and with numbers that nobody has given");
    $line->script('leave', $_, '', '') for @extras[112 .. $#extras];
    $_->close for @s;
}


# a Redis that takes its time

{
    my $what = 'slow Redis';
    my $line = $nodes->line('none', 'slow');
    my @s = map { $line->join("u$_", $nodes->at($_ % 2)) } 1 .. 10;
    my $late = $nodes->sum('lateTicks');
    my $session = $redis->session;
    my $most = 0;

    print $session "DEBUG SLEEP 2\r\n";
    $session->flush;

    $nodes->run_until(sub {
        for my $link (map { $_->links('commands') } $nodes->nodes) {
            $most = $link->{inFlight} if $most < $link->{inFlight};
        }
        $nodes->sum('lateTicks') >= $late + 20;
    }, 10, "$what: ticks that come too early are skipped, and counted");
    like(readline($session), qr/^\+OK/, "$what: it wakes up");
    # one tick of each event, and what the other jobs have
    cmp_ok($most, '<=', 12 + $nodes->call('SCARD', 'WAITING_EVENTS'),
           "$what: nothing has piled up");
    is(scalar(grep { $_->is_open } @s), 10, "$what: all streams are there");
    $line->script('leave', 'u3', '', '');
    $line->set(capacity => 2);
    $nodes->run_until(sub { $s[0]->token && $s[1]->token
                            && $nodes->exact($line, @s[3 .. 9]) }, 10,
                      "$what: then all ranks are exact");
    $_->close for @s;
}


# a Redis that has lost everything

{
    my $what = 'all data lost';
    my $line = $nodes->line('none', 'lost');
    my $second = $nodes->line('none', 'lost.too');
    my @s = map { $line->join("u$_", $nodes->at($_ % 2)) } 1 .. 40;
    my @t = map { $second->join("u$_", $nodes->at(0)) } 1 .. 3;

    # so that idx and rank are not the same
    $line->script('quit', "u$_", 'e' x 64) for 3, 17, 18;
    $nodes->run_until(sub { 37 == grep { $_->is_open } @s }, 10,
                      "$what: not yet");
    @s = grep { $_->is_open } @s;
    $nodes->run_until(sub { $nodes->exact($line, @s) }, 10, "$what: not yet");

    my @order = @{$line->waiting};
    my %idx = map { $_ => $line->idx($_) } @order;

    $nodes->call('FLUSHALL');

    # who comes before the others are back must not be in front of them
    my $newcomer = $line->join('new1', $nodes->at(0));

    $nodes->run_until(sub { "@{$line->waiting}" eq "@order new1" }, 20,
                      "$what: all are back, in their order")
        or diag("@{$line->waiting}");
    is_deeply({ map { $_ => $line->idx($_) } @order }, \%idx,
              "$what: each with the old idx");
    $nodes->run_until(sub { $nodes->exact($line, @s, $newcomer) }, 10,
                      "$what: all ranks are exact");
    is(scalar(grep { $_->is_open } @s, @t), 40, "$what: no stream has ended");
    $nodes->run_until(sub { "@{$second->waiting}" eq 'u1 u2 u3'
                            && $nodes->exact($second, @t) }, 10,
                      "$what: the same in another event");

    my $last = $line->join('new2', $nodes->at(1));

    is($last->rank, 38, "$what: who comes now stands behind all");
    $line->set(capacity => 3);
    $nodes->run_until(sub { 3 == grep { $_->token } @s }, 15,
                      "$what: people are let in again");
    is(join(' ', map { $_->{user} } grep { $_->token } @s), 'u1 u2 u4',
       "$what: the first of them");
    $nodes->run_until(sub { $nodes->exact($line, @s[3 .. $#s], $newcomer,
                                          $last) }, 10,
                      "$what: all ranks are exact");
    sound($line, $what);
    $_->close for @s, @t, $newcomer, $last;
}


# those who die

{
    my $what = 'dead';
    my $many = WaitingQueue::Nodes->new(
        nodes => 4, workers => 2, http => $quick, redis => start_redis(),
        locations => {
            reap => 'waiting_queue_capacity 0; waiting_queue_grace 1s;',
            leases => 'waiting_queue_capacity 2; waiting_queue_grace 1s; '
                      . 'waiting_queue_release disconnect;',
            kept => 'waiting_queue_capacity 1; waiting_queue_grace 1s;',
            long => 'waiting_queue_capacity 0; waiting_queue_grace 1m;',
        });
    my ($killed) = $many->node(0)->pids;
    my @dead = map { $_->{instance} } $many->node(1)->rows;
    my $dead_worker = $many->node(0)->instance($killed);
    my @quitting = map { $_->{instance} } $many->node(3)->rows;

    # where each user is: at the worker that is killed, at the node that is
    # killed, at the one that quits, and at one that lives
    my %at = (
        worker => sub { $many->at(0, $killed) }, node => sub { $many->at(1) },
        quit => sub { $many->at(3) }, live => sub { $many->at(2) },
    );
    my $line = $many->line('reap', 'reap');
    my %s = map { my ($user) = $_;
                  my ($where) = /^(\w+)\./;
                  $user => $line->join($user, $at{$where}->()) }
            qw(worker.1 live.1 node.1 quit.1 worker.back node.back quit.back
               live.2 node.2 live.3);
    my $long = $many->line('long', 'long');
    my @long = map { $long->join("$_.1", $at{$_}->()) } qw(worker live);
    my $leases = $many->line('leases', 'leases');
    my @leases = ($leases->join('node.1', $many->at(1)),
                  map { $leases->join("live.$_", $many->at(2)) } 1, 2);
    my $kept = $many->line('kept', 'kept');
    my @kept = ($kept->join('node.1', $many->at(1)),
                $kept->join('live.1', $many->at(2)));

    is(join(' ', map { defined $_->rank ? 'waits' : 'in' } @leases, @kept),
       'in in waits in waits', "$what: all have come");

    # of long ago, and many: they must not be in the way of those to come
    my @former = map { "former-$_-1" } 1 .. 25;

    $many->call('ZADD', 'WAITING_INSTANCES', 1000 * int(time - 40), $_)
        for @former;

    # a worker without clients signs off by itself
    my %indebted = map { $line->record($_)->{instanceId} => 1 }
                   qw(quit.1 quit.back);
    my $start = time;

    kill KILL => $killed;
    $many->node(0)->forgive(qr/worker process $killed exited on signal 9/);
    $many->node(1)->kill9;
    $many->node(3)->quit;

    for my $user (grep { /^quit/ } keys %s) {
        $many->run_until(sub { $s{$user}->ended }, 10, "$what: $user ends");
        like($s{$user}->names, qr/^position(?: position)* reconnect$/,
             "$what: $user was told to come again");
    }

    # all within the grace time, and longer before they are taken for dead
    my %back = map { $_ => $line->join($_, $many->at(2)) }
               qw(worker.back node.back quit.back);

    is_deeply({ map { $_ => $line->idx($_) } keys %back },
              { 'worker.back' => 5, 'node.back' => 6, 'quit.back' => 7 },
              "$what: who comes again has the old idx");

    my $here = 'live.1 worker.back node.back quit.back live.2 live.3';

    $many->run_until(sub { "@{$line->waiting}" eq $here }, 30,
                     "$what: those who do not come again leave the line");

    my $took = time - $start;

    cmp_ok($took, '<=', patience(16),
           sprintf '%s: within 15 s and the grace time (%.1f s)', $what, $took);
    cmp_ok($took, '>=', 1, "$what: not before the grace time");
    $many->run_until(sub { $many->exact($line, @s{qw(live.1 live.2 live.3)},
                                        values %back) }, 10,
                     "$what: all ranks are exact");
    $many->run_until(sub { $leases[2]->token }, 15,
                     "$what: where a lease ends with the stream, so does "
                     . 'that of the dead');
    is($leases->token('node.1'), undef, "$what: its token is gone");
    is($kept->lease('node.1')->{state}, 'ready',
       "$what: where it ends by its time, it does not");
    is($kept[1]->names, 'position', "$what: and nobody is let in for it");

    # the grace time is that of the event; and what was given up is not looked
    # for again in each round, however long another event is waited for
    my $scans = sub {
        $many->redis->cli('INFO', 'commandstats') =~ /cmdstat_hscan:calls=(\d+)/
        ? $1 : 0;
    };

    $many->run_until(sub {
        my $scanned = $scans->();
        $many->rounds(12, 'promoteRounds');
        $scans->() == $scanned;
    }, 20, "$what: nobody is looked for again and again");
    is("@{$long->waiting}", 'worker.1 live.1',
       "$what: a longer grace time of another event holds");
    ok(defined $many->call('ZSCORE', 'WAITING_INSTANCES', $dead_worker),
       "$what: for its sake the dead are kept in mind");

    my $again = $long->join('worker.1', $many->at(2));

    is($again->rank, 0, "$what: and who comes again has his place");
    is($long->idx('worker.1'), 1, "$what: the old one");
    $_->close for $again, $long[1];
    $long->script('leave', $_, '', '') for 'worker.1', 'live.1';

    # what the dead have left
    $many->run_until(sub {
        my %left = map { $_ => 1 }
                   @{$many->call('ZRANGE', 'WAITING_INSTANCES', 0, -1)},
                   map({ /\{(.*)\}/ } @{$many->call('KEYS', 'DISPATCH:*')}),
                   map({ my %consumer = @$_; $consumer{name} }
                       @{$many->call('XINFO', 'CONSUMERS', 'ENTRY', $group)});

        !grep { $left{$_} } @dead, $dead_worker, @quitting, @former;
    }, 15, "$what: at last their heartbeats, streams and consumers are gone");
    is($many->node(2)->sum('buried') + $many->node(0)->sum('buried'),
       @dead + keys(%indebted) + @former + 1, "$what: each was buried once");
    is_deeply([map { $_->wrong } $line, $leases, $kept], [],
              "$what: all is sound");
    is_deeply([$many->sse->violations], [],
              "$what: all that was sent is well-formed");
}

$nodes->finish;
