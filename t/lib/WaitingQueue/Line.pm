package WaitingQueue::Line;

# One event, seen from both sides: the streams of its users, and what is in
# Redis.
#
#     my $line = WaitingQueue::Line->new(event => 'e1', prefix => 't006:',
#                                        sse => $sse);
#     my $s = $line->join('u1');
#     is_deeply($line->waiting, [ 'u1' ]);
#
# The names and contents of the keys are those of docs/protocol.md.  redis is a
# WaitingQueue::Redis, that of the run if none is given; port is nginx' and may
# be given with each stream.

use strict;
use warnings;

use JSON::PP ();
use Time::HiRes ();
use WaitingQueue::Redis;
use WaitingQueue::Script;
use WaitingQueue::Sse;

my $seed = 0;


sub new {
    my ($class, %options) = @_;

    my $self = bless {
        prefix => '',
        path => '/events/%e/tickets/waiting?user=%u',
        %options,
    }, $class;

    $self->{redis} ||= WaitingQueue::Redis->new;

    # the keys of all scripts, in their order
    my $script = WaitingQueue::Script->new($self->{event});

    for my $n (0 .. 63) {
        my $key = eval { $script->key($n) };
        last if !defined $key;
        push @{$self->{keys}}, "$self->{prefix}$key";
    }

    return $self;
}


sub event { return $_[0]{event} }
sub prefix { return $_[0]{prefix} }
sub redis { return $_[0]{redis} }


# key(name): of the event, unless the name stands for all

my %global = map { $_ => 1 } qw(WAITING_QUEUE_IDX ENTRY_QUEUE_SLOTS ENTRY
                                WAITING_EVENTS WAITING_INSTANCES
                                WAITING_ORIGIN
                                PROMOTION_TASK_LIST);

sub key {
    my ($self, $name, $user) = @_;

    return "$self->{prefix}$name" if $global{$name};
    return "$self->{prefix}$name:{$self->{event}}"
           . (defined $user ? ":$user" : '');
}


sub call {
    my ($self, @words) = @_;
    return $self->{redis}->call(@words);
}


# streams

sub path {
    my ($self, $user) = @_;
    return $self->{path} =~ s/%e/$self->{event}/r =~ s/%u/$user/r;
}


# open(user, options of Sse's open)

sub open {
    my ($self, $user, %options) = @_;

    my $s = $self->{sse}->open(
        path => $self->path($user), name => "$self->{event} $user",
        $self->{port} ? (port => $self->{port}) : (),
        headers => $self->{headers} || {}, %options);

    $s->{user} = $user;

    return $s;
}


# join(user, ...): the same, with its first event or whatever else it was told

sub join {
    my ($self, $user, %options) = @_;

    my $s = $self->open($user, %options);

    $self->{sse}->run_until(sub { $s->events || $s->ended }, 10)
        or die "$user: no answer\n" . $self->{sse}->describe . "\n";

    return $s;
}


# joins(users): one after the other, so that their order is known

sub joins {
    my ($self, @users) = @_;
    return map { $self->join($_) } @users;
}


# what is in Redis

sub waiting {
    my $self = shift;
    return [ map { /^\{"userId":"(.*)"\}$/ ? $1 : "garbage $_" }
                 @{$self->call('ZRANGE', $self->key('WAITING'), 0, -1)} ];
}


# who is inside, in the order of their names

sub inside {
    my $self = shift;
    return [ sort @{$self->call('ZRANGE', $self->key('ENTRY_ACTIVE'), 0,
                                -1)} ];
}


sub rank {
    my ($self, $user) = @_;
    return $self->call('ZRANK', $self->key('WAITING'),
                       qq({"userId":"$user"}));
}


sub idx {
    my ($self, $user) = @_;
    return $self->call('ZSCORE', $self->key('WAITING'),
                       qq({"userId":"$user"}));
}


sub record {
    my ($self, $user) = @_;
    return _json($self->call('HGET', $self->key('WAITING_QUEUE_INDEX_RECORD'),
                             $user));
}


sub lease {
    my ($self, $user) = @_;
    return _json($self->call('HGET', $self->key('ENTRY_LEASE'), $user));
}


sub _json { return defined $_[0] ? JSON::PP::decode_json($_[0]) : undef }


sub slots {
    my $self = shift;
    return $self->call('HGET', $self->key('ENTRY_QUEUE_SLOTS'),
                       $self->{event});
}


sub token {
    my ($self, $user) = @_;
    return $self->call('GET', $self->key('ENTRY_TOKEN', $user));
}


sub stat {
    my ($self, $name) = @_;
    return $self->call('HGET', $self->key('WAITING_STATS'), $name) || 0;
}


# set(name => value, ...): the operator's word at run time

sub set {
    my ($self, @fields) = @_;
    return $self->call('HSET', $self->key('WAITING_QUEUE_OVERRIDE'), @fields);
}


# script(name, arguments after the event): one of nginx' own, as it calls them

sub script {
    my ($self, $name, @arguments) = @_;

    if (!$self->{scripts}{$name}) {
        CORE::open my $file, '<', "$ENV{WQ_BUILD}/dist/wq/lua/$name.lua"
            or die "$name.lua: $!\n";
        $self->{scripts}{$name} = do { local $/; <$file> };
    }

    return $self->{redis}->eval($self->{scripts}{$name}, $self->{keys},
                                $self->{event}, @arguments);
}


# a visit ends: what the gate does; true if there was a lease

