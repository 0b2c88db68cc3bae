# Proves that a user is one user, however often and wherever he connects: the
# newest stream is the one that counts, the one before is told so and ends, and
# the place is the same; also for one who was away for a moment, or who went
# before he was answered.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Nodes;


my $nodes = WaitingQueue::Nodes->new(
    nodes => 2, workers => 4,
    http => 'waiting_queue_interval 100ms; waiting_queue_promote_interval '
            . '100ms;',
    locations => {
        none => 'waiting_queue_capacity 0; waiting_queue_grace 1m;',
        one => 'waiting_queue_capacity 1; waiting_queue_grace 1m;',
        short => 'waiting_queue_capacity 0; waiting_queue_grace 1s;',
        brief => 'waiting_queue_capacity 1; waiting_queue_grace 1s;',
        zero => 'waiting_queue_capacity 1; waiting_queue_grace 0;',
    });
my $sse = $nodes->sse;
my $redis = $nodes->redis;

my @here = $nodes->node(0)->pids;
my @there = $nodes->node(1)->pids;

# the second time goes there, where the first went to the first worker
my @places = (['same worker', 0, $here[0]], ['other worker', 0, $here[1]],
              ['other node', 1, $there[2]]);


sub first_place { return $nodes->at(0, $here[0]) }


