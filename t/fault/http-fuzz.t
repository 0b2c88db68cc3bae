# Proves that nothing a client may send, to any of the endpoints and in whatever
# pieces, ends a worker, gets anything but a well-formed answer, leaves anything
# in Redis, or is noticed by the others: a few who wait keep their streams and
# true positions, and one who is inside goes on to pass the gate.
#
# WQ_SEED repeats what is sent; WQ_FUZZ_SECONDS makes it longer than the 8 s of
# a suite.

use strict;
use warnings;

use Test::More;
use WaitingQueue::Backend;
use WaitingQueue::Fault;
use WaitingQueue::HttpAnswers;
use WaitingQueue::HttpFuzz;
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

my $seconds = $ENV{WQ_FUZZ_SECONDS} || 8;
my $seed = $ENV{WQ_SEED} || 1 + (time ^ $$) % 1000000000;

diag("WQ_SEED=$seed WQ_FUZZ_SECONDS=$seconds");
alarm $seconds + patience(240);


# what must be seen is seen: [ name, sent, received, how, what is said of it ]

my $get = "GET /api HTTP/1.1\r\nHost: x\r\n\r\n";
my $json = "Content-Type: application/json\r\n";
my $ok = "HTTP/1.1 200 OK\r\n";
my $wait = "event: position\ndata: {\"rank\":0}\n\n";

sub chunk { return sprintf "%x\r\n%s\r\n", length $_[0], $_[0] }

my $stream = "${ok}Content-Type: text/event-stream\r\n"
             . "Transfer-Encoding: chunked\r\n\r\n";

my @seen = (
    ['a header that nobody has sent',
     "${ok}X-Injected: yes\r\nContent-Length: 0\r\n\r\n", qr/X-Injected/],
    ['the word of the backend',
     "${ok}X-Waiting-Queue: done\r\nContent-Length: 0\r\n\r\n",
     qr/X-Waiting-Queue/],
    ['a line that ends too early', "${ok}Server: a\nb\r\n\r\n", qr/header/],
    ['a cookie of ours with more in it',
     "${ok}Set-Cookie: wq_uid=" . '0' x 32 . "; Path=/x; HttpOnly\r\n"
     . "Content-Length: 0\r\n\r\n", qr/cookie/],
    ['an error of nginx', "HTTP/1.1 500 Internal\r\nContent-Length: 0\r\n\r\n",
     qr/status 500/],
    ['a status that is none', "HTTP/1.1 2x0 OK\r\n\r\n", qr/status line/],
    ['two lengths', "${ok}Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
     qr/twice/],
    ['JSON that is none', "$ok${json}Content-Length: 2\r\n\r\n{a", qr/JSON/],
    ['JSON with a byte that is no character',
     "$ok${json}Content-Length: 9\r\n\r\n{\"a\":\"\xff\"}", qr/JSON/],
    ['half a body', "$ok${json}Content-Length: 9\r\n\r\n{}", qr/cut/],
    ['half a head', "${ok}Server: ", qr/cut/],
    ['an answer without a head', '{"status":"none"}', qr/no answer/],
    ['an answer too many',
     "$ok${json}Content-Length: 2\r\n\r\n{}\r\nmore", qr/no answer/],
    ['chunks that are none',
     "$ok${json}Transfer-Encoding: chunked\r\n\r\nxyz", qr/chunk/],
    ['a stream that is cut', $stream . chunk($wait), qr/cut/],
    ['an event in an event',
     $stream . chunk("event: position\ndata: {}\ndata: x\n\n")
     . "0\r\n\r\n", qr/event:/],
    ['an event that is no JSON',
     $stream . chunk("event: position\ndata: {x}\n\n") . "0\r\n\r\n",
     qr/JSON/],
    ['a stream with another status',
     $stream =~ s/200/404/r . chunk($wait) . "0\r\n\r\n",
     qr/with status 404/],
    ['a page that is cut',
     "${ok}Content-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
     qr/HTML/],
    ['a metric that is none',
     "${ok}Content-Type: text/plain; version=0.0.4\r\nContent-Length: 8\r\n"
     . "\r\na{b=\"\n\"}", qr/metric/],
);

for my $case (@seen) {
    my ($name, $received, $said) = @$case;
    my @wrong = @{judge($get, $received, 'eof')->{wrong}};

    ok(scalar(grep { $_ =~ $said } @wrong), "seen: $name")
        or diag("@wrong");
}

