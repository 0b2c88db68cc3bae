# A sale at random: users join, come back elsewhere, ask without a stream, leave,
# say that they go, are let in, finish, buy, fall silent; capacity changes; a
# node dies; Redis forgets.  After every step the line is as it must be, every
# position that a worker would compute from positions.lua is the true one, and
# every stream that a worker would have open is the newest of its user.
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
                                     max_waiting => 40,
                                     poll_timeout => 3600000);
my $capacity = 5;

# what a worker knows of its own clients: { idx, rank, promoted, gone }
my %client;

# the streams that are open, by instance and user: { serial, idx, in }
my %stream;

# the leases that were given and have not ended, as "user idx"
my %lease;

# those of them that nobody was connected for, of which no message tells; and
# the idx of who waits without a stream
my (%quiet, %poller);

# the messages "replaced" that must come, as "instance user idx serial"
my %expected;

# the messages "expired" that must come to who has gone by his own word, as
# "instance user idx"
my %goodbye;

# the streams that ended with their instance, as "instance user"
my %lost;

# the idx of everybody who was let in, as it was announced
my ($last_promoted, $last_serial) = (0, 0);
my %idx_of;
my %problems;
my %done;


sub problem { $problems{$_[0]}++ }

sub any { return $_[int rand @_] }

sub some_user { return 'u' . int rand $users }


# the records of the line or of the leases, by user

sub records {
    my %records = @{redis('HGETALL', "$_[0]:{sale}")};
    return { map { $_ => { $records{$_} =~ /"(\w+)":"?([^",}]*)/g } }
                 keys %records };
}


# whether somebody has asked without a stream, and not long ago

sub is_seen {
    return (redis('ZSCORE', 'WAITING_SEEN:{sale}', $_[0]) || 0) > 1;
}

sub places { return records('WAITING_QUEUE_INDEX_RECORD') }

sub leases { return records('ENTRY_LEASE') }


# a client of this step's join: told its place, or its token

sub told {
    my ($user, $instance, $answer) = @_;

    $done{$answer->{status}}++;
    delete $client{$user};
    delete $poller{$user};

    if ($answer->{status} eq 'waiting') {
        $client{$user} = { instance => $instance,
                           map { $_ => $answer->{$_} }
                               qw(idx rank promoted gone) };
        $idx_of{$user} = $answer->{idx};
    } elsif ($answer->{token}) {
        $lease{"$user $answer->{idx}"} = 1;
        delete $quiet{"$user $answer->{idx}"};
    } else {
        return;
    }

    problem('a serial that is not higher')
        if $answer->{serial} <= $last_serial;
    $last_serial = $answer->{serial};

    my $previous = $answer->{previous};
    $expected{"$previous $user $answer->{idx} $answer->{serial}"} = 1
        if defined $previous && $previous ne '' && $previous ne $instance;

    $stream{$instance}{$user} = { serial => $answer->{serial},
                                  idx => $answer->{idx},
                                  in => defined $answer->{token} };
    delete $lost{"$instance $user"};
}


# at the gate: nobody is connected, and a stream is not touched

sub ask {
    my ($user, $mode) = @_;

    my ($place, $lease) = (places()->{$user}, leases()->{$user});
    my $answer = $line->join($user, '', $mode);

    $done{"asked: $answer->{status}"}++;

    problem('asking has moved somebody')
        if $place && $answer->{status} eq 'waiting'
           && $answer->{idx} != $place->{idx};
    problem('asking has taken a stream away')
        if $place && $answer->{status} eq 'waiting'
           && places()->{$user}{instanceId} ne $place->{instanceId}
           || $lease && $answer->{token} && $answer->{idx} == $lease->{idx}
              && leases()->{$user}{instanceId} ne $lease->{instanceId};

    if ($answer->{status} eq 'waiting') {
        problem('is not seen') if !is_seen($user);
        $poller{$user} = $answer->{idx}
            if places()->{$user}{instanceId} eq '';
    } elsif ($answer->{token} && !$lease{"$user $answer->{idx}"}) {
        $lease{"$user $answer->{idx}"} = 1;
        $quiet{"$user $answer->{idx}"} = 1;
        problem('entered, but is not')
            if $mode eq 'enter' && $answer->{status} ne 'entered';
    }

    return $answer;
}


