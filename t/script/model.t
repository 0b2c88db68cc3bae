# A sale at random: users join, come back elsewhere, leave, are let in, finish,
# buy, fall silent; capacity changes; a node dies; Redis forgets.  After every
# step the line is as it must be, and every position that a worker would compute
# from positions.lua is the true one.
#
# WQ_SEED repeats a run, WQ_STEPS makes it longer.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Script;

sub redis { return WaitingQueue::Script::redis(@_) }

my $seed = $ENV{WQ_SEED} || time ^ $$;
my $steps = $ENV{WQ_STEPS} || 4000;
my $users = 60;
my @instances = map { "node$_-1-1" } 1 .. 4;

srand $seed;
diag("WQ_SEED=$seed");

my $line = WaitingQueue::Script->new('sale', capacity => 5,
                                     max_waiting => 40);
my $capacity = 5;

# what a worker knows of its own clients: { idx, rank, promoted, gone }
my %client;

# the idx of everybody who was let in, as it was announced
my ($last_promoted, $order_broken) = (0, 0);
my %idx_of;
my %problems;
my %done;


sub problem { $problems{$_[0]}++ }

sub any { return $_[int rand @_] }

sub some_user { return 'u' . int rand $users }


# a client of this step's join: told its place, or its token

sub told {
    my ($user, $answer) = @_;

    if ($answer->{status} eq 'waiting') {
        $client{$user} = { map { $_ => $answer->{$_} }
                               qw(idx rank promoted gone) };
        $idx_of{$user} = $answer->{idx};
    } else {
        delete $client{$user};
    }

    $done{$answer->{status}}++;
}


# what all workers do once a second, in the way that src/core/wq_sweep.c does

sub sweep {
    my $known;

    for (values %client) {
        $known = $_->{gone} if !defined $known || $_->{gone} < $known;
    }

    return if !defined $known;

    my $news = $line->positions($known, 100000);

    if ($news->{resync}) {
        $done{resync}++;
        told($_, $line->join($_, any(@instances))) for sort keys %client;
        return;
    }

    for my $user (sort keys %client) {
        my $c = $client{$user};
        my $first = $c->{gone} - $known;

        $c->{rank} -= $news->{promoted} - $c->{promoted};

        for my $i ($first .. $#{$news->{entries}}) {
            my $idx = $news->{entries}[$i];
            next if abs $idx >= $c->{idx};
            $c->{rank} += $idx > 0 ? -1 : 1;
        }

        @$c{qw(promoted gone)} = @$news{qw(promoted gone)};

        my $true = redis('ZRANK', 'WAITING:{sale}', qq({"userId":"$user"}));

        problem("position $c->{rank}, but it is "
                . (defined $true ? $true : 'gone'))
            if !defined $true || $true != $c->{rank};
    }

    $done{sweep}++;
}


# the promoted are no clients of the line any more, and come in its order

sub dispatch {
    for my $message (@{$line->announced}) {
        my ($type, $user) = @$message;

        if ($type eq 'promoted') {
            problem('let in out of order') if $idx_of{$user} < $last_promoted;
            $last_promoted = $idx_of{$user};
        }

        delete $client{$user};
        $done{$type}++;
    }
}


# everybody in line without a stream leaves, as after the grace time

sub lose {
    my ($user) = @_;

    $line->leave($user);
    delete $client{$user};
}


my %actions = (
    join => [ 40, sub {
        my $user = some_user();
        told($user, $line->join($user, any(@instances),
                                rand() < 0.8 ? 'stream' : 'enter'));
    } ],
    leave => [ 8, sub { lose(some_user()) } ],
    finish => [ 8, sub { $line->release(some_user()) } ],
    buy => [ 1, sub {
        my $before = $line->stat('sold');
        $line->release(some_user(), 'sold');

        # the operator keeps the room as large as it was
        $line->set(capacity => ++$capacity) if $line->stat('sold') > $before;
    } ],
    promote => [ 8, sub { $line->promote(any(1, 3, 1000)) } ],
    silent => [ 4, sub {
        # a lease comes to its end; the clock is Redis' and cannot be moved
        my $user = any(@{redis('ZRANGE', 'ENTRY_ACTIVE:{sale}', 0, -1)});
        redis('ZADD', 'ENTRY_ACTIVE:{sale}', 1, $user) if defined $user;
    } ],
    capacity => [ 1, sub {
        $capacity = $line->stat('sold') + 1 + int rand 10;
        $line->set(capacity => $capacity);
    } ],
    sweep => [ 20, sub { sweep() } ],
    die => [ 1, sub {
        my $instance = any(@instances);
        my @mine = grep { (redis('HGET', 'WAITING_QUEUE_INDEX_RECORD:{sale}',
                                 $_) || '') =~ /"\Q$instance\E"/ }
                        sort keys %client;
        my $cursor = 0;
        do {
            $cursor = $line->call('reap', $instance, $cursor, 10)->[0];
        } while ($cursor);
        delete @client{@mine};
    } ],
    pause => [ 1, sub { $line->set(paused => any(0, 0, 1)) } ],
);

my @weighted = map { my $name = $_; map { $name } 1 .. $actions{$name}[0] }
               sort keys %actions;

for my $step (1 .. $steps) {
    my $name = any(@weighted);

    $actions{$name}[1]->();
    dispatch();

    my @wrong = $line->wrong;
    problem("after $name: $_") for @wrong;
    last if %problems;
}

is_deeply(\%problems, {}, "$steps steps");

# a run that did nothing would prove nothing
ok(($done{$_} || 0) > 10, "it had $_ (" . ($done{$_} || 0) . ')')
    for qw(waiting ready promoted expired sweep);


# Redis loses all: the workers' clients come back in the old order, whichever
# worker is first

$line->set(paused => 1);
told("u$_", $line->join("u$_", any(@instances))) for 0 .. $users - 1;
dispatch();
my $before = $line->line;
cmp_ok(scalar @$before, '>', 20, 'before a loss: many wait');
my %known = map { $_ => $client{$_} } grep { $client{$_} } @$before;
my $highest = (sort { $b <=> $a } map { $_->{idx} } values %known)[0];
my $epoch = $line->positions(0)->{epoch};

redis('FLUSHDB');

for my $user (sort { rand() <=> 0.5 } keys %known) {
    told($user, $line->restore($user, any(@instances), $known{$user}{idx},
                               $highest, $epoch));
}

is_deeply($line->line, [ grep { $known{$_} } @$before ],
          'after a loss: the old order');
is_deeply([ $line->wrong ], [], 'after a loss: invariants');
isnt($line->positions(0)->{epoch}, $epoch, 'after a loss: a new epoch');

sweep();
is_deeply(\%problems, {}, 'after a loss: positions are true');

# there is room again
lose((sort keys %known)[0]);

cmp_ok($line->join('newcomer')->{idx}, '>', $highest,
       'after a loss: a newcomer is the last');
is($line->restore('newcomer', 'i', 1, 0, '')->{rank}, $#{$line->line},
   'who is there is not moved');

done_testing();
