package WaitingQueue::Sale;

# A sale on two nodes with two workers each, a backend behind their gates, and
# people who come, wait, hang up and come back, poll, go in, buy, or go away;
# while something goes wrong (WaitingQueue::SaleFaults):
#
#     my $sale = WaitingQueue::Sale->new(seed => $seed);
#
#     $sale->open;
#     $sale->suffer('reload');        a fault, all the way; asserts
#     $sale->close;                   all go, and nothing may be left; asserts
#
# What is looked at the whole time, on both sides:
#
#     in Redis, many times a second, each time at one instant: slots, places and
#         leases agree (Line's wrong()), and whoever is in came before all who
#         are still in line;
#     of each user: the place is the same, the position only falls, there is one
#         token at a time, who is in is let through, who has gone is out in time;
#     of all together: no more are inside than there are slots;
#     of both nodes: every request is answered within the time-out of a command,
#         one that has nothing to do with the module at once.
#
# What is not so is a problem, of one of the kinds in %kinds.  t/fault/
# sale-control.t shows that each of them is seen.

use strict;
use warnings;

use JSON::PP ();
use Test::More;
use WaitingQueue::Backend;
use WaitingQueue::Chance;
use WaitingQueue::Nodes;
use WaitingQueue::SaleFaults;

# what a user would say of it
my %kinds = (
    place => 'who waits keeps the place',
    position => 'who waits is told the true position',
    order => 'nobody is let in before who came earlier',
    books => 'free slots, places and leases agree at every instant',
    slots => 'no more are inside than there are slots',
    token => 'nobody holds two tokens',
    lease => 'who is in stays in',
    out => 'who has gone is out in time',
    answer => 'nobody waits for an answer',
    end => 'streams end as they should',
    fault => 'the fault is over in time',
);

my %defaults = (
    seed => 1,
    users => 60,
    capacity => 14,
    # s; of Redis: longer than any fault keeps it away
    grace => 10, poll_timeout => 10, ttl => 8, claim => 6,
    # of a command
    timeout => 1,
    # seats that are sold, at most: each takes its slot along
    seats => 5,
);

my $event = 'e1';

# between two looks into Redis, and two requests that are none of the module's
my ($look, $probe) = (0.12, 0.3);


# new(options as in %defaults)

sub new {
    my ($class, %o) = @_;

    my $self = bless {
        %defaults, %o,
        users_there => [], number => 0, problems => {}, total => 0,
        seen => {}, gone => {}, out => {}, faults => [],
        looks => 0, probes => [], inside_most => 0, sold => {}, let_in => 0,
        calm_since => 0, lost_at => 0, next_look => 0, next_probe => 0,
        # what is known of the nodes: whether they serve, and their life
        node => [ map { { up => 1, life => 0 } } 0, 1 ],
    }, $class;

    $self->{redis} = start_redis(
        socket => 1,
        options => [ appendonly => 'yes', 'repl-diskless-sync-delay' => 0 ]);

    # node2 goes by a name, behind which another Redis may stand, or none
    $self->{socket} = $self->{redis}->path . '.name';
    $self->reach($self->{redis}->path);

    my $backend = WaitingQueue::Backend->new;
    my $rules = <<"END";
            waiting_queue_capacity $self->{capacity};
            waiting_queue_grace $self->{grace}s;
            waiting_queue_poll_timeout $self->{poll_timeout}s;
            waiting_queue_ttl $self->{ttl}s claim=$self->{claim}s;
END

    $self->{nodes} = WaitingQueue::Nodes->new(
        nodes => 2, workers => 2, daemon => 1, redis => $self->{redis},
        urls => [ undef, "unix:$self->{socket}" ],
        timeout => "$self->{timeout}s",
        http => 'waiting_queue_interval 100ms;'
                . 'waiting_queue_promote_interval 200ms;'
                . 'waiting_queue_drain 2s;',
        locations => { sale => $rules },
        server => <<"END");
        location ~ ^/shop/(?<wq_event>[^/]+)/ {
            waiting_queue on;
            waiting_queue_event \$wq_event;
            waiting_queue_user \$arg_user;
$rules
            proxy_pass http://127.0.0.1:${\ $backend->port};
        }
END

    $self->{line} = $self->{nodes}->line('sale', $event);
    $self->{backend} = $backend;
    $self->{sse} = $self->{nodes}->sse;
    $self->{chance} = chance($self->{seed}, 0);

    return $self;
}