for my $case (
    ['an answer', "$ok${json}Content-Length: 2\r\n\r\n{}", 'eof', [200]],
    ['two answers', "$ok${json}Content-Length: 2\r\n\r\n{}" x 2, 'eof',
     [200, 200]],
    ['a stream', $stream . chunk("retry: 4000\n$wait") . chunk(": \n\n")
                 . "0\r\n\r\n", 'eof', [200]],
    ['a stream that the client has left', $stream . "10\r\nevent: ", 'local',
     [200]],
    ['to go on', "HTTP/1.1 100 Continue\r\n\r\n${ok}Content-Length: 0\r\n\r\n",
     'eof', [200]],
    ['nothing', '', 'eof', []])
{
    my ($name, $received, $how, $statuses) = @$case;
    my $judged = judge($get, $received, $how);

    is_deeply([$judged->{wrong}, $judged->{statuses}], [[], $statuses],
              "nothing wrong: $name");
}

for my $case (['500', "\0\0\1\1\5\0\0\0\1\x8e", qr/status 500/],
              ['a stream of its own', "\0\0\0\5\0\0\0\0\2", qr/frame/],
              ['no frame', 'HTTP/1.1 200 OK', qr/frame/],
              ['half a frame', "\0\0\0", qr/cut/],
              ['JSON that is none', "\0\0\2\0\1\0\0\0\1{a", qr/JSON/])
{
    my ($name, $received, $said) = @$case;
    my @wrong = @{judge_frames('', $received, 'eof')->{wrong}};

    ok(scalar(grep { $_ =~ $said } @wrong), "seen in HTTP/2: $name")
        or diag("@wrong");
}


# servers: who waits for nothing is gone soon

my $redis = start_redis();
my $backend = WaitingQueue::Backend->new;
my $http2_port = free_port();

my $brief = 'waiting_queue_grace 1s; waiting_queue_poll_timeout 2s; '
            . 'waiting_queue_ttl 2s claim=1s; waiting_queue_max_waiting 8;';
my $by_argument = 'waiting_queue_event $arg_e; waiting_queue_user $arg_u;';
my $decoded = 'waiting_queue_event $wq_e; waiting_queue_user $wq_u;';
my $proxy = 'proxy_pass http://127.0.0.1:' . $backend->port . ';';
my $seat = 'waiting_queue_seat_lock $arg_s wait=300ms lease=1s;';

# [ location, directives ]
my @locations = (
    ['/gate', "waiting_queue on; $by_argument waiting_queue_capacity 3; "
              . $proxy],
    ['/shop', "waiting_queue on; waiting_queue_event shop; "
              . "waiting_queue_capacity 3; $proxy"],
    ['/stream', "waiting_queue_stream; $by_argument waiting_queue_capacity 3;"],
    ['/cookie-stream', 'waiting_queue_stream; waiting_queue_event shop; '
                       . 'waiting_queue_capacity 3;'],
    ['/api', "waiting_queue_api; $by_argument waiting_queue_capacity 3;"],
    ['/cookie-api', 'waiting_queue_api; waiting_queue_event shop; '
                    . 'waiting_queue_capacity 3;'],
    ['/seat', "waiting_queue_event \$arg_e; $seat $proxy"],
    ['/gate-seat', "waiting_queue on; $by_argument waiting_queue_capacity 3; "
                   . "$seat $proxy"],
    (map { ["/served/$_->[0]",
            "$_->[1] waiting_queue_event served.\$arg_e; "
            . 'waiting_queue_user $arg_u; '
            . 'waiting_queue_capacity uri=/capacity/$waiting_queue_event;'] }
         ['api', 'waiting_queue_api;'], ['stream', 'waiting_queue_stream;'],
         ['gate', "waiting_queue on; $proxy"]),
    # even the end of a line is a part of an id here
    (map { [qq(~ "(?s)^/decoded/$_->[0]/(?<wq_e>[^/]*)/(?<wq_u>.*)\$"),
            "$_->[1] waiting_queue_capacity 3;"] }
         ['api', "waiting_queue_api; $decoded"],
         ['stream', "waiting_queue_stream; $decoded"],
         ['gate', "waiting_queue on; $decoded $proxy"],
         ['seat', 'waiting_queue_event $wq_e; waiting_queue_seat_lock $wq_u '
                  . "wait=300ms lease=1s; $proxy"]),
);

my $locations = join "\n        ",
                     map { "location $_->[0] { $brief $_->[1] }" } @locations;

