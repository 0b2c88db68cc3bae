package WaitingQueue::Model;

# What must be so, at every instant, of all that the nodes do with one Redis:
#
#     my $model = WaitingQueue::Model->new(
#         port => $redis->port,
#         events => { e1 => { grace => 2, max_waiting => 100,
#                             rate => [ users, ms ] } },
#         problem => sub { my ($event, $user, $text) = @_; ... },
#         left => sub { my ($event, $user, $at, $idx) = @_; ... });
#
#     $model->sync;
#
# Redis itself tells all it does and in which order, by MONITOR.  From that all
# that is stored is built up again, and after every script, which is to say at
# every instant that anybody can see, the invariants are checked.  The calls
# that ask for positions stand in the same order, so that the rank that a worker
# must tell is known for each of them: a session is what the stream of one join
# has to be told.
#
# A rate may be left out; what is known of its periods is told by periods(event)
# (WaitingQueue::Periods).
#
# Redis must be empty when it begins.  left() is called for who has left the
# line or was deprived of a lease because nobody was connected.

use strict;
use warnings;

use Digest::SHA ();
use IO::Socket::INET;
use Time::HiRes ();
use WaitingQueue::Periods;
use WaitingQueue::Redis;

# a clock may be a tick of the kernel behind
my $tick = 0.02;


sub new {
    my ($class, %o) = @_;

    my $self = bless {
        left => sub { },
        %o,
        redis => WaitingQueue::Redis->new(port => $o{port}),
        in => '',
        asked => 0,
        moment => 0,
        script => undef,
        instances => {},            # by the address of their link
        scripts => {},
        event => {},
        waiting => {},              # sessions, by instance and event
        recent => {},               # the same by event and user, unclaimed
        counts => {},
    }, $class;

    for my $file (glob "$ENV{WQ_BUILD}/dist/wq/lua/*.lua") {
        my ($name) = $file =~ m{([^/]+)\.lua$};

        open my $handle, '<', $file or die "$file: $!\n";
        $self->{scripts}{Digest::SHA::sha1_hex(do { local $/; <$handle> })}
            = $name;
    }

    for my $name (keys %{$self->{events}}) {
        $self->{event}{$name} = {
            %{$self->{events}{$name}},
            name => $name,
            line => [],             # idx, first to last
            idx => {}, record => {}, ids => {}, active => {}, lease => {},
            token => {}, override => {}, touched => {}, joined_at => {},
            leases => {}, full_at => 0,
            stats => { map { $_ => 0 } qw(joined direct promoted left gone
                                          expired done sold capacity) },
            slots => 0, last_idx => 0, last_promoted => 0, known => 0,
        };

        my $event = $self->{event}{$name};
        my $rate = $event->{rate} or next;

        $event->{periods} = WaitingQueue::Periods->new(users => $rate->[0],
                                                       ms => $rate->[1]);
        @{$event->{stats}}{qw(period used)} = (0, 0);
    }

    $self->{socket} = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                            PeerPort => $o{port})
        or die "no Redis: $!\n";

    print {$self->{socket}} "MONITOR\r\n";
    $self->{socket}->flush;
    $self->_read until $self->{in} =~ s/^\+OK\r\n//;

    return $self;
}


sub problem {
    my ($self, $event, $user, $text) = @_;
    $self->{problem}->($event->{name}, $user, $text);
}


# how often something was seen: joins, ticks, resyncs ...

sub counts { return $_[0]{counts} }


# whether the user of the event waits, is inside; who, and how many

sub idx { return $_[0]{event}{$_[1]}{idx}{$_[2]} }
sub lease { return $_[0]{event}{$_[1]}{active}{$_[2]} }
sub waiting { return CORE::keys %{$_[0]{event}{$_[1]}{idx}} }
sub inside { return $_[0]{event}{$_[1]}{active} }
sub token { return $_[0]{event}{$_[1]}{token}{$_[2]} }
sub stats { return $_[0]{event}{$_[1]}{stats} }
sub periods { return $_[0]{event}{$_[1]}{periods} }
sub holder { return $_[0]{event}{$_[1]}{holder}{$_[2]} }


