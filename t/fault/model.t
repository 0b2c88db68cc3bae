# A sale at random on two nodes with two workers each: hundreds of users join,
# hang up, come back within the grace time, at its very end and after it, go to
# another node, open a second stream, stop reading, are let in, finish, buy or
# fall silent; the operator changes the capacity and makes pauses; Redis falls
# asleep for moments, and forgets who has left from the middle.
#
# WaitingQueue::Model knows from Redis what must be so at every instant, and
# which position each stream must be told.  Here are the users, who see whether
# they are.
#
# WQ_SEED repeats the choices of a run, of each user apart; WQ_SECONDS makes it
# longer.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Chance;
use WaitingQueue::Fault;
use WaitingQueue::Line;
use WaitingQueue::Model;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

my $seed = $ENV{WQ_SEED} || 1 + (time ^ $$) % 1000000000;
my $seconds = $ENV{WQ_SECONDS} || 60;

# what must happen at last has so long a time for it
my $soon = patience(10);

# of invariant 6: grace + 15 s
my $at_last = patience(15);

# a worker counts from the beginning of the turn in which it sees the end of a
# stream, and a turn may be long on a machine that has other things to do
my $turn = 0.25;

# the one is a crowd, the other is mostly empty; a lease of the other ends with
# its stream, and it has a rate
my %rules = (
    sale => { users => 300, grace => 2, claim => 3, capacity => 24,
              max_waiting => 230, release => 'expiry' },
    tiny => { users => 30, grace => 1, claim => 2, capacity => 4,
              max_waiting => 20, release => 'disconnect',
              rate => [ 3, 700 ] },
);

diag("WQ_SEED=$seed WQ_SECONDS=$seconds");
alarm 3 * $seconds + 400;


# servers

my $redis = start_redis();
my $port = $redis->port;
my (%problems, %done, %user);

my $model = WaitingQueue::Model->new(
    port => $port, events => \%rules, problem => \&problem, left => \&has_left);

my %nodes = map { $_ => start_nginx(node($_)) } qw(node1 node2);
my @nodes = sort keys %nodes;

$nodes{$_}->wait_ready("$_ is ready") for @nodes;

my $sse = WaitingQueue::Sse->new;
my %line = map {
    $_ => WaitingQueue::Line->new(
        event => $_, sse => $sse,
        redis => WaitingQueue::Redis->new(port => $port))
} sort keys %rules;


sub node {
    my ($name) = @_;

    my %rate = map { my $rate = $rules{$_}{rate};
                     $_ => $rate ? "$rate->[0]/$rate->[1]ms" : 'off' }
               keys %rules;
    my $locations = join '', map { <<"END" } sort keys %rules;
location = /events/$_/tickets/waiting {
    waiting_queue_stream;
    waiting_queue_event $_;
    waiting_queue_user \$arg_user;
    waiting_queue_capacity $rules{$_}{capacity};
    waiting_queue_grace $rules{$_}{grace}s;
    waiting_queue_ttl $rules{$_}{claim}s;
    waiting_queue_max_waiting $rules{$_}{max_waiting};
    waiting_queue_release $rules{$_}{release};
    waiting_queue_rate $rate{$_};
}
END

    # through the small windows of those who do not read for a while what has
    # piled up goes slowly
    return (workers => 2, timeout => 10, server => $locations, http => <<"END");
send_timeout 5m;
waiting_queue_redis redis://127.0.0.1:$port timeout=20s;
waiting_queue_instance $name;
waiting_queue_interval 50ms;
waiting_queue_promote_interval 200ms;
END
}


# what is wrong, and what the user did before

sub problem {
    my ($event, $name, $text) = @_;

    $problems{"$event: $text"}++ or keys %problems > 20 or do {
        my $user = defined $name ? $user{"$event $name"} : undef;
        diag(sprintf "%.3f %s %s: %s", time, $event,
             defined $name ? $name : '-', $text);
        diag(join "\n", map { "    $_" } @{$user->{history}}) if $user;
    };
}


sub note_of {
    my ($user, @words) = @_;

    push @{$user->{history}}, sprintf('%.3f ', time) . join ' ', @words;
    shift @{$user->{history}} if @{$user->{history}} > 40;
}


# one line for all positions in a row, of which the last are the interesting