my $nginx = start_nginx(
    workers => 2, timeout => 15,
    main => 'worker_rlimit_nofile 4096;',
    http => 'waiting_queue_redis ' . $redis->url . ' timeout=20s; '
            . 'waiting_queue_interval 100ms; '
            . 'waiting_queue_promote_interval 100ms; '
            . 'client_header_timeout 1s; client_body_timeout 1s; '
            . 'keepalive_timeout 1s; lingering_timeout 500ms; send_timeout 5s; '
            . 'log_not_found off;',
    server => <<"END");
listen 127.0.0.1:$http2_port http2;
        http2_recv_timeout 1s;
        http2_idle_timeout 1s;
        location /capacity/ { internal; return 200 '{"seatCount":3}'; }
        location /honest/ {
            waiting_queue_stream;
            waiting_queue_event honest;
            waiting_queue_user \$arg_user;
            waiting_queue_capacity 0;
            waiting_queue_grace 300ms;
        }
        location /inside/ {
            waiting_queue on;
            waiting_queue_event inside;
            waiting_queue_user \$arg_user;
            waiting_queue_capacity 1;
            waiting_queue_ttl 1h;
            $proxy
        }
        $locations
END

$nginx->wait_ready;

my @workers = $nginx->workers;
my %fds = map { $_ => fds($_) } @workers;


# who is honest

my $sse = WaitingQueue::Sse->new(port => $nginx->port);
my $asked = WaitingQueue::Redis->new(port => $redis->port);
my $honest = WaitingQueue::Line->new(
    event => 'honest', redis => $asked, sse => $sse,
    path => '/honest/%e?user=%u');
my ($first, @honest) = $honest->joins(map { "h$_" } 0 .. 5);

my ($token, $inside, $passed, $at);

# whether each is told the rank that it has in Redis now

sub true {
    my $n = 0;
    my %rank = map { $_ => $n++ } @{$honest->waiting};

    return !grep { !defined $rank{ $_->{user} }
                   || $_->rank != $rank{ $_->{user} } } @honest;
}

# one after the other, on a connection of its own each time

sub pass_on {
    return if $inside && !defined $inside->ended;

    if ($inside) {
        my $in = $inside->status && $inside->status == 200
                 && $inside->body =~ m{^backend GET /inside/};

        $in ? $passed++ : fail('who is inside is let in: ' . $inside->describe);
        undef $inside;
        $at = time + 0.1;
    }

    return if defined $at && time < $at;

    $inside = $sse->open(
        path => '/inside/?user=vip', name => 'inside',
        headers => { Accept => '*/*', Connection => 'close',
                     $token ? ('X-Waiting-Queue-Token' => $token) : () });
}

pass_on();
$sse->run_until(sub { $inside->ended }, 10, 'one gets in');
($token) = ($inside->header('set-cookie') || '') =~ /=([0-9a-f]{40});/;
ok($token, 'and has a token');


# what has been answered otherwise before: [ name, request, status ]

my $condition = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
my $chunks = "${condition}Transfer-Encoding: chunked\r\n\r\nx\r\n";

for my $case (
    (map { ["chunks that are none, $_", "GET $_ $chunks", 400] }
         '/status', '/metrics', '/stream?e=f1&u=v1', '/api?e=f1&u=v1',
         '/gate?e=f1&u=v1', '/api?e=f1', '/seat?e=f1&s='),
    ['chunks that are none, by another method', "PUT /status $chunks", 400],
    (map { ["$_, whatever version is known",
            "$_ ${condition}If-None-Match: *\r\n\r\n", 200] }
         'GET /status', 'GET /metrics', 'POST /api?e=f1&u=v1'),
    (map { ["joined, whatever version is wanted: $_",
            "POST /api?e=f1&u=v1 $condition$_\r\n\r\n", 200] }
         'If-Match: "x"',
         'If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT'))
{
    my ($name, $request, $status) = @$case;
    my $s = $sse->open(raw => $request, name => $name);

    $sse->run_until(sub { $s->ended }, 10, "$name: answered");
    is($s->status, $status, "$name: with $status");
}


# the others; of what they ask for one event is closed, and one seat is taken

my @taken = map { "lock:seat:{f$_}:s3" } 1 .. 3;

WaitingQueue::Line->new(event => 'f4', redis => $asked)->set(closed => 1);
$asked->call('SET', $_, 'somebody') for @taken;

my $fuzz = WaitingQueue::HttpFuzz->new(
    sse => $sse, port => $nginx->port, http2_port => $http2_port,
    seed => $seed, first => $ENV{WQ_FUZZ_FIRST});