# the lease of that token, or undef: { token, idx, ends, ended }

sub lease_of {
    my ($self, $event, $user, $token) = @_;

    my ($lease) = grep { $_->{token} eq $token }
                       @{$self->{event}{$event}{leases}{$user} || []};
    return $lease;
}


# whether the user was let in from the place of that idx, and that is over

sub ended_lease {
    my ($self, $event, $user, $idx) = @_;

    return scalar grep { $_->{idx} == $idx && $_->{ended} }
                       @{$self->{event}{$event}{leases}{$user} || []};
}


# whether the line was full at some time since then

sub was_full {
    my ($self, $event, $since) = @_;
    return $self->{event}{$event}{full_at} >= $since - $tick;
}


# sync(): all that Redis has done before this call

sub sync {
    my $self = shift;

    my $mark = 'sync ' . ++$self->{asked};

    $self->{redis}->call('ECHO', $mark);
    $self->{reached} = '';

    while ($self->{reached} ne $mark) {
        $self->_lines;
        $self->_read if $self->{reached} ne $mark;
    }
}


# compare(line): what is stored is what was built up here; the line is a
# WaitingQueue::Line

sub compare {
    my ($self, $line) = @_;

    my $event = $self->{event}{$line->event};

    delete $event->{copy};
    my $snap = $line->snapshot;
    $self->sync;

    my $theirs = _text({ idx => $snap->{idx}, active => $snap->{active},
                         stats => { map { $_ => $snap->{stats}{$_} || 0 }
                                        keys %{$event->{stats}} },
                         slots => $snap->{slots} });

    $self->problem($event, undef, "Redis has\n$theirs, but the model\n"
                                  . ($event->{copy} || 'nothing'))
        if $theirs ne ($event->{copy} || '')
           && ($event->{known} || @{$snap->{line}});

    $self->problem($event, undef, $_)
        for $event->{known} ? $line->wrong($snap) : ();
}


sub _text {
    my ($state) = @_;

    return join ', ', map { my $part = $state->{$_};
                            "$_: " . (ref $part
                                      ? join ' ', map { "$_=$part->{$_}" }
                                                      sort keys %$part
                                      : $part) } sort keys %$state;
}


sub _read {
    my $self = shift;

    my $n = sysread $self->{socket}, $self->{in}, 1048576, length $self->{in};
    die "MONITOR has ended\n" if !$n;
}


sub _lines {
    my $self = shift;

    my $from = 0;

    while ((my $end = index $self->{in}, "\r\n", $from) >= 0) {
        my $line = substr $self->{in}, $from, $end - $from;

        $from = $end + 2;

        my ($at, $who, $command, $rest) =
            $line =~ /^\+(\d+\.\d+) \[\d+ ([^\]]+)\] "([A-Za-z]+)"(.*)$/s
            or next;

        if ($who eq 'lua') {
            $self->_effect(uc $command, $rest);
            next;
        }

        $self->_end if $self->{script};

        $command = uc $command;

        if ($command eq 'ECHO') {
            ($self->{reached}) = _words($rest);
        } elsif ($command eq 'EVALSHA') {
            $self->_begin($at, $who, _words($rest));
        } elsif ($command eq 'EVAL') {
            my ($text, @words) = _words($rest);
            $self->_begin($at, $who, Digest::SHA::sha1_hex($text), @words);
        } elsif ($command eq 'HSET') {
            my ($key, %fields) = _words($rest);
            my ($event) = $key =~ /^WAITING_QUEUE_OVERRIDE:\{(.*)\}$/;
            my $override = $self->{event}{$event || ''}{override} or next;
            @$override{keys %fields} = values %fields;
        }
    }

    substr $self->{in}, 0, $from, '';
}


