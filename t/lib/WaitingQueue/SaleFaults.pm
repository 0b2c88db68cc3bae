package WaitingQueue::SaleFaults;

# What may go wrong in a sale (WaitingQueue::Sale), each with what a user sees
# of it:
#
#     my $fault = WaitingQueue::SaleFaults->begin($sale, 'flushed');
#     $fault->turn until $fault->is_over;
#     ok(@$_) for $fault->expectations;
#
# A fault is a list of steps.  Each says what is to be waited for before the
# next: so many seconds, or until something is so.
#
# Two that may not meet are of classes that exclude each other: what Redis has
# lost is put back by those who know it, so they must be there.

use strict;
use warnings;

use Test::More ();
use WaitingQueue::Fault ();
use WaitingQueue::Nodes;

use Time::HiRes qw(time);

# class => those that it does not meet
my %excludes = (
    node => [qw(node loss)],
    redis => [qw(redis loss)],
    loss => [qw(node redis loss)],
    client => [],
);

# what a fault may look at afterwards: the counts of the sale since it began

my $nobody_refused = sub {
    my $seen = shift;
    return (!$seen->{answers}{503} && !$seen->{streams}{503},
            'nobody is refused');
};

my $streams_stay = sub {
    my $seen = shift;
    my @broken = grep { !/^(?:local|503)$/ } keys %{ $seen->{streams} };
    return (!@broken, 'every stream stays open');
};

my $come_back = sub {
    my ($seen, $how) = @_;
    return (($seen->{streams}{$how} || 0) > 0,
            "streams end ($how), and their users come back");
};