# on a machine that has much else to do it takes longer to have seen enough
my $end = time + $seconds;
my $last = $end + patience(20);
my $moved = time;

while ((time < $end || ($fuzz->requests < 2000 && time < $last))
       && $fuzz->wrong < 10)
{
    $fuzz->turn;
    pass_on();

    # one goes and comes again, so that all behind him move
    if (time > $moved + 1) {
        $moved = time;
        $first->is_open ? $first->reset
                        : ($first = $honest->open('h0'));
    }

    $sse->turn(0.002);
}

$fuzz->end;

diag(sprintf '%d clients, %d requests, statuses %s', $fuzz->connections,
     $fuzz->requests, join ' ', map { "$_: " . $fuzz->statuses->{$_} }
                                sort keys %{$fuzz->statuses});

my @wrong = $fuzz->wrong;
is(scalar(@wrong), 0, 'every answer was as it should be')
    or diag(join "\n", map { "seed $seed, $_" } @wrong);

# nothing was tested where all of it was refused
cmp_ok($fuzz->statuses->{$_} || 0, '>', 0, "some were answered with $_")
    for qw(200 202 400 404 405 503);

is_deeply([$nginx->workers], \@workers,
          'the workers are those of the beginning');
$nginx->unharmed('after all that');

is(scalar(grep { !$_->is_open } @honest), 0, 'no honest stream has broken');
$sse->run_until(sub { true() }, 10, 'and all positions are true')
    or diag(map { $_->describe . "\n" } @honest);
cmp_ok($passed, '>', $seconds, 'who is inside has passed all the time');
is_deeply([$sse->violations], [], 'what the honest were sent is well-formed');


# at rest

$asked->call('DEL', @taken);
$first->close;
$_->close for @honest;
$sse->close_all;

$sse->run_until(sub {
    !grep { $_->{streams} || $_->{absent} } $nginx->rows;
}, 20, 'no stream is left, and nobody is waited for');

my $id = qr/[A-Za-z0-9._~\@:-]{1,128}/;
my %events = map { /^(?!DISPATCH).*\{($id)\}/ ? ($1 => 1) : () }
             @{$asked->call('KEYS', '*')};

# for an hour
delete $events{inside};

my @lines = map { WaitingQueue::Line->new(event => $_, redis => $asked) }
            sort keys %events;
my %left;

note(scalar(@lines) . ' events: ' . join ' ', map { $_->event } @lines);

$sse->run_until(sub {
    %left = map { my $line = $_;
                  my @left = ($line->wrong, $line->leftovers);
                  @left ? ($line->event => \@left) : () } @lines;
    return !%left;
}, 25, 'nothing of them is left in Redis, and all is sound')
    or diag(explain \%left);

# a key is one of the table, of ids that are such
my $known = qr/^(?:(?:WAITING|WAITING_QUEUE_INDEX_RECORD|WAITING_USER_IDS
                      |ENTRY_ACTIVE|ENTRY_LEASE|WAITING_SEEN|WAITING_GONE
                      |WAITING_STATS|WAITING_QUEUE_CONF|WAITING_QUEUE_OVERRIDE
                      |seat:count):\{$id\}
                  |ENTRY_TOKEN:\{$id\}:$id(?:\/[0-9a-f]{40})?
                  |lock:seat:\{$id\}:$id(?:\/waiting)?
                  |DISPATCH:\{$id\}
                  |WAITING_QUEUE_IDX|ENTRY_QUEUE_SLOTS|ENTRY|WAITING_EVENTS
                  |WAITING_INSTANCES|WAITING_ORIGIN|PROMOTION_TASK_LIST
                  |PROMOTION_LEASE|PROMOTION_ROUND)$/x;

is_deeply([grep { $_ !~ $known } @{$asked->call('KEYS', '*')}], [],
          'every key in Redis is one of ours');
is_deeply([grep { $_ !~ /^$id$/ }
           map { @{$asked->call('HKEYS', $_)} }
           'WAITING_QUEUE_IDX', 'ENTRY_QUEUE_SLOTS'], [],
          'and every event in them an event');

wait_until { !grep { fds($_) > $fds{$_} } @workers } 15,
           'every worker has as many descriptors as in the beginning'
    or diag(map { "$_: $fds{$_}, then " . fds($_) . "\n" } @workers);

is_deeply([$nginx->log_lines(0, qr/^\S+ \S+ \[(?:crit|alert|emerg)\]/)], [],
          'nothing critical in the log');

finish();
