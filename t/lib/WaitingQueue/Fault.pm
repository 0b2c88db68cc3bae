package WaitingQueue::Fault;

# A private nginx and a private Redis for tests of what goes wrong:
#
#     use WaitingQueue::Fault;
#
#     my $redis = start_redis();
#     my $nginx = start_nginx(http => 'waiting_queue_redis ' . $redis->url
#                                     . ' timeout=300ms;');
#
#     $nginx->wait_ready;
#     kill KILL => $redis->pid;
#     wait_until { $nginx->has_trouble('connect_failed') } 5, 'it is noticed';
#
#     finish();
#
# wait_until() polls for an event up to a deadline and is an assertion itself;
# under a sanitizer the deadlines are longer (patience()).  Tests do not sleep
# where there is an event to wait for.
#
# finish() stops everything and asserts for each nginx that nothing happened
# that nobody asked for: problems() is the list.  t/fault/00-control.t shows
# that each of them is seen.
#
# All is under WQ_BUILD/test/fault.NAME.PID, which stays when a test fails or
# WQ_KEEP is set.  Processes are ended by their ids, also when a test dies.
#
# start_redis(), start_nginx(), start_fake() and start_dns() say what they take.

use strict;
use warnings;

use Cwd ();
use Exporter 'import';
use File::Basename ();
use File::Path ();
use File::Temp ();
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(
    start_redis start_nginx start_fake start_dns wait_until patience finish
    freeze free_port http_get http_open slurp spew alive children fds rss_kb
    link_names sanitized time sleep
);

my $owner = $$;
my $flavour = $ENV{WQ_TEST_FLAVOUR} || 'plain';
my $build = Cwd::abs_path($ENV{WQ_BUILD} || 'build');
my $name = File::Basename::basename($0, '.t');
my $dir = "$build/test/fault.$flavour.$name.$$";
my $sockets;
my (@started, $finished, %ports);

# a test that hangs is a test that failed
my $watchdog = $flavour eq 'plain' ? 180 : 420;

$ENV{TEST_NGINX_BINARY} ||= '/usr/sbin/nginx';
delete @ENV{qw(NGINX REDISCLI_AUTH)};

$SIG{PIPE} = 'IGNORE';
$SIG{ALRM} = sub { die "the test took more than $watchdog s\n" };
$SIG{$_} = sub { die "ended by a signal\n" } for qw(HUP INT TERM);

alarm $watchdog;


sub sanitized { return $flavour =~ /^asan/ }


# the links of a worker, or how many

my @link_names = qw(commands reader router);

sub link_names { return @link_names }


# seconds of a deadline, on a build that is several times slower too

sub patience {
    my $seconds = shift;
    return sanitized() ? 3 * $seconds : $seconds;
}


# freeze(pids): they are stopped, and do nothing any more.  kill() comes back
# before that, and on a busy machine the process may still take in what it finds.

sub freeze {
    for my $pid (@_) {
        kill STOP => $pid or die "kill STOP: $!\n";

        my $deadline = time + patience(10);

        until (slurp("/proc/$pid/stat") =~ /\) T /) {
            die "$pid does not stop\n" if time > $deadline;
            sleep 0.01;
        }
    }
}


# wait_until { event } seconds, what: returns what the block returned, or
# undef and a failed test

sub wait_until(&$$) {
    my ($event, $seconds, $what) = @_;

    my $start = time;
    my $deadline = $start + patience($seconds);
    my $value;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    while (1) {
        # the last look is after the deadline: the test may have been held up
        my $last = time > $deadline;

        $value = eval { $event->() };

        if ($value) {
            pass($what);
            return $value;
        }

        last if $last;
        sleep 0.02;
    }

    fail($what);
    diag(sprintf 'not within %.1f s%s', time - $start, $@ ? ": $@" : '');

    for my $nginx (grep { $_->isa('WaitingQueue::Fault::Nginx') } @started) {
        diag($nginx->describe) if WaitingQueue::Fault::alive($nginx->pid || 0);
    }

    return;
}


# a port that nothing listens on, on any address of the loopback; below those
# that the kernel hands out

sub free_port {
    for (1 .. 1000) {
        my $port = 10000 + int rand 20000;

        next if $ports{$port}++;

        my $free = IO::Socket::INET->new(LocalAddr => '0.0.0.0',
                                         LocalPort => $port, Listen => 1);
        return $port if $free;
    }

    die "no free port\n";
}


sub slurp {
    my $path = shift;

    open my $file, '<', $path or return '';
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}


sub spew {
    my ($path, $text) = @_;

    open my $file, '>', $path or die "$path: $!\n";
    print $file $text;
    close $file or die "$path: $!\n";
}


# processes

sub alive {
    my $pid = shift;

    # a zombie is not alive: its parent has just not looked yet
    my ($state) = slurp("/proc/$pid/stat") =~ /^\d+ \(.*\) (\S)/s;

    return defined $state && $state ne 'Z' && $state ne 'X';
}


