# One at a time is at the backend with a seat, over all workers of all nodes: the
# backend itself looks.  Whatever happens to workers and clients meanwhile,
# nobody who waits is forgotten, nobody gets in front of another, and nothing is
# left behind.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Test::More;
use WaitingQueue::Nodes;

WaitingQueue::Nodes::need_descriptors(6000);

my $backend = start_backend();
my $nodes = WaitingQueue::Nodes->new(
    nodes => 2, workers => 2, start => 0,
    http => 'waiting_queue_event $arg_event;
    proxy_http_version 1.1;');

my %locks = (
    long => 'wait=60s lease=2m',
    short => 'wait=60s lease=1s',
    open => undef,
);

for my $node ($nodes->nodes) {
    $node->{server} .= join '', map {
        my $lock = defined $locks{$_}
                   ? "waiting_queue_seat_lock \$arg_seat $locks{$_};" : '';
        "        location /$_/ { $lock proxy_pass http://127.0.0.1:"
        . "$backend->{port}; }\n"
    } sort keys %locks;

    $node->launch;
}

$_->wait_ready for $nodes->nodes;


# The backend.  A request says how long it takes (ms=), or waits for its client
# to go away; the two at once that must not be are kept, and the order in which
# they came.  GET /report tells, and begins anew.

sub start_backend {
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 4096)
        or die "listen: $!\n";
    my $self = { port => $listen->sockport };
    my $parent = $$;

    $self->{pid} = fork;
    die "fork: $!\n" if !defined $self->{pid};

    if ($self->{pid} == 0) {
        $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM ALRM);
        alarm 0;
        eval { serve($listen, $parent) };
        warn $@ if $@;
        POSIX::_exit(0);
    }

    close $listen;

    return $self;
}

END { kill 'KILL', $backend->{pid} if $backend && $$ == $backend->{owner} }

$backend->{owner} = $$;


sub serve {
    my ($listen, $parent) = @_;

    my $select = IO::Select->new($listen);
    my (%in, %busy, %end, @order, @two, $served);

    my $over = sub {
        my ($socket) = @_;
        for my $seat (keys %busy) {
            delete $busy{$seat}{fileno $socket};
            delete $busy{$seat} if !%{$busy{$seat}};
        }
        delete $end{fileno $socket};
    };
    my $drop = sub {
        my ($socket) = @_;
        $over->($socket);
        delete $in{fileno $socket};
        $select->remove($socket);
        close $socket;
    };

    while (getppid == $parent) {
        my ($next) = sort { $a <=> $b } map { $_->[0] } values %end;
        my $pause = defined $next ? $next - time : 0.5;
        my @ready = $select->can_read($pause > 0 ? $pause : 0);
        my @come;

        # those who go first, so that one who comes does not meet them
        for my $socket (@ready) {
            if ($socket == $listen) {
                my $new = $listen->accept or next;
                $new->blocking(0);
                $select->add($new);
                $in{fileno $new} = '';
                next;
            }

            my $n = sysread $socket, $in{fileno $socket}, 65536,
                            length $in{fileno $socket};

            if (!$n) {
                next if !defined $n && $!{EAGAIN};
                $drop->($socket);
                next;
            }

            push @come, $socket if $in{fileno $socket} =~ /\r\n\r\n/;
        }

        for my $at (values %end) {
            my ($when, $socket) = @$at;
            next if !defined $when || $when > time;
            $over->($socket);
            $served++;
            $socket->blocking(1);
            print $socket "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"
                          . "Connection: close\r\n\r\nok\n";
            $drop->($socket);
        }

        for my $socket (@come) {
            $in{fileno $socket} =~ s/^GET (\S+)[\s\S]*?\r\n\r\n// or next;
            my $uri = $1;

            if ($uri =~ m{^/report}) {
                my $text = JSON::PP::encode_json({
                    order => \@order, two => \@two, served => $served || 0,
                    busy => scalar keys %busy });
                $socket->blocking(1);
                print $socket "HTTP/1.1 200 OK\r\nContent-Length: "
                              . length($text) . "\r\n\r\n$text";
                $drop->($socket);
                next if $uri !~ /anew/;
                @order = @two = ();
                $served = 0;
                next;
            }

            my %arg = $uri =~ /(\w+)=([^&]*)/g;
            my $seat = "$arg{event} $arg{seat}";

            push @order, $arg{id};
            push @two, "$seat: $arg{id} beside "
                       . join ' ', values %{$busy{$seat}}
                if $busy{$seat};
            $busy{$seat}{fileno $socket} = $arg{id};

            if (defined $arg{ms}) {
                $end{fileno $socket} = [ time + $arg{ms} / 1000, $socket ];
            }
        }
    }
}