sub note_position {
    my ($user, $node, $data) = @_;

    my $history = $user->{history};
    my $text = "$node position";
    my $place = "$data->{rank}/$data->{total}";

    if ($history->[-1] =~ / \Q$text\E /) {
        $history->[-1] .= " $place";
        $history->[-1] =~ s/^(\S+ \Q$text\E) .{50,}?(?= .{200}$)/$1 .../;
    } else {
        note_of($user, $text, $place);
    }
}


# users

my $number = 0;

for my $event (sort keys %rules) {
    for (1 .. $rules{$event}{users}) {
        my $name = 'u' . $_;
        my $chance = chance($seed, ++$number);

        $user{"$event $name"} = {
            event => $event, name => $name, chance => $chance,
            rules => $rules{$event}, streams => [], history => [],
            # they do not come all at once
            do => \&join_line, due => time + 8 * $chance->(),
        };
    }
}

my @users = map { $user{$_} } sort keys %user;


sub later {
    my ($user, $delay, $do, @what) = @_;

    $user->{do} = $do;
    $user->{due} = time + $delay;
    $user->{what} = \@what;
}


sub open_streams { return grep { !defined $_->{closed} } @{$_[0]{streams}} }


# what a user may do

sub join_line {
    my ($user, $why) = @_;

    my $chance = $user->{chance};
    my $node = $nodes[$chance->() * @nodes];
    my $small = $chance->() < 0.15;
    my $stream = $line{$user->{event}}->open(
        $user->{name}, port => $nodes{$node}->port,
        $small ? (rcvbuf => 2304) : ());

    push @{$user->{streams}}, { sse => $stream, node => $node, opened => time,
                                small => $small, seen => 0 };
    note_of($user, 'opens', $node, $why || '');

    if ($chance->() < 0.06) {
        # and hangs up before there can be an answer
        later($user, 0.03 * $chance->(), \&hang_up, 'abort');
    } else {
        later($user, $soon, \&unanswered);
    }
}


sub unanswered {
    my ($user) = @_;
    problem($user->{event}, $user->{name}, 'not answered');
    later($user, 1e6, \&join_line);
}


sub hang_up {
    my ($user, $why) = @_;

    my $chance = $user->{chance};
    my $grace = $user->{rules}{grace};

    close_stream($user, $_) for open_streams($user);

    my $comes = choose($chance, 5 => 'within', 3 => 'edge', 3 => 'beyond');

    note_of($user, 'hangs up', $why, $comes);
    $done{"$why, $comes"}++;
    later($user, $comes eq 'within' ? 0.8 * $grace * $chance->()
                 : $comes eq 'edge' ? $grace - 0.03 + 0.04 * $chance->()
                 : $grace * (1.3 + $chance->()), \&join_line, $comes);
}


sub close_stream {
    my ($user, $stream) = @_;

    # the time before, for by the time after the server may have seen it
    $stream->{closed} = time;

    my $how = $user->{chance}->() < 0.5 ? 'close' : 'reset';
    $stream->{sse}->$how;
    forget_stream($user, $stream);
}


sub forget_stream {
    my ($user, $stream) = @_;

    $model->forget($stream->{session}) if $stream->{session};

    @{$user->{streams}} = grep { $_ != $stream } @{$user->{streams}};

    if (!$stream->{session}) {
        # no answer was seen, but if it has replaced another there was one
        @{$user->{last}}{qw(closed replaced)} = ($stream->{closed}, 0)
            if $user->{last} && $user->{last}{replaced};
        return;
    }

    $user->{last} = {
        session => $stream->{session}, closed => $stream->{closed},
        token => $stream->{token}, replaced => $stream->{replaced},
        over => $stream->{ended} && !$stream->{replaced},
    };
}


sub stall {
    my ($user) = @_;

    my ($stream) = open_streams($user);

    note_of($user, 'stalls');
    $stream->{stalled} = 1;
    $stream->{reads} = 0;
    $stream->{sse}->stop_reading;
    later($user, 1 + 40 * $user->{chance}->(), \&read_again);
}


sub read_again {
    my ($user) = @_;

    my ($stream) = open_streams($user);

    note_of($user, 'reads again');
    $stream->{reads} = time;
    $stream->{sse}->resume;
    wait_on($user);
}