sub children {
    my $parent = shift;

    opendir my $proc, '/proc' or die "/proc: $!\n";
    my @children;

    for my $pid (grep { /^\d+$/ } readdir $proc) {
        my ($ppid) = slurp("/proc/$pid/stat") =~ /^\d+ \(.*\) \S (\d+)/s;
        push @children, $pid
            if defined $ppid && $ppid == $parent && alive($pid);
    }

    @children = sort { $a <=> $b } @children;
    return @children;
}


sub fds {
    my $pid = shift;

    opendir my $fds, "/proc/$pid/fd" or return 0;
    return scalar grep { /^\d+$/ } readdir $fds;
}


sub rss_kb {
    my $pid = shift;

    my ($kb) = slurp("/proc/$pid/status") =~ /^VmRSS:\s+(\d+)/m;
    return $kb || 0;
}


# HTTP: http_get() gives { status, head, body }, or undef when there was no
# answer in time; http_open() a socket on which the request has been sent

sub http_open {
    my ($port, $path) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $port,
                                       Timeout => patience(3))
        or return;

    $socket->autoflush(1);
    print $socket "GET $path HTTP/1.1\r\nHost: localhost\r\n"
                  . "Connection: close\r\n\r\n";

    return $socket;
}


sub http_get {
    my ($port, $path) = @_;

    my $socket = http_open($port, $path) or return;
    my $answer = '';
    my $deadline = time + patience(3);
    my $select = IO::Select->new($socket);

    while (time < $deadline) {
        next unless $select->can_read(0.5);

        my $n = sysread $socket, $answer, 65536, length $answer;

        return unless defined $n;
        last if $n == 0;
    }

    my ($head, $body) = split /\r\n\r\n/, $answer, 2;
    return unless defined $body;

    my ($status) = $head =~ m{^HTTP/1\.1 (\d+)};

    if ($head =~ /^Transfer-Encoding: chunked/mi) {
        my $plain = '';
        while ($body =~ s/^([0-9a-f]+)\r\n//i && hex $1) {
            $plain .= substr $body, 0, hex $1, '';
            $body =~ s/^\r\n//;
        }
        $body = $plain;
    }

    return { status => $status, head => $head, body => $body };
}


sub start_redis { return _started(WaitingQueue::Fault::Redis->new(@_)) }
sub start_nginx { return _started(WaitingQueue::Fault::Nginx->new(@_)) }
sub start_fake { return _started(WaitingQueue::Fault::Fake->new(@_)) }
sub start_dns { return _started(WaitingQueue::Fault::Dns->new(@_)) }


sub _started {
    my $server = shift;

    push @started, $server;
    return $server->start;
}


# a directory for one server

my $serial = 0;

sub _directory {
    my $kind = shift;

    my $path = sprintf '%s/%s%d', $dir, $kind, ++$serial;
    File::Path::make_path($path);
    # the workers may run as somebody else, who must find the way to the reports
    chmod 0777, $dir, $path;

    return $path;
}


# the path of a socket is limited to 107 bytes, that of the build is not

sub _socket_path {
    my $file = shift;

    $sockets ||= File::Temp::tempdir('wq.XXXXXX', TMPDIR => 1);
    chmod 0755, $sockets;

    return "$sockets/$file";
}


# fork and exec, with its output in a file

sub _spawn {
    my ($output, $env, @command) = @_;

    my $pid = fork;
    die "fork: $!\n" unless defined $pid;

    if ($pid == 0) {
        alarm 0;
        $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM ALRM PIPE);
        @ENV{keys %$env} = values %$env;

        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', $output;
        open STDERR, '>&', \*STDOUT;

        # nothing of the test's own sockets and pipes
        for my $fd (3 .. 255) {
            POSIX::close($fd);
        }

        exec { $command[0] } @command or POSIX::_exit(127);
    }

    return $pid;
}


# the wait status of a child, or undef if it did not end in time

sub _reap {
    my ($pid, $seconds) = @_;

    my $deadline = time + $seconds;

    while (1) {
        my $got = waitpid $pid, POSIX::WNOHANG();

        return $? if $got == $pid;
        return 0 if $got == -1 && !alive($pid);    # not our child
        return if time > $deadline;
        sleep 0.01;
    }
}


sub _stop_all {
    for my $server (reverse @started) {
        eval { $server->stop; 1 } or diag("stop: $@");
    }
}


# finish(): the last line of a test

sub finish {
    _stop_all();
    $finished = 1;

    for my $nginx (grep { $_->isa('WaitingQueue::Fault::Nginx') } @started) {
        next if $nginx->{forgotten};

        my @problems = $nginx->problems;

        ok(!@problems, 'nothing went wrong in ' . $nginx->{what})
            or diag(join "\n", @problems);
    }

    done_testing();
}