sub report {
    my ($more) = @_;

    my $answer = http_get($backend->{port}, '/report' . ($more || ''));
    return JSON::PP::decode_json($answer->{body});
}

sub anew { return report('/anew') }


# Requests, many at once: { id, socket, status }.

my $id = 0;

sub ask {
    my ($node, $location, $seat, %more) = @_;

    my $r = { id => ++$id, in => '', since => time, seat => $seat };
    my $port = delete $more{socket};

    $r->{socket} = $port || IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $nodes->node($node)->port)
        or die "connect: $!\n";

    my $args = join '', map { "&$_=$more{$_}" } sort keys %more;
    syswrite $r->{socket}, "GET /$location/?event=e&seat=$seat&id=$r->{id}$args"
                           . " HTTP/1.1\r\nHost: localhost\r\n"
                           . "Connection: close\r\n\r\n";

    return $r;
}


# all of them are answered, or their connection is gone: status is undef then

sub finished {
    my ($seconds, $what, @requests) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my %open = map { fileno $_->{socket} => $_ }
               grep { !$_->{over} } @requests;
    my $select = IO::Select->new(map { $_->{socket} } values %open);
    my $deadline = time + patience($seconds);

    while (%open && time < $deadline) {
        for my $socket ($select->can_read(0.1)) {
            my $r = $open{fileno $socket};
            my $n = sysread $socket, $r->{in}, 65536, length $r->{in};

            next if $n;
            $r->{took} = time - $r->{since};
            $r->{over} = 1;
            ($r->{status}) = $r->{in} =~ m{^HTTP/1.1 (\d+)};
            delete $open{fileno $socket};
            $select->remove($socket);
            close $socket;
        }
    }

    ok(!%open, $what) or diag(scalar(keys %open) . ' are not answered');

    my %statuses;
    $statuses{defined $_->{status} ? $_->{status} : 'none'}++ for @requests;

    diag(sprintf '%.1f s for the slowest', (sort { $b <=> $a } map { $_->{took} || 0 } @requests)[0]) if $ENV{TEST_VERBOSE};
    return \%statuses;
}


sub in_line { return $nodes->call('ZCARD', "lock:seat:{e}:$_[0]/waiting") }
sub owner { return $nodes->call('GET', "lock:seat:{e}:$_[0]") }

sub wait_line {
    my ($seat, $n) = @_;

    my $deadline = time + patience(10);

    while (in_line($seat) != $n) {
        die "not $n in line of $seat: " . in_line($seat) . "\n"
            if time > $deadline;
        sleep 0.005;
    }
}

sub wait_backend {
    my ($r) = @_;

    my $deadline = time + patience(10);

    until (grep { $_ == $r->{id} } @{report()->{order}}) {
        die "request $r->{id} does not come\n" if time > $deadline;
        sleep 0.01;
    }
}


# nothing is left, in Redis and in the workers

sub clean {
    my ($what, $seconds) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    wait_until {
        !@{$nodes->call('KEYS', 'lock:seat:*')} && !$nodes->busy
            && !$nodes->sum('seatsHeld') && !$nodes->sum('seatsWaiting')
    } $seconds || 10, "$what: nothing is left"
        or diag(join "\n", @{$nodes->call('KEYS', 'lock:seat:*')},
                $nodes->busy);
}


# the worker of an owner, or of a member of a line: node and pid

sub worker_of {
    my ($instance) = $_[0] =~ m{^([^/]+)/};
    my %instances = $nodes->instances;
    return @{$instances{$instance} || die "no worker $instance\n"};
}


# a connection that a worker has accepted already

sub at {
    my ($node, $pid) = @_;
    return (socket => $nodes->node($node)->connect_to($pid));
}


# the detector: without a lock two are there at once