sub finish_visit {
    my ($user, $how, $first) = @_;

    my $event = $user->{event};

    if ($first) {
        close_stream($user, $_) for open_streams($user);
    }

    my $was = $line{$event}->release($user->{name}, $how);

    note_of($user, $how, $was ? '' : 'in vain');
    $done{$how}++ if $was;

    # the operator keeps the room as large as it was
    $line{$event}->set(capacity => room($event)) if $how eq 'sold' && $was;

    close_stream($user, $_) for open_streams($user);
    later($user, 3 * $user->{chance}->(), \&join_line);
}


sub silent { }


# what a user who waits does next

sub wait_on {
    my ($user) = @_;

    my $chance = $user->{chance};
    my ($stream) = open_streams($user);
    my $do = $stream->{small} && !$stream->{stalled} ? 'stall'
             : choose($chance, 46 => 'wait', 20 => 'hang_up', 14 => 'switch');

    if ($do eq 'wait') {
        later($user, 1e6, \&silent);
    } elsif ($do eq 'switch') {
        later($user, 6 * $chance->(), \&join_line, 'switch');
    } elsif ($do eq 'stall') {
        later($user, 2 * $chance->(), \&stall);
    } else {
        later($user, 6 * $chance->(), \&hang_up, 'waiting');
    }
}


# and one who is inside

sub be_inside {
    my ($user) = @_;

    my $chance = $user->{chance};
    my $do = choose($chance, 60 => 'return', 5 => 'sold', 12 => 'silent',
                    10 => 'hang_up', 6 => 'switch', 7 => 'leave');
    my $claim = $user->{rules}{claim};

    if ($do eq 'silent') {
        later($user, 1e6, \&silent);
    } elsif ($do eq 'hang_up') {
        later($user, 0.5 * $chance->(), \&hang_up, 'inside');
    } elsif ($do eq 'switch') {
        later($user, 0.5 * $chance->(), \&join_line, 'switch');
    } elsif ($do eq 'leave') {
        later($user, 0.5 * $chance->(), \&go_away);
    } else {
        later($user, 0.5 * $claim * $chance->(), \&finish_visit, $do,
              $chance->() < 0.3);
    }
}


# without a word, and comes back when all is forgotten

sub go_away {
    my ($user) = @_;

    close_stream($user, $_) for open_streams($user);
    note_of($user, 'goes away');
    later($user, 1.2 * $user->{rules}{claim} + $user->{chance}->(),
          \&join_line);
}


# the operator

my %operator = map { $_ => { chance => chance($seed, 1000000 + ++$number),
                             due => time + 3 } } sort keys %rules;

sub room {
    my ($event) = @_;

    my $operator = $operator{$event};

    $operator->{room} = $rules{$event}{capacity} if !defined $operator->{room};
    return $operator->{room} + $model->stats($event)->{sold};
}


sub operate {
    my ($event) = @_;

    my $operator = $operator{$event};
    my $chance = $operator->{chance};
    my $capacity = $rules{$event}{capacity};

    if ($operator->{paused}) {
        $line{$event}->set(paused => 0);
        $operator->{paused} = 0;
        $operator->{due} = time + 1 + 4 * $chance->();
        return;
    }

    my $do = choose($chance, 4 => 'pause', 6 => 'capacity', 5 => 'trim');

    $done{$do}++;
    $operator->{due} = time + 1 + 3 * $chance->();

    if ($do eq 'pause') {
        $line{$event}->set(paused => 1);
        $operator->{paused} = 1;
        $operator->{due} = time + 0.2 + 1.5 * $chance->();

    } elsif ($do eq 'capacity') {
        $operator->{room} = int 2 * ($capacity + 1) * $chance->();
        $line{$event}->set(capacity => room($event));

    } else {
        $operator->{trims} = $operator->{due};
    }
}


# as if so many left that the list of them is always trimmed

sub trim {
    my ($event) = @_;

    $line{$event}->call('XTRIM', $line{$event}->key('WAITING_GONE'),
                        'MAXLEN', 0);
}


# Redis falls asleep for a moment: what is on the way then meets

my $sleeper = $redis->session;
my $sleepiness = chance($seed, 2000000);
my $nap = time + 5;

