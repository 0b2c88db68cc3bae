# Proves that processes come and go cleanly whatever their links are doing:
# only workers talk to Redis, each leaves in time with code 0, and takes with it
# what it has in Redis.

use strict;
use warnings;

use IO::Socket::INET;
use Test::More;
use WaitingQueue::Fault;


# of the two workers
my $links = 2 * link_names();


sub redis_at {
    my ($url, $timeout) = @_;
    return "waiting_queue_redis $url timeout=" . ($timeout || '300ms') . ';';
}


# the names of the connections that Redis has

sub names {
    my $redis = shift;
    my @names = sort grep { length } map { $_->{name} } $redis->clients;
    return @names;
}


# the names that the living workers should have

sub names_of {
    my $nginx = shift;
    my @names = sort map { my $row = $_;
                           map { "$row->{instance}:$_" } link_names() }
                $nginx->rows;
    return @names;
}


# all keys but those that nobody owns: there is one of each, however many come
# and go

sub keys_of {
    my $redis = shift;
    return grep { length && !/^(?:ENTRY|PROMOTION_ROUND|PROMOTION_LEASE
                               |WAITING_ORIGIN)$/x }
           split /\n/, $redis->cli('KEYS', '*');
}


# the instances that read ENTRY

sub readers {
    my $redis = shift;
    my $answer = $redis->cli('XINFO', 'CONSUMERS', 'ENTRY', 'waiting_queue');
    my @readers = sort $answer =~ /^name\n(.*)$/mg;
    return @readers;
}


# leaves(nginx, signal, seconds, what): all of it is gone in time

sub leaves {
    my ($nginx, $signal, $seconds, $what) = @_;

    my $start = time;

    $nginx->workers;
    $nginx->signal($signal);
    $nginx->wait_gone(patience($seconds + 3));

    my $took = time - $start;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    ok($took <= patience($seconds), sprintf '%s: gone in %.1f s', $what, $took)
        or diag($nginx->describe);
}


# who connects

my $redis = start_redis();
is($redis->connections, 0, 'nobody has connected yet');

my $checked = WaitingQueue::Fault::Nginx->new(http => redis_at($redis->url));
my ($code, $output) = $checked->configure->run('-t');

is($code, 0, 'nginx -t is content') or diag($output);
is($redis->connections, 0, 'nginx -t does not connect');

my $cache = WaitingQueue::Fault::_directory('cache');
my $nginx = start_nginx(
    http => redis_at($redis->url)
            . "proxy_cache_path $cache keys_zone=one:1m;",
    server => 'location /cached { proxy_cache one; '
              . 'proxy_pass http://127.0.0.1:1; }');

$nginx->wait_ready;
is(scalar($nginx->processes(qr/cache manager/)), 1, 'there is a cache manager');
is_deeply([names($redis)], [names_of($nginx)],
          'the workers are connected, each with its links, and nobody else');
is($redis->connections, $links, 'and nobody else ever was');

my ($used, $unused) = map { start_nginx(status => 0, http => $_) }
                      redis_at($redis->url), '';

wait_until { names($redis) == 2 * $links } 5,
           'one who names a Redis connects';
is(scalar($used->log_lines(0, qr/waiting_queue/)), $links, 'and says so');
is(scalar($unused->log_lines(0, qr/waiting_queue/)), 0,
   'one who loads the module but does not use it stays silent');
is(fds(($unused->workers)[0]) + link_names(), fds(($used->workers)[0]),
   'and has no connection open');
leaves($_, 'QUIT', 1, 'quit of a small one') for $used, $unused;


# quit at rest

is(scalar(grep { /^DISPATCH:/ } keys_of($redis)), 2,
   'each worker has a stream in Redis');
is_deeply([readers($redis)], [sort map { $_->{instance} } $nginx->rows],
          'and reads ENTRY');
leaves($nginx, 'QUIT', 1, 'quit at rest');
is_deeply([names($redis)], [], 'quit at rest: no connection is left');
is_deeply([keys_of($redis)], [], 'quit at rest: no key is left');
is_deeply([readers($redis)], [], 'quit at rest: and no reader');
is(scalar($nginx->log_lines(0, qr/worker process \d+ exited with code 0/)), 2,
   'quit at rest: every worker left with code 0');


# quit, terminate and reload in every state a link may be in.  A state is
# [name, what nginx is told, state that is waited for, seconds]

my $deaf = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0,
                                 Listen => 1);
