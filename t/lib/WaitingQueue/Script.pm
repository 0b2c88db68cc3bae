package WaitingQueue::Script;

# The Lua scripts, called as nginx calls them, without nginx:
#
#     use WaitingQueue::Script;
#
#     my $line = WaitingQueue::Script->new('e1', capacity => 2);
#     my $answer = $line->join('u1', 'node-1-1');
#
# Uses the Redis of the run, WQ_REDIS_SOCKET, in a database that is flushed
# first.  The scripts are those of the build, with their includes.

use strict;
use warnings;

use IO::Socket::UNIX;

our @EXPORT_OK = ();

my $socket;
my %sha1;

my @keys = map { my $name = $_; sub { $name =~ s/%e/$_[0]/r } } (
    'WAITING:{%e}', 'WAITING_QUEUE_INDEX_RECORD:{%e}', 'WAITING_USER_IDS:{%e}',
    'WAITING_QUEUE_IDX', 'ENTRY_QUEUE_SLOTS', 'ENTRY', 'ENTRY_TOKEN:{%e}:',
    'ENTRY_ACTIVE:{%e}', 'ENTRY_LEASE:{%e}', 'WAITING_SEEN:{%e}',
    'WAITING_GONE:{%e}', 'WAITING_STATS:{%e}', 'WAITING_QUEUE_CONF:{%e}',
    'WAITING_QUEUE_OVERRIDE:{%e}', 'WAITING_EVENTS', 'seat:count:{%e}',
    'WAITING_INSTANCES', 'WAITING_ORIGIN',
);

my @joined = qw(status idx rank total promoted gone joined token expires
                previous changed epoch serial waited rate_users rate_ms
                halted crowded opens since hold);

my @figures = qw(total inside free capacity sold seats joined direct promoted
                 entered left expired done drift rate_users rate_ms concurrent
                 halted hold origin);


# redis(command): the answer; an error reply is died of

sub redis {
    if (!$socket) {
        $socket = IO::Socket::UNIX->new(Peer => $ENV{WQ_REDIS_SOCKET})
            or die "Redis: $!\n";
        redis('SELECT', 15);
        flush();
    }

    print $socket join '', '*' . @_ . "\r\n",
                           map { '$' . length($_) . "\r\n$_\r\n" } @_;
    $socket->flush;

    return _read();
}


# a Redis without data in which a worker has been: people are let in

sub flush {
    redis('FLUSHDB');
    redis('HSET', 'WAITING_ORIGIN', run => '', since => 1, until => 0);
}


sub _read {
    my $line = <$socket>;
    die "Redis has gone\n" if !defined $line;
    my ($type, $value) = $line =~ /^(.)(.*)\r\n$/;

    return $value if $type eq '+' || $type eq ':';
    die "$value\n" if $type eq '-';
    return undef if $value < 0;

    if ($type eq '$') {
        read $socket, my $bulk, $value + 2;
        return substr $bulk, 0, $value;
    }

    return [ map { _read() } 1 .. $value ];
}


# script(name, number of keys, keys and arguments)

sub script {
    my ($name, @words) = @_;

    if (!$sha1{$name}) {
        open my $file, '<', "$ENV{WQ_BUILD}/dist/wq/lua/$name.lua"
            or die "$name.lua: $!\n";
        $sha1{$name} = redis('SCRIPT', 'LOAD', do { local $/; <$file> });
    }

    return redis('EVALSHA', $sha1{$name}, @words);
}


# heartbeat(instance, origin that it knows, ms if it leaves): of a worker

sub heartbeat {
    my ($instance, $origin, $leaves) = @_;

    my %reply;
    @reply{qw(now instances unknown origin hold)}
        = @{script('heartbeat', 2, 'WAITING_INSTANCES', 'WAITING_ORIGIN',
                   $instance, $origin || 0, $leaves || '')};
    return \%reply;
}


# all that is stored: { key => its value }; two of them can be compared.  What
# is soon to end by itself is left out, it may do so at any moment.