sub nodes { return $_[0]{nodes} }
sub node { return $_[0]{nodes}->node($_[1]) }
sub redis { return $_[0]{redis} }
sub line { return $_[0]{line} }
sub sse { return $_[0]{sse} }
sub seen { return $_[0]{seen} }
sub users { return @{ $_[0]{users_there} } }


# where node2 finds its Redis; undef: nowhere

sub reach {
    my ($self, $path) = @_;

    unlink $self->{socket};
    symlink $path, $self->{socket} or die "symlink: $!\n" if defined $path;
}


# a problem, and what happened to the user before

sub problem {
    my ($self, $kind, $text, $user) = @_;

    my $list = $self->{problems}{$kind} ||= [];

    die "no kind $kind\n" if !$kinds{$kind};
    return if @$list >= 10;

    push @$list, $text;
    return if $self->{expected};

    diag(sprintf '%.3f %s: %s', time, $kind, $text);
    diag(map { "    $_\n" } @{ $user->{history} }) if $user;
}


# for the control of all this: problems are not told, but asked for

sub expect { $_[0]{expected} = 1 }
sub problems { return @{ $_[0]{problems}{$_[1]} || [] } }
sub forget_problems { $_[0]{problems} = {} }


sub _note {
    my ($user, @words) = @_;

    push @{ $user->{history} }, sprintf('%.3f ', time) . join ' ', @words;
    shift @{ $user->{history} } if @{ $user->{history} } > 25;
}


sub _count { $_[0]{seen}{$_[1]}{$_[2]}++ }


# ---- the state of things, as the faults say it

# Redis serves nobody now; the nodes of which it is away, all by default

sub redis_away {
    my ($self, @nodes) = @_;

    $_->{away} = 1 for @{ $self->{node} }[@nodes ? @nodes : (0, 1)];
    $self->{blind} = 1 if !@nodes;
}


sub redis_back {
    my $self = shift;

    for my $node (@{ $self->{node} }) {
        next if !$node->{away};
        $node->{away} = 0;
        $node->{back} = time;
    }

    $self->{blind} = 0;
}


# Redis has lost some of what it knew

sub data_lost {
    my $self = shift;

    $self->{lost_at} = time;
    $self->{recovering} = 1;

    for my $user (@{ $self->{users_there} }) {
        # nobody knows these but Redis
        delete @$user{qw(idx rank)} if $user->{kind} eq 'poll';
    }
}


# a node is down, or up again; what its zone knew is gone with it

sub node_down { $_[0]{node}[$_[1]]{up} = 0 }

sub node_up {
    my ($self, $n) = @_;

    $self->{node}[$n]{up} = 1;
    $self->{node}[$n]{life}++;
}


# ---- users

sub _come {
    my $self = shift;

    my $number = ++$self->{number};
    my $chance = chance($self->{seed}, $number);

    push @{ $self->{users_there} }, {
        name => "u$number", chance => $chance, history => [],
        kind => choose($chance, 8 => 'stream', 2 => 'poll'),
        home => int 2 * $chance->(), state => 'comes',
        due => time + ($self->{let_in} ? 1 : 3) * $chance->(), kept => 1,
        do => '_join',
    };
}


sub _later {
    my ($user, $delay, $do) = @_;
    @$user{qw(due do)} = (time + $delay, $do);
}


# the node where the user is at home, or the other one if that is down

sub _node_of {
    my ($self, $user) = @_;

    $user->{home} = 1 - $user->{home}
        if !$self->{node}[$user->{home}]{up}
           || delete $user->{moves} && $self->{node}[1 - $user->{home}]{up};

    return $user->{home};
}


sub _finish {
    my ($self, $user, $why, $bound) = @_;

    $user->{stream}{sse}->close if $user->{stream};
    $user->{request}{http}->close if $user->{request};
    delete @$user{qw(stream request)};
    _note($user, 'gone:', $why);
    _count($self, gone => $why);
    $user->{state} = 'gone';
    # in how long the place or the lease must be back, at the latest
    $self->{gone}{ $user->{name} } = { at => time, bound => $bound,
                                       user => $user };

    @{ $self->{users_there} } = grep { $_ != $user }
                                @{ $self->{users_there} };
    $self->_come if $self->{selling};
}