my %faults = (

    # ---- nodes

    reload => {
        class => 'node',
        steps => sub {
            my ($sale, $fault) = @_;
            my $node = $sale->node($fault->{n} = $fault->any(2));
            my @old;

            return (
                sub {
                    @old = $node->workers;
                    $node->signal('HUP');
                    return sub { !grep { WaitingQueue::Fault::alive($_) }
                                 @old };
                },
                sub { sub { $node->ready } },
            );
        },
        expect => [ $nobody_refused,
                    sub { $come_back->($_[0], 'reconnect') },
                    sub { return (!grep({ /eof|reset/ }
                                        keys %{ $_[0]{streams} }),
                                  'and none breaks') } ],
    },

    quit => {
        class => 'node',
        steps => sub {
            my ($sale, $fault) = @_;
            my $n = $fault->any(2);
            my $node = $sale->node($n);

            return (
                sub {
                    # it accepts nobody any more
                    $sale->node_down($n);
                    $node->workers;
                    $node->signal('QUIT');
                    return sub { $node->wait_gone(0) };
                },
                sub {
                    $node->{stopped} = 1;
                    $node->launch;
                    return sub { $node->ready };
                },
                sub { $sale->node_up($n); 0 },
            );
        },
        expect => [ sub { $come_back->($_[0], 'reconnect') } ],
    },

    upgrade => {
        class => 'node',
        steps => sub {
            my ($sale, $fault) = @_;
            my $n = $fault->any(2);
            my $node = $sale->node($n);
            my ($old, $new);

            return (
                sub {
                    $old = $node->pid;
                    $node->workers;
                    $node->signal('USR2');
                    return sub {
                        ($new) = WaitingQueue::Fault::slurp($node->{pid_file})
                                 =~ /^(\d+)\n/;
                        return $new && $new != $old
                               && WaitingQueue::Fault::children($new) == 2;
                    };
                },
                sub {
                    # from here on the new ones have a zone of their own
                    $sale->node_up($n);
                    kill QUIT => $old;
                    return sub { !WaitingQueue::Fault::alive($old) };
                },
                sub {
                    $node->adopt($new);
                    return sub { $node->ready };
                },
            );
        },
        expect => [ $nobody_refused,
                    sub { $come_back->($_[0], 'reconnect') } ],
    },

    worker_killed => {
        class => 'node',
        steps => sub {
            my ($sale, $fault) = @_;
            my $n = $fault->any(2);
            my $node = $sale->node($n);
            my $pid;

            return (
                sub {
                    ($pid) = $node->workers;
                    $sale->{node}[$n]{restless} = 1;
                    $node->forgive(qr/worker process $pid exited on signal 9/);
                    kill KILL => $pid;
                    return sub {
                        !WaitingQueue::Fault::alive($pid) && $node->ready;
                    };
                },
                sub { 0.5 },
                sub { $sale->{node}[$n]{restless} = 0 },
            );
        },
        expect => [ $nobody_refused,
                    sub { $come_back->({ streams => { broken =>
                              ($_[0]{streams}{eof} || 0)
                              + ($_[0]{streams}{reset} || 0) } }, 'broken') } ],
    },

    # the whole of it, and somebody starts it again
    node_killed => {
        class => 'node',
        steps => sub {
            my ($sale, $fault) = @_;
            my $n = $fault->any(2);
            my $node = $sale->node($n);

            return (
                sub {
                    $sale->node_down($n);
                    $node->forgive(qr/exited on signal 9/);
                    $node->kill9;
                    return 3;
                },
                sub {
                    $node->launch;
                    return sub { $node->ready };
                },
                sub { $sale->node_up($n); 0 },
            );
        },
        expect => [ $nobody_refused,
                    sub { $come_back->({ streams => { broken =>
                              ($_[0]{streams}{eof} || 0)
                              + ($_[0]{streams}{reset} || 0) } }, 'broken') } ],
    },

    # ---- Redis is there, or not

    redis_slow => {
        class => 'redis',
        steps => sub {
            my ($sale) = @_;
            my $session;

            return (
                sub { $session = $sale->redis->session; 0 },
                map({ sub { syswrite $session, "DEBUG SLEEP 0.4\r\n"; 0.5 } }
                    1 .. 6),
            );
        },
        expect => [ $streams_stay, $nobody_refused ],
    },

    redis_frozen => {
        class => 'redis',
        steps => sub {
            my ($sale) = @_;

            return (
                sub {
                    $sale->redis_away;
                    $sale->redis->signal('STOP');
                    return 2.5;
                },
                sub { $sale->redis->signal('CONT'); ready($sale) },
                sub { $sale->redis_back; 0 },
            );
        },
        expect => [ $streams_stay, \&refused ],
    },

    redis_killed => {
        class => 'redis',
        steps => sub {
            my ($sale) = @_;

            return (
                sub { $sale->redis_away; $sale->redis->kill9; 2 },
                sub { $sale->redis->start; ready($sale) },
                sub { $sale->redis_back; 0 },
            );
        },
        expect => [ $streams_stay, \&refused ],
    },

    redis_restarted => {
        class => 'redis',
        steps => sub {
            my ($sale) = @_;

            return (
                sub {
                    $sale->redis_away;
                    kill TERM => $sale->redis->pid;
                    return sub {
                        !WaitingQueue::Fault::alive($sale->redis->pid);
                    };
                },
                sub {
                    $sale->redis->kill9;
                    $sale->redis->start;
                    return ready($sale);
                },
                sub { $sale->redis_back; 0 },
            );
        },
        expect => [ $streams_stay ],
    },

    connections_cut => {
        class => 'redis',
        steps => sub {
            my ($sale) = @_;

            return (
                sub {
                    $sale->nodes->call(qw(CLIENT KILL TYPE normal SKIPME yes));
                    return ready($sale);
                },
            );
        },
        expect => [ $streams_stay ],
    },

    scripts_forgotten => {
        class => 'redis',
        steps => sub {
            my ($sale) = @_;
            return (sub { $sale->nodes->call(qw(SCRIPT FLUSH)); 1 });
        },
        expect => [ $streams_stay, $nobody_refused ],
    },

    # of one node: the other goes on
    node_cut_off => {
        class => 'redis',
        steps => sub {
            my ($sale) = @_;

            return (
                sub {
                    $sale->redis_away(1);
                    $sale->reach(undef);

                    for my $client ($sale->redis->clients) {
                        $sale->nodes->call(qw(CLIENT KILL ID), $client->{id})
                            if $client->{name} =~ /^node2-/;
                    }
                    return 3;
                },
                sub { $sale->reach($sale->redis->path); ready($sale) },
                sub { $sale->redis_back; 0 },
            );
        },
        expect => [ $streams_stay, \&refused ],
    },

    out_of_memory => {
        class => 'redis',
        steps => sub {
            my ($sale) = @_;

            return (
                sub {
                    $sale->redis_away;
                    # it can still be looked into
                    $sale->{blind} = 0;
                    $sale->nodes->call(qw(CONFIG SET maxmemory 1));
                    return 2.5;
                },
                sub {
                    $sale->nodes->call(qw(CONFIG SET maxmemory 0));
                    return ready($sale);
                },
                sub { $sale->redis_back; 0 },
            );
        },
        expect => [ $streams_stay, \&refused ],
    },

    # rotated in Redis alone; somebody corrects nginx.conf
    password_rotated => {
        class => 'redis',
        steps => sub {
            my ($sale, $fault) = @_;
            my @old;

            return (
                sub {
                    $sale->redis_away;
                    $sale->{blind} = 0;
                    my $password = 'rotated' . int rand 1e9;
                    $sale->nodes->call(qw(CONFIG SET requirepass), $password);
                    $sale->redis->{password} = $password;
                    $sale->nodes->{asked}{password} = $password;
                    # also when it is started again
                    push @{ $sale->redis->{options} },
                         requirepass => $password;
                    $sale->nodes->call(qw(CLIENT KILL TYPE normal SKIPME yes));
                    return 2;
                },
                sub {
                    for my $node (map { $sale->node($_) } 0, 1) {
                        push @old, $node->workers;
                        $node->redis_parameters(
                            "password=$sale->{redis}{password}");
                        $node->configure;
                        $node->signal('HUP');
                    }
                    return sub { !grep { WaitingQueue::Fault::alive($_) }
                                 @old };
                },
                sub { ready($sale) },
                sub { $sale->redis_back; 0 },
            );
        },
        expect => [ \&refused, sub { $come_back->($_[0], 'reconnect') } ],
        # a reload, too
        class_too => 'node',
    },

    # ---- Redis is back with less than it had

    flushed => {
        class => 'loss',
        steps => sub {
            my ($sale) = @_;

            return (
                sub {
                    $sale->data_lost;
                    $sale->nodes->call('FLUSHALL');
                    return ready($sale);
                },
                recovered($sale),
            );
        },
        expect => [ $streams_stay ],
    },

    redis_emptied => {
        class => 'loss',
        steps => sub {
            my ($sale) = @_;

            return (
                sub {
                    $sale->redis_away;
                    $sale->redis->kill9;
                    return 0.5;
                },
                sub {
                    File::Path::remove_tree(
                        glob "$sale->{redis}{dir}/appendonly*");
                    $sale->data_lost;
                    $sale->redis->start;
                    return ready($sale);
                },
                recovered($sale),
            );
        },
        expect => [ $streams_stay ],
    },

    failover => {
        class => 'loss',
        steps => sub {
            my ($sale, $fault) = @_;
            my ($master, $replica) = ($sale->redis);

            return (
                sub {
                    $replica = WaitingQueue::Fault::start_redis(
                        socket => 1, options => $master->{options},
                        password => $master->{password});
                    $replica->cli(qw(CONFIG SET masterauth),
                                  $master->{password})
                        if $master->{password};
                    $replica->cli(qw(REPLICAOF 127.0.0.1), $master->port);
                    return sub {
                        ($replica->info('master_link_status') || '') eq 'up';
                    };
                },
                sub { 1 },
                sub {
                    # from here on it is behind
                    $replica->cli(qw(REPLICAOF NO ONE));
                    return 0.6;
                },
                sub {
                    $sale->redis_away;
                    $master->kill9;
                    $sale->data_lost;
                    return 0.3;
                },
                sub {
                    # it takes over the address
                    $replica->cli(qw(CONFIG SET port), $master->port);
                    $replica->{port} = $master->port;
                    $sale->reach($replica->path);
                    $sale->{redis} = $sale->nodes->{redis} = $replica;
                    return ready($sale);
                },
                recovered($sale),
            );
        },
        expect => [ $streams_stay ],
    },

    # ---- what is put into Redis by hand

    garbage => {
        class => 'client', asks_redis => 1,
        steps => sub {
            my ($sale) = @_;
            my $nodes = $sale->nodes;

            return (map { my $n = $_; sub {
                # none of these is an event, or a worker's name
                my @words = ("\0\xff\r\n", '{', '/-1', '9' x 400,
                             '{"userId":"', 'x' x 5000);
                my $word = sub { $words[rand @words] };
                my @dispatch = @{ $nodes->call(qw(KEYS DISPATCH:*)) };

                for my $stream ('ENTRY', @dispatch) {
                    $nodes->call('XADD', $stream, '*', $word->(), $word->());
                    $nodes->call('XADD', $stream, '*',
                                 type => 'promoted', userId => $word->(),
                                 eventId => 'e1', instanceId => $word->(),
                                 idx => $word->(), token => $word->(),
                                 expiresAt => $word->(), serial => '0');
                }

                $nodes->call('RPUSH', 'PROMOTION_TASK_LIST', $word->());
                $nodes->call('SADD', 'WAITING_EVENTS', $word->());
                $nodes->call('ZADD', 'WAITING_INSTANCES', $n, $word->());
                $nodes->call('HSET', 'WAITING_STATS:{e1}', $word->(),
                             $word->());
                $nodes->call('HSET', 'WAITING_QUEUE_OVERRIDE:{e1}',
                             capacity => "many$n", rate => $word->(),
                             ttl => $word->());
                return 0.3;
            } } 1 .. 8), sub {
                # what nobody but who has put it there can take out
                $nodes->call('DEL', 'WAITING_QUEUE_OVERRIDE:{e1}');
                return 0;
            };
        },
        expect => [ $streams_stay, $nobody_refused ],
    },

    # ---- clients and backends that do what they should not

    # who stands in line and does not read is told the newest when it does
    slow_readers => {
        class => 'client',
        steps => sub {
            my ($sale) = @_;
            my @slow;

            my $open = sub {
                my $n = shift;
                return $sale->line->open("slow$n", rcvbuf => 2304,
                                         $sale->nodes->at($n % 2));
            };

            return (
                sub {
                    @slow = map { $open->($_) } 0 .. 19;
                    return sub {
                        # refused, by another fault
                        for my $n (grep { defined $slow[$_]->ended } 0 .. 19) {
                            $slow[$n] = $open->($n);
                        }
                        return !grep { !$_->events } @slow;
                    };
                },
                sub { $_->stop_reading for @slow; 4 },
                sub { $_->resume for @slow; 1 },
                sub { $_->close for @slow; 0 },
            );
        },
        expect => [ $nobody_refused ],
    },

    silent_connections => {
        class => 'client',
        steps => sub {
            my ($sale, $fault) = @_;
            my @silent;

            return (
                sub {
                    for my $n (1 .. 300) {
                        # one of the nodes may be down by another fault
                        my $silent = IO::Socket::INET->new(
                            PeerAddr => '127.0.0.1',
                            PeerPort => $sale->node($n % 2)->workers_port)
                            or next;
                        # and some say half of it
                        syswrite $silent, "GET /sale/e1?user=h$n HTTP/1.1\r"
                            if $n % 3 == 0;
                        push @silent, $silent;
                    }
                    return 3;
                },
                sub { $fault->{silent} = @silent; @silent = (); 0.5 },
            );
        },
        expect => [ $streams_stay, $nobody_refused,
                    sub { ($_[1]{silent} == 300, 'and they may stay') } ],
    },

    # one user, again and again: it is one place, and nobody else moves
    reconnect_loop => {
        class => 'client', asks_redis => 1,
        steps => sub {
            my ($sale, $fault) = @_;
            my (@open, $first);

            my $again = sub {
                my $how = rand() < 0.5 ? 'close' : 'reset';
                $_->$how for splice @open, 0, 5;
                push @open, map {
                    $sale->line->open('restless', $sale->nodes->at($_ % 2))
                } 1 .. 5;
                my $idx = $sale->line->idx('restless');
                $first //= $idx;
                $fault->{moved} ||= defined $idx && $idx != $first;
                return 0.04;
            };

            return (
                sub {
                    push @open, $sale->line->open('restless');
                    return sub { $open[0]->events };
                },
                map({ $again } 1 .. 60),
                sub { $_->close for @open; 0 },
            );
        },
        expect => [ $nobody_refused,
                    sub { (!$_[1]{moved}, 'one user has one place') } ],
    },

    # without a token, with one of somebody else's, with one that was guessed
    forged => {
        class => 'client',
        steps => sub {
            my ($sale, $fault) = @_;
            my @asked;

            return (
                (map { my $n = $_; sub {
                    my ($owner) = grep { $_->{token} }
                                  @{ $sale->{users_there} };
                    my @tokens = ('', '0' x 40, "x\t'\"{}", 'f' x 4000,
                                  sprintf('%040x', rand 1e9),
                                  $owner ? $owner->{token} : ());
                    my $token = $tokens[$n % @tokens];
                    my @ids = ("thief$n", '..%2f', '%00', '{e1}', 'a' x 129,
                               '%0d%0aX-A:+b', '"}', "\xc3\xa9");
                    my $id = $ids[$n % @ids];

                    push @asked, map {
                        $sale->sse->open(
                            $sale->nodes->at($n % 2), path => $_,
                            headers => {
                                Accept => 'application/json',
                                'X-Waiting-Queue-Token' => $token,
                                Cookie => "wq_5da6b3b5=$token; wq_uid=$id" })
                    } "/shop/e1/?user=$id",
                      $id =~ /^thief/ ? () : "/shop/$id/?user=thief$n";
                    return 0.1;
                } } 1 .. 24),
                sub { sub { !grep { !defined $_->ended } @asked } },
                sub {
                    $fault->{let_in} = grep { ($_->status || 0) == 200 }
                                       @asked;
                    # those who have come in line by it leave again
                    $sale->sse->open($sale->nodes->at(0), method => 'DELETE',
                                     path => "/api/sale/e1?user=thief$_")
                        for 1 .. 24;
                    return 0.5;
                },
            );
        },
        expect => [ $streams_stay,
                    sub { (!$_[1]{let_in}, 'nobody is let in by it') } ],
    },

    backend_nonsense => {
        class => 'client',
        steps => sub {
            my ($sale) = @_;

            return (
                sub { $sale->{junk} = 1; 2.5 },
                sub {
                    $sale->{junk} = 0;
                    $sale->{junk_until} = time;
                    return 0.5;
                },
            );
        },
        expect => [ $streams_stay ],
    },
);


