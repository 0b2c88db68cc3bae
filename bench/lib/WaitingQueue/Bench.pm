package WaitingQueue::Bench;

# What the measurements of the line share: a waiting room, the load, and what
# it is compared with.
#
#     my $room = start_room(workers => 1);
#     my $load = start_load(room => $room, n => 10_000);
#
#     $load->ready;
#     my $window = start_window(load => $load, pids => [ $room->workers ]);
#     $room->step while ...;
#     my ($seconds, $events, $cpu) = $window->end;
#
# All processes are WaitingQueue::Fault's, and end with the script.  sseload,
# silent and floor are built by run.sh.

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime);
use WaitingQueue::Fault;
use WaitingQueue::Line;
use WaitingQueue::Redis;

our @EXPORT = (@WaitingQueue::Fault::EXPORT, qw(
    start_room start_load start_silent start_floor start_node node_missing
    measure cpu_us now_us median percentile procs_for spread quiet
));

# a process may have 20,000 descriptors on many a machine
my $per_process = 17_000;

# measuring takes longer than a test may
alarm 0;
$| = 1;


sub start_room { return WaitingQueue::Bench::Room->new(@_) }
sub start_load { return _start('Load', @_) }
sub start_silent { return _start('Silent', @_) }
sub start_floor { return _start('Floor', @_) }
sub start_node { return _start('Node', @_) }


sub _start {
    my ($class, @options) = @_;
    return WaitingQueue::Fault::_started(
               "WaitingQueue::Bench::$class"->new(@options));
}


# figures

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return $sorted[$#sorted / 2];
}


sub percentile {
    my ($percent, @values) = @_;

    @values = sort { $a <=> $b } @values;
    my $n = POSIX::ceil($percent / 100 * @values) - 1;

    return $values[$n < 0 ? 0 : $n];
}


# spread(format, values): the median and the range

sub spread {
    my ($format, @values) = @_;

    @values = sort { $a <=> $b } @values;
    return sprintf "$format [$format - $format]", median(@values), $values[0],
                   $values[-1];
}


sub procs_for {
    my $n = shift;
    return POSIX::ceil($n / $per_process);
}


sub now_us { return int(1e6 * clock_gettime(CLOCK_MONOTONIC)) }


# what a process has had of the processors

sub cpu_us {
    my $us = 0;
    $us += (split ' ', slurp("/proc/$_/schedstat") || 0)[0] / 1000 for @_;
    return $us;
}


# measure(load, pids, seconds, code): runs code twice a second for so long; what
# happened meanwhile, from the same moment to the same moment

sub measure {
    my ($load, $pids, $seconds, $code) = @_;

    my @before = ($load->count, cpu_us(@$pids));
    my $next = time;
    my $end = $next + $seconds;

    while (time < $end) {
        $code->() if $code;
        $next += 0.5;
        my $left = $next - time;
        sleep $left if $left > 0;
    }

    my @after = ($load->count, cpu_us(@$pids));

    return { seconds => ($after[0] - $before[0]) / 1e6,
             events => $after[1] - $before[1],
             cpu_us => $after[2] - $before[2] };
}


# a line on how busy the machine is with other things

sub quiet {
    my ($load) = slurp('/proc/loadavg') =~ /^(\S+)/;
    printf "load of the machine before: %s\n", $load;
}


# A waiting room: nginx and Redis.
#
#     start_room(
#         workers => 1,
#         connections => 19900,       of a worker
#         interval => '1s',
#         listen => '',               further parameters
#         http => text, main => text, server => text,
#     )

package WaitingQueue::Bench::Room;

use WaitingQueue::Fault;