sub fall_asleep {
    $nap = time + 0.2 + $sleepiness->();
    sysread $sleeper, my $answer, 4096 if $done{nap}++;
    syswrite $sleeper, sprintf "DEBUG SLEEP %.3f\r\n",
                               0.01 + 0.08 * $sleepiness->();
}


# what a stream was told

sub look_at {
    my ($user, $stream) = @_;

    my $sse = $stream->{sse};

    return if $sse->bytes == $stream->{seen} && !defined $sse->ended;
    $stream->{seen} = $sse->bytes;

    for my $told ($sse->news) {
        last if defined $stream->{closed};

        my $name = $told->{event};
        my $data = $told->{data};
        my $first = !$stream->{session};

        if ($name eq 'position') {
            note_position($user, $stream->{node}, $data);
        } else {
            note_of($user, $stream->{node}, $name);
        }

        begin_session($user, $stream, $data) or return if $first;

        if ($name eq 'position') {
            is_at($user, $stream, $data);
            wait_on($user) if $first;

        } elsif ($name eq 'promoted') {
            is_in($user, $stream, $data);

        } elsif ($name eq 'expired') {
            # what is stored of a lapsed lease is gone before it is said
            problem($user->{event}, $user->{name}, 'expired, but it is not')
                if ($model->token($user->{event}, $user->{name}) || '')
                    eq ($stream->{token} || '')
                   && defined $model->lease($user->{event}, $user->{name});
            $stream->{expired} = 1;
            $done{expired}++;

        } elsif ($name eq 'replaced') {
            $stream->{replaced} = 1;
            $done{replaced}++;

        } else {
            problem($user->{event}, $user->{name}, "told $name");
        }
    }

    has_ended($user, $stream) if defined $sse->ended;
}


# the first event: of which join it is the answer, and what was before

sub begin_session {
    my ($user, $stream, $data) = @_;

    my ($event, $name) = @$user{qw(event name)};
    my ($session, $right) = $model->claim($event, $name, $stream->{node},
                                          $stream->{opened}, $data);

    if (!$session) {
        problem($event, $name, "told $data->{status} "
                . (defined $data->{rank} ? $data->{rank} : $data->{token} || '')
                . ", but joined with: $right");
        close_stream($user, $stream);
        later($user, 1e6, \&silent);
        return;
    }

    $stream->{session} = $session;
    $done{"first $data->{status}"}++;

    # invariant 5, also with a second stream

    my ($old) = grep { $_->{session} && $_ != $stream } @{$user->{streams}};
    my $last = $old ? { session => $old->{session}, token => $old->{token} }
                    : $user->{last};
    my $had = $last ? $last->{session}{idx} : undef;

    if (defined $had && !$last->{over}
        && (!defined $last->{closed} || $last->{replaced}
            || $session->{at}
               < $last->{closed} + $user->{rules}{grace} - $turn))
    {
        if ($session->{idx} != $had) {
            # a lease may have ended since; a place may not
            problem($event, $name, "had idx $had, back with $session->{idx}")
                if !$last->{token}
                   && !$model->ended_lease($event, $name, $had);
        } else {
            my $rank = $model->rank_before($last->{session},
                                           $session->{moment});

            $done{'same place'}++;
            problem($event, $name, "had rank $rank, back with $data->{rank}")
                if defined $data->{rank} && defined $rank
                   && $data->{rank} > $rank;
            problem($event, $name, 'has waited, been let in, and waits')
                if defined $data->{rank} && $last->{token};
        }
    } elsif (defined $had) {
        $done{$session->{idx} == $had ? 'late, same place'
                                      : 'another place'}++;
    }

    # the older streams must end

    $_->{outlived} = time for grep { $_ != $stream } open_streams($user);
    $user->{last} = undef;

    return 1;
}