sub sound {
    my ($line, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $nodes->run_until(sub { !$nodes->busy && !$line->wrong }, 10,
                      "$what: all is sound")
        or diag(join "\n", $nodes->busy, $line->wrong);
}


# replaced(stream, what): it is told so, and ends

sub replaced {
    my ($s, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $nodes->run_until(sub { $s->ended }, 15, "$what: the old stream ends");
    like($s->names, qr/(?:position|promoted) replaced$/,
         "$what: and is told why");
    is($s->ended, 'clean', "$what: to the last chunk");
}


for my $place (@places) {
    my ($name, $node, $pid) = @$place;
    my $event = $name =~ s/ /./r;
    my $instance = $nodes->node($node)->instance($pid);


    # in line

    my $what = "$name, in line";
    my $line = $nodes->line('none', "line.$event");
    my @s = map { $line->join("u$_", first_place()) } 1 .. 3;
    my $again = $line->join('u2', $nodes->at($node, $pid));

    is($again->rank, 1, "$what: the same rank");
    is($line->idx('u2'), 2, "$what: the same idx");
    is($line->record('u2')->{instanceId}, $instance,
       "$what: held by the worker that it came to");
    replaced($s[1], $what);
    is(join(' ', @{$line->waiting}), 'u1 u2 u3', "$what: one place");
    is($line->stat('joined'), 3, "$what: counted once");

    # back to where it was first
    my $third = $line->join('u2', first_place());

    replaced($again, "$what, and back");
    $nodes->rounds(16, 'broadcasts');
    ok($third->is_open, "$what, and back: the newest stays");
    is_deeply([map { $_->count('position') } $s[0], $s[2], $third], [1, 1, 1],
              "$what: nobody else has noticed anything");
    sound($line, $what);


    # away for a moment

    for my $way (qw(close reset)) {
        $what = "$name, $way and back";
        $third->$way;
        $nodes->run_until(sub { $nodes->sum('absent') }, 10, "$what: away");
        $third = $line->join('u2', $nodes->at($node, $pid));
        is($third->rank, 1, "$what: the same rank");
        is($line->idx('u2'), 2, "$what: the same idx");

        # the worker that held it before keeps it in mind no longer
        $nodes->run_until(sub { !$nodes->sum('absent') }, 15,
                          "$what: and nobody waits for it");
    }

    $third->close;
    $nodes->run_until(sub { $nodes->sum('absent') }, 10, "$what: away again");
    $line->set(capacity => 1);
    $nodes->run_until(sub { $s[0]->token }, 10,
                      "$what: meanwhile one in front is let in");
    $third = $line->join('u2', $nodes->at($node, $pid));
    is($third->rank, 0, "$what: back, and nearer than before");
    $nodes->run_until(sub { $s[2]->rank == 1 }, 10,
                      "$what: as are those behind");


    # let in meanwhile

    $what = "$name, let in meanwhile";
    $third->close;
    $nodes->run_until(sub { $nodes->sum('absent') }, 10, "$what: away");
    $line->release('u1');

    my $token = $line->token('u2');

    like($token, qr/^[0-9a-f]{40}$/, "$what: let in");
    $third = $line->join('u2', $nodes->at($node, $pid));
    is($third->names, 'promoted', "$what: told at once");
    is($third->token, $token, "$what: with the token");
    is($line->lease('u2')->{instanceId}, $instance,
       "$what: held by the worker that it came to");


    # in

    $what = "$name, in";

    my $fourth = $line->join('u2', first_place());

    is($fourth->names, 'promoted', "$what: told at once");
    is($fourth->token, $token, "$what: the same token");
    replaced($third, $what);
    is($line->slots, 0, "$what: one slot");

    $third = $line->join('u2', $nodes->at($node, $pid));
    is($third->token, $token, "$what, and back: the same token");
    replaced($fourth, "$what, and back");
    ok($third->is_open, "$what, and back: the newest stays");
    sound($line, $what);


    # the stream that is replaced may end by itself at that moment: that is no
    # end of the place

    $what = "$name, old one closed";
    $line = $nodes->line('short', "closed.$event");

    my $old = $line->join('u1', first_place());

    $again = $line->open('u1', $nodes->at($node, $pid));
    # from here on its grace time runs
    $nodes->run_until(sub { $again->events }, 10, "$what: a new one is there");
    $old->close;
    $sse->run_for(1.5);
    is(join(' ', @{$line->waiting}), 'u1', "$what: the place is there");
    is($line->idx('u1'), 1, "$what: the same");
    ok($again->is_open, "$what: and so is the new stream");


    # after the grace time there is nothing to come back to

    $what = "$name, after the grace time";

    my $behind = $line->join('u2', first_place());
    my $closed = time;

    $again->close;
    $nodes->run_until(sub { $behind->rank == 0 }, 15,
                      "$what: the place is given up");
    ok($behind->last->{at} - $closed >= 0.95, "$what: not before");
    $again = $line->join('u1', $nodes->at($node, $pid));
    is($again->rank, 1, "$what: who comes again stands behind");
    is($line->idx('u1'), 3, "$what: with a new idx");
    $again->close;
    $behind->close;
}


# a worker that does not hear that its client has come elsewhere believes that
# the place is its own; Redis knows better

{
    my $what = 'not told that it is replaced';
    my $line = $nodes->line('short', 'untold');
    my $old = $line->join('u1', first_place());
    my $instance = $line->record('u1')->{instanceId};
    my $stream = "DISPATCH:{$instance}";

    freeze($here[0]);

    for my $client ($redis->clients) {
        $nodes->call('CLIENT', 'KILL', 'ID', $client->{id})
            if $client->{name} =~ /^\Q$instance\E:(?:reader|router)$/;
    }

    my $new = $line->join('u1', $nodes->at(1));

    wait_until { $nodes->call('XLEN', $stream) } 15,
               "$what: there is a message";
    is($nodes->call('XTRIM', $stream, 'MAXLEN', 0), 1, "$what: it is lost");
    $old->close;
    kill CONT => $here[0];
    $nodes->run_until(sub { $nodes->node(0)->sum('absent') }, 10,
                      "$what: the old stream is gone");
    # it asks to leave, and is not listened to
    $nodes->run_until(sub { !$nodes->node(0)->sum('absent') }, 20,
                      "$what: the grace time is over");
    is(join(' ', @{$line->waiting}), 'u1', "$what: the place is there");
    is($line->idx('u1'), 1, "$what: the same");
    ok($new->is_open, "$what: and so is the new stream");
    $new->close;
}


# to and fro, quickly, each time answered

{
    my $what = 'to and fro';
    my $line = $nodes->line('none', 'fro');
    my $before = $line->join('f1');
    my @s = map { $line->join('f2', $nodes->at($_ % 2)) } 1 .. 40;
    my $newest = pop @s;

    $nodes->run_until(sub { !grep { !$_->ended } @s }, 30,
                      "$what: all but the newest end");
    is(scalar(grep { $_->names eq 'position replaced' } @s), 39,
       "$what: because they are replaced");
    ok($newest->is_open, "$what: the newest is there");
    is($line->idx('f2'), 2, "$what: the idx is that of the first");
    is($line->stat('joined'), 2, "$what: counted once");
    sound($line, $what);
    $nodes->rounds(8, 'broadcasts');
    ok($newest->is_open && $before->is_open, "$what: it stays so");

    # without waiting for an answer nobody knows which is the last; but there
    # is one
    $what = 'to and fro, all at once';
    push @s, $newest;
    push @s, map { $line->open('f2', $nodes->at($_ % 2)) } 1 .. 60;
    $nodes->run_until(sub { !grep { !$_->events } @s
                            and 1 == grep { $_->is_open } @s }, 30,
                      "$what: one is left");
    $newest = (grep { $_->is_open } @s)[0];
    is($line->idx('f2'), 2, "$what: the idx is that of the first");

    my %instances = $nodes->instances;
    my $holder = $line->record('f2')->{instanceId};

    ok($instances{$holder}, "$what: a worker holds it");
    $line->set(capacity => 2);
    $nodes->run_until(sub { $newest->token }, 10,
                      "$what: and tells it when it is let in");
    sound($line, $what);

    # some go at once after they have come
    $what = 'to and fro, and away';
    $line = $nodes->line('none', 'away');

    for my $n (1 .. 30) {
        my $s = $line->open('f3', $nodes->at($n % 2));
        $sse->turn(0.005) for 1 .. $n % 4;
        $s->close;
    }

    my $last = $line->join('f3');

    $nodes->run_until(sub { !$nodes->busy }, 20, "$what: all are dealt with");

    # one that was on its way was later: then the user comes again
    $last = $line->join('f3') if !$last->is_open;

    $nodes->run_until(sub { !$nodes->busy && !$nodes->sum('absent') }, 20,
                      "$what: all that is left is the last");
    ok($last->is_open, "$what: which is there");
    is($line->stat('joined'), 1, "$what: counted once");
    is($line->idx('f3'), 1, "$what: one place");
    sound($line, $what);
}


# gone before the answer

for my $grace (['1 s', 'short', 'brief', 1], ['0', undef, 'zero', 0]) {
    my ($name, $waits, $enters, $seconds) = @$grace;
    my $what = "gone before the answer, grace $name";
    my %line = (enters => $nodes->line($enters, "gone.$enters"));

    $line{waits} = $nodes->line($waits, "gone.$waits") if $waits;

    my $sent = $nodes->node(0)->sum('sent', 'commands');

    # none of it is carried out before the client is gone
    $redis->signal('STOP');

    my @s = map { $_->open('g1', first_place()) } values %line;

    $nodes->run_until(
        sub { $nodes->node(0)->sum('sent', 'commands') >= $sent + @s }, 10,
        "$what: Redis is asked");
    $sse->run_for(0.2);
    $_->close for @s;
    $sse->run_for(0.2);
    $redis->signal('CONT');

    my $start = time;
    my $line = $line{enters};

    $nodes->run_until(sub { $line->stat('joined') == 1 }, 10,
                      "$what: it is carried out");
    $nodes->run_until(sub { !@{$line->inside} && $line->slots == 1 }, 15,
                      "$what: the slot that nobody took is free again");

    if ($waits) {
        $line = $line{waits};
        $nodes->run_until(sub { $line->stat('joined') == 1
                                && !@{$line->waiting} }, 15,
                          "$what: the place that nobody holds is given up");
    }

    ok(time - $start >= $seconds - 0.7, "$what: not before the grace time");
    is($nodes->sum('absent'), 0, "$what: nobody is waited for");
}

{
    my $what = 'gone before it was read';
    my $line = $nodes->line('one', 'gone.unread');
    my $holder = $line->join('g1', $nodes->at(1));
    my $token = $holder->token;
    my $instance = $line->lease('g1')->{instanceId};

    # the worker finds the request and its end at the same time: whoever has
    # come back elsewhere meanwhile must not be replaced by it
    my %at = first_place();

    freeze($here[0]);

    my $gone = $line->open('g1', %at);

    $sse->run_for(0.1);
    $gone->close;
    kill CONT => $here[0];
    is($line->join('g2', first_place())->rank, 0,
       "$what: the worker has gone on");
    $nodes->run_until(sub { !$nodes->busy }, 10, "$what: nothing is under way");
    ok($holder->is_open, "$what: the other stream is there");
    is($line->lease('g1')->{instanceId}, $instance, "$what: and is the one "
                                                    . 'that counts');
    is($line->token('g1'), $token, "$what: with its token");
}

{
    my $what = 'gone before the answer, and back';
    my $line = $nodes->line('short', 'gone.back');

    $redis->signal('STOP');

    my $gone = $line->open('g1', first_place());

    $sse->run_for(0.2);
    $gone->close;

    my $back = $line->open('g1', first_place());

    $sse->run_for(0.2);
    $redis->signal('CONT');
    $nodes->run_until(sub { $back->events }, 10, "$what: it is answered");
    is($back->rank, 0, "$what: it has a place");
    $sse->run_for(1.5);
    ok($back->is_open, "$what: and keeps it");
    is(join(' ', @{$line->waiting}), 'g1', "$what: in Redis too");
    is($line->stat('joined'), 1, "$what: counted once");
    sound($line, $what);
}

$nodes->finish;
