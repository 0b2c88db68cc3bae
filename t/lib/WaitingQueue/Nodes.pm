package WaitingQueue::Nodes;

# Several nodes on one Redis, and the clients of their streams:
#
#     use WaitingQueue::Nodes;
#
#     my $nodes = WaitingQueue::Nodes->new(
#         nodes => 2, workers => 2,
#         http => 'waiting_queue_interval 100ms;',
#         locations => { one => 'waiting_queue_capacity 1;' },
#     );
#
#     my $line = $nodes->line('one', 'e1');
#     my $s = $line->join('u1');                      at the first node
#     my $t = $line->join('u2', $nodes->at(1));       at the second
#     my $u = $line->join('u3', $nodes->at(1, $pid)); at that worker of it
#
#     $nodes->node(0)->kill_worker($pid);
#     $nodes->finish;
#
# A location is a set of directives of its own, /NAME/EVENT?user=USER; a line is
# one event at one of them (WaitingQueue::Line).  The token API with the same
# directives is at /api/NAME/EVENT?user=USER.  Everything that a test needs
# of one nginx or of Redis is in WaitingQueue::Fault, whose functions this
# exports: a node is one of its nginx, and redis one of its Redis.
#
# Workers listen each for itself (reuseport), and say which one has accepted a
# connection: at() gives options for a stream on a connection that the worker
# wanted has.
#
# finish() is that of WaitingQueue::Fault, and asserts besides that all that was
# ever sent to a client is well-formed.

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use Test::More;
use WaitingQueue::Fault ();
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

our @EXPORT;

BEGIN {
    @EXPORT = grep { $_ ne 'finish' } @WaitingQueue::Fault::EXPORT;
    WaitingQueue::Fault->import(@EXPORT);
}


# need_descriptors(n): starts the test again with a limit of n open files, if
# it has less; to be called before anything else is done

sub need_descriptors {
    my $n = shift;

    return if POSIX::sysconf(POSIX::_SC_OPEN_MAX()) >= $n;
    die "no more than so many open files, $n are needed\n"
        if $ENV{WQ_DESCRIPTORS};

    $ENV{WQ_DESCRIPTORS} = $n;
    exec 'sh', '-c', "ulimit -n $n && exec \"\$@\"", 'sh', $^X,
         (map { "-I$_" } grep { !ref } @INC), $0, @ARGV
        or die "exec: $!\n";
}


# new(
#     nodes => 1,
#     workers => 2,                 of each node
#     http => text,                 in http{} of all
#     prefix => text,               of all keys
#     locations => { name => directives },
#     server => text,               in server{} of all
#     connections => 1024,          of each worker
#     timeout => '5s',              of Redis
#     redis => WaitingQueue::Fault::Redis, one of its own if there is none
#     urls => [text, ...],          of Redis, for each node, if they differ
#     daemon => 0,                  1: as it must be for another binary
#     start => 1,                   0: the nodes are not started yet
# )

sub new {
    my ($class, %o) = @_;

    %o = (nodes => 1, workers => 2, http => '', prefix => '', locations => {},
          server => '', daemon => 0, urls => [],
          connections => 1024, timeout => '5s', start => 1, %o);

    my $self = bless { %o, urls => [ @{ $o{urls} } ], nodes => [] }, $class;

    $self->{redis} ||= start_redis();
    $self->{asked} = WaitingQueue::Redis->new(port => $self->{redis}->port);
    $self->{sse} = WaitingQueue::Nodes::Sse->new;

    for my $n (1 .. $o{nodes}) {
        push @{ $self->{nodes} },
             WaitingQueue::Nodes::Node->new_node($self, "node$n");
    }

    if ($o{start}) {
        $_->launch for $self->nodes;
        $_->wait_ready for $self->nodes;
    }

    return $self;
}


sub nodes { return @{ $_[0]{nodes} } }
sub node { return $_[0]{nodes}[$_[1]] }
sub redis { return $_[0]{redis} }
sub sse { return $_[0]{sse} }


# call(command): an answer of Redis

sub call {
    my ($self, @words) = @_;
    return $self->{asked}->call(@words);
}


# Redis again, after kill9(), with what it has saved; returns when all workers
# know it