sub new {
    my ($class, %o) = @_;

    my $self = bless {
        workers => 1, connections => 19_900, interval => '1s', listen => '',
        http => '', main => '', server => '', event => 'bench', %o,
    }, $class;

    $self->{port} = free_port();
    $self->{redis} = start_redis(socket => 1);

    my $redis = $self->{redis};

    # one slot: who is let in makes way for the next by release()

    $self->{nginx} = WaitingQueue::Bench::_start(
        'Nginx',
        workers => $self->{workers}, connections => $self->{connections},
        timeout => 30, main => $self->{main}, http => $self->{http} . "
            waiting_queue_redis unix:" . $redis->path . ";
            waiting_queue_interval $self->{interval};
            keepalive_timeout 600s;",
        server => "
        listen 127.0.0.1:$self->{port} reuseport backlog=4096 $self->{listen};
        location /events/ {
            waiting_queue_stream;
            waiting_queue_event $self->{event};
            waiting_queue_user \$arg_user;
            waiting_queue_capacity 1;
            waiting_queue_ttl 1h claim=1h;
            waiting_queue_grace 1s;
        }" . ($self->{api} ? "
        keepalive_requests 1000000000;
        location = /token {
            waiting_queue_api;
            waiting_queue_event $self->{event};
            waiting_queue_user \$arg_user;
            waiting_queue_ttl 1h claim=1h;
            waiting_queue_poll_timeout 1h;
        }" : '') . $self->{server});

    $self->{nginx}->wait_ready;
    $self->{line} = WaitingQueue::Line->new(
        event => $self->{event},
        redis => WaitingQueue::Redis->new(port => $redis->port));

    return $self;
}


sub port { return $_[0]{port} }
sub path { return '/events/tickets/waiting?user=u%d' }
sub redis { return $_[0]{redis} }
sub nginx { return $_[0]{nginx} }
sub line { return $_[0]{line} }
sub workers { return $_[0]{nginx}->workers }


# one more is let in: all behind stand one place further

sub step {
    my $self = shift;

    $self->{line}->release($_) for @{$self->{line}->inside};
}


sub stop {
    my $self = shift;

    $self->{nginx}->stop;
    $self->{redis}->stop;
}


# An nginx as any other, for more than a few connections.

package WaitingQueue::Bench::Nginx;

use WaitingQueue::Fault;

our @ISA = 'WaitingQueue::Fault::Nginx';


sub configure {
    my ($self, %o) = @_;

    $self->SUPER::configure(%o);

    my $text = slurp($self->{conf});
    my $events = "worker_connections $self->{connections};"
                 . ' multi_accept on;';

    $text =~ s/worker_connections \d+;/$events/
        or die "no worker_connections in $self->{conf}\n";
    spew($self->{conf}, $text);

    return $self;
}


# The load: start_load(room or port and path => , n => , seconds => ,
# browser => 1, inflight => , first => , report => name of an event)

package WaitingQueue::Bench::Load;

use JSON::PP ();
use WaitingQueue::Fault;

# what a browser sends, besides Host and Accept

my @browser = (
    'User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 '
    . '(KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
    'Accept-Encoding: gzip, deflate, br, zstd',
    'Accept-Language: ko-KR,ko;q=0.9,en-US;q=0.8,en;q=0.7',
    'Cache-Control: no-cache',
    'Connection: keep-alive',
    'Cookie: _ga=GA1.1.1234567890.1718000%d; session=5f2c8a1be0d94cf6a8a35b6d'
    . '7c1f0e92%d; theme=dark; consent=necessary.analytics',
    'Referer: https://tickets.example/concerts/2026/summer/seats?section=B%d',
    'Sec-Ch-Ua: "Not/A)Brand";v="8", "Chromium";v="126"',
    'Sec-Ch-Ua-Mobile: ?0',
    'Sec-Ch-Ua-Platform: "Windows"',
    'Sec-Fetch-Dest: empty',
    'Sec-Fetch-Mode: cors',
    'Sec-Fetch-Site: same-origin',
);


sub new {
    my ($class, %o) = @_;

    my $room = $o{room};

    return bless {
        $room ? (port => $room->port, path => $room->path) : (),
        browser => 1, inflight => 500, first => 0, seconds => 3600,
        headers => [], events => [], %o,
    }, $class;
}


sub start {
    my $self = shift;

    my @command = (
        "$ENV{WQ_BUILD}/bench/sseload", '--port', $self->{port},
        '--path', $self->{path}, '--connections', $self->{n},
        '--procs', WaitingQueue::Bench::procs_for($self->{n}),
        '--inflight', $self->{inflight}, '--first', $self->{first},
        '--duration', $self->{seconds},
        (map { ('--header', $_) } @{$self->{headers}},
                                  $self->{browser} ? @browser : ()),
        $self->{report} ? ('--report', $self->{report}) : (),
    );

    $self->{pid} = open $self->{out}, '-|', @command
        or die "sseload: $!\n";

    return $self;
}


sub pid { return $_[0]{pid} }


# the next line that begins with the word, as a list

sub _read {
    my ($self, $word) = @_;

    while (defined(my $line = readline $self->{out})) {
        my ($first, @words) = split ' ', $line;

        return @words if $first eq $word;
        return JSON::PP::decode_json($line) if $word eq '{' && $line =~ /^\{/;

        if ($first eq 'EVENT') {
            push @{$self->{events}}, \@words;
        }
    }

    die "sseload has ended\n";
}


# when all have been answered: how many streams there are

sub ready {
    my $self = shift;

    my ($open) = $self->_read('READY');
    die "only $open of $self->{n} streams\n" if $open != $self->{n};

    return $open;
}


# the time in us and the events so far

sub count {
    my $self = shift;

    kill USR1 => $self->{pid};
    return $self->_read('COUNT');
}


# the next event of --report: the time in us and the number of the stream

sub event {
    my $self = shift;

    my $event = shift @{$self->{events}};
    return $event ? @$event : $self->_read('EVENT');
}


sub result {
    my $self = shift;

    return $self->{result} if $self->{result};

    kill TERM => $self->{pid};
    ($self->{result}) = $self->_read('{');
    close $self->{out};
    delete $self->{pid};

    return $self->{result};
}


sub stop {
    my $self = shift;
    $self->result if $self->{pid};
}


# Connections on which nothing comes, or nothing that ends:
# start_silent(port => , n => , say => text, again => 1)

package WaitingQueue::Bench::Silent;

our @ISA = 'WaitingQueue::Bench::Load';


sub new {
    my ($class, %o) = @_;
    return bless { say => '', %o }, $class;
}


sub start {
    my $self = shift;

    my @command = ("$ENV{WQ_BUILD}/bench/silent", '--port', $self->{port},
                   '--connections', $self->{n},
                   '--procs', WaitingQueue::Bench::procs_for($self->{n}),
                   '--say', $self->{say}, $self->{again} ? '--again' : ());

    $self->{pid} = open $self->{out}, '-|', @command or die "silent: $!\n";

    return $self;
}


# when all have been opened: how many are there; and now: so many, and so many
# that nginx has closed

sub ready { return $_[0]->_read('READY') }


package WaitingQueue::Bench::Floor;

use WaitingQueue::Fault;


sub new {
    my ($class, %o) = @_;
    return bless { port => free_port(), %o }, $class;
}


sub start {
    my $self = shift;

    my $log = WaitingQueue::Fault::_directory('floor') . '/floor.out';

    $self->{pids} = [ map {
        WaitingQueue::Fault::_spawn($log, {}, "$ENV{WQ_BUILD}/bench/floor",
                                    $self->{port}, 19_900)
    } 1 .. WaitingQueue::Bench::procs_for($self->{n}) ];

    wait_until { http_open($self->{port}, '/') } 5, 'the floor is there';

    return $self;
}


sub port { return $_[0]{port} }
sub pids { return @{$_[0]{pids}} }


sub stop {
    my $self = shift;

    for my $pid (@{$self->{pids}}) {
        kill KILL => $pid;
        waitpid $pid, 0;
    }

    $self->{pids} = [];
}


# The reference in Node: the same room as most would build it.

package WaitingQueue::Bench::Node;

use File::Copy ();
use File::Path ();
use WaitingQueue::Fault;


sub WaitingQueue::Bench::node_missing {
    for my $program (qw(node npm)) {
        return "$program is not installed"
            if !grep { -x "$_/$program" } split /:/, $ENV{PATH};
    }

    my $dir = "$ENV{WQ_BUILD}/bench/node";

    File::Path::make_path($dir);
    File::Copy::copy("bench/node/$_", "$dir/$_")
        for qw(waiting.js polling.js package.json);

    return if -d "$dir/node_modules/ioredis";
    return if system("cd '$dir' && npm install --no-audit --no-fund --silent")
              == 0;

    return 'npm cannot install its modules';
}


sub new {
    my ($class, %o) = @_;
    return bless { port => free_port(), script => 'waiting.js', %o }, $class;
}


sub start {
    my $self = shift;

    my $log = WaitingQueue::Fault::_directory('node') . '/node.out';
    my $dir = "$ENV{WQ_BUILD}/bench/node";

    $self->{redis} = start_redis(socket => 1);
    $self->{pid} = WaitingQueue::Fault::_spawn(
        $log, { PORT => $self->{port}, REDIS => $self->{redis}->path },
        '/usr/bin/env', 'node', "$dir/$self->{script}");

    wait_until { http_get($self->{port}, '/') } 20, 'Node is there';

    return $self;
}


sub port { return $_[0]{port} }
sub path { return '/events/e1/tickets/waiting' }
sub pid { return $_[0]{pid} }
sub redis { return $_[0]{redis} }


sub stop {
    my $self = shift;

    return if !$self->{pid};

    kill TERM => $self->{pid};
    waitpid $self->{pid}, 0;
    delete $self->{pid};
    $self->{redis}->stop;
}


1;