sub _words {
    my @words = $_[0] =~ /"((?:[^"\\]|\\.)*)"/g;

    for (@words) {
        s/\\(x[0-9a-f]{2}|.)/$1 eq 'n' ? "\n" : $1 eq 'r' ? "\r"
                             : $1 =~ m{^x(..)} ? chr hex $1 : $1/ge
            if index($_, '\\') >= 0;
    }

    return @words;
}


sub _begin {
    my ($self, $at, $who, $sha1, $n, @words) = @_;

    my @keys = splice @words, 0, $n;
    my $name = $self->{scripts}{$sha1};

    if (!defined $name) {
        # not one of nginx: the snapshot of compare()
        my $event = $self->{event}{$words[0] || ''};
        $event->{copy} = _text({ map { $_ => $event->{$_} }
                                     qw(idx active stats slots) })
            if $event;
        return;
    }

    $self->{counts}{$name}++;

    if ($name eq 'heartbeat') {
        $self->{instances}{$who} = $words[0];
        return;
    }

    my $event = $self->{event}{$words[0] || ''};

    return if !$event || $keys[0] ne "WAITING:{$event->{name}}";

    $self->{instances}{$who} = $words[2] if $name eq 'join';

    $self->{script} = {
        name => $name, at => $at, event => $event, words => \@words,
        instance => $self->{instances}{$who} || $who,
        before => scalar @{$event->{line}}, in => [], out => [], left => [],
        periods => [],
    };
}


# what a script does

my %effect = (
    'ZADD WAITING' => sub {
        my ($self, $e, undef, $idx, $member) = @_;
        my ($user) = $member =~ /^\{"userId":"(.*)"\}$/;

        $self->problem($e, $user, "a second place, $idx besides "
                                  . $e->{idx}{$user})
            if defined $e->{idx}{$user};
        $self->problem($e, $user, "idx $idx after $e->{last_idx}")
            if $idx <= $e->{last_idx};

        $e->{idx}{$user} = $idx;
        $e->{last_idx} = $idx;
        push @{$e->{line}}, $idx;
        $e->{touched}{$user} = 1;
    },
    'ZREM WAITING' => sub {
        my ($self, $e, undef, $member) = @_;
        my ($user) = $member =~ /^\{"userId":"(.*)"\}$/;
        my $idx = delete $e->{idx}{$user};

        return if !defined $idx;

        splice @{$e->{line}}, _rank($e, $idx), 1;
        push @{$self->{script}{out}}, [ $user, $idx ];
        $e->{touched}{$user} = 1;
    },
    'HSET WAITING_QUEUE_INDEX_RECORD' => sub {
        my ($self, $e, undef, $user, $json) = @_;
        my %record = $json =~ /"(\w+)":"?([^",}]+)/g;
        $e->{record}{$user} = \%record;
        $e->{holder}{$user} = $record{instanceId};
        $e->{touched}{$user} = 1;
    },
    'HDEL WAITING_QUEUE_INDEX_RECORD' => sub {
        my ($self, $e, undef, $user) = @_;
        delete $e->{record}{$user};
        $e->{touched}{$user} = 1;
    },
    'HSET WAITING_USER_IDS' => sub {
        my ($self, $e, undef, $user) = @_;
        $e->{ids}{$user} = 1;
        $e->{touched}{$user} = 1;
    },
    'HDEL WAITING_USER_IDS' => sub {
        my ($self, $e, undef, $user) = @_;
        delete $e->{ids}{$user};
        $e->{touched}{$user} = 1;
    },
    'ZADD ENTRY_ACTIVE' => sub {
        my ($self, $e, undef, $ends, $user) = @_;
        push @{$self->{script}{in}}, $user if !defined $e->{active}{$user};
        $e->{active}{$user} = $ends;
        $e->{touched}{$user} = 1;
    },
    'ZREM ENTRY_ACTIVE' => sub {
        my ($self, $e, undef, $user) = @_;
        my $ends = delete $e->{active}{$user};
        push @{$self->{script}{left}}, $user if defined $ends;
        $e->{touched}{$user} = 1;
    },
    'HSET ENTRY_LEASE' => sub {
        my ($self, $e, undef, $user, $json) = @_;
        my %record = $json =~ /"(\w+)":"?([^",}]+)/g;
        $e->{lease}{$user} = \%record;
        $e->{holder}{$user} = $record{instanceId};
        $e->{touched}{$user} = 1;
    },
    'HDEL ENTRY_LEASE' => sub {
        my ($self, $e, undef, $user) = @_;
        delete $e->{lease}{$user};
        $e->{touched}{$user} = 1;
    },
    'HINCRBY WAITING_STATS' => sub {
        my ($self, $e, undef, $name, $n) = @_;
        $e->{stats}{$name} += $n;
    },
    'HSET WAITING_STATS' => sub {
        my ($self, $e, undef, $name, $value) = @_;
        $e->{stats}{$name} = $value if exists $e->{stats}{$name};
        push @{$self->{script}{periods}}, $value if $name eq 'period';
    },
);

