#!/usr/bin/perl

# What the gate costs those whom it lets in.
#
# Requests per second for a file and for a proxied answer: without the gate,
# with it, and with a check of the same key in Lua; by one visitor, and by many
# (the room remembers a token for a second, so the gate asks Redis once a second
# for each).  Then what those who wait get: the JSON, for which Redis is asked
# each time.
#
# One nginx with two workers, one Redis on a socket, the same requests to each
# location of a group.  Rounds are short and many, every other one in the
# opposite order, and each figure is judged by the base of its round, the first
# of the group: a machine that is busy with other things is so for all of them.
# The CPU that nginx has used is what shows a difference best.

use strict;
use warnings;

use HTTP::Tiny ();
use WaitingQueue::Bench;

my $repeat = $ENV{REPEAT} || 15;
my $seconds = $ENV{SECONDS} || 1;
my $visitors = $ENV{VISITORS} || 2_000;
my $connections = 64;

my @lua = map { "/usr/lib/nginx/modules/$_.so" } qw(ndk_http_module
                                                    ngx_http_lua_module);
my $has_lua = !grep { !-f } @lua;

my $port = free_port();
my $backend = free_port();
my $dir = WaitingQueue::Fault::_directory('gate');
my $redis = start_redis(socket => 1);
my $nginx = start_gate();
my $http = HTTP::Tiny->new(keep_alive => 1, max_redirect => 0);