sub stored {
    my %stored;

    for my $key (@{redis('KEYS', '*')}) {
        my $left = redis('PTTL', $key);
        next if $left >= 0 && $left < 20000;

        my $value = redis('DUMP', $key);
        $stored{$key} = unpack 'H*', $value if defined $value;
    }

    return \%stored;
}


# new(event, settings): those of nginx.conf, in ms

sub new {
    my ($class, $event, %settings) = @_;

    %settings = (capacity => 1, ttl => 300000, claim => 60000,
                 max_waiting => 0, %settings);
    delete $settings{capacity} if !defined $settings{capacity};

    return bless {
        event => $event,
        seed => 0,
        settings => join(' ', map { "$_=$settings{$_}" } sort keys %settings),
    }, $class;
}


sub key {
    my ($self, $n) = @_;
    return $keys[$n]->($self->{event});
}


sub call {
    my ($self, $name, @arguments) = @_;

    return script($name, scalar @keys, (map { $_->($self->{event}) } @keys),
                  $self->{event}, @arguments);
}


sub _seed { return 'seed' . ++$_[0]{seed} }


sub join {
    my ($self, $user, $instance, $mode, $capacity, $highest) = @_;

    return _named($self->call('join', $user,
                              defined $instance ? $instance : 'i1',
                              $mode || 'stream', $self->_seed,
                              $self->{settings},
                              defined $capacity ? $capacity : '',
                              $highest || 0));
}


sub restore {
    my ($self, $user, $instance, $idx, $highest, $epoch, $absent, $serial) = @_;

    return _named($self->call('restore', $user, $instance, $idx, $highest,
                              $self->{settings}, $epoch, $self->_seed,
                              $absent || '', $serial || 0));
}


# restore_lease(user, a lease as join has answered it, what else is known of it)

sub restore_lease {
    my ($self, $user, $lease, %o) = @_;

    %o = (%$lease, state => $lease->{status}, %o);

    my %reply;
    @reply{qw(good ends waited hold idx since restored)}
        = @{$self->call('restore_lease', $user, $o{token}, $o{idx} || 0,
                        $o{expires}, $o{state}, $o{since} || 0,
                        $o{waited} || 0)};
    return \%reply;
}


sub _named {
    my %named;
    @named{@joined} = @{$_[0]};
    return \%named;
}


sub leave {
    my ($self, $user, $instance, $idx) = @_;
    return $self->call('leave', $user, map { defined $_ ? $_ : '' }
                                           $instance, $idx)->[0];
}


# touch(user, token): 1 or 0, the lease's end, how long the user has waited

sub touch {
    my ($self, $user, $token) = @_;
    return $self->call('touch', $user, $token);
}


# status(user): what somebody is told who polls

sub status {
    my ($self, $user) = @_;
    return _named($self->call('status', $user, $self->_seed,
                              $self->{settings}));
}


# quit(user): 1 if there was a place or a lease, and how many were let in; what
# it says of the next period is in {opens}

sub quit {
    my ($self, $user) = @_;
    return $self->_ended([ qw(hold) ],
                         $self->call('quit', $user, $self->_seed));
}


# what else is answered is kept by name: $line->{opens}

sub _ended {
    my ($self, $names, $answer) = @_;

    my ($ended, $promoted, @more) = @$answer;

    @$self{'opens', @$names} = splice @more, 0, 1 + @$names;
    return [ $ended, $promoted, @more ];
}


# the figures are those of all time, as all_joined

sub promote {
    my ($self, $limit) = @_;

    my ($promoted, $expired, $more, $opens, $figures)
        = @{$self->call('promote_all_waiting_for_event', $self->_seed,
                        $limit || 1000)};
    my %named;

    @named{map { "all_$_" } @figures} = @$figures;
    @named{qw(total inside free)} = @named{qw(all_total all_inside all_free)};
    @named{qw(promoted expired more opens)}
        = ($promoted, $expired, $more, $opens);

    return \%named;
}


# release(user, "return" or "sold", instance, token, counter): the same

sub release {
    my ($self, $user, $how, $instance, $token, $counter) = @_;

    return $self->_ended([ qw(figures) ], $self->call(
        'release', $user, $how || 'return', $self->_seed,
        (map { defined $_ ? $_ : '' } $instance, $token), $counter || 'done'));
}