my @fillers = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                          PeerPort => $deaf->sockport,
                                          Timeout => 0.2) } 1 .. 3;
my $dns = start_dns();
$dns->answer('silent');

my $wait = start_fake(modes => { loading => { LOAD => "-LOADING wait\r\n",
                                              PING => "-LOADING wait\r\n" } });
my $mute = start_fake(modes => { mute => { LOAD => undef, PING => undef } });
my $proud = start_fake(modes => { proud => { AUTH => undef } });
my $stuck = start_fake(modes => { stuck => { EVALSHA => undef } });

$wait->mode('loading');
$mute->mode('mute');
$proud->mode('proud');
$stuck->mode('stuck');

my @states = (
    ['ready', redis_at($redis->url), 'ready', 1],
    ['waiting for the next try', redis_at('redis://127.0.0.1:' . free_port()),
     'idle', 1],
    ['connecting', redis_at('redis://127.0.0.1:' . $deaf->sockport, '20s'),
     'connecting', 1],
    ['resolving', redis_at('redis://localhost:' . free_port())
                  . 'resolver 127.0.0.1:' . $dns->port . ' ipv6=off;',
     'resolving', 1],
    ['authenticating', redis_at('redis://:x@127.0.0.1:' . $proud->port, '20s'),
     'authenticating', 1],
    ['loading scripts', redis_at('redis://127.0.0.1:' . $mute->port, '20s'),
     'loading_scripts', 1],
    ['waiting for a Redis that loads',
     redis_at('redis://127.0.0.1:' . $wait->port), 'loading_scripts', 1],
    # clients may wait for what is in flight: it has its time
    ['a command in flight', redis_at('redis://127.0.0.1:' . $stuck->port, '2s'),
     'in_flight', 3],
);

for my $state (@states) {
    my ($name, $http, $wanted, $seconds) = @$state;

    for my $signal (qw(HUP QUIT TERM)) {
        my $one = start_nginx(http => $http);
        my $what = "$signal, $name";

        wait_until {
            $wanted eq 'in_flight'
            ? 2 == grep { $_->{inFlight} } $one->links('commands')
            : 2 == $one->links('commands') && $one->has_state($wanted);
        } 5, "$what: it is";

        if ($signal eq 'HUP') {
            my @old = $one->workers;
            my $start = time;

            $one->signal('HUP');
            wait_until { !grep { alive($_) } @old } $seconds + 3,
                       "$what: the old workers leave";
            ok(time - $start <= patience($seconds), "$what: in time");
            wait_until { $one->rows == 2 && $one->has_state('\w+') } 5,
                       "$what: the new ones are there";
            ok($one->ok, "$what: and serve");
            $one->signal('TERM');
            $one->wait_gone(patience(3));
            next;
        }

        leaves($one, $signal, $signal eq 'TERM' ? 1 : $seconds, $what);
    }
}

is_deeply([names($redis)], [], 'no connection is left by any of them');
$redis->cli('FLUSHALL');


# commands in flight to a Redis that is stopped

my $stopped = start_redis();
my $held = start_nginx(http => redis_at($stopped->url, '1s'));

$held->wait_ready;
$stopped->signal('STOP');
wait_until { grep { $_->{inFlight} } $held->links('commands') } 5,
           'stopped Redis: a command is in flight';
leaves($held, 'QUIT', 2, 'quit with a stopped Redis');
$stopped->signal('CONT');


# a client that is still being served

my $upstream = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0,
                                     Listen => 8);
my $slow = 'location /slow { proxy_pass http://127.0.0.1:'
           . $upstream->sockport . '; }';
my $polite = start_nginx(http => redis_at($redis->url), server => $slow);

$polite->wait_ready;

my $client = http_open($polite->port, '/slow');
my $behind = $upstream->accept;
my @old = $polite->workers;

$polite->signal('QUIT');
wait_until { 1 == grep { alive($_) } @old } 3,
           'a worker with a client stays, the other leaves';
wait_until { names($redis) == 0 } 3, 'but without Redis';
is_deeply([keys_of($redis)], [], 'and without anything in it');
# unread, the request would make the close a reset
sysread $behind, my $request, 65536;
print $behind "HTTP/1.0 200 OK\r\n\r\nserved";
close $behind;
like(do { local $/; readline $client }, qr/served/, 'the client is served');
ok($polite->wait_gone(patience(2)), 'then it leaves too');