sub names { return sort keys %faults }


sub begin {
    my ($class, $sale, $name) = @_;

    my $fault = $faults{$name} or die "no fault $name\n";
    my $self = bless { %$fault, name => $name, sale => $sale, n => 0 },
                     $class;

    $self->{left} = [ $fault->{steps}->($sale, $self) ];
    $self->{until} = sub { 1 };

    return $self;
}


# a number of chance, below that

sub any {
    my ($self, $below) = @_;
    return int $below * $self->{sale}{chance}->();
}


sub turn {
    my $self = shift;

    # Redis may be away by another fault
    while (!$self->{over} && !($self->{asks_redis} && $self->{sale}{blind})
           && eval { $self->{until}->() })
    {
        my $step = shift @{ $self->{left} };

        if (!$step) {
            $self->{over} = 1;
            return;
        }

        my $then = $step->();
        my $due = ref $then ? undef : time + $then;

        $self->{step}++;
        $self->{until} = ref $then ? $then : sub { time >= $due };
    }
}


sub is_over { return $_[0]{over} }


sub describe {
    my $self = shift;
    return "$self->{name}: step $self->{step} is not over" . ($@ ? ": $@" : '');
}


# whether one of that name must not begin now

sub excludes {
    my ($self, $name) = @_;

    my %not = map { $_ => 1 }
              map { @{ $excludes{$_} } } _classes($self);

    return scalar grep { $not{$_} } _classes($faults{$name});
}


sub _classes { return grep { defined } @{ $_[0] }{qw(class class_too)} }


# [ok, what] each

sub expectations {
    my $self = shift;

    my $seen = $self->{sale}->seen;

    return map { [ $_->($seen, $self) ] } @{ $self->{expect} };
}


sub refused {
    my $seen = shift;

    return (!!($seen->{answers}{503} || $seen->{streams}{503}),
            'who comes meanwhile is refused, with 503');
}


# all links work again

sub ready {
    my $sale = shift;
    return sub { !grep { !$sale->node($_)->ready } 0, 1 };
}


# ... and nobody is kept out any more by what was lost

sub recovered {
    my $sale = shift;

    return (
        sub { $sale->redis_back; 0 },
        sub {
            return sub {
                my $till = $sale->nodes->call(qw(HGET WAITING_ORIGIN until));
                return defined $till && $till / 1000 < time;
            };
        },
    );
}


1;