# how things stand, without a wish to come in: nothing changes but the time of
# who is in line, and of who has entered

sub poll {
    my ($user) = @_;

    my ($place, $lease) = (places()->{$user}, leases()->{$user});
    my $token = redis('GET', "ENTRY_TOKEN:{sale}:$user");
    my $ends = redis('ZSCORE', 'ENTRY_ACTIVE:{sale}', $user) || 0;
    my $rank = redis('ZRANK', 'WAITING:{sale}', qq({"userId":"$user"}));
    my $answer = $line->status($user);
    my $status = $answer->{status};
    my ($place_now, $lease_now) = (places()->{$user}, leases()->{$user});

    my $right = $place ? 'waiting'
                : $lease && $ends > 1 ? $lease->{state} : 'none';

    $done{"polled: $status"}++;
    problem("polled: $status, not $right") if $status ne $right;

    if ($status eq 'waiting') {
        problem('polling has moved somebody')
            if $answer->{idx} != $place->{idx} || $answer->{rank} != $rank
               || $place_now->{idx} != $place->{idx};
        problem('polling has taken a stream away')
            if $place_now->{instanceId} ne $place->{instanceId};
        problem('polls, and is not seen') if !is_seen($user);
        $poller{$user} = $answer->{idx} if $place->{instanceId} eq '';

    } elsif ($status eq 'none') {
        problem('polling gives something')
            if $place_now || $answer->{token} || is_seen($user);

    } else {
        problem('polling has changed a token') if $answer->{token} ne $token;
        problem('polling has taken a stream of a lease away')
            if $lease_now->{instanceId} ne $lease->{instanceId};
        problem('polling has changed a state')
            if $lease_now->{state} ne $lease->{state};
        problem('polls, and is not told') if !$lease_now->{told};
        problem('polling has changed the time of a claim')
            if $status eq 'ready' && $answer->{expires} != $ends;
        problem('polling has not renewed a lease')
            if $status eq 'entered' && $answer->{expires} < $ends;
    }
}


# a user says that he goes

sub quit {
    my ($user) = @_;

    my ($place, $lease) = (places()->{$user}, leases()->{$user});
    my $ends = redis('ZSCORE', 'ENTRY_ACTIVE:{sale}', $user) || 0;
    my $had = $place || ($ends > 1 && $lease);
    my ($gone) = @{$line->quit($user)};

    problem($gone ? 'gave back nothing' : 'kept what was given back')
        if $gone != ($had ? 1 : 0);
    return if !$gone;

    $done{$place ? 'quit the line' : 'quit a lease'}++;

    my ($instance, $idx) = @$had{qw(instanceId idx)};

    $goodbye{"$instance $user $idx"} = 1 if $instance ne '';
    delete $lease{"$user $idx"};
    delete $quiet{"$user $idx"};
    delete $poller{$user};
}


# the grace time of somebody who was let in is over, and a worker gives back
# what he was not told of