END {
    # a child that was forked has nothing to clean up
    if ($$ == $owner) {
        my $status = $?;

        alarm 0;
        _stop_all() unless $finished;
        File::Path::remove_tree($sockets) if defined $sockets;

        if ($finished && Test::More->builder->is_passing
            && !length($ENV{WQ_KEEP} || ''))
        {
            File::Path::remove_tree($dir);

        } else {
            diag("logs are in $dir");
        }

        $? = $status;
    }
}


# A redis-server.
#
#     start_redis(
#         port => number,             a free one
#         socket => 1,                a unix socket too
#         bind => '127.0.0.1',
#         dir => path,                of another one that was stopped
#         options => [name, value, ...],
#         wait => 1,                  0: do not wait until it answers
#     )
#
# start() starts one that was stopped or killed again, with the same data.

package WaitingQueue::Fault::Redis;

use Time::HiRes qw(sleep time);
use Test::More ();


sub new {
    my ($class, %o) = @_;

    my $self = bless {
        bind => '127.0.0.1',
        options => [],
        wait => 1,
        %o,
    }, $class;

    $self->{dir} ||= WaitingQueue::Fault::_directory('redis');
    $self->{port} ||= WaitingQueue::Fault::free_port();

    if ($self->{socket}) {
        ($self->{path}) = $self->{dir} =~ m{([^/]+)$};
        $self->{path} = WaitingQueue::Fault::_socket_path("$self->{path}.sock");
    }

    return $self;
}


sub start {
    my $self = shift;

    my @command = (
        'redis-server', '--port', $self->{port}, '--bind', $self->{bind},
        '--dir', $self->{dir}, '--save', '', '--appendonly', 'no',
        '--daemonize', 'no', '--protected-mode', 'no',
        '--enable-debug-command', 'yes',
    );

    push @command, '--unixsocket', $self->{path}, '--unixsocketperm', '777'
        if $self->{path};

    my @options = @{ $self->{options} };

    while (my ($option, $value) = splice @options, 0, 2) {
        push @command, "--$option", split(/ /, $value, -1);
    }

    # the last Redis' connections may keep the port for a moment
    for my $try (1 .. 20) {
        $self->{pid} = WaitingQueue::Fault::_spawn("$self->{dir}/redis.out",
                                                   {}, @command);
        return $self if !$self->{wait};

        my $deadline = time + 10;

        while (WaitingQueue::Fault::alive($self->{pid})) {
            $self->{asked} = 0;
            return $self if $self->cli('PING') =~ /PONG|NOAUTH|NOPERM/;
            die "redis-server does not answer\n" if time > $deadline;
            sleep 0.02;
        }

        waitpid $self->{pid}, 0;
        sleep 0.1;
    }

    die "redis-server does not start:\n"
        . WaitingQueue::Fault::slurp("$self->{dir}/redis.out");
}


sub pid { return $_[0]{pid} }
sub port { return $_[0]{port} }
sub path { return $_[0]{path} }
sub url { return "redis://127.0.0.1:$_[0]{port}" }


# what redis-cli prints; never asks for longer than a second or two

sub cli {
    my ($self, @words) = @_;

    my @command = ('redis-cli', $self->{path} ? ('-s', $self->{path})
                                              : ('-h', $self->{bind},
                                                 '-p', $self->{port}));

    push @command, '--no-auth-warning', '-a', $self->{password}
        if $self->{password};

    $self->{asked}++;

    my $pid = open my $out, '-|';
    die "fork: $!\n" unless defined $pid;

    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        # a Redis that is stopped must not stop the test
        alarm 10;
        $SIG{ALRM} = 'DEFAULT';
        exec { $command[0] } @command, @words or POSIX::_exit(127);
    }

    local $/;
    my $answer = <$out>;
    close $out;

    $answer = '' unless defined $answer;
    $answer =~ s/\n\z//;

    return $answer;
}


# A connection that is there already when no other is let in: session() opens
# it, ask() sends a line and gives the first line of the answer.

sub session {
    my $self = shift;

    return IO::Socket::INET->new(PeerAddr => $self->{bind},
                                 PeerPort => $self->{port})
        || die "no session: $!\n";
}


sub ask {
    my ($self, $session, $line) = @_;

    print $session "$line\r\n";
    $session->flush;
    my $answer = readline $session;
    $answer = '' unless defined $answer;
    $answer =~ s/\r\n\z//;

    return $answer;
}


# CLIENT LIST without redis-cli itself: a list of { id, name, ... }

sub clients {
    my $self = shift;

    my @clients;

    for my $line (split /\n/, $self->cli('CLIENT', 'LIST')) {
        my %client = map { /^([^=]+)=(.*)$/ ? ($1, $2) : () } split / /, $line;
        push @clients, \%client if $client{id} && $client{cmd} ne 'client|list';
    }

    return @clients;
}


sub info {
    my ($self, $field) = @_;

    my ($value) = $self->cli('INFO') =~ /^\Q$field\E:(.*?)\r?$/m;
    return $value;
}