sub start_gate {
    mkdir "$dir/files";
    spew("$dir/files/small.html", 'x' x 1000 . "\n");

    my $bench = "$ENV{WQ_BUILD}/../bench";
    my $address = 'unix:' . $redis->path;

    local $ENV{TEST_NGINX_LOAD_MODULES} =
        join ' ', $ENV{TEST_NGINX_LOAD_MODULES}, $has_lua ? @lua : ();

    my %check = (
        plain => '',
        gate => 'waiting_queue on;',
        ask => "access_by_lua_block { require('gate').ask() }",
        remember => "access_by_lua_block { require('gate').remember() }",
    );

    delete @check{qw(ask remember)} if !$has_lua;

    my $locations = join '', map { "
        location /$_/file/ { $check{$_} alias $dir/files/; }
        location /$_/proxy/ { $check{$_} proxy_pass http://backend/; }" }
        sort keys %check;

    my $started = WaitingQueue::Bench::_start(
        'Nginx', workers => 2, connections => 1024, timeout => 30, http => "
            waiting_queue_redis $address;
            waiting_queue_zone 4m;
            waiting_queue_event bench;
            waiting_queue_capacity 1000000;
            waiting_queue_ttl 1h claim=1h;
            waiting_queue_poll_timeout 1h;

            sendfile on;
            tcp_nopush on;
            keepalive_timeout 600s;
            keepalive_requests 1000000000;
            proxy_http_version 1.1;
            proxy_set_header Connection '';
            upstream backend {
                server 127.0.0.1:$backend;
                keepalive 64;
                keepalive_requests 1000000000;
            }
            server {
                listen 127.0.0.1:$backend reuseport;
                location / { return 200 '" . 'x' x 1000 . "'; }
            }" . ($has_lua ? "
            lua_package_path '$bench/?.lua;;';
            lua_shared_dict tokens 4m;
            init_by_lua_block {
                require('gate').init('bench', '$address')
            }" : ''),
        server => "
        listen 127.0.0.1:$port reuseport;
        $locations
        location /full/ {
            waiting_queue on;
            waiting_queue_event full;
            waiting_queue_capacity 0;
            alias $dir/files/;
        }");

    $started->wait_ready;

    return $started;
}


sub get {
    my ($path, $cookie) = @_;
    return $http->get("http://127.0.0.1:$port$path",
                      { headers => defined $cookie ? { cookie => $cookie }
                                                   : {} });
}


# visitor(path, status): one who comes, and comes again with the cookies, as a
# browser does; the value of its header

sub visitor {
    my ($path, $status) = @_;

    my $set = get($path)->{headers}{'set-cookie'};
    my $cookie = join '; ', map { /^([^;]+)/ } ref $set ? @$set : $set;
    my $answer = get($path, $cookie);

    die "$path: $answer->{status} for a visitor\n"
        if $answer->{status} != $status;

    return $cookie;
}


# each of them does what it is there for

sub check {
    my ($cookie, @paths) = @_;

    my $forged = $cookie =~ s/[0-9a-f]{40}/'0' x 40/er;

    for my $path (@paths) {
        my $answer = get($path, $cookie);
        die "$path: $answer->{status}\n" if $answer->{status} != 200;
        die "$path: a body of " . length($answer->{content}) . "\n"
            if length $answer->{content} < 1000;

        next if $path =~ /plain|gate/;

        $answer = get($path, $forged);
        die "$path: $answer->{status} for a forged token\n"
            if $answer->{status} != 503;
    }
}


# load(path, status, arguments of wrk): requests per second, and CPU in us of
# each in nginx and in Redis

sub load {
    my ($path, $status, @arguments) = @_;

    my @pids = ([ $nginx->workers ], [ $redis->pid ]);
    my @before = map { cpu_us(@$_) } @pids;

    open my $wrk, '-|', 'wrk', '-t2', "-c$connections", "-d${seconds}s",
         @arguments[0, 1], "http://127.0.0.1:$port$path",
         @arguments[2 .. $#arguments]
        or die "wrk: $!\n";
    my $text = do { local $/; <$wrk> };
    close $wrk or die "wrk: $text\n";

    my ($n) = $text =~ /^\s*(\d+) requests in/m;
    my ($rate) = $text =~ m{^Requests/sec:\s+([\d.]+)}m;
    my ($refused) = $text =~ /^\s*Non-2xx or 3xx responses: (\d+)/m;

    $refused ||= 0;
    die "$path: not the answers that were expected\n$text"
        if $refused != ($status == 200 ? 0 : $n) || $text =~ /Socket errors/;

    return ($rate, map { (cpu_us(@{$pids[$_]}) - $before[$_]) / $n } 0, 1);
}


quiet();
print "no Lua beside it: libnginx-mod-http-lua is not installed\n"
    if !$has_lua;

my @inside = map { visitor('/gate/file/small.html', 200) } 1 .. $visitors;
my @waiting = map { visitor('/full/small.html', 503) } 1 .. $visitors;

spew("$dir/inside", join '', map { "$_\n" } @inside);
spew("$dir/waiting", join '', map { "$_\n" } @waiting);

my @one = ('-H', "Cookie: $inside[0]");
my @many = ('-s', 'bench/visitors.lua', '--', "$dir/inside");
my @line = ('-s', 'bench/visitors.lua', '--', "$dir/waiting");

# what, path, arguments of wrk, status

my @groups = (
    [ [ 'file', '/plain/file/', \@one ],
      [ 'file, gate', '/gate/file/', \@one ],
      [ 'file, Lua', '/ask/file/', \@one ],
      [ 'file, Lua, 1 s', '/remember/file/', \@one ] ],
    [ [ 'proxy', '/plain/proxy/', \@one ],
      [ 'proxy, gate', '/gate/proxy/', \@one ],
      [ 'proxy, Lua', '/ask/proxy/', \@one ],
      [ 'proxy, Lua, 1 s', '/remember/proxy/', \@one ] ],
    [ [ "file, $visitors", '/plain/file/', \@many ],
      [ "file, $visitors, gate", '/gate/file/', \@many ],
      [ "file, $visitors, Lua", '/ask/file/', \@many ],
      [ "file, $visitors, Lua, 1 s", '/remember/file/', \@many ],
      [ "$visitors who wait, JSON", '/full/', \@line, 503 ] ],
);

if (!$has_lua) {
    @$_ = grep { $_->[0] !~ /Lua/ } @$_ for @groups;
}

check($inside[0], map { "$_->[1]small.html" } grep { !$_->[3] } map { @$_ }
                                                                @groups);

my (%rates, %cpu, %redis_cpu);

for my $round (1 .. $repeat) {
    my @cases = map { @$_ } @groups;

    for ($round % 2 ? @cases : reverse @cases) {
        my ($what, $path, $arguments, $status) = @$_;
        my @figures = load("${path}small.html", $status || 200, @$arguments);

        push @{$rates{$what}}, $figures[0];
        push @{$cpu{$what}}, $figures[1];
        push @{$redis_cpu{$what}}, $figures[2];
    }
}

sub ratios {
    my ($of, $base) = @_;
    return map { 100 * $of->[$_] / $base->[$_] } 0 .. $#$of;
}

for my $group (@groups) {
    my $base = $group->[0][0];

    for my $what (map { $_->[0] } @$group) {
        printf "%-24s %6.0f requests/s, %s %%; CPU of each: nginx %5.1f us, "
               . "%s %%; Redis %4.1f us\n", $what, median(@{$rates{$what}}),
               spread('%.0f', ratios($rates{$what}, $rates{$base})),
               median(@{$cpu{$what}}),
               spread('%.0f', ratios($cpu{$what}, $cpu{$base})),
               median(@{$redis_cpu{$what}});
    }
}

my ($passed, $remembered) = map { $nginx->sum($_) } qw(gatePassed
                                                       gateRemembered);
printf "%.1f %% of those at the gate passed without a question to Redis\n",
       100 * $remembered / $passed;

finish();