{
    my @requests = map { ask($_ % 2, 'open', 'A', ms => 50) } 1 .. 20;
    my $statuses = finished(20, 'without a lock', @requests);
    is_deeply($statuses, { 200 => 20 }, 'all are answered');
    my $report = anew();
    is($report->{served}, 20, 'the backend has seen all');
    cmp_ok(scalar(@{$report->{two}}), '>', 5, 'and that there were two at once');
}


# 1,000 requests for 10 seats, all at once

{
    my @requests = map { ask($_ % 2, 'long', 'S' . $_ % 10, ms => 2) }
                   1 .. 1000;
    my $statuses = finished(60, '1,000 requests for 10 seats', @requests);

    is_deeply($statuses, { 200 => 1000 }, 'nobody is refused or forgotten');
    my $report = anew();
    is($report->{served}, 1000, 'the backend has seen all');
    is_deeply($report->{two}, [], 'and never two at once for a seat');
    is($nodes->sum('seatsLocked'), 1000, 'counted');
    is($nodes->sum('seatsRefused') + $nodes->sum('seatsFailed')
       + $nodes->sum('seatsLapsed'), 0, 'nothing else');
    cmp_ok($nodes->sum('seatsWaited'), '>', 500, 'most had to wait');

    my @took = sort { $a <=> $b } map { $_->{took} } @requests;
    cmp_ok($took[-1], '<', patience(30), 'nobody waited for ever');
    diag(sprintf 'the last was answered after %.1f s', $took[-1])
        if $ENV{TEST_VERBOSE};
    clean('1,000 requests');
}


# first come, first served, wherever one comes

{
    my $first = ask(0, 'long', 'F');
    wait_backend($first);

    my @requests;
    for my $n (1 .. 60) {
        push @requests, ask($n % 2, 'long', 'F', ms => 0);
        wait_line('F', $n);
    }

    close $first->{socket};
    my $statuses = finished(20, 'one after the other', @requests);
    is_deeply($statuses, { 200 => 60 }, 'all are answered');
    is_deeply(anew()->{order}, [ map { $_->{id} } $first, @requests ],
              'in the order in which they came, over all workers');
    clean('in order');
}


# clients that go away, waiting or at the backend

{
    my @requests = map { ask($_ % 2, 'long', 'G' . $_ % 5, ms => 5) } 1 .. 400;
    my (@stay, @go);
    push @{$_->{id} % 2 ? \@stay : \@go}, $_ for @requests;

    for my $r (@go) {
        sleep rand 0.005;
        close $r->{socket};
        $r->{over} = 1;
    }

    my $statuses = finished(60, 'half of them go away', @stay);
    is_deeply($statuses, { 200 => 200 }, 'the others are all answered');
    is_deeply(anew()->{two}, [], 'never two at once');
    is($nodes->sum('seatsLapsed'), 0, 'no lease was over');
    clean('those who went away');
}


# a worker is killed that has the lock: it lapses, and the next has it

{
    my ($node, $pid) = (0, ($nodes->node(0)->pids)[0]);
    my $other = ($nodes->node(0)->pids)[1];
    my $holder = ask(0, 'short', 'K', at($node, $pid));
    wait_backend($holder);
    is_deeply([ worker_of(owner('K')) ], [ $node, $pid ], 'a worker has it');

    my @requests;
    for my $n (1 .. 10) {
        push @requests, ask($n % 2, 'short', 'K', ms => 0,
                            $n % 2 ? () : at(0, $other));
        wait_line('K', $n);
    }

    # all but this one live on
    $nodes->node($node)->kill_worker($pid);
    my $statuses = finished(10, 'the worker is killed', @requests);
    is_deeply($statuses, { 200 => 10 }, 'all others are answered');
    cmp_ok($requests[0]{took}, '<', patience(5), 'when the lease is over');
    my $report = anew();
    is_deeply($report->{order}, [ map { $_->{id} } $holder, @requests ],
              'in their order');
    is_deeply($report->{two}, [], 'never two at once');
    clean('a worker that held');
}


# a worker is killed whose requests wait: their turn costs a lease each, and
# then the line goes on