sub restart_redis {
    my ($self, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    delete $self->{asked}{socket};
    $self->{redis}->start;
    $_->wait_ready($what, 15) for grep { $_->pid && alive($_->pid) }
                                  $self->nodes;
}


# line(location, event): the event, at the first node if nothing else is said

sub line {
    my ($self, $location, $event) = @_;

    die "no location $location\n" if !exists $self->{locations}{$location};

    return WaitingQueue::Line->new(
        event => $event, prefix => $self->{prefix},
        redis => $self->{asked}, sse => $self->{sse},
        port => $self->node(0)->workers_port,
        path => "/$location/%e?user=%u");
}


# at(node, pid): options of Line's open() and join(); without a pid whichever
# worker it comes to

sub at {
    my ($self, $n, $pid) = @_;

    my $node = $self->node($n);

    return (port => $node->workers_port) if !defined $pid;
    return (socket => $node->connect_to($pid));
}


# run_until(code, seconds, what): of WaitingQueue::Sse; the state of the nodes
# is told when it fails

sub run_until {
    my ($self, $code, $seconds, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $value = $self->{sse}->run_until($code, $seconds, $what);

    if (!$value && defined $what) {
        diag($_->describe) for grep { $_->pid && alive($_->pid) } $self->nodes;
    }

    return $value;
}


# all workers: { instance => [node's number, pid] }

sub instances {
    my $self = shift;

    my %instances;

    for my $n (0 .. $#{ $self->{nodes} }) {
        my $node = $self->node($n);
        next if !$node->pid || !alive($node->pid);
        $instances{ $_->{instance} } = [$n, $_->{pid}] for $node->rows;
    }

    return %instances;
}


# the sum of a counter over all nodes

sub sum {
    my ($self, $counter) = @_;

    my $sum = 0;
    $sum += $_->sum($counter) for grep { $_->pid && alive($_->pid) }
                                  $self->nodes;
    return $sum;
}


# rounds(n, counter): runs until each node that lives has had n more of them, so
# that what has not happened by then does not happen

sub rounds {
    my ($self, $n, $counter) = @_;

    my $wanted = $self->sum($counter) + $n;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->{sse}->run_until(sub { $self->sum($counter) >= $wanted }, 20)
        or fail("$n more $counter");
}


# exact(line, streams): whether each is told the rank that it has in Redis now;
# who stands there without a stream does not matter

sub exact {
    my ($self, $line, @streams) = @_;

    my $n = 0;
    my %rank = map { $_ => $n++ } @{ $line->waiting };

    for my $s (@streams) {
        return 0 if !defined $rank{ $s->{user} } || !defined $s->rank
                    || $s->rank != $rank{ $s->{user} };
    }

    return 1;
}


# busy(): what is on its way, of messages and tasks: empty at rest

sub busy {
    my $self = shift;

    my @busy;

    my $prefix = $self->{prefix};

    for my $stream ("${prefix}ENTRY",
                    @{ $self->call('KEYS', "${prefix}DISPATCH:*") })
    {
        my $n = eval { $self->call('XLEN', $stream) };
        push @busy, "$n in $stream" if $n;

        my $pending = eval { $self->call('XPENDING', $stream,
                                         'waiting_queue') };
        push @busy, "$pending->[0] pending in $stream"
            if $pending && $pending->[0];
    }

    my $tasks = $self->call('LLEN', "${prefix}PROMOTION_TASK_LIST");
    push @busy, "$tasks tasks" if $tasks;

    return @busy;
}


sub finish {
    my $self = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->{sse}->close_all;

    my @violations = $self->{sse}->violations;
    splice @violations, 20 if @violations > 20;
    is_deeply(\@violations, [], 'all that was sent is well-formed');

    WaitingQueue::Fault::finish();
}


# open() takes a connection that is there already too: socket => handle

package WaitingQueue::Nodes::Sse;

our @ISA = ('WaitingQueue::Sse');


sub open {
    my ($self, %o) = @_;

    my $socket = delete $o{socket};

    return $self->SUPER::open(%o) if !$socket;

    %o = (http => '1.1', method => 'GET', headers => {}, %o);

    my $s = WaitingQueue::Sse::Stream->_new($self, \%o);

    WaitingQueue::Sse::_nonblocking($socket);
    $s->{out} = WaitingQueue::Sse::_request(\%o);
    $s->{socket} = $socket;
    $self->{seen}++;
    $self->_watch($s);

    return $s;
}


# An nginx that is one of several.

package WaitingQueue::Nodes::Node;

use Time::HiRes qw(sleep time);

our @ISA = ('WaitingQueue::Fault::Nginx');


sub new_node {
    my ($class, $nodes, $name) = @_;

    my $own = WaitingQueue::Fault::free_port();

    my $locations = join '', map { <<"END" } sort keys %{ $nodes->{locations} };
        location ~ ^/$_/(?<wq_event>[^/]+)\$ {
            waiting_queue_stream;
            waiting_queue_event \$wq_event;
            waiting_queue_user \$arg_user;
            $nodes->{locations}{$_}
        }
        location ~ ^/api/$_/(?<wq_event>[^/]+)\$ {
            waiting_queue_api;
            waiting_queue_event \$wq_event;
            waiting_queue_user \$arg_user;
            $nodes->{locations}{$_}
        }
END

    my $self = $class->new(
        workers => $nodes->{workers}, daemon => $nodes->{daemon},
        main => 'worker_rlimit_nofile 16384;',
        server => "listen 127.0.0.1:$own reuseport backlog=4096;\n"
                  . '        location = /pid { return 200 "$pid"; }' . "\n"
                  . "        $nodes->{server}\n$locations",
        # what is in flight to a Redis that is gone is waited for
        timeout => 15,
    );

    $self->{name} = $name;
    $self->{own_port} = $own;
    $self->{connections} = $nodes->{connections};
    $self->{shared} = $nodes;
    $self->{redis_url} = shift @{ $nodes->{urls} } || $nodes->{redis}->url;

    return $self->redis_parameters('');
}


# of waiting_queue_redis, password=... say; they hold from the next start or
# reload on

sub redis_parameters {
    my ($self, $parameters) = @_;

    my $shared = $self->{shared};

    $self->{http} = <<"END";
waiting_queue_redis $self->{redis_url} timeout=$shared->{timeout} $parameters;
    waiting_queue_instance $self->{name};
    waiting_queue_prefix "$shared->{prefix}";
    $shared->{http}
END

    return $self;
}


# the port of which each worker has a socket of its own

sub workers_port { return $_[0]{own_port} }


sub configure {
    my ($self, %o) = @_;

    $self->SUPER::configure(%o);

    my $text = WaitingQueue::Fault::slurp($self->{conf});

    $text =~ s/worker_connections \d+;/worker_connections $self->{connections};/
        or die "no worker_connections in $self->{conf}\n";
    WaitingQueue::Fault::spew($self->{conf}, $text);

    return $self;
}


# the first start, and one after kill9() or quit()

sub launch {
    my $self = shift;

    if ($self->{stopped}) {
        $self->{stopped} = 0;
        $self->{known} = [];
        delete @$self{qw(pid child exit)};
        return $self->start;
    }

    return WaitingQueue::Fault::_started($self);
}


# the pids and the instances of the workers that do not leave

sub pids { return map { $_->{pid} } $_[0]->rows }


sub instance {
    my ($self, $pid) = @_;

    my ($row) = grep { $_->{pid} == $pid } $self->rows;
    return $row && $row->{instance};
}


# a connection that this worker has accepted: it is kept alive, and the next
# request on it goes to the same

sub connect_to {
    my ($self, $pid) = @_;

    my $seen = '';

    for (1 .. 500) {
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                           PeerPort => $self->{own_port},
                                           Timeout => 5)
            or die "port $self->{own_port}: $!\n";

        syswrite $socket, "GET /pid HTTP/1.1\r\nHost: localhost\r\n\r\n";

        my $answer = '';
        my $deadline = time + WaitingQueue::Fault::patience(5);
        my $select = IO::Select->new($socket);

        while (time < $deadline && $answer !~ /\r\n\r\n\d+\z/) {
            next if !$select->can_read(0.5);
            sysread $socket, $answer, 4096, length $answer or last;
        }

        return $socket if $answer =~ /\r\n\r\n$pid\z/;
        $seen = $answer;
    }

    die "no connection to worker $pid; another one said: $seen\n";
}


# HUP: returns when the new workers are ready; the old ones may still leave

sub reload {
    my $self = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my %old = map { $_ => 1 } $self->workers;

    $self->signal('HUP');

    WaitingQueue::Fault::wait_until(
        sub { $self->ready && !grep { $old{$_} } $self->pids }, 15,
        "$self->{name} is reloaded");
}


# QUIT, all the way

sub quit {
    my $self = shift;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->stop;
    Test::More::ok(!$self->{stuck}, "$self->{name} has quit");
}


# kill -9: of a worker, in whose place the master starts another, which is
# ready when this returns

sub kill_worker {
    my ($self, $pid) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    $self->forgive(qr/worker process $pid exited on signal 9/);
    kill KILL => $pid or die "kill $pid: $!\n";

    WaitingQueue::Fault::wait_until(
        sub { !WaitingQueue::Fault::alive($pid) && $self->ready
              && !grep { $_ == $pid } $self->pids }, 15,
        "$self->{name}: another worker has come for the one that was killed");
}


# the whole node, as if its power was cut: the master first, so that it starts
# nobody

sub kill9 {
    my $self = shift;

    my @workers = $self->workers;

    kill KILL => $self->{pid};
    kill KILL => @workers if @workers;

    $self->wait_gone(WaitingQueue::Fault::patience(5))
        or die "$self->{name} survives kill -9\n";

    $self->{stopped} = 1;
    $self->{exit} = 0;
}


1;