sub _join {
    my ($self, $user) = @_;

    return _later($user, 0.3, '_join') if $self->{held} && !$user->{joined};

    my $node = $self->_node_of($user);

    _note($user, $user->{kind}, 'at node', $node + 1);

    return $self->_poll($user) if $user->{kind} eq 'poll';

    $user->{stream} = {
        sse => $self->{line}->open($user->{name}, $self->{nodes}->at($node)),
        node => $node, at => time,
    };
    _later($user, 1e6, '_nothing');
}


sub _nothing { }


sub _poll {
    my ($self, $user) = @_;

    $self->_ask($user, 'POST', "/api/sale/$event?user=$user->{name}", '_polled');
}


sub _polled {
    my ($self, $user, $status, $json, $node) = @_;

    if ($status == 202 && $json->{status} eq 'waiting') {
        $user->{joined} = 1;
        $user->{state} = 'waits';
        $user->{asked} = time;
        $self->_told_rank($user, $json->{rank});
        return _later($user, 0.4 + 0.4 * $user->{chance}->(), '_poll');
    }

    if ($status == 200) {
        $user->{joined} = 1;
        $user->{entered} = 1;
        return $self->_in($user, $json, $node);
    }

    $self->problem('answer', "$user->{name}: POST is answered with $status",
                   $user)
        if $status && $status != 503;

    $user->{moves} = 1 if !$status;
    _later($user, 0.2 + 0.3 * $user->{chance}->(), '_poll');
}


# somebody has a token: goes in, or not

sub _in {
    my ($self, $user, $data, $node) = @_;

    my $token = $data->{token};
    my $now = time;

    $self->problem('token', "$user->{name}: has $user->{token} until "
                            . "$user->{ends}, and gets $token", $user)
        if $user->{token} && $user->{token} ne $token
           && $now < $user->{ends} - 0.2;

    my $first = !$user->{token};

    $user->{token} = $token;
    $user->{ends} = $data->{expiresAt} / 1000;
    # who is told it by a node passes there, whatever becomes of Redis
    $user->{known}{$node} = $self->{node}[$node]{life};
    $user->{state} = 'in';

    return if !$first;

    $self->{let_in}++;
    _note($user, 'is let in');
    $user->{plan} = choose($user->{chance}, 66 => 'done', 8 => 'sold',
                           8 => 'no-show', 8 => 'silent', 10 => 'delete');
    $user->{plan} = 'done'
        if $user->{plan} eq 'sold'
           && keys %{ $self->{sold} } >= $self->{seats};
    $user->{looks} = 1 + int 3 * $user->{chance}->();

    if ($user->{plan} eq 'no-show' && $user->{kind} eq 'stream') {
        return $self->_finish($user, 'no-show', $self->{claim});
    }

    $self->{sold}{ $user->{name} } ||= 'wants' if $user->{plan} eq 'sold';
    _later($user, 0.1 + 0.5 * $user->{chance}->(), '_look');
}


sub _look {
    my ($self, $user) = @_;

    my $end = $user->{looks}-- <= 0;

    return $self->_finish($user, 'silent', $self->{ttl})
        if $end && $user->{plan} eq 'silent';

    if (!$end) {
        my $junk = $self->{junk} ? '&junk=' . int 4 * $user->{chance}->() : '';

        return $self->_ask($user, 'GET', "/shop/$event/?user=$user->{name}$junk",
                           '_looked');
    }

    $user->{said} ||= time;

    return $self->_ask($user, 'DELETE', "/api/sale/$event?user=$user->{name}",
                       '_ended')
        if $user->{plan} eq 'delete';

    $self->_ask($user, 'GET', "/shop/$event/?user=$user->{name}&say="
                              . ($user->{plan} eq 'sold' ? 'sold' : 'done'),
                '_ended');
}


sub _looked {
    my ($self, $user, $status, $json, $node) = @_;

    my $now = time;

    if ($status == 200) {
        $user->{entered} = 1;
        # one that was remembered for a second has not renewed it
        my $ends = $user->{asked_at} - 1.2 + $self->{ttl};

        $user->{ends} = $ends if $ends > $user->{ends}
                                 && !$self->{node}[$node]{away}
                                 && ($self->{node}[$node]{back} || 0)
                                    < $user->{asked_at} - 4;
        $user->{known}{$node} = $self->{node}[$node]{life};
        $user->{inside} ||= $now;
        $self->_count_inside;
        return _later($user, 0.2 + 0.6 * $user->{chance}->(), '_look');
    }

    # what the backend has done to the answer, after the gate
    if ($self->{junk} || $now - ($self->{junk_until} || 0) < 2) {
        return _later($user, 0.3, '_look') if $status == 502 || $status == 0;
    }

    return $self->_not_let($user, $status, $json, $node, '_look');
}