sub untold {
    my ($user, $instance) = @_;

    my $lease = leases()->{$user};
    my $ends = redis('ZSCORE', 'ENTRY_ACTIVE:{sale}', $user) || 0;
    my $goes = $ends > 1 && $lease->{instanceId} eq $instance
               && $lease->{state} eq 'ready' && !$lease->{told};
    my ($gone) = @{$line->release($user, 'untold', $instance, '', 'left')};

    problem($gone ? 'took away what was known' : 'kept what nobody knows of')
        if $gone != ($goes ? 1 : 0);

    $done{$gone ? 'untold' : 'told'}++;
    delete $lease{"$user $lease->{idx}"} if $gone;
    hang_up($user) if $gone;
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
        for my $instance (@instances) {
            my @users = grep { $client{$_}{instance} eq $instance }
                        sort keys %client;
            my $now = $line->ranks($instance, @users);

            for my $i (0 .. $#users) {
                @{$client{$users[$i]}}{qw(rank promoted gone)}
                    = ($now->{ranks}[$i], @$now{qw(promoted gone)});
            }

            problem('ranks of another moment')
                if grep { $now->{$_} ne $news->{$_} }
                        qw(total promoted gone joined epoch);
        }

        $done{resync}++;
        $news->{entries} = [];
        $known = $news->{gone};
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


# what the workers do with the messages, in the way that they must: a message is
# for the place, the lease or the connection that it names, and for no other

sub dispatch {
    for my $message (@{$line->messages}) {
        my %m = @$message;
        my ($user, $instance, $idx) = @m{qw(userId instanceId idx)};
        my $stream = $stream{$instance}{$user};

        $done{$m{type}}++;

        if ($m{type} eq 'promoted') {
            problem('let in out of order') if $idx < $last_promoted;
            problem('let in who has no such place')
                if !$stream || $stream->{in} || $stream->{idx} != $idx
                   || $idx_of{$user} != $idx;
            problem('told another token')
                if $m{token} ne redis('GET', "ENTRY_TOKEN:{sale}:$user")
                   || $m{expiresAt} != redis('ZSCORE', 'ENTRY_ACTIVE:{sale}',
                                             $user);
            $last_promoted = $idx;
            $stream->{in} = 1;
            $lease{"$user $idx"} = 1;
            delete $client{$user};

        } elsif ($m{type} eq 'expired') {
            my $waited = delete $goodbye{"$instance $user $idx"};

            problem('the end of a lease that was not')
                if !$waited && !delete $lease{"$user $idx"};

            if ($stream && $stream->{idx} == $idx
                && ($waited || $stream->{in}))
            {
                delete $stream{$instance}{$user};
                delete $client{$user};
            }

        } elsif ($m{type} eq 'replaced') {
            problem('replaced by nobody')
                if !delete $expected{"$instance $user $idx $m{serial}"};
            problem('replaced what was not there')
                if !$stream && !delete $lost{"$instance $user"};
            delete $stream{$instance}{$user}
                if $stream && $stream->{serial} < $m{serial};

        } else {
            problem("a message of type $m{type}");
        }

        problem("$m{type} with a serial of $m{serial}")
            if $m{type} ne 'replaced' && $m{serial} ne '0';
    }

    problem("not told: $_") for keys %expected, keys %goodbye;
}


# what the workers know is what is so

sub compare {
    my ($places, $leases) = (places(), leases());
    my %open;

    for my $instance (keys %stream) {
        for my $user (keys %{$stream{$instance}}) {
            problem('two streams of one user') if $open{$user}++;

            my $stream = $stream{$instance}{$user};
            my $record = ($stream->{in} ? $leases : $places)->{$user};

            problem('a stream for nothing') if !$record;
            problem('a stream that is held by another')
                if $record && $record->{instanceId} ne $instance;
            problem('a stream with another idx')
                if $record && $record->{idx} != $stream->{idx};
        }
    }

    # of those without a stream nothing is told: they are let in if they
    # waited, and their leases just end

    for my $user (keys %$leases) {
        my $idx = $leases->{$user}{idx};

        if (!$lease{"$user $idx"} && ($poller{$user} || 0) == $idx) {
            $lease{"$user $idx"} = $quiet{"$user $idx"} = 1;
            delete $poller{$user};
            $done{'let in without a stream'}++;
        }
    }

    for my $known (keys %quiet) {
        my ($user, $idx) = split / /, $known;

        if (!$leases->{$user} || $leases->{$user}{idx} != $idx) {
            delete $lease{$known};
            delete $quiet{$known};
        }
    }

    for my $user (keys %poller) {
        if (!$places->{$user}) {
            delete $poller{$user};
            $done{'left for silence'}++;
        }
    }

    my $stored = join ', ', sort map { "$_ $leases->{$_}{idx}" }
                                     keys %$leases;
    my $known = join ', ', sort keys %lease;

    problem("leases: $stored; known: $known") if $stored ne $known;
}


# everybody in line without a stream leaves, as after the grace time

sub hang_up {
    my ($user) = @_;
    delete $stream{$_}{$user} for @instances;
    delete $client{$user};
}

sub lose {
    my ($user) = @_;

    if ($line->leave($user)) {
        hang_up($user);
        delete $poller{$user};
    }
}


sub release {
    my ($user, $how) = @_;
    my $lease = leases()->{$user};

    if ($line->release($user, $how)->[0]) {
        delete $lease{"$user $lease->{idx}"};
        hang_up($user);
    }
}


# an instance dies with all its streams, and those who do not come back within
# the grace time lose their places; their leases, if these end with a stream

sub perish {
    my ($instance) = @_;
    my $release = any(0, 1);

    $line->set(release => $release);
    $lost{"$instance $_"} = 1 for keys %{delete $stream{$instance} || {}};

    my ($s) = @{redis('TIME')};
    my @nothing = $line->reap($instance, 10, $s * 1000);
    problem('reaped within the grace time')
        if $nothing[0] || $nothing[1] || $nothing[2] <= 0;

    my ($places, $leases) = (places(), leases());
    my @held = grep { $places->{$_}{instanceId} eq $instance } keys %$places;
    my @asking = grep { is_seen($_) } @held;
    my @waited = grep { !is_seen($_) } @held;
    my @leases = grep { $release && $leases->{$_}{instanceId} eq $instance }
                      keys %$leases;

    my @reaped = $line->reap($instance, 10);
    problem("reaped $reaped[0] and $reaped[1], not " . @waited . ' and '
            . @leases)
        if $reaped[0] != @waited || $reaped[1] != @leases;

    delete @client{@held};
    $poller{$_} = $places->{$_}{idx} for @asking;
    $done{'stays by asking'} += @asking;
    delete @lease{map { "$_ $leases->{$_}{idx}" } @leases};
    $done{reaped} += @waited;
    $done{released} += @leases;
}


my $visits = 0;

my %actions = (
    join => [ 40, sub {
        my ($user, $instance) = (some_user(), any(@instances));
        told($user, $instance,
             $line->join($user, $instance, rand() < 0.8 ? 'stream' : 'enter'));
    } ],
    leave => [ 8, sub { lose(some_user()) } ],
    ask => [ 15, sub { ask(some_user(), 'enter') } ],
    visit => [ 3, sub {
        my $answer = ask('v' . ++$visits, 'visit');
        problem('a visit in line') if defined $answer->{rank};
    } ],
    poll => [ 15, sub { poll(some_user()) } ],
    quit => [ 5, sub { quit(some_user()) } ],
    untold => [ 4, sub {
        my $user = any(@{redis('ZRANGE', 'ENTRY_ACTIVE:{sale}', 0, -1)});
        untold($user, leases()->{$user}{instanceId} || any(@instances))
            if defined $user;
    } ],
    touch => [ 8, sub {
        my $user = any(@{redis('ZRANGE', 'ENTRY_ACTIVE:{sale}', 0, -1)});
        return if !defined $user;
        my $token = redis('GET', "ENTRY_TOKEN:{sale}:$user");
        my $ends = redis('ZSCORE', 'ENTRY_ACTIVE:{sale}', $user);
        my ($good) = @{$line->touch($user, $token || '')};
        problem('a good token is refused') if !$good && $ends > 1 && $token;
        problem('a lapsed token is good') if $good && $ends <= 1;
        $done{touched} += $good;
    } ],
    hang_up => [ 8, sub {
        # the grace time of a stream is over
        my $instance = any(@instances);
        my $user = any(sort keys %{$stream{$instance} || {}});
        return if !defined $user || $stream{$instance}{$user}{in};
        my $idx = $stream{$instance}{$user}{idx};
        my $stays = is_seen($user);
        my $left = $line->leave($user, $instance, $idx);
        problem($stays ? 'leaves who asks' : 'stays who is gone')
            if $left eq $stays;
        hang_up($user);
        $poller{$user} = $idx if $stays;
        $done{'stays by asking'}++ if $stays;
    } ],
    hush => [ 3, sub {
        my $user = any(@{redis('ZRANGE', 'WAITING_SEEN:{sale}', 0, -1)});
        redis('ZADD', 'WAITING_SEEN:{sale}', 1, $user) if defined $user;
    } ],
    finish => [ 8, sub { release(some_user()) } ],
    buy => [ 1, sub {
        my $before = $line->stat('sold');
        release(some_user(), 'sold');

        # the operator keeps the room as large as it was
        $line->set(capacity => ++$capacity) if $line->stat('sold') > $before;
    } ],
    promote => [ 8, sub {
        my $promoted = $line->promote(any(1, 3, 1000));
        problem('other counters')
            if grep { $promoted->{"all_$_"} != $line->stat($_) }
                    qw(joined promoted direct left expired);
    } ],
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
    trim => [ 8, sub { redis('XTRIM', 'WAITING_GONE:{sale}', 'MAXLEN', 0) } ],
    die => [ 1, sub { perish(any(@instances)) } ],
    pause => [ 1, sub { $line->set(paused => any(0, 0, 1)) } ],
);

my @weighted = map { my $name = $_; map { $name } 1 .. $actions{$name}[0] }
               sort keys %actions;

# a run that did nothing would prove nothing: it goes on until it had some of
# everything, which chance alone does not promise of so many steps
my @needed = (qw(waiting ready promoted expired replaced sweep resync reaped
                 released touched),
              'asked: waiting', 'asked: entered', 'asked: none',
              'let in without a stream', 'left for silence',
              'stays by asking', 'polled: waiting', 'polled: ready',
              'polled: entered', 'polled: none', 'quit the line',
              'quit a lease', 'untold', 'told');
my $step = 0;

while ($step++ < $steps
       || ($step <= 4 * $steps && grep { ($done{$_} || 0) <= 10 } @needed))
{
    my $name = any(@weighted);

    $actions{$name}[1]->();
    dispatch();

    compare();
    problem($_) for $line->wrong;

    if (%problems) {
        diag("after step $step, $name");
        last;
    }
}

is_deeply(\%problems, {}, $step - 1 . ' steps');
ok(($done{$_} || 0) > 10, "it had $_ (" . ($done{$_} || 0) . ')')
    for @needed;


# Redis loses all: the workers' clients come back in the old order, whichever
# worker is first

$line->set(paused => 1);
for my $user (map { "u$_" } 0 .. $users - 1) {
    my $instance = any(@instances);
    told($user, $instance, $line->join($user, $instance));
}
dispatch();
my $before = $line->line;
cmp_ok(scalar @$before, '>', 20, 'before a loss: many wait');
my %known = map { $_ => $client{$_} } grep { $client{$_} } @$before;
my $highest = (sort { $b <=> $a } map { $_->{idx} } values %known)[0];
my $epoch = $line->positions(0)->{epoch};

WaitingQueue::Script::flush();
%stream = %lease = %lost = ();

# by whoever holds them, and once more by others, as after a second loss of one
# who was away for the first
for (1, 2) {
    for my $user (sort { rand() <=> 0.5 } keys %known) {
        my $instance = any(@instances);
        told($user, $instance,
             $line->restore($user, $instance, $known{$user}{idx}, $highest,
                            $epoch));
    }

    dispatch();
    compare();
}

is_deeply($line->line, [ grep { $known{$_} } @$before ],
          'after a loss: the old order');
is_deeply([ $line->wrong ], [], 'after a loss: invariants');
isnt($line->positions(0)->{epoch}, $epoch, 'after a loss: a new epoch');

sweep();
is_deeply(\%problems, {}, 'after a loss: positions and streams are true');

# there is room again
lose((sort keys %known)[0]);

cmp_ok($line->join('newcomer')->{idx}, '>', $highest,
       'after a loss: a newcomer is the last');
my $last = 2 * $line->join('newcomer')->{idx};
is($line->restore('newcomer', 'i', $last, 0, '')->{rank}, $#{$line->line},
   'who is there is not moved back');
is($line->restore('newcomer', 'i', 1, 0, '')->{rank}, 0,
   'but is to where he stood before');
is_deeply([ $line->wrong ], [], 'and all is in order');

done_testing();
