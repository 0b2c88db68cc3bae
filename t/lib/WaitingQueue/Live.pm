package WaitingQueue::Live;

# What a test asks of the nginx and the Redis that run beside it, for use with
# WaitingQueue::Test; WaitingQueue::Fault has its own.

use strict;
use warnings;

use Exporter 'import';
use File::Temp ();
use HTTP::Tiny;
use JSON::PP ();
use Test::Nginx::Util ();
use Time::HiRes ();

our @EXPORT = qw(
    nginx_t redis http status links await ready error_log stop_nginx
);

# nginx comes up again for each block, and a sanitizer makes it slow
my $patience = 15;


# nginx_t(http): whether nginx takes it, all that it says, and its log, where
# what is less than a warning stands

sub nginx_t {
    my ($http) = @_;

    my $dir = File::Temp->newdir();
    my $load = join ' ', map { "load_module $_;" }
                         split ' ', $ENV{TEST_NGINX_LOAD_MODULES} || '';

    open my $conf, '>', "$dir/nginx.conf" or die "nginx.conf: $!";
    print $conf "$load\npid $dir/pid;\nevents { }\n",
                "http {\n    access_log off;\n    $http\n}\n";
    close $conf;

    my $output = `$ENV{TEST_NGINX_BINARY} -t -p $dir -c $dir/nginx.conf \\
                  -e $dir/error.log 2>&1`;
    my $ok = $? == 0;
    my $log = '';

    if (open my $in, '<', "$dir/error.log") {
        local $/;
        $log = <$in>;
    }

    return ($ok, $output, $log);
}


# redis(command): Redis of this run, or another: redis('-h', $host, ...)

sub redis {
    my @where = $_[0] eq '-h' ? splice @_, 0, 2
                              : ('-s', $ENV{WQ_REDIS_SOCKET});

    open my $cli, '-|', 'redis-cli', @where, @_ or die "redis-cli: $!";
    my $answer = do { local $/; <$cli> };
    close $cli or die "redis-cli @_: $answer";
    chomp $answer;

    return $answer;
}


# http(method, path, more of HTTP::Tiny): the whole answer

sub http {
    my ($method, $path, %options) = @_;

    return HTTP::Tiny->new(timeout => 10)->request($method,
               'http://127.0.0.1:' . Test::Nginx::Util::server_port() . $path,
               \%options);
}


sub status {
    return JSON::PP::decode_json(http('GET', '/status')->{content});
}


# links(status): of all workers

sub links {
    return map { values %{$_->{links}} } @{$_[0]{processes}};
}


# await(what, code): polls until code gives true, and returns that

sub await {
    my ($what, $code) = @_;

    my $end = Time::HiRes::time() + $patience;

    while (Time::HiRes::time() < $end) {
        my $value = $code->();
        return $value if $value;
        Time::HiRes::sleep(0.02);
    }

    die "waited in vain for: $what\n";
}


# every worker has had a heartbeat and waits for its streams; returns the status

sub ready {
    return await('all workers at work', sub {
        my $status = status();
        my @processes = @{$status->{processes}};

        @processes == ($ENV{WQ_WORKERS} || 1)
            && !(grep { $_->{state} ne 'ready' || $_->{trouble} }
                      links($status))
            && !(grep { $_->{heartbeats} < 1
                        || $_->{links}{reader}{inFlight} < 1
                        || $_->{links}{router}{inFlight} < 1 } @processes)
            && $status;
    });
}


# what nginx has logged since the block began

sub error_log {
    open my $log, '<', Test::Nginx::Util::server_root() . '/logs/error.log'
        or die "log: $!";
    return do { local $/; <$log> };
}


# a graceful stop, all the way, if nginx runs at all

sub stop_nginx {
    my $file = Test::Nginx::Util::server_root() . '/logs/nginx.pid';
    open my $in, '<', $file or return;
    chomp(my $pid = <$in>);

    kill 'QUIT', $pid;
    await('nginx to stop', sub { !-e $file });
}


1;