# The lease may be over by now; else nobody who is in may be kept out, unless
# Redis is away and the node does not know the token.

sub _not_let {
    my ($self, $user, $status, $json, $node, $again) = @_;

    my $now = time;

    $user->{looks}++;
    $user->{moves} = 1 if !$status;

    if ($status && $user->{asked_at} < $user->{ends} - 0.5) {
        my $known = $user->{known}{$node};
        my $excused = !(defined $known && $known == $self->{node}[$node]{life});

        $self->problem('lease', sprintf(
            '%s: is kept out with %d %s by node%d, %.1f s before the end',
            $user->{name}, $status, ($json || {})->{status}
                                    || ($json || {})->{error} || '?',
            $node + 1, $user->{ends} - $now), $user)
            if !($excused && $status == 503 && ($json || {})->{error});
    }

    return $self->_finish($user, 'lapsed', 0)
        if $now > $user->{ends} + 0.5;

    _later($user, 0.25, $again);
}


sub _ended {
    my ($self, $user, $status, $json, $node) = @_;

    my $is_over = $status == 200 || $status == 204
                  # it was said before, and the answer was lost
                  || $user->{repeats} && ($status == 404 || $json);

    if ($status == 200 && $user->{plan} eq 'sold') {
        $self->{sold}{ $user->{name} } = 'has';
    }

    if ($is_over && !($json && $json->{error})) {
        return $self->_finish($user, $user->{plan}, 0);
    }

    # what was not answered may have been done, or will be
    $user->{repeats} = 1 if !$status || $status == 503;

    return _later($user, 0.25, '_look')
        if $user->{plan} eq 'delete' && $status == 503;

    $self->_not_let($user, $status, $json, $node, '_look');
}


# who is inside for all they know; a lease of theirs may be over at any moment
# around its end

sub _count_inside {
    my $self = shift;

    my $now = time;
    my $inside = grep { $_->{inside} && !$_->{said} && $now < $_->{ends} - 1 }
                 @{ $self->{users_there} };
    my $slots = $self->{capacity}
                - grep { $_ eq 'has' } values %{ $self->{sold} };

    $self->{inside_most} = $inside if $inside > $self->{inside_most};
    $self->problem('slots', "$inside are inside, and there are $slots slots")
        if $inside > $slots;
}


# ---- requests

sub _ask {
    my ($self, $user, $method, $path, $then) = @_;

    my $node = $self->_node_of($user);
    my %token = $user->{token} ? ('X-Waiting-Queue-Token' => $user->{token})
                               : ();

    $user->{asked_at} = time;
    $user->{request} = {
        http => $self->{sse}->open(
            $self->{nodes}->at($node), method => $method, path => $path,
            name => "$user->{name} $method $path",
            headers => { Accept => 'application/json', %token }),
        node => $node, then => $then, at => time, life => $self->{node}[$node]{life},
        was_up => $self->{node}[$node]{up},
    };
    _later($user, 1e6, '_nothing');
}


# what the time-out of a command, the tries of nginx and a busy machine take

sub _late { return patience($_[0]{timeout} + 3) }