sub _effect {
    my ($self, $command, $rest) = @_;

    my $script = $self->{script} or return;
    my ($key) = $rest =~ /^ "([A-Za-z_:]+)/ or return;
    my $event = $script->{event};

    if ($key eq 'ENTRY_QUEUE_SLOTS' && $command eq 'HSET') {
        (undef, undef, $event->{slots}) = _words($rest);
        $event->{known} = 1;

    } elsif ($key eq 'ENTRY_TOKEN:') {
        my ($name, $token) = _words($rest);
        my ($user) = $name =~ /\}:(.*)$/;

        if ($command eq 'SET') {
            $self->problem($event, $user, 'another token for the same lease')
                if defined $event->{active}{$user}
                   && defined $event->{token}{$user}
                   && $event->{token}{$user} ne $token
                   && !grep { $_ eq $user } @{$script->{in}};
            $event->{token}{$user} = $token;
        }

    } else {
        my $effect = $effect{"$command " . ($key =~ s/:$//r)} or return;
        $effect->($self, $event, _words($rest));
    }
}


sub _rank {
    my ($event, $idx) = @_;

    my $line = $event->{line};
    my ($low, $high) = (0, scalar @$line);

    while ($low < $high) {
        my $middle = ($low + $high) >> 1;

        if ($line->[$middle] < $idx) {
            $low = $middle + 1;
        } else {
            $high = $middle;
        }
    }

    return $low;
}


# a script is over: this is an instant

sub _end {
    my $self = shift;

    my $script = delete $self->{script};
    my $event = $script->{event};

    $self->{moment}++;

    $self->_check_users($event);
    $self->_check_slots($event) if $event->{known};
    $self->_check_entries($script);
    $self->_check_rate($script) if $event->{periods};

    $event->{full_at} = $script->{at}
        if @{$event->{line}} >= $event->{max_waiting};

    my $after = $self->can("_after_$script->{name}");
    $after->($self, $script, $event, @{$script->{words}}) if $after;
}


# invariants 2 and 4, of those whom the script has touched

sub _check_users {
    my ($self, $e) = @_;

    for my $user (keys %{$e->{touched}}) {
        my $idx = $e->{idx}{$user};
        my $in_line = defined $idx;

        $self->problem($e, $user, 'the record is not that of the line')
            if $in_line != exists $e->{record}{$user}
               || ($in_line && $e->{record}{$user}{idx} != $idx);
        $self->problem($e, $user, 'the ids are not those of the line')
            if $in_line != exists $e->{ids}{$user};
        $self->problem($e, $user, 'the lease is not that of who is inside')
            if exists $e->{active}{$user} != exists $e->{lease}{$user};
        $self->problem($e, $user, 'in line and inside')
            if $in_line && exists $e->{active}{$user};

        my $leases = $e->{leases}{$user} ||= [];

        if (exists $e->{active}{$user} && exists $e->{lease}{$user}) {
            push @$leases, { token => $e->{token}{$user},
                             idx => $e->{lease}{$user}{idx} }
                if !@$leases || $leases->[-1]{token} ne $e->{token}{$user};
            $leases->[-1]{ends}{$e->{active}{$user}} = 1;
            shift @$leases if @$leases > 5;

        } elsif (@$leases) {
            $leases->[-1]{ended} = 1;
        }
    }

    $e->{touched} = {};
}


# invariant 1, and what the counters count

sub _check_slots {
    my ($self, $e) = @_;

    my $stats = $e->{stats};
    my $inside = keys %{$e->{active}};
    my $line = @{$e->{line}};

    $self->problem($e, undef, "$e->{slots} slots are free, $inside inside, of "
                              . "$stats->{capacity}, $stats->{sold} sold")
        if $e->{slots} + $inside != $stats->{capacity} - $stats->{sold};

    $self->problem($e, undef, "joined $stats->{joined}, direct "
                              . "$stats->{direct}, promoted "
                              . "$stats->{promoted}, gone $stats->{gone}, in "
                              . "line $line")
        if $stats->{joined} != $stats->{direct} + $stats->{promoted}
                               + $stats->{gone} + $line;

    # who has left without having waited has given a lease back
    my $ended = $stats->{done} + $stats->{sold} + $stats->{expired}
                + $stats->{left} - $stats->{gone};

    $self->problem($e, undef, "direct $stats->{direct}, promoted "
                              . "$stats->{promoted}, but $ended ended and "
                              . "$inside inside")
        if $stats->{direct} + $stats->{promoted} != $ended + $inside;
}


# invariant 3, and who may be let in at all

sub _check_entries {
    my ($self, $script) = @_;

    my $e = $script->{event};
    my %in = map { $_ => 1 } @{$script->{in}};

    for my $out (@{$script->{out}}) {
        my ($user, $idx) = @$out;

        next if !$in{$user};
        delete $in{$user};
        $self->{counts}{promoted}++;

        $self->problem($e, $user, "$idx let in after $e->{last_promoted}")
            if $idx <= $e->{last_promoted};
        $self->problem($e, $user, "$idx let in, $e->{line}[0] waits")
            if @{$e->{line}} && $e->{line}[0] < $idx;
        $e->{last_promoted} = $idx;
    }

    for my $user (keys %in) {
        $self->{counts}{direct}++;
        $self->problem($e, $user, "let in past $script->{before} others")
            if $script->{name} ne 'join' || $script->{before};
    }

    if (@{$script->{in}}) {
        $self->problem($e, $script->{in}[0], 'let in while it was paused')
            if $e->{override}{paused};
        $self->problem($e, $script->{in}[0], 'let in without a slot')
            if $e->{slots} < 0;
    }
}


# who goes in, by the moment that the script itself has seen; the time at which
# it was called is nearly the same

sub _check_rate {
    my ($self, $script) = @_;

    my $e = $script->{event};
    my $periods = $e->{periods};
    my $at = int 1000 * $script->{at};
    my @wrong;

    for my $user (@{$script->{in}}) {
        $at = $e->{lease}{$user}{since};
        push @wrong, $periods->entry($at);
    }

    my $could = @{$e->{line}} < $e->{slots} ? @{$e->{line}} : $e->{slots};

    push @wrong, (map { $periods->began($at, $_) } @{$script->{periods}}),
         $periods->could($at, $e->{override}{paused} ? 0 : $could);
    push @wrong, $periods->asked($at)
        if $script->{name} eq 'promote_all_waiting_for_event';

    $self->problem($e, undef, "the rate: $_") for grep { defined } @wrong;
}


# sessions: one join of one user on one instance, and all that its stream has
# to be told from then on

sub _after_join {
    my ($self, $script, $e, undef, $user, $instance) = @_;

    my $session = {
        event => $e->{name}, user => $user, instance => $instance,
        at => $script->{at}, moment => $self->{moment}, ranks => [],
    };

    $e->{joined_at}{$user} = $script->{at};
    push @{$self->{recent}{$e->{name}}{$user}}, $session;

    if (defined $e->{idx}{$user}) {
        $session->{idx} = $e->{idx}{$user};
        push @{$self->{waiting}{$instance}{$e->{name}}}, $session;
        $self->_rank_of($session, $e, $script->{at});

        $self->problem($e, $user, 'more wait than may')
            if @{$e->{line}} > $e->{max_waiting}
               && @{$e->{line}} > $script->{before};

    } elsif (exists $e->{active}{$user}) {
        $session->{idx} = $e->{lease}{$user}{idx};
        $session->{token} = $e->{token}{$user};
    }
}


# The total that goes with a rank is that of the moment when the worker has
# learnt it.  One that was asked for is learnt even if it is still the same.

sub _rank_of {
    my ($self, $session, $e, $at, $asked) = @_;

    my $idx = $e->{idx}{$session->{user}};

    # not the place of this session any more: its stream is told nothing
    return if !defined $idx || $idx != $session->{idx};

    my $rank = _rank($e, $idx);
    my $ranks = $session->{ranks};

    if (!@$ranks || $ranks->[-1]{rank} != $rank) {
        push @$ranks, { rank => $rank, at => $at, moment => $self->{moment} };
        $asked = 1;
    }

    $ranks->[-1]{totals}{scalar @{$e->{line}}} = 1 if $asked;
}


sub _after_positions {
    my ($self, $script, $e) = @_;

    my $instance = $script->{instance};

    $self->{tick}{$instance}{$e->{name}} = $self->{moment};
    $self->_rank_of($_, $e, $script->{at})
        for @{$self->{waiting}{$instance}{$e->{name}} || []};
}


# the news were not enough: what they would have said may not have been told

sub _after_ranks {
    my ($self, $script, $e, undef, @users) = @_;

    my $instance = $script->{instance};
    my $tick = $self->{tick}{$instance}{$e->{name}} || 0;
    my %asked = map { $_ => 1 } @users;

    for my $session (@{$self->{waiting}{$instance}{$e->{name}} || []}) {
        my $last = $session->{ranks}[-1];

        $last->{perhaps} = 1 if $last && $last->{moment} == $tick;
        $self->_rank_of($session, $e, $script->{at}, 1)
            if $asked{$session->{user}};
    }
}


sub _after_restore {
    my ($self, $script, $e, undef, $user) = @_;

    $self->problem($e, $user, 'restored, but nothing was lost')
        if @{$e->{line}} > $script->{before};
}


# nobody leaves before the grace time since the last join, at the very least:
# the stream may have ended before the join was carried out, but not long

sub _after_leave {
    my ($self, $script, $e, undef, $user) = @_;
    $self->_left($script, $e, $user, $script->{out}[0][1])
        if @{$script->{out}};
}


sub _after_release {
    my ($self, $script, $e, undef, $user, @words) = @_;

    # by a worker, that is
    $self->_left($script, $e, $user)
        if @{$script->{left}} && $words[2] ne '';
}


sub _after_reap {
    my ($self, $script, $e) = @_;
    $self->problem($e, undef, 'somebody was reaped, but nobody is dead')
        if @{$script->{out}} || @{$script->{left}};
}


sub _left {
    my ($self, $script, $e, $user, $idx) = @_;

    my $since = $script->{at} - ($e->{joined_at}{$user} || 0);

    $self->{counts}{defined $idx ? 'left' : 'taken_back'}++;
    $self->problem($e, $user, sprintf 'has lost %s %.3f s after a join',
                              defined $idx ? 'the place' : 'the lease', $since)
        if $since < $e->{grace} / 2;

    $self->{left}->($e->{name}, $user, $script->{at}, $idx);
}


# claim(event, user, node, since, data): the session of the stream that was
# opened at that time, by the first thing that it was told; undef if there is no
# such, and then what would have been right

sub claim {
    my ($self, $event, $user, $node, $since, $told) = @_;

    my $recent = $self->{recent}{$event}{$user} || [];
    my @might;

    for my $session (reverse @$recent) {
        next if $session->{at} < $since - $tick
                || $session->{instance} !~ /^\Q$node\E-/;

        my $first = $session->{ranks}[0];

        push @might, $first ? "rank $first->{rank}"
                     : $session->{token} ? "token $session->{token}"
                     : 'nothing';

        # a place may have become a lease before it was told
        next if $told->{status} eq 'waiting'
                ? !$first || $first->{rank} != $told->{rank}
                : $first
                  ? $told->{token} ne $self->_token_of($session)
                  : ($session->{token} || '') ne ($told->{token} || '');

        @$recent = grep { $_->{moment} > $session->{moment} } @$recent;
        $session->{told} = 0;

        return $session;
    }

    return (undef, join ', ', @might);
}


sub _token_of {
    my ($self, $session) = @_;

    my $e = $self->{event}{$session->{event}};
    my $lease = $e->{lease}{$session->{user}};

    return $lease && $lease->{idx} == $session->{idx}
           ? $e->{token}{$session->{user}} : '';
}


# told(session, rank, total, stalled): what is wrong with this being the next
# position that its stream is told; undef if nothing.  One that does not read
# may miss some.

sub told {
    my ($self, $session, $rank, $total, $stalled) = @_;

    my $ranks = $session->{ranks};
    my $next = $session->{told};

    # the first was the answer to the join
    $next++ if $session->{begun}++;

    my $looked = $next;

    while ($next < @$ranks && $ranks->[$next]{rank} != $rank
           && ($stalled || $ranks->[$next]{perhaps}))
    {
        $next++;
    }

    if ($next >= @$ranks || $ranks->[$next]{rank} != $rank) {
        my $right = $ranks->[$looked];
        return "rank $rank; it must be "
               . ($right ? $right->{rank} : 'none') . ' after '
               . join ' ', map { $_->{rank} }
                           @$ranks[($looked > 5 ? $looked - 5 : 0)
                                   .. $looked - 1];
    }

    $session->{told} = $next;
    $self->{counts}{told}++;

    # one that has not read may have been meant to hear another time since, and
    # then hears the total of that
    return if $stalled || $ranks->[$next]{totals}{$total};

    return "total $total with rank $rank; it must be "
           . join ' or ', sort keys %{$ranks->[$next]{totals}};
}


# the rank that the stream was told last of those before that moment

sub rank_before {
    my ($self, $session, $moment) = @_;

    return if !$session->{begun};

    my ($last) = grep { $_->{moment} < $moment }
                      reverse @{$session->{ranks}}[0 .. $session->{told}];
    return $last && $last->{rank};
}


# since when the stream has not been told what it should; undef if it has

sub late {
    my ($self, $session) = @_;

    my $next = $session->{told} + ($session->{begun} ? 1 : 0);
    my $entry = $session->{ranks}[$next];

    return $entry && !$entry->{perhaps} ? $entry->{at} : undef;
}


# the stream has ended

sub forget {
    my ($self, $session) = @_;

    my $list = $self->{waiting}{$session->{instance}}{$session->{event}} || [];
    @$list = grep { $_ != $session } @$list;
}


# those that no stream ever asked for

sub forget_old {
    my ($self, $before) = @_;

    for my $event (values %{$self->{recent}}) {
        for my $user (keys %$event) {
            $self->forget($_) for grep { $_->{at} < $before }
                                       @{$event->{$user}};
            @{$event->{$user}} = grep { $_->{at} >= $before }
                                      @{$event->{$user}};
            delete $event->{$user} if !@{$event->{$user}};
        }
    }
}


1;