for my $frozen (0, 1) {
    my $what = 'worker_shutdown_timeout, Redis '
               . ($frozen ? 'stopped' : 'well');
    my $strict = start_nginx(http => redis_at($stopped->url, '20s'),
                             server => $slow,
                             main => 'worker_shutdown_timeout 1s;');

    $strict->wait_ready;

    my $waiting = http_open($strict->port, '/slow');
    my $slowly = $upstream->accept;
    my $idle = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                     PeerPort => $strict->port);

    print $idle "GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n";
    $idle->flush;
    readline $idle;

    if ($frozen) {
        $stopped->signal('STOP');
        wait_until { grep { $_->{inFlight} } $strict->links('commands') } 5,
                   "$what: a command is in flight";
    }

    leaves($strict, 'QUIT', 2.5, $what);
    $stopped->signal('CONT') if $frozen;
}


# without a master, with a daemon

for my $daemon (0, 1) {
    my $single = start_nginx(http => redis_at($redis->url), workers => 1,
                             master => 0, daemon => $daemon);
    my $what = 'master_process off, daemon ' . ($daemon ? 'on' : 'off');

    $single->wait_ready("$what: ready");
    is_deeply([names($redis)], [names_of($single)], "$what: connected");
    $single->unharmed("with $what");
    leaves($single, 'QUIT', 1, "$what: quit");
    is_deeply([names($redis)], [], "$what: no connection is left");
}

# nginx itself does not serve after this, so it is for developers only; the
# module must not outlive the configuration and the log that it was given

my $single = start_nginx(http => redis_at($stopped->url), workers => 1,
                         master => 0);

$single->wait_ready;
$single->signal('HUP');
wait_until { names($stopped) == 0 } 5,
           'HUP without a master: the links are closed';
$single->get('/status');
ok(alive($single->pid), 'HUP without a master: it lives');
unlike($stopped->cli('INFO', 'errorstats'), qr/errorstat_ERR/,
       'HUP without a master: nothing is sent that is no command');
leaves($single, 'QUIT', 1, 'HUP without a master, then quit');


# another binary takes over

$redis->cli('FLUSHALL');
my $upgraded = start_nginx(http => redis_at($redis->url), daemon => 1);

$upgraded->wait_ready;
my $first = $upgraded->pid;
@old = $upgraded->workers;
$upgraded->signal('USR2');
my $second = wait_until {
    my ($pid) = slurp($upgraded->{pid_file}) =~ /^(\d+)\n/;
    $pid && $pid != $first && alive($pid) ? $pid : 0;
} 5, 'upgrade: there is another master';
wait_until { names($redis) == 2 * $links } 5,
           'upgrade: the new workers have connections of their own';
$upgraded->adopt($second);
my @new = $upgraded->workers;
is(scalar(@new), 2, 'upgrade: two new workers');
kill QUIT => $first;
wait_until { !grep { alive($_) } $first, @old } 5,
           'upgrade: the old ones leave';
$upgraded->wait_ready('upgrade: the new ones are ready');
is_deeply([names($redis)], [names_of($upgraded)],
          'upgrade: theirs are the connections that are left');
wait_until { keys_of($redis) == 3 } 3,
           'upgrade: and theirs the streams, and a list of instances';
is_deeply([readers($redis)], [sort map { $_->{instance} } $upgraded->rows],
          'upgrade: and they alone read ENTRY');
leaves($upgraded, 'QUIT', 1, 'upgrade: quit');


# a worker that dies leaves its numbers behind

my $orphan = start_nginx(http => redis_at($redis->url));

$orphan->wait_ready;
$orphan->forgive(qr/exited on signal 9/);
wait_until { $orphan->sum('heartbeats') >= 4 } 5, 'there are some numbers';

my $numbers = $orphan->metrics;
my ($victim) = $orphan->workers;
kill KILL => $victim;
wait_until { !alive($victim) && $orphan->workers == 2 } 5,
           'kill -9: there is another worker';
$orphan->wait_ready('kill -9: it is ready');

my $later = $orphan->metrics;
my @counters = grep { /_total\{|_count\{|_sum\{|_bucket\{/ } keys %$numbers;
my @fallen = grep { !defined $later->{$_} || $later->{$_} < $numbers->{$_} }
             @counters;

ok(@counters > 30, 'kill -9: there are ' . @counters . ' counters');
is_deeply(\@fallen, [], 'kill -9: none of them has fallen');
is(scalar(grep { $_->{pid} == $victim } $orphan->rows), 0,
   'kill -9: the dead one is not in the status');

finish();