# how many connections it has had since it started, but for those of cli()

sub connections {
    my $self = shift;
    return $self->info('total_connections_received') - $self->{asked};
}


sub signal {
    my ($self, $signal) = @_;

    kill $signal => $self->{pid} or die "kill $signal: $!\n";
    WaitingQueue::Fault::freeze($self->{pid}) if $signal eq 'STOP';
}


# gone, at once and without saving

sub kill9 {
    my $self = shift;

    return unless $self->{pid};

    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    delete $self->{pid};
}


sub stop { $_[0]->kill9 }


# An nginx.
#
#     start_nginx(
#         http => text,               in http{}
#         server => text,             in its server{}
#         main => text,
#         workers => 2,
#         daemon => 0, master => 1,
#         status => 1,                0: no location uses the module
#         env => { name => value },   of its environment
#         timeout => 5,               s: how long stop() lets it quit
#     )
#
# It has /status (JSON), /metrics (Prometheus) and /ok, which is none of the
# module's business.

package WaitingQueue::Fault::Nginx;

use Time::HiRes qw(sleep time);
use Test::More ();


my $count = 0;

sub new {
    my ($class, %o) = @_;

    my $self = bless {
        http => '',
        server => '',
        main => '',
        workers => 2,
        daemon => 0,
        master => 1,
        status => 1,
        env => {},
        timeout => 5,
        forgiven => [],
        known => [],
        %o,
    }, $class;

    $self->{what} = 'nginx ' . ++$count;
    $self->{dir} = WaitingQueue::Fault::_directory('nginx');
    $self->{port} = WaitingQueue::Fault::free_port();
    $self->{log} = "$self->{dir}/error.log";
    $self->{pid_file} = "$self->{dir}/nginx.pid";
    $self->{conf} = "$self->{dir}/nginx.conf";
    $self->{reports} = "$self->{dir}/sanitizer";

    mkdir $self->{reports};
    chmod 0777, $self->{reports};

    return $self;
}


# writes the configuration anew; options as in start_nginx()

sub configure {
    my ($self, %o) = @_;

    @$self{keys %o} = values %o;

    my $modules = $ENV{TEST_NGINX_LOAD_MODULES};
    my $load = join '', map { "load_module $_;\n" }
                        split ' ', defined $modules ? $modules : '';
    my $daemon = $self->{daemon} ? 'on' : 'off';
    my $master = $self->{master} ? 'on' : 'off';
    # for the same reason as the mode of the directories
    my $user = $> == 0 ? "user root;\n" : '';

    my $status = $self->{status} ? <<'END' : '';
        location = /status { waiting_queue_status; }
        location = /metrics { waiting_queue_status prometheus; }
END

    my $temp = join '', map { "    ${_}_temp_path $self->{dir}/$_;\n" }
                        qw(client_body proxy fastcgi uwsgi scgi);

    WaitingQueue::Fault::spew($self->{conf}, <<END);
$load$user
daemon $daemon;
master_process $master;
worker_processes $self->{workers};
pid $self->{pid_file};
error_log $self->{log} info;
# another binary that this one starts has them from here alone
env ASAN_OPTIONS;
env UBSAN_OPTIONS;
$self->{main}

events { worker_connections 256; }

http {
    access_log off;
$temp
    $self->{http}

    server {
        listen 127.0.0.1:$self->{port};
        location = /ok { return 200 "ok"; }
$status
        $self->{server}
    }
}
END

    return $self;
}


sub command {
    my ($self, @arguments) = @_;

    return ($ENV{TEST_NGINX_BINARY}, '-p', $self->{dir}, '-c', $self->{conf},
            '-e', $self->{log}, @arguments);
}


# a report must not go where another nginx' goes

sub environment {
    my $self = shift;

    my %env = %{ $self->{env} };

    for my $variable (qw(ASAN_OPTIONS UBSAN_OPTIONS)) {
        my $options = $ENV{$variable} || '';
        $options =~ s/[,:]?log_path=[^,:]*//g;
        $options .= ',' if length $options;
        $env{$variable} = "${options}log_path=$self->{reports}/report";
    }

    $env{ASAN_OPTIONS} .= ',detect_leaks=0'
        unless $env{ASAN_OPTIONS} =~ /detect_leaks/;

    return \%env;
}


sub start {
    my $self = shift;

    $self->configure;
    unlink $self->{pid_file};

    my $pid = WaitingQueue::Fault::_spawn("$self->{dir}/nginx.out",
                                          $self->environment, $self->command);
    my $deadline = time + WaitingQueue::Fault::patience(5);

    if ($self->{daemon}) {
        my $status = WaitingQueue::Fault::_reap($pid,
                                          WaitingQueue::Fault::patience(5));
        die $self->start_error unless defined $status && $status == 0;

    } else {
        $self->{child} = $pid;
    }

    while (1) {
        my ($written) = WaitingQueue::Fault::slurp($self->{pid_file})
                        =~ /^(\d+)\n/;

        if ($written) {
            $self->{pid} = $written;
            last;
        }

        die $self->start_error
            if time > $deadline
               || (!$self->{daemon} && !WaitingQueue::Fault::alive($pid));
        sleep 0.01;
    }

    while (!$self->ok) {
        die "nginx does not serve\n" . $self->describe if time > $deadline;
        sleep 0.02;
    }

    $self->{first} = [$self->workers];

    return $self;
}