sub positions {
    my ($self, $known, $limit) = @_;

    my %named;
    @named{qw(gone epoch resync more entries state figures)}
        = @{$self->call('positions', $known, $limit || 1000)};
    @named{@figures} = @{$named{figures}};

    return \%named;
}


# ranks(instance, users)

sub ranks {
    my ($self, @users) = @_;

    my %named;
    @named{qw(total promoted gone joined epoch ranks)}
        = @{$self->call('ranks', @users)};
    return \%named;
}


# reap(instance, count, last heartbeat): all calls until it is done.  How many
# left the line, how many leases were taken back, how long to wait, calls

sub reap {
    my ($self, $instance, $count, $heartbeat) = @_;

    my ($cursor, $left, $released, $calls) = ('', 0, 0, 0);

    while (1) {
        my $reaped = $self->call('reap', $instance, $cursor, $count || 100,
                                 $heartbeat || 0);
        $cursor = $reaped->[0];
        $left += $reaped->[1];
        $released += $reaped->[2];
        $calls++;
        return ($left, $released, $reaped->[3], $calls) if $cursor eq '';
    }
}


# set(field => value, ...): what the operator says at run time

sub set {
    my ($self, @fields) = @_;
    redis('HSET', $self->key(13), @fields);
}


sub stat {
    my ($self, $name) = @_;
    return redis('HGET', $self->key(11), $name) || 0;
}


# everybody in line, first to last

sub line {
    my $self = shift;
    return [ map { /"userId":"(.*)"/ } @{redis('ZRANGE', $self->key(0), 0,
                                                -1)} ];
}


# the messages of the event for the workers, which are taken out: the fields of
# each, as they are stored

sub messages {
    my $self = shift;

    my @messages;

    for my $entry (@{redis('XRANGE', 'ENTRY', '-', '+')}) {
        my %fields = @{$entry->[1]};
        next if $fields{eventId} ne $self->{event};

        push @messages, $entry->[1];
        redis('XDEL', 'ENTRY', $entry->[0]);
    }

    return \@messages;
}


# the same: [ type, user, instance, idx ] of each

sub announced {
    my $self = shift;

    return [ map { my %fields = @$_;
                   [ @fields{qw(type userId instanceId idx)} ] }
                 @{$self->messages} ];
}


# what is wrong, of DESIGN's invariants 1, 2 and 4; empty when all is well

sub wrong {
    my $self = shift;

    my ($waiting, $record, $ids, $slots, $active, $lease, $stats)
        = @{redis('EVAL', <<'END', 6, map({ $self->key($_) } 0, 1, 2, 4, 7, 8),
return { redis.call('ZRANGE', KEYS[1], 0, -1), redis.call('HKEYS', KEYS[2]),
         redis.call('HKEYS', KEYS[3]), redis.call('HGET', KEYS[4], ARGV[1]),
         redis.call('ZRANGE', KEYS[5], 0, -1), redis.call('HKEYS', KEYS[6]),
         redis.call('HMGET', ARGV[2], 'capacity', 'sold') }
END
                  $self->{event}, $self->key(11))};

    my @wrong;
    my $same = sub { CORE::join(' ', sort @{$_[0]}) };
    my @users = map { /"userId":"(.*)"/ } @$waiting;
    my %in = map { $_ => 1 } @$active;

    push @wrong, "slots: $slots free, " . @$active . " inside, capacity "
                 . "$stats->[0], sold " . ($stats->[1] || 0)
        if defined $stats->[0]
           && $slots + @$active != $stats->[0] - ($stats->[1] || 0);
    push @wrong, 'records are not those of the line'
        if $same->(\@users) ne $same->($record);
    push @wrong, 'ids are not those of the line'
        if $same->(\@users) ne $same->($ids);
    push @wrong, 'leases are not those inside'
        if $same->($active) ne $same->($lease);
    push @wrong, "in line and inside: $_" for grep { $in{$_} } @users;

    return @wrong;
}


1;