sub _answered {
    my ($self, $user) = @_;

    my $request = $user->{request};
    my $http = $request->{http};

    if (!defined $http->ended) {
        return if time - $request->{at} < $self->_late
                  || $request->{complained}++;
        return $self->problem('answer', sprintf(
                   '%s: no answer after %.1f s from node%d', $http->name,
                   time - $request->{at}, $request->{node} + 1), $user);
    }

    my $status = $http->ended eq 'clean' || $http->ended eq 'eof'
                 ? $http->status || 0 : 0;

    delete $user->{request};
    _count($self, answers => $status || $http->ended);
    _note($user, $http->name =~ s/^\S+ //r, $status || $http->ended);

    $self->problem('answer', $http->name . ": $status", $user)
        if $status >= 500 && $status != 503
           && !($status == 502 || $status == 504) || $status == 400;

    my $then = $request->{then};
    $self->$then($user, $status, scalar $http->json, $request->{node});
}


# ---- streams

sub _told_rank {
    my ($self, $user, $rank) = @_;

    $self->problem('position', "$user->{name}: was at $user->{rank}, is at "
                               . "$rank", $user)
        if defined $user->{rank} && $rank > $user->{rank}
           && $user->{kept} && !$self->{recovering};

    $user->{rank} = $rank;
}


sub _listen {
    my ($self, $user) = @_;

    my $stream = $user->{stream};
    my $sse = $stream->{sse};

    for my $told ($sse->news) {
        my ($name, $data) = @$told{qw(event data)};

        $self->_first_word($user, $data) if !$stream->{told}++;
        _note($user, $name, $data->{rank} // '') if $name ne 'position'
                                                    || $stream->{told} == 1;

        if ($name eq 'position') {
            $user->{state} = 'waits';
            $self->_told_rank($user, $data->{rank});

        } elsif ($name eq 'promoted') {
            $self->_in($user, $data, $stream->{node});
            return if $user->{state} eq 'gone';

        } elsif ($name eq 'expired') {
            return $self->_finish($user, 'expired', 0)
                if $user->{said} || $user->{ends} && time > $user->{ends} - 0.3;
            $self->problem('lease', "$user->{name}: expired before its time",
                           $user);
            return $self->_finish($user, 'expired', 0);

        } elsif ($name ne 'reconnect') {
            $self->problem('place', "$user->{name}: told $name", $user);
        }
    }

    if (defined $sse->ended) {
        $self->_stream_ended($user);

    } elsif (!$stream->{told}) {
        $self->problem('answer', sprintf(
            '%s: no answer after %.1f s on a stream of node%d', $user->{name},
            time - $stream->{at}, $stream->{node} + 1), $user)
            if time - $stream->{at} > $self->_late && !$stream->{late}++;
    }
}


# the first event of a stream says that it is the same place

sub _first_word {
    my ($self, $user, $data) = @_;

    $user->{away} = undef;
    _count($self, joins => $user->{joined} ? 'again' : 'new');

    # what those who wait may do
    if (!$user->{joined}++) {
        my $do = choose($user->{chance}, 60 => 'wait', 25 => 'hang_up',
                        15 => 'leave');

        $user->{will} = $do eq 'wait' ? undef
            : { at => time + 5 * $user->{chance}->(), do => $do };
    }
}


sub _stream_ended {
    my ($self, $user) = @_;

    my $stream = $user->{stream};
    my $sse = $stream->{sse};
    my $last = $sse->last;
    my $how = $sse->ended;
    my $status = $sse->status || 0;

    delete $user->{stream};
    $user->{away} ||= $sse->ended_at;

    _count($self, streams => $status == 200
                             ? ($last && $last->{event} eq 'reconnect'
                                ? 'reconnect' : $how)
                             : $status || $how);
    _note($user, 'stream ends', $how, $status);

    # who is in does not need it
    return if $user->{token};

    my $delay = 0.1 + 0.4 * $user->{chance}->();

    if ($status == 200 && $last && $last->{event} eq 'reconnect') {
        $self->problem('end', "$user->{name}: reconnect, but it ends $how",
                       $user)
            if $how ne 'clean';
        $delay = $last->{retry} / 1000;

    } elsif ($status != 200 && $status != 503 && $status) {
        $self->problem('answer', "$user->{name}: a stream is answered with "
                                 . $status, $user);
    }

    $user->{moves} = 1 if $user->{chance}->() < 0.5 || !$status;
    _later($user, $delay, '_join');
}


sub _act {
    my ($self, $user) = @_;

    my $will = $user->{will};

    return if !$will || time < $will->{at} || $self->{held}
              || $user->{state} ne 'waits' || !$user->{stream}
              || !$user->{stream}{told};

    $user->{will} = undef;

    return $self->_finish($user, 'leave', $self->{grace})
        if $will->{do} eq 'leave';

    my $how = $user->{chance}->() < 0.5 ? 'close' : 'reset';

    _note($user, 'hangs up');
    $user->{stream}{sse}->$how;
    $user->{away} = time;
    $user->{moves} = 1 if $user->{chance}->() < 0.5;
    delete $user->{stream};
    # well within the grace time, even if something is away meanwhile
    _later($user, 0.3 + 1.5 * $user->{chance}->(), '_join');
}


# ---- all together

sub turn {
    my $self = shift;

    $self->{sse}->turn(0.01);

    for my $user (@{ [ @{ $self->{users_there} } ] }) {
        $self->_answered($user) if $user->{request};
        $self->_listen($user) if $user->{stream};
        next if $user->{state} eq 'gone';
        $self->_act($user);
        next if $user->{state} eq 'gone';

        if ($user->{due} <= time) {
            my $do = $user->{do};
            $self->$do($user);
        }

        # who could not come back in time may lose the place
        $user->{kept} = 0
            if $user->{away} && time - $user->{away} > $self->{grace} - 1;
    }

    $self->_look_at_redis;
    $self->_probe;
    $_->turn for @{ $self->{faults} };
}


# run_until(code, seconds): whether it became true

sub run_until {
    my ($self, $code, $seconds) = @_;

    my $deadline = time + patience($seconds);

    while (1) {
        my $last = time > $deadline;

        return 1 if eval { $code->() };
        return 0 if $last;
        $self->turn;
    }
}


# ---- what is looked at

sub _look_at_redis {
    my $self = shift;

    return if $self->{blind} || time < $self->{next_look};

    $self->{next_look} = time + $look;

    my $snapshot = eval { $self->{line}->snapshot } or return;

    $self->{looks}++;

    for my $wrong ($self->{line}->wrong($snapshot)) {
        $self->problem('books', $wrong);
    }

    $self->_check_order($snapshot);
    $self->_check_places($snapshot);
    $self->_check_gone($snapshot);
}


# Whoever is in came before all who are in line, for places are given in order
# and people let in from the head.  Those let in before data were lost may be
# known while somebody in front of them is not.

sub _check_order {
    my ($self, $snapshot) = @_;

    my $first = $snapshot->{line}[0];

    return if !defined $first;

    my $idx = $snapshot->{idx}{$first};

    for my $name (keys %{ $snapshot->{lease} }) {
        my ($its, $since) = $snapshot->{lease}{$name}
                            =~ /"idx":(\d+).*"since":(\d+)/ or next;

        $self->problem('order', "$name is in with $its, and $first in line "
                                . "with $idx",
                       { history => [
                           map { ($_->{name}, @{ $_->{history} }) }
                           grep { $_->{name} eq $name
                                  || $_->{name} eq $first } $self->users ] })
            if $its > $idx && $since / 1000 > $self->{lost_at};
    }
}


sub _check_places {
    my ($self, $snapshot) = @_;

    for my $user (@{ $self->{users_there} }) {
        next if $user->{state} ne 'waits' || $user->{token};

        my $idx = $snapshot->{idx}{ $user->{name} };

        if (defined $idx) {
            $user->{missing} = 0;
            $user->{idx} = $idx if !defined $user->{idx} || !$user->{kept};
            next if $user->{idx} == $idx || $self->{recovering};

            $self->problem('place', "$user->{name}: had $user->{idx}, has "
                                    . $idx, $user);
            $user->{idx} = $idx;

        } elsif (!defined $snapshot->{active}{ $user->{name} }
                 && $user->{kept} && !$self->{recovering}
                 # it must be seen twice: the word may be on the way
                 && $user->{missing}++ > 5)
        {
            $self->problem('place', "$user->{name}: is not in line any more",
                           $user);
            $user->{kept} = 0;
        }
    }
}


sub _check_gone {
    my ($self, $snapshot) = @_;

    my $now = time;

    for my $name (keys %{ $self->{gone} }) {
        my $gone = $self->{gone}{$name};

        if (!exists $snapshot->{idx}{$name}
            && !exists $snapshot->{active}{$name})
        {
            # until what was lost is put back
            delete $self->{gone}{$name} if !$self->{recovering};
            next;
        }

        # while something is wrong nobody can be out
        my $from = $gone->{at} > $self->{calm_since} ? $gone->{at}
                                                     : $self->{calm_since};

        next if @{ $self->{faults} }
                || $now < $from + $gone->{bound} + patience(15);

        $self->problem('out', "$name is still there", $gone->{user});
        delete $self->{gone}{$name};
    }
}


sub _probe {
    my $self = shift;

    my $now = time;

    @{ $self->{probes} } = grep {
        my ($http, $node) = @$_{qw(http node)};
        my $is_down = !$self->{node}[$node]{up}
                      || $self->{node}[$node]{life} != $_->{life};

        if (defined $http->ended || $is_down) {
            $self->problem('answer', "node" . ($node + 1) . ' does not serve: '
                                     . ($http->status || $http->ended))
                if !$is_down && ($http->status || 0) != 200
                   && !$self->{node}[$node]{restless};
            0;
        } elsif ($now - $_->{at} > patience(2)) {
            $self->problem('answer', 'node' . ($node + 1) . ' is blocked');
            $http->close;
            0;
        } else {
            1;
        }
    } @{ $self->{probes} };

    return if $now < $self->{next_probe};

    $self->{next_probe} = $now + $probe;

    for my $n (0, 1) {
        next if !$self->{node}[$n]{up};
        push @{ $self->{probes} }, {
            http => $self->{sse}->open($self->{nodes}->at($n), path => '/pid',
                                       name => 'probe of node' . ($n + 1)),
            node => $n, at => $now, life => $self->{node}[$n]{life},
        };
    }
}


# ---- the course of a sale

sub open {
    my $self = shift;

    $self->{selling} = 1;
    $self->_come for 1 .. $self->{users};

    ok($self->run_until(sub { $self->{let_in} >= $self->{capacity} + 6 }, 20),
       'the sale has begun');
}


# the fault, from its beginning to when all is well again

sub suffer {
    my ($self, $name) = @_;

    my $fault = WaitingQueue::SaleFaults->begin($self, $name);

    $self->{seen} = {};
    push @{ $self->{faults} }, $fault;
    $self->run_until(sub { $fault->is_over }, 60)
        or $self->problem('fault', $fault->describe);

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->settle($name);

    ok($_->[0], "$name: $_->[1]") || diag(explain($self->{seen}))
        for $fault->expectations;
    $self->verdict($name);
}


# several, at moments and in an order of chance; those that must not meet do not

sub suffer_many {
    my ($self, @names) = @_;

    my @waiting = @names;
    my $next = time;

    $self->run_until(sub {
        if (@waiting && time > $next
            && !grep { $_->excludes($waiting[0]) } @{ $self->{faults} })
        {
            my $name = shift @waiting;
            diag("$name begins") if $ENV{WQ_VERBOSE};
            push @{ $self->{faults} },
                 WaitingQueue::SaleFaults->begin($self, $name);
            $next = time + 0.3 + 3 * $self->{chance}->();
        }

        @{ $self->{faults} } = grep { !$_->is_over } @{ $self->{faults} };
        return !@waiting && !@{ $self->{faults} };
    }, 30 + 25 * @names)
        or $self->problem('fault', map { $_->describe } @{ $self->{faults} });

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->settle("@names");
    $self->verdict("@names");
}


# what must be so when the fault is over: everybody is where he was, the line
# goes on, and every position is true

sub settle {
    my ($self, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    @{ $self->{faults} } = ();
    $self->{calm_since} = time;

    # what comes late of it
    $self->turn while time < $self->{calm_since} + 1.5;

    my $let_in = $self->{let_in};
    my $listen = sub {
        return grep { $_->{kind} eq 'stream' && $_->{joined} && !$_->{token} }
               @{ $self->{users_there} };
    };
    my $missing = sub {
        my $snapshot = $self->{line}->snapshot;

        return grep {
            !$_->{token}
            && (!$_->{stream} || !$_->{stream}{told} || $_->{kept}
                && defined $_->{idx} && ($snapshot->{idx}{ $_->{name} } // -1)
                                        != $_->{idx})
        } $listen->();
    };

    ok($self->run_until(sub {
           !grep { !$self->{nodes}->node($_)->ready } 0, 1
       }, 20), "$what: both nodes are ready again");

    # until all the rest are back nobody else hangs up
    $self->{held} = 1;

    ok($self->run_until(sub { !$missing->() }, 20),
       "$what: everybody is where he was")
        or diag(map { "$_->{name} $_->{idx}: " . join("\n    ",
                      @{ $_->{history} }) . "\n" } ($missing->())[0 .. 0]);

    $self->{recovering} = 0;

    ok($self->run_until(sub { $self->{let_in} >= $let_in + 5 }, 20),
       "$what: the line goes on");

    $self->{line}->set(paused => 1);
    my @wait;
    ok($self->run_until(sub {
           @wait = map { $_->{stream}{sse} }
                   grep { $_->{stream} && $_->{state} eq 'waits' }
                   $listen->();
           $self->{nodes}->exact($self->{line}, @wait);
       }, 15), "$what: every position is true")
        or diag($self->_inexact(@wait));
    $self->{line}->call('HDEL', $self->{line}->key('WAITING_QUEUE_OVERRIDE'),
                        'paused');
    $self->{held} = 0;
}


# who of them is told something else than what is in Redis

sub _inexact {
    my ($self, @streams) = @_;

    my $n = 0;
    my %rank = map { $_ => $n++ } @{ $self->{line}->waiting };
    my %user = map { $_->{name} => $_ } $self->users;

    return map { "    $_\n" }
           map { my $name = $_->{user};
                 sprintf('%s: told %s, is at %s', $name, $_->rank // 'nothing',
                         $rank{$name} // 'no place'),
                 @{ $user{$name} ? $user{$name}{history} : [] } }
           grep { ($_->rank // -1) != ($rank{ $_->{user} } // -2) } @streams;
}


# what is wrong so far, as tests; the problems are forgotten

sub verdict {
    my ($self, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    cmp_ok($self->{looks}, '>', 5, "$what: $self->{looks} looks at Redis");

    for my $kind (sort keys %kinds) {
        is_deeply($self->{problems}{$kind} || [], [], "$what: $kinds{$kind}");
    }

    $self->{problems} = {};
    $self->{looks} = 0;
}


# keys and instances of somebody who is no more

sub traces {
    my $self = shift;

    my %instances = $self->{nodes}->instances;

    return grep({ !/^(?:WAITING_STATS|WAITING_QUEUE_CONF
                       |WAITING_QUEUE_OVERRIDE|seat:count):\{e1\}$/x
                  && !m{^ENTRY_TOKEN:.*/}
                  && !/^(?:ENTRY|ENTRY_QUEUE_SLOTS|WAITING_QUEUE_IDX
                          |WAITING_INSTANCES|WAITING_ORIGIN
                          |PROMOTION_(?:LEASE|ROUND))$/x
                  && !(/^DISPATCH:\{(.*)\}$/ && $instances{$1}) }
                @{ $self->{nodes}->call('KEYS', '*') }),
           grep({ !$instances{$_} }
                @{ $self->{nodes}->call('ZRANGE', 'WAITING_INSTANCES', 0,
                                        -1) });
}


# a seat that somebody has got is counted, and no seat is that nobody wanted

sub seats_wrong {
    my $self = shift;

    my $counted = $self->{line}->stat('sold');
    my $has = grep { $_ eq 'has' } values %{ $self->{sold} };
    my $wanted = keys %{ $self->{sold} };

    return $counted < $has ? "$has have a seat, $counted are counted"
           : $counted > $wanted ? "$wanted wanted one, $counted are counted"
           : ();
}


# all go, by the roads by which people go, and nothing is left

sub close {
    my $self = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->{selling} = 0;

    # who has a seat in his hand buys it; the others leave
    $self->run_until(sub {
        !grep { $_->{token} && $_->{plan} eq 'sold' }
          @{ $self->{users_there} };
    }, 10);

    $self->_finish($_, 'the end', $_->{token} ? $self->{ttl}
                                  : $_->{kind} eq 'poll' ? $self->{poll_timeout}
                                  : $self->{grace})
        for @{ [ @{ $self->{users_there} } ] };

    my $line = $self->{line};

    ok($self->run_until(sub { !$line->leftovers }, $self->{grace} + 16),
       'the end: nobody and nothing is left')
        or diag(join "\n", $line->leftovers);
    ok($self->run_until(sub { !$self->{nodes}->busy }, 15),
       'the end: no message is on its way') or diag(join "\n", $self->{nodes}->busy);

    # the dead are buried when the grace time is over, some a round
    ok($self->run_until(sub { !$self->traces }, $self->{grace} + 30),
       'the end: no key is left of anybody') or diag(join "\n", $self->traces);
    is_deeply([ $self->seats_wrong ], [], 'the end: every seat is sold once');
    cmp_ok($self->{inside_most}, '>', $self->{capacity} / 3,
           "the end: up to $self->{inside_most} were inside at once");

    $self->verdict('the end');
    $self->abandon;
}


sub abandon {
    my $self = shift;

    $self->{backend}->stop;
    note(join ', ', map { my $what = $_;
                          map { "$what $_ $self->{seen}{$what}{$_}" }
                              sort keys %{ $self->{seen}{$what} } }
                    sort keys %{ $self->{seen} });
    $self->{nodes}->finish;
}


1;