sub start_error {
    my $self = shift;

    return "nginx does not start:\n"
           . WaitingQueue::Fault::slurp("$self->{dir}/nginx.out")
           . WaitingQueue::Fault::slurp($self->{log});
}


# a run of another nginx command, -t say: its exit code and what it printed

sub run {
    my ($self, @arguments) = @_;

    my $output = "$self->{dir}/run.out";
    unlink $output;

    my $pid = WaitingQueue::Fault::_spawn($output, $self->environment,
                                          $self->command(@arguments));
    my $status = WaitingQueue::Fault::_reap($pid,
                                            WaitingQueue::Fault::patience(5));

    if (!defined $status) {
        kill KILL => $pid;
        waitpid $pid, 0;
        return (-1, WaitingQueue::Fault::slurp($output));
    }

    return ($status >> 8, WaitingQueue::Fault::slurp($output));
}


sub pid { return $_[0]{pid} }
sub port { return $_[0]{port} }


# the ids of the living worker processes, or of the single process

sub workers {
    my $self = shift;

    my @pids = $self->{master} ? $self->processes(qr/^nginx: worker process/)
                               : ($self->{pid});

    # remembered, so that stop() finds those whose master is gone
    my %known = map { $_ => 1 } @{ $self->{known} }, @pids;
    $self->{known} = [keys %known];

    return @pids;
}


# children of the master with that title

sub processes {
    my ($self, $title) = @_;

    return grep { WaitingQueue::Fault::slurp("/proc/$_/cmdline") =~ $title }
           WaitingQueue::Fault::children($self->{pid});
}


sub get {
    my ($self, $path) = @_;
    return WaitingQueue::Fault::http_get($self->{port}, $path);
}


# other locations are served

sub ok {
    my $self = shift;

    my $answer = $self->get('/ok');
    return $answer && $answer->{status} == 200 && $answer->{body} eq 'ok';
}


# asserts that other locations are served, by the workers of the beginning

sub unharmed {
    my ($self, $when) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @missing = grep { !WaitingQueue::Fault::alive($_) } @{ $self->{first} };

    Test::More::ok($self->ok && !@missing, "other locations are served $when")
        or Test::More::diag("workers that are gone: @missing");
}


sub status {
    my $self = shift;

    my $answer = $self->get('/status') or die "no status\n";
    die "status $answer->{status}\n" unless $answer->{status} == 200;

    return JSON::PP::decode_json($answer->{body});
}


# the rows of the status: of the processes that are not leaving

sub rows {
    my $self = shift;
    return grep { !$_->{draining} } @{ $self->status->{processes} };
}


# the links of that name, or all

sub links {
    my ($self, $link) = @_;

    return map { my $row = $_;
                 map { $row->{links}{$_} }
                     defined $link ? $link
                                   : WaitingQueue::Fault::link_names() }
           $self->rows;
}


# the sum of a counter over all links of that name, or over the processes

sub sum {
    my ($self, $counter, $link) = @_;

    my $sum = 0;
    $sum += $_->{$counter} for defined $link ? $self->links($link)
                                             : $self->rows;
    return $sum;
}


sub ready {
    my $self = shift;

    my @rows = $self->rows;

    return @rows == $self->{workers}
           && !grep { $_->{state} ne 'ready' || defined $_->{trouble} }
              map { values %{ $_->{links} } } @rows;
}


sub wait_ready {
    my ($self, $what, $seconds) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return WaitingQueue::Fault::wait_until(
               sub { $self->ready }, $seconds || 10,
               defined $what ? $what : 'all links are ready');
}


# every link of that name (or every one at all) is in that trouble

sub has_trouble {
    my ($self, $trouble, $link) = @_;

    my @links = $self->links($link);

    return @links && !grep { ($_->{trouble} || '') !~ /^(?:$trouble)$/ } @links;
}


# every one is in that state

sub has_state {
    my ($self, $state, $link) = @_;

    my @links = $self->links($link);

    return @links && !grep { $_->{state} !~ /^(?:$state)$/ } @links;
}


# { "name{labels}" => value } of the Prometheus status