sub is_at {
    my ($user, $stream, $data) = @_;

    my $last = $stream->{shown};
    $stream->{shown} = $data;

    # nobody has moved, but it will take longer, or less long
    if ($last && $last->{rank} == $data->{rank}
        && ($last->{etaSeconds} // -1) != ($data->{etaSeconds} // -1))
    {
        $done{'another time'}++;
        return;
    }

    my $wrong = $model->told($stream->{session}, @$data{qw(rank total)},
                             $stream->{stalled});

    problem($user->{event}, $user->{name}, "$stream->{node} told $wrong")
        if defined $wrong;
}


sub is_in {
    my ($user, $stream, $data) = @_;

    my ($event, $name) = @$user{qw(event name)};
    my $lease = $model->lease_of($event, $name, $data->{token});

    $stream->{token} = $data->{token};

    if (!$lease) {
        problem($event, $name, "told a token of nobody, $data->{token}");
    } else {
        problem($event, $name, "let in with idx $lease->{idx}, waited with "
                               . $stream->{session}{idx})
            if $lease->{idx} != $stream->{session}{idx};
        problem($event, $name, "told that it ends $data->{expiresAt}, not "
                               . join ' ', sort keys %{$lease->{ends}})
            if !$lease->{ends}{$data->{expiresAt}};
    }

    # an older stream may be told too, and does nothing
    be_inside($user)
        if $stream == (open_streams($user))[-1] && !$stream->{outlived};
}


sub has_ended {
    my ($user, $stream) = @_;

    my ($event, $name) = @$user{qw(event name)};
    my $sse = $stream->{sse};
    my $how = $sse->ended;
    my $newer = grep { $_ != $stream && $_->{opened} >= $stream->{opened} }
                     @{$user->{streams}};

    $stream->{closed} = time;
    $stream->{ended} = 1;
    note_of($user, $stream->{node}, 'ends', $how);

    if ($stream->{replaced} && ($newer || $stream->{outlived})) {
        forget_stream($user, $stream);
        return;
    }

    forget_stream($user, $stream);

    if ($stream->{expired} && $how eq 'clean') {
        later($user, 2 * $user->{chance}->(), \&join_line) if !$newer;
        return;
    }

    if (($sse->status || 0) == 429) {
        $done{full}++;
        problem($event, $name, 'full, but it is not')
            if !$model->was_full($event, $stream->{opened});
        later($user, 1 + 3 * $user->{chance}->(), \&join_line);
        return;
    }

    problem($event, $name, 'the stream has ended: ' . $sse->describe);
    later($user, 1, \&join_line);
}


# of who has lost a place or a lease because nobody was there: the grace time
# since the stream was closed must be over

sub has_left {
    my ($event, $name, $at, $idx) = @_;

    my $user = $user{"$event $name"};
    my $what = defined $idx ? 'the place' : 'the lease';

    for my $stream (@{$user->{streams}}) {
        my $session = $stream->{session};

        problem($event, $name, "has lost $what with an open stream")
            if $session && $session->{at} < $at && !$stream->{replaced}
               && !$stream->{outlived};
    }

    my $last = $user->{last};

    problem($event, $name, sprintf 'has lost %s %.3f s after the end of the '
                                   . 'stream', $what, $at - $last->{closed})
        if $last && $at < $last->{closed} + $user->{rules}{grace} - $turn
           && $last->{session}{at} < $at && !$last->{over}
           && !$last->{replaced};
}


# once a second: what should have happened by now

sub look_back {
    my $now = time;

    for my $user (@users) {
        my ($event, $name) = @$user{qw(event name)};
        my @open = open_streams($user);

        if (!@open && defined $model->idx($event, $name)) {
            my $since = $user->{away} ||= $now;
            problem($event, $name, 'still in line')
                if $now - $since > $user->{rules}{grace} + $at_last;
        } else {
            $user->{away} = 0;
        }

        for my $stream (@open) {
            my $session = $stream->{session} or next;

            problem($event, $name, 'the older stream does not end')
                if $stream->{outlived} && $now - $stream->{outlived} > $soon;

            # who does not read, or has just begun to, is not told
            next if $stream->{outlived} || $stream->{token}
                    || $stream->{stalled}
                       && (!$stream->{reads}
                           || $now - $stream->{reads} < $soon);

            my $late = $stream->{stalled} ? undef : $model->late($session);

            problem($event, $name, 'not told where he stands')
                if defined $late && $now - $late > $soon;

            my $idx = $model->idx($event, $name);
            my $there = defined $idx && $idx == $session->{idx};

            $stream->{lost} = $there ? 0 : $stream->{lost} || $now;
            problem($event, $name, 'not in line any more and not told')
                if $stream->{lost} && $now - $stream->{lost} > $soon;
        }
    }

    for my $event (sort keys %rules) {
        my $inside = $model->inside($event);

        for my $name (keys %$inside) {
            problem($event, $name, 'still inside')
                if $inside->{$name} / 1000 < $now - $at_last;
        }

        $model->compare($line{$event});
    }

    $model->forget_old($now - patience(60));
    problem('-', undef, $_) for $sse->violations;
}


# a run that did nothing would prove nothing: it goes on until it had some of
# everything

my @needed = ('first waiting', 'first ready', 'same place', 'another place',
              'waiting, within', 'waiting, edge', 'waiting, beyond',
              'inside, within', 'replaced', 'expired', 'return', 'sold',
              'pause', 'capacity', 'trim', 'full', 'abort, within');

sub missing {
    return ((grep { ($done{$_} || 0) < 3 } @needed),
            $model->periods('tiny')->backlogs ? () : 'backlogs');
}


my $end = time + $seconds;
my $look = 0;

while (!%problems
       && (time < $end || (time < $end + patience(60) && missing())))
{
    $sse->turn(0.01);
    $model->sync;

    for my $user (@users) {
        look_at($user, $_) for open_streams($user);
    }

    my $now = time;

    for my $user (@users) {
        next if $user->{due} > $now;
        $user->{do}->($user, @{$user->{what} || []});
    }

    for my $event (sort keys %operator) {
        operate($event) if $operator{$event}{due} <= $now;
        trim($event) if ($operator{$event}{trims} || 0) > $now;
    }

    fall_asleep() if $nap <= $now;

    if ($now > $look + 1) {
        look_back();
        $look = $now;
    }
}

is_deeply(\%problems, {}, "$seconds s: nothing was wrong at any time");

my $counts = $model->counts;
my $resyncs = 0;

$resyncs += $nodes{$_}->sum('resyncs') for @nodes;

if (!%problems) {
    # one that was broken off has not
    ok(($done{$_} || 0) >= 3, "it had $_ (" . ($done{$_} || 0) . ')')
        for @needed;
    cmp_ok($counts->{told}, '>', 1000, "$counts->{told} positions were true");
    cmp_ok($resyncs, '>', 0, "$resyncs times all ranks were asked for");

    my $backlogs = $model->periods('tiny')->backlogs;

    cmp_ok($backlogs, '>', 0, "in $backlogs periods of the rate some could not "
                              . 'go in for it alone');
}

note(join ', ', map { "$_ $done{$_}" } sort keys %done);
note(join ', ', map { "$_ $counts->{$_}" } sort keys %$counts);

for my $node (@nodes) {
    my @idle = grep { !$_->{streamsOpened} } $nodes{$node}->rows;
    is(scalar(@idle), 0, "$node: both workers had streams");
    note("$node: " . join ', ', map { "$_ " . $nodes{$node}->sum($_) }
                                qw(streamsOpened streamsStalled positionsSent
                                   resyncs restored lateTicks leaves releases));
}


# all go, and nothing is left

for my $user (@users) {
    close_stream($user, $_) for open_streams($user);
}

$line{$_}->set(paused => 0) for sort keys %line;

for my $event (sort keys %line) {
    wait_until { $model->sync; !$line{$event}->leftovers } $at_last + 5,
               "$event: nothing is left";
    is_deeply([ $line{$event}->leftovers ], [], "$event: really nothing");
    $model->compare($line{$event});
}

my $check = WaitingQueue::Redis->new(port => $port);

for my $node (@nodes) {
    is($nodes{$node}->sum('streams'), 0, "$node: no stream is left");

    # one whose message may be on the way is remembered a little longer
    wait_until { !$nodes{$node}->sum('absent') } 15,
               "$node: nobody is remembered";
    wait_until {
        !grep { $check->call('XLEN', "DISPATCH:{$_->{instance}}") }
              $nodes{$node}->rows;
    } 5, "$node: no message is left";
}

wait_until { !$check->call('LLEN', 'PROMOTION_TASK_LIST') } 5,
           'no task is left';
is($check->call('XPENDING', 'ENTRY', 'waiting_queue')->[0], 0,
   'no message is pending');
is_deeply([ $sse->violations ], [], 'what was sent is well-formed');
is_deeply(\%problems, {}, 'nothing was wrong at the end');

finish();