{
    my ($node, $pid) = (1, ($nodes->node(1)->pids)[0]);
    my $holder = ask(0, 'long', 'W');
    wait_backend($holder);

    my (@dead, @requests);
    for my $n (1 .. 8) {
        if ($n == 2 || $n == 3) {
            push @dead, ask(1, 'short', 'W', at($node, $pid), ms => 0);
        } else {
            push @requests, ask(0, 'short', 'W', ms => 0);
        }
        wait_line('W', $n);
    }

    $nodes->node($node)->kill_worker($pid);
    is(in_line('W'), 8, 'the dead stand in line');
    close $holder->{socket};

    my $statuses = finished(15, 'a worker that waits is killed', @requests);
    is_deeply($statuses, { 200 => 6 }, 'all others are answered');
    cmp_ok($requests[0]{took}, '<', $requests[1]{took}, 'in turn');
    my $report = anew();
    is_deeply($report->{order}, [ map { $_->{id} } $holder, @requests ],
              'in their order');
    is_deeply($report->{two}, [], 'never two at once');
    finished(5, 'the connections of the dead are gone', @dead);
    clean('a worker that waited');
}


# workers are killed under load: what they had is lost, and nothing else

{
    my @requests;
    for my $n (1 .. 600) {
        push @requests, ask($n % 2, 'short', 'L' . $n % 10, ms => 5);

        if ($n == 200 || $n == 400) {
            my $node = $n == 200 ? 0 : 1;
            $nodes->node($node)->kill_worker(($nodes->node($node)->pids)[0]);
        }
    }

    # the line of the dead may be long: each of them costs a lease, until the
    # whole of its wait is over
    my $statuses = finished(100, 'workers are killed under load', @requests);
    my $lost = $statuses->{none} || 0;

    is(($statuses->{200} || 0) + ($statuses->{409} || 0) + $lost, 600,
       'all others are answered')
        or diag(JSON::PP::encode_json($statuses));
    cmp_ok($lost, '<=', 600 / 2, 'of the killed');
    is_deeply(anew()->{two}, [], 'never two at once');
    clean('killed under load');
}


# nginx is reloaded under load: nobody notices

{
    my @requests;
    for my $n (1 .. 1000) {
        push @requests, ask($n % 2, 'long', 'R' . $n % 10, ms => 3);
        $nodes->node($n == 300 || $n == 900 ? 0 : 1)->signal('HUP')
            if $n == 300 || $n == 600 || $n == 900;
    }

    my $statuses = finished(60, 'reloaded under load', @requests);
    is_deeply($statuses, { 200 => 1000 }, 'all are answered');
    my $report = anew();
    is($report->{served}, 1000, 'once each');
    is_deeply($report->{two}, [], 'never two at once');
    $_->wait_ready for $nodes->nodes;
    # streams of the old ones are found by the reaper
    clean('reloaded', 40);
}


# a single process has no other to take over: who waits is told so

{
    my $single = start_nginx(
        master => 0, workers => 1,
        http => 'waiting_queue_redis ' . $nodes->redis->url . ';'
                . 'waiting_queue_event e;',
        server => "location /single/ { waiting_queue_seat_lock \$arg_seat "
                  . "wait=60s; proxy_pass http://127.0.0.1:"
                  . "$backend->{port}; }");

    $single->wait_ready;

    my $to = sub { return (socket => IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $single->port)) };
    my $first = ask(0, 'single', 'M', ms => 1500, $to->());
    wait_backend($first);
    my $second = ask(0, 'single', 'M', ms => 0, $to->());
    wait_line('M', 1);

    $single->signal('HUP');
    my $statuses = finished(10, 'a single process is reloaded', $first,
                            $second);
    is($second->{status}, 503, 'who waits is told');
    is($first->{status}, 200, 'who is at the backend is answered');
    is_deeply(finished(5, 'and then', ask(0, 'single', 'M', ms => 0,
                                          $to->())),
              { 503 => 1 }, 'nobody gets past the lock');
    is_deeply(anew()->{two}, [], 'never two at once');
    $nodes->call('DEL', 'lock:seat:{e}:M', 'lock:seat:{e}:M/waiting');
    $single->stop;
}

clean('in the end');
is_deeply([ grep { /seat/ } @{$nodes->call('KEYS', '*')} ], [],
          'no key of any seat');

$nodes->finish;