sub release {
    my ($self, $user, $how) = @_;

    return $self->script('release', $user, $how || 'return',
                         "test$$." . ++$seed, '', '', 'done')->[0];
}


# all keys that speak of this event

sub keys {
    my $self = shift;

    my $prefix = $self->{prefix};
    my $e = $self->{event};

    return sort map { substr $_, length $prefix }
                grep { index($_, $prefix) == 0 }
                     @{$self->call('KEYS', "*{$e}*")};
}


# what is wrong, of invariants 1, 2, 4: read at one instant; empty when all is
# well

my $snapshot = <<'END';
local function all(command, key, ...)
    return redis.call(command, key, ...)
end
return {
    all('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), all('HGETALL', KEYS[2]),
    all('HGETALL', KEYS[3]), all('HGET', KEYS[4], ARGV[1]) or '',
    all('ZRANGE', KEYS[5], 0, -1, 'WITHSCORES'), all('HGETALL', KEYS[6]),
    all('HGETALL', KEYS[7]), all('HGET', KEYS[8], ARGV[1]) or '',
    redis.call('TIME'), all('ZRANGE', KEYS[9], 0, -1, 'WITHSCORES'),
}
END

sub snapshot {
    my $self = shift;

    my ($waiting, $record, $ids, $slots, $active, $lease, $stats, $idx, $time,
        $seen)
        = @{$self->{redis}->eval(
              $snapshot,
              [ map { $self->key($_) } qw(WAITING WAITING_QUEUE_INDEX_RECORD
                                          WAITING_USER_IDS ENTRY_QUEUE_SLOTS
                                          ENTRY_ACTIVE ENTRY_LEASE
                                          WAITING_STATS WAITING_QUEUE_IDX
                                          WAITING_SEEN) ],
              $self->{event})};

    my (@line, %idx_of, @garbage);

    while (my ($member, $score) = splice @$waiting, 0, 2) {
        if ($member =~ /^\{"userId":"(.*)"\}$/) {
            push @line, $1;
            $idx_of{$1} = $score;
        } else {
            push @garbage, $member;
        }
    }

    return {
        line => \@line, idx => \%idx_of, garbage => \@garbage,
        record => { @$record }, ids => { @$ids }, slots => $slots,
        active => { @$active }, lease => { @$lease }, stats => { @$stats },
        last_idx => $idx, seen => { @$seen },
        now => $time->[0] * 1000 + int($time->[1] / 1000),
        taken => Time::HiRes::time(),
    };
}


sub wrong {
    my ($self, $snap) = @_;

    $snap ||= $self->snapshot;

    my @wrong = map { "garbage in line: $_" } @{$snap->{garbage}};
    my $stats = $snap->{stats};
    my $inside = CORE::keys %{$snap->{active}};
    my $names = sub { CORE::join(' ', sort @_) };
    my $line = $names->(@{$snap->{line}});

    push @wrong, "slots: '$snap->{slots}' free, $inside inside, capacity "
                 . "$stats->{capacity}, sold " . ($stats->{sold} || 0)
        if defined $stats->{capacity}
           && ($snap->{slots} eq ''
               || $snap->{slots} + $inside
                  != $stats->{capacity} - ($stats->{sold} || 0));

    push @wrong, 'the records are not those of the line'
        if $line ne $names->(CORE::keys %{$snap->{record}});
    push @wrong, 'the ids are not those of the line'
        if $line ne $names->(CORE::keys %{$snap->{ids}});
    push @wrong, 'the leases are not those inside'
        if $names->(CORE::keys %{$snap->{active}})
           ne $names->(CORE::keys %{$snap->{lease}});
    push @wrong, "in line and inside: $_"
        for grep { exists $snap->{active}{$_} } @{$snap->{line}};

    my $e = $self->{event};

    for my $user (@{$snap->{line}}) {
        my $record = $snap->{record}{$user};
        next if !defined $record;

        push @wrong, "record of $user: $record"
            if $record !~ /^\{"userId":"\Q$user\E","eventId":"\Q$e\E","idx":
                           $snap->{idx}{$user},"instanceId":"([^"]*)"/x;

        # who has no stream is there as long as it asks
        push @wrong, "nobody holds the place of $user"
            if $record =~ /"instanceId":""/ && !exists $snap->{seen}{$user};
    }

    push @wrong, "seen, but not in line: $_"
        for grep { !exists $snap->{idx}{$_} } CORE::keys %{$snap->{seen}};

    push @wrong, map { "id of $_: $snap->{ids}{$_}" }
                 grep { $snap->{ids}{$_} ne 'true' } CORE::keys %{$snap->{ids}};

    return @wrong;
}


# everything that must be empty once nobody is there any more; what marks a
# lease that has ended goes by itself when its time would be over

sub leftovers {
    my $self = shift;

    my @left = map { "$_: " . $self->call('TYPE', "$self->{prefix}$_") }
               grep { !/^(?:WAITING_STATS|WAITING_QUEUE_CONF
                          |WAITING_QUEUE_OVERRIDE|seat:count):/x
                      && !(m{^ENTRY_TOKEN:.*/}
                           && $self->call('PTTL', "$self->{prefix}$_") > 0) }
                    $self->keys;

    push @left, 'it is among the events'
        if $self->call('SISMEMBER', $self->key('WAITING_EVENTS'),
                       $self->{event});
    push @left, 'messages in ENTRY'
        if $self->call('XLEN', $self->key('ENTRY'));

    return @left;
}


1;