sub metrics {
    my $self = shift;

    my $answer = $self->get('/metrics') or die "no metrics\n";

    return { map { /^([^#].*) (\S+)$/ ? ($1, $2) : () }
             split /\n/, $answer->{body} };
}


# the log: mark() gives a place in it, log_lines() what was written since

sub mark {
    my $self = shift;
    return -s $self->{log} || 0;
}


sub log_lines {
    my ($self, $mark, $pattern) = @_;

    open my $file, '<', $self->{log} or return;
    seek $file, $mark, 0;
    my @lines = <$file>;

    return defined $pattern ? grep { $_ =~ $pattern } @lines : @lines;
}


sub describe {
    my $self = shift;

    my $status = eval { $self->get('/status')->{body} };
    my @lines = $self->log_lines(0);
    splice @lines, 0, @lines - 25 if @lines > 25;

    return "$self->{what} ($self->{dir}): "
           . (defined $status ? $status : "no status\n") . join '', @lines;
}


sub signal {
    my ($self, $signal) = @_;
    kill $signal => $self->{pid} or die "kill $signal: $!\n";
    WaitingQueue::Fault::freeze($self->{pid}) if $signal eq 'STOP';
}


sub wait_gone {
    my ($self, $seconds) = @_;

    my $deadline = time + $seconds;

    $self->workers if $self->{pid};

    while (1) {
        if ($self->{child} && !defined $self->{exit}) {
            my $got = waitpid $self->{child}, POSIX::WNOHANG();
            $self->{exit} = $? if $got == $self->{child};
        }

        return 1 unless grep { WaitingQueue::Fault::alive($_) }
                        $self->{pid}, @{ $self->{known} };
        return 0 if time > $deadline;
        sleep 0.01;
    }
}


# a binary upgrade has made another one the master

sub adopt {
    my ($self, $pid) = @_;

    $self->workers;
    $self->{pid} = $pid;
    delete $self->{child};
    $self->workers;
}


sub stop {
    my $self = shift;

    if (!$self->{pid}) {
        # it never came up
        if ($self->{child}) {
            kill KILL => $self->{child};
            waitpid $self->{child}, 0;
            delete $self->{child};
        }
        return;
    }

    return if $self->{stopped}++;

    $self->workers;

    kill QUIT => $self->{pid} if WaitingQueue::Fault::alive($self->{pid});

    return if $self->wait_gone(
                  WaitingQueue::Fault::patience($self->{timeout}));

    $self->{stuck} = 1;

    for my $pid ($self->{pid}, @{ $self->{known} }) {
        kill CONT => $pid;
        kill KILL => $pid if WaitingQueue::Fault::alive($pid);
    }

    $self->wait_gone(WaitingQueue::Fault::patience(5));
}


# lines of the log that a test has provoked: they are no problem

sub forgive {
    my ($self, @patterns) = @_;
    push @{ $self->{forgiven} }, @patterns;
}


# the problems so far are known to the test: finish() is not to look

sub forget { $_[0]{forgotten} = 1 }


# all that should not have happened, as a list of texts

sub problems {
    my $self = shift;

    my @problems;

    for my $line ($self->log_lines(0)) {
        chomp $line;

        # the level has its place: a text of somebody's may quote another
        next unless $line =~ m{^[\d/]+ [\d:]+ \[(?:alert|emerg)\] }
                 || $line =~ /exited on signal/
                 || $line =~ /exited with (?:fatal )?code (?!0\b)/
                 || $line =~ /AddressSanitizer|LeakSanitizer|runtime error:/;
        next if grep { $line =~ $_ } @{ $self->{forgiven} };

        push @problems, "log: $line";
    }

    for my $report (glob "$self->{reports}/*") {
        my $text = WaitingQueue::Fault::slurp($report);
        push @problems, 'sanitizer: ' . substr $text, 0, 4000;
    }

    push @problems, 'it had to be killed' if $self->{stuck};
    push @problems, "the master ended with status $self->{exit}"
        if $self->{exit};

    return @problems;
}


# Something that speaks Redis' protocol and lies.
#
#     my $fake = start_fake(port => number, modes => { name => { ... }, ... });
#     $fake->mode('name');
#
# A mode replaces some answers of a Redis that is in order.  Its keys are
#
#     AUTH SELECT SETNAME LOAD PING EVALSHA EVAL XGROUP XREADGROUP XAUTOCLAIM
#         the answer, or sub ($words, $say) that returns it; undef is silence
#     heartbeat fill_promotion_tasks ...
#         the same, for one script, however it is called
#     accept
#         sub ($say), when a connection is made
#     idle
#         sub ($say), 0.1 s after a heartbeat was answered: nothing is pending
#         on that connection then
#     drip
#         s between two bytes, each of which is a write of its own
#
# $say->(bytes, ...) sends pieces, one write each; $say->() closes.  mode()
# closes all connections and returns when the new mode holds.  The mode "good"
# is always there.

package WaitingQueue::Fault::Fake;

use Digest::SHA ();
use Time::HiRes qw(sleep time);


sub new {
    my ($class, %o) = @_;

    my $self = bless { bind => '127.0.0.1', modes => {}, %o }, $class;

    $self->{port} ||= WaitingQueue::Fault::free_port();
    $self->{modes}{good} = {};

    return $self;
}


sub port { return $_[0]{port} }
sub pid { return $_[0]{pid} }


sub start {
    my $self = shift;

    my $listener;

    for (1 .. 50) {
        $listener = IO::Socket::INET->new(LocalAddr => $self->{bind},
                                          LocalPort => $self->{port},
                                          Listen => 64, ReuseAddr => 1);
        last if $listener;
        sleep 0.1;
    }

    die "port $self->{port}: $!\n" unless $listener;

    pipe my $orders, $self->{orders} or die "pipe: $!\n";
    pipe $self->{done}, my $done or die "pipe: $!\n";

    $_->autoflush(1) for $self->{orders}, $done;

    $self->{pid} = fork;
    die "fork: $!\n" unless defined $self->{pid};

    if ($self->{pid} == 0) {
        $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM ALRM);
        $SIG{PIPE} = 'IGNORE';
        # should the test be gone without a word
        alarm 420;
        close $self->{orders};
        close $self->{done};

        eval { $self->serve($listener, $orders, $done); 1 } or warn $@;
        POSIX::_exit(0);
    }

    close $listener;
    return $self;
}


sub mode {
    my ($self, $mode) = @_;

    die "no mode $mode\n" unless $self->{modes}{$mode};

    print { $self->{orders} } "$mode\n";

    my $answer = readline $self->{done};
    die "the fake is gone\n" unless defined $answer;

    return $answer;
}


sub stop {
    my $self = shift;

    return unless $self->{pid};

    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    delete $self->{pid};
    close $self->{orders};
    close $self->{done};
}


sub serve {
    my ($self, $listener, $orders, $done) = @_;

    my $mode = $self->{modes}{good};
    my $select = IO::Select->new($listener, $orders);
    my (%connections, $line);

    while (1) {
        my $now = time;

        for my $c (values %connections) {
            # a blocking read is over
            if ($c->{due} && $c->{due} <= $now) {
                delete $c->{due};
                $c->{say}->("*-1\r\n");
            }

            if ($c->{idle} && $c->{idle} <= $now) {
                delete $c->{idle};
                $mode->{idle}->($c->{say});
            }
        }

        delete @connections{ grep { !$connections{$_}{socket} }
                             keys %connections };

        for my $ready ($select->can_read(0.01)) {

            if ($ready == $orders) {
                my $n = sysread $orders, my $name, 256;
                POSIX::_exit(0) unless $n;
                chomp $name;

                # one may have been closed in this very turn
                for my $c (grep { $_->{socket} } values %connections) {
                    $select->remove($c->{socket});
                    close $c->{socket};
                }
                %connections = ();
                $mode = $self->{modes}{$name};
                print $done "$name\n";
                last;
            }

            if ($ready == $listener) {
                my $socket = $listener->accept or next;
                my $c = { socket => $socket, in => '' };

                $c->{say} = sub {
                    return unless $c->{socket};

                    for my $bytes (@_) {
                        my $at = 0;
                        my $piece = $mode->{drip} ? 1 : 65536;
                        while ($at < length $bytes) {
                            my $n = syswrite $c->{socket}, $bytes, $piece, $at;
                            return unless $n;
                            $at += $n;
                            sleep $mode->{drip} if $mode->{drip};
                        }
                    }

                    if (!@_) {
                        $select->remove($c->{socket});
                        close $c->{socket};
                        delete $c->{socket};
                    }
                };

                $socket->setsockopt(Socket::IPPROTO_TCP(),
                                    Socket::TCP_NODELAY(), 1);
                $connections{fileno $socket} = $c;
                $select->add($socket);
                $mode->{accept}->($c->{say}) if $mode->{accept};
                next;
            }

            my $fd = fileno $ready;
            my $c = defined $fd && $connections{$fd} or next;
            my $n = sysread $ready, $c->{in}, 65536, length $c->{in};

            if (!$n) {
                $select->remove($ready);
                delete $connections{$fd};
                close $ready;
                next;
            }

            while (my $words = _command(\$c->{in})) {
                _answer($mode, $c, $words);
                last unless $c->{socket};
            }
        }
    }
}


# takes one whole command off the buffer

sub _command {
    my $in = shift;

    return unless $$in =~ /\A\*(\d+)\r\n/g;

    my ($left, @words) = $1;

    while ($left--) {
        return unless $$in =~ /\G\$(\d+)\r\n/gc;

        my ($len, $at) = ($1, pos $$in);
        return if length($$in) < $at + $len + 2;

        push @words, substr $$in, $at, $len;
        pos($$in) = $at + $len + 2;
    }

    substr $$in, 0, pos $$in, '';

    return \@words;
}


sub _answer {
    my ($mode, $c, $words) = @_;

    my $name = uc $words->[0];
    my $script = script($words);

    $name = uc $words->[1] if $name eq 'CLIENT' || $name eq 'SCRIPT';
    $name = $script if $script && exists $mode->{$script};

    my $answer;

    if (exists $mode->{$name}) {
        $answer = $mode->{$name};
        $answer = $answer->($words, $c->{say}) if ref $answer;

    } else {
        $answer = good($words, $c);
    }

    $c->{say}->($answer) if defined $answer;

    if ($script && $mode->{idle} && !exists $c->{idled}) {
        $c->{idled} = 1;
        $c->{idle} = time + 0.1;
    }
}


# the name of the script that is called, or undef: all of them begin with it

my %scripts;

sub script {
    my $words = shift;

    my $name = uc $words->[0];

    return $scripts{ $words->[1] } if $name eq 'EVALSHA';
    return $words->[1] =~ /^-- (\w+)\.lua:/ ? $1 : undef if $name eq 'EVAL';
    return;
}


# what a Redis that is in order says, of a line in which nobody is; modes may
# call it

my %answers = (
    heartbeat => sub {
        return sprintf "*5\r\n:%d\r\n:1\r\n:0\r\n:1\r\n:0\r\n", 1000 * time;
    },
    fill_promotion_tasks => "*3\r\n:1\r\n:0\r\n*0\r\n",
    discard_messages => "*2\r\n:1\r\n:1\r\n",
    bury_instance => "*1\r\n:1\r\n",
);

sub good {
    my ($words, $c) = @_;

    my $name = uc $words->[0];

    return "+PONG\r\n" if $name eq 'PING';

    if ($name eq 'SCRIPT') {
        my $sha1 = Digest::SHA::sha1_hex($words->[2]);
        $scripts{$sha1} = script(['EVAL', $words->[2]]);
        return "\$40\r\n$sha1\r\n";
    }

    if (my $script = script($words)) {
        my $answer = $answers{$script};
        return ref $answer ? $answer->() : defined $answer ? $answer
               : "-ERR the fake does not know $script\r\n";
    }

    return "-NOSCRIPT no such script\r\n" if $name eq 'EVALSHA';
    return "*3\r\n\$3\r\n0-0\r\n*0\r\n*0\r\n" if $name eq 'XAUTOCLAIM';
    return "\$3\r\n1-1\r\n" if $name eq 'XADD';
    return "*0\r\n" if $name eq 'SMEMBERS';
    return "*-1\r\n" if $name eq 'RPOP';

    if ($name eq 'XREADGROUP') {
        return "*1\r\n*2\r\n\$1\r\ns\r\n*0\r\n" if $words->[-1] ne '>';

        # the only one that waits
        $c->{due} = time + 5 if $c;
        return;
    }

    return "+OK\r\n";
}


# A name server on 127.0.0.1 that gives every name the same addresses, for a
# second.
#
#     my $dns = start_dns();
#     $dns->answer('127.0.0.2', ...);    none: there is no such name
#     $dns->answer('silent');            none at all

package WaitingQueue::Fault::Dns;


sub new {
    my $class = shift;

    return bless {
        port => WaitingQueue::Fault::free_port(),
        dir => WaitingQueue::Fault::_directory('dns'),
    }, $class;
}


sub port { return $_[0]{port} }


sub start {
    my $self = shift;

    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
                                       LocalPort => $self->{port},
                                       Proto => 'udp')
        or die "port $self->{port}: $!\n";

    $self->answer;
    $self->{pid} = fork;
    die "fork: $!\n" unless defined $self->{pid};

    if ($self->{pid} == 0) {
        $SIG{$_} = 'DEFAULT' for qw(HUP INT TERM ALRM);
        alarm 420;

        while (1) {
            my $peer = $socket->recv(my $query, 512);
            next unless defined $peer && length $query > 12;

            my @addresses = split ' ', WaitingQueue::Fault::slurp(
                                           "$self->{dir}/answer");
            next if @addresses && $addresses[0] eq 'silent';

            my ($name, $type) = $query =~ /\A.{12}((?:[^\0].*?)?\0)(..)/s
                or next;

            # 3 is "no such name"; nobody has an AAAA
            my @records = $type eq "\0\1" ? @addresses : ();

            $socket->send(
                substr($query, 0, 2)
                . pack('n5', @addresses ? 0x8180 : 0x8183, 1, scalar @records,
                       0, 0)
                . "$name$type\0\1"
                . join('', map { pack 'n3Nn a4', 0xc00c, 1, 1, 1, 4,
                                 Socket::inet_aton($_) } @records),
                0, $peer);
        }
    }

    return $self;
}


sub answer {
    my ($self, @addresses) = @_;

    # a half-written answer would be a wrong one
    WaitingQueue::Fault::spew("$self->{dir}/answer.new", "@addresses");
    rename "$self->{dir}/answer.new", "$self->{dir}/answer"
        or die "rename: $!\n";
}


sub stop {
    my $self = shift;

    return unless $self->{pid};

    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    delete $self->{pid};
}


1;
