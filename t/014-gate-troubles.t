# On the day when everybody comes something is away: Redis, or the service that
# knows the capacity.  Whoever is in goes on as far as the node knows of it, who
# is not gets an answer soon, and nobody gets by on trouble unless the operator
# wants it so.  And some who come are there to make trouble: they get no place
# by numbers, and nothing past the gate by words.

use WaitingQueue::Test;
use WaitingQueue::Live;

use File::Temp ();
use IO::Socket::INET;
use POSIX ();
use Time::HiRes ();
use WaitingQueue::Backend;
use WaitingQueue::Gate;
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;
my $backend = WaitingQueue::Backend->new;

$ENV{TEST_NGINX_BACKEND_PORT} = $backend->port;
$ENV{TEST_NGINX_HTTP2_PORT} = free_port();
$ENV{TEST_NGINX_PRIVATE_REDIS_PORT} = free_port();

my ($sse, $prefix, $redis_pid, $redis_dir);


# "--- check" runs after the request, as one test.  /shop/ is a gate in front of
# the backend, /pass/ the same with waiting_queue_on_error pass, /open/ none.
# With "--- anonymous" visitors have no names but cookies; "--- redis" is
# another Redis.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t014-$prefix:";

    my $locations = $text->('config') . '
    location = /status {
        waiting_queue_status;
        access_log off;
    }
    location /shop/ {
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /pass/ {
        waiting_queue on;
        waiting_queue_on_error pass;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /open/ {
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
';
    $block->set_value('http_config', $text->('http_config') . '
    waiting_queue_redis ' . ($text->('redis')
                             || 'unix:$TEST_NGINX_REDIS_SOCKET') . ';
    keepalive_requests 100000;
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    waiting_queue_event e;
    ' . ($text->('settings') || 'waiting_queue_capacity 1;') . '
    server {
        listen 127.0.0.1:$TEST_NGINX_HTTP2_PORT http2;
        waiting_queue_user $arg_user;
        ' . $locations . '
    }
');
    $block->set_value('config', (defined $block->anonymous ? ''
                                 : 'waiting_queue_user $arg_user;')
                                . $locations);
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t014-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());

        ready() if !defined $block->redis;
        $backend->forget;

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        wake_redis();
        kill_redis();
        undef $redis_dir;
        $sse->close_all;
        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
    });
});

plan tests => repeat_each() * (blocks() * 4);

worker_connections(2048);
redis('FLUSHALL');

run_tests();


END {
    my $status = $?;
    kill_redis();
    $? = $status;
}


sub free_port {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
        or die "no port: $!\n";
    return $socket->sockport;
}


sub line {
    my %options = @_;

    return WaitingQueue::Line->new(event => 'e', prefix => $prefix,
                                   sse => $sse, path => '/shop/?user=%u',
                                   %options);
}


# at(path, user, options): an answer to GET, without cookies

sub at {
    my ($path, $user, %options) = @_;

    return visitor(jar => 0)->ask($options{method} || 'GET',
                                  "$path?user=$user", %options);
}


# unavailable(answer, error, what): a 503 in JSON

sub unavailable {
    my ($a, $error, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $json = $a->json || {};
    my $retry = $a->header('Retry-After');

    ok($a->status eq '503' && ($json->{error} || '') eq $error
       && length($json->{message} || '') && keys %$json == 2
       && defined $retry && $retry =~ /^[1-5]$/
       && ($a->header('Content-Type') || '') eq 'application/json'
       && ($a->header('Cache-Control') || '') eq 'no-store', $what)
        or diag($a->raw);
}


# a Redis that can be ended; it comes back with its data

sub private_redis {
    my $port = $ENV{TEST_NGINX_PRIVATE_REDIS_PORT};

    $redis_dir ||= File::Temp->newdir();
    $redis_pid = fork;
    die "fork: $!\n" if !defined $redis_pid;

    if ($redis_pid == 0) {
        open STDOUT, '>>', "$redis_dir/log";
        open STDERR, '>&', \*STDOUT;
        exec 'redis-server', '--bind', '127.0.0.1', '--port', $port,
             '--dir', "$redis_dir", '--save', '', '--appendonly', 'yes',
             '--appendfsync', 'always' or POSIX::_exit(127);
    }

    my $redis = WaitingQueue::Redis->new(port => $port);
    await('a Redis', sub { eval { $redis->call('PING') } });

    return $redis;
}

sub kill_redis {
    return if !$redis_pid;

    kill 'KILL', $redis_pid;
    waitpid $redis_pid, 0;
    undef $redis_pid;
}

sub lose_redis {
    kill_redis();
    await('all workers know', sub {
        !grep { $_->{state} eq 'ready' } links(status());
    });
}


__DATA__

=== TEST 1: Redis is away: nobody gets in who is not known
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- check
    my $redis = private_redis();
    my $line = line(redis => $redis);

    ready();
    is(at('/shop/', 'in')->status, 200, 'one is in');
    is(at('/shop/', 'w')->json->{status}, 'waiting', 'one waits');
    my $t = $line->token('in');
    my $kept = sum('gateKeptBack');
    lose_redis();
    $backend->forget;

    unavailable(at('/shop/', 'w'), 'redis_unavailable', 'who waits');
    unavailable(at('/shop/', 'x'), 'redis_unavailable', 'who is new');
    unavailable(at('/shop/', 'x', method => 'POST', body => 'x' x 100_000),
                'redis_unavailable', 'with a body');
    unavailable(at('/shop/', 'x', headers => {
                    Accept => 'text/event-stream' }),
                'redis_unavailable', 'a stream');

    my $a = at('/shop/', 'w', headers => { Accept => 'text/html' });
    is($a->status, 503, 'the page');
    like($a->body, qr/data-status="unavailable"/, 'says so');
    like($a->header('Retry-After'), qr/^[1-5]$/, 'and when to come again');
    is($a->header('Cache-Control'), 'no-store', 'not to be cached');
    is($a->header('Vary'), 'Accept, Accept-Language', 'as any page');
    is(scalar($backend->requests), 0, 'nothing came to the backend');
    reaches('gateKeptBack', $kept + 4);

    # a token that the node does not know is worth nothing
    for my $user (qw(w x)) {
        unavailable(at('/shop/', $user, headers => {
                        'X-Waiting-Queue-Token' => $t }),
                    'redis_unavailable', "$user, by the token of another");
    }
    unavailable(at('/shop/', 'in', headers => {
                    'X-Waiting-Queue-Token' => '0' x 40 }),
                'redis_unavailable', 'a forged one of who is in');

    # who is in goes on
    my $remembered = sum('gateRemembered');
    is(at('/shop/', 'in')->status, 200, 'by its name');
    is(at('/shop/', 'in', headers => {
           Cookie => token_cookie('e') . "=$t" })->status, 200, 'by cookie');
    is(at('/shop/', 'in', method => 'POST', body => 'buy')->status, 200,
       'with a body');
    is(($backend->requests)[-1]{body}, 'buy', 'that is all there');
    reaches('gateRemembered', $remembered + 3);
    is(sum('gatePassedOnError'), 0, 'nobody got in for the error');

    # it is back, and all is as it was
    $redis = private_redis();
    $line = line(redis => $redis);
    ready();
    is(at('/shop/', 'w')->json->{rank}, 0, 'who waited waits');
    is_deeply($line->waiting, [ 'w' ], 'and nobody else does');
    is($line->token('in'), $t, 'who was in is in');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 2: and passes, where the operator wants it so
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- check
    my $redis = private_redis();
    my $line = line(redis => $redis);

    ready();
    is(at('/pass/', 'in')->status, 200, 'one is in');
    is(at('/pass/', 'w')->json->{status}, 'waiting', 'one waits');
    is(sum('gatePassedOnError'), 0, 'while Redis is there');
    lose_redis();

    my $a = at('/pass/', 'w');
    is($a->body, "backend GET /pass/\n", 'who waited passes');
    is_deeply([ $a->cookies ], [], 'with nothing to show for it later');
    is(at('/pass/', 'x', method => 'POST', body => 'b')->status, 200,
       'who is new');
    is(($backend->requests)[-1]{body}, 'b', 'with the body');
    is(at('/pass/', 'x', headers => { Accept => 'text/html' })->status, 200,
       'a browser');
    reaches('gatePassedOnError', 3);
    is(at('/pass/', 'in')->status, 200, 'who is in');
    reaches('gatePassedOnError', 3, 'is in, and not by the error');
    unavailable(at('/shop/', 'x'), 'redis_unavailable',
                'a gate that does not say so');

    $redis = private_redis();
    $line = line(redis => $redis);
    ready();
    is(at('/pass/', 'w')->json->{status}, 'waiting', 'and waits again');
    is_deeply([ $line->inside, $line->waiting ], [ [ 'in' ], [ 'w' ] ],
              'nobody else has got anything');



=== TEST 3: what a node remembers ends with the lease
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- settings
    waiting_queue_capacity 1;
    waiting_queue_ttl 4s claim=4s;
--- check
    my $redis = private_redis();
    my $line = line(redis => $redis);

    ready();
    is(at('/shop/', 'in')->status, 200, 'in');
    my $ends = $line->snapshot->{active}{in} / 1000;
    lose_redis();

    my $seen = 0;
    await('the end', sub {
        my $asked = Time::HiRes::time();
        my $status = at('/shop/', 'in')->status;

        if ($status == 200) {
            $seen++;
            # half a second for two clocks and a busy machine
            fail('let in after the end') if $asked > $ends + 0.5;
        } else {
            fail('not let in before the end')
                if Time::HiRes::time() < $ends - 0.5;
        }
        $status == 503;
    });
    pass("let in $seen times, to the end");



=== TEST 4: Redis does not answer: nobody waits for long, and no worker does
--- redis
unix:$TEST_NGINX_REDIS_SOCKET timeout=2s
--- check
    ready();
    is(at('/shop/', 'in')->status, 200, 'one is in');

    stop_redis();
    my $p = visitor(jar => 0)->send('POST', '/shop/?user=x', body => 'body');
    await('it asks', sub {
        grep { $_->{links}{commands}{inFlight} } @{status()->{processes}};
    });

    # other requests are answered meanwhile, by every worker
    is(at('/open/', 'x')->body, "backend GET /open/\n", 'no gate') for 1 .. 8;
    my $a = $p->answer;
    unavailable($a, 'redis_unavailable', 'who asked gets an answer');
    is(at('/shop/', 'in')->status, 200, 'who is in goes on');
    wake_redis();
    ready();
    is(at('/shop/', 'x')->json->{status}, 'waiting', 'and then it waits');
    is(scalar(grep { $_->{uri} =~ /user=x/ && $_->{uri} =~ /shop/ }
                   $backend->requests), 0, 'and never came to the backend');



=== TEST 5: a client that does not wait for Redis
--- redis
unix:$TEST_NGINX_REDIS_SOCKET timeout=20s
--- http_config
    log_format short "$status $request_uri";
--- config
    access_log logs/short.log short;
--- check
    my $line = line();

    ready();
    stop_redis();

    my @pending = map {
        visitor(jar => 0)->send($_ % 2 ? 'POST' : 'GET', "/shop/?user=u$_",
                                $_ % 2 ? (body => 'x' x 1000) : ())
    } 1 .. 20;
    my $curl = fork;
    if ($curl == 0) {
        open STDOUT, '>', '/dev/null';
        exec 'curl', '-sg', '--http2-prior-knowledge', '-m', 1,
             "http://127.0.0.1:$ENV{TEST_NGINX_HTTP2_PORT}/shop/?user=h2";
    }

    await('all ask', sub {
        my $n = 0;
        $n += $_->{links}{commands}{inFlight} for @{status()->{processes}};
        $n >= 20;
    });
    $_->close for @pending;
    waitpid $curl, 0;

    await('nginx has seen it', sub {
        21 == grep { m{^499 /shop/} } log_lines('short.log');
    });
    pass('they are gone before Redis is back');
    is(scalar($backend->requests), 0, 'and none came to the backend');

    wake_redis();
    ready();
    is(at('/open/', 'x')->status, 200, 'the workers are well');

    # the one who was let in, with nobody there, gives the slot back in time
    is_deeply([ $line->wrong ], [], 'all is well in Redis');
    is(scalar(@{$line->inside}), 1, 'a slot was taken, no more');
    is(scalar($backend->requests), 1, 'nobody came in late');



=== TEST 6: the capacity from a service, at the gate
--- config
    location = /number {
        internal;
        return 200 '{"seatCount":2}';
    }
    location /known/ {
        waiting_queue on;
        waiting_queue_event known;
        waiting_queue_capacity uri=/number;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /broken/ {
        waiting_queue on;
        waiting_queue_on_error pass;
        waiting_queue_event broken;
        waiting_queue_capacity uri=/nothing;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location = /nothing {
        internal;
        return 500;
    }
    location /slow/ {
        waiting_queue on;
        waiting_queue_event slow;
        waiting_queue_capacity uri=/slow-seats;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location = /slow-seats {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT/slow?hold=never;
    }
--- check
    # a body waits for the service and is not taken for its
    my $body = 'b' x 200_000;
    my $a = at('/known/', 'a', method => 'POST', body => $body);
    is($a->body, "backend POST /known/\n", 'a body, past the question');
    is(($backend->requests)[-1]{length}, 200_000, 'all of it');
    is(at('/known/', 'b')->status, 200, 'the second');
    is(at('/known/', 'c')->json->{status}, 'waiting', 'the third waits');
    reaches('capacityAsked', 1, 'the service was asked once');

    $backend->forget;
    my $url = "http://127.0.0.1:$ENV{TEST_NGINX_HTTP2_PORT}/known/?user=a";
    my $h2 = `curl -sig --http2-prior-knowledge -d two '$url'`;
    like($h2, qr{^HTTP/2 200.*backend POST /known/}s, 'HTTP/2');
    is(($backend->requests)[-1]{body}, 'two', 'with its body');

    # the service gives none: nobody gets in, whatever is said for Redis
    $backend->forget;
    unavailable(at('/broken/', 'a'), 'capacity_unavailable', 'no capacity');
    unavailable(at('/broken/', 'a', method => 'POST', body => $body),
                'capacity_unavailable', 'with a body');
    $a = at('/broken/', 'b', headers => { Accept => 'text/html' });
    is($a->status, 503, 'the page');
    like($a->body, qr/data-status="unavailable"/, 'says so');
    is(scalar($backend->requests), 0, 'nothing came to the backend');
    is(sum('gatePassedOnError'), 0, 'nobody passed');
    is(redis('KEYS', "$prefix*{broken}*"), '', 'nothing is left behind');
    cmp_ok(sum('capacityFailed'), '>=', 1, 'it is counted');

    # it does not answer: who asks first leaves, the others get an answer
    $backend->forget;
    my @pending = map { visitor(jar => 0)->send('GET', "/slow/?user=s$_") }
                      1 .. 5;
    await('it is asked', sub { grep { $_->{uri} =~ /never/ }
                                    $backend->requests });
    (shift @pending)->close;
    unavailable($_->answer, 'capacity_unavailable', 'in vain') for @pending;
    is(redis('KEYS', "$prefix*{slow}*"), '', 'nothing is left behind');
    is(at('/open/', 'x')->status, 200, 'the workers are well');



=== TEST 7: ten thousand who return no cookie
--- anonymous
--- check
    my $line = line();
    my $in = visitor(path => '/shop/');

    is($in->get->status, 200, 'one is in');
    is($in->get->status, 200, 'and has returned its cookie');

    my $head = "Host: localhost\r\n";
    my @answers = many(map { "GET /shop/$_ HTTP/1.1\r\n$head" } 1 .. 10_000);

    my %id = map { /^wq_uid=([0-9a-f]{32});/ ? ($1 => 1) : () }
             map { $_->cookies } @answers;

    is(scalar(grep { $_->status == 503 } @answers), 10_000, 'all kept back');
    is(scalar(grep { $_->body =~ /"status":"none"/ } @answers), 10_000,
       'as nobody');
    is(scalar(keys %id), 10_000, 'each with an id of its own');
    is_deeply($line->waiting, [], 'nobody is in line');
    is_deeply($line->inside, [ $in->id ], 'and one is in');
    is($line->stat('joined'), 1, 'nobody else has ever been there');
    is($line->call('ZCARD', $line->key('WAITING_SEEN')), 0, 'nor seen');
    is(scalar($backend->requests), 2, 'and nothing came to the backend');
    reaches('gateKeptBack', 10_000);
    is(status()->{tokens}{known}, 1, 'nor is anything known of them');

    # for one who does there is no wait behind them
    my $v = visitor(path => '/shop/');
    $v->get;
    is($v->get->json->{rank}, 0, 'who returns it is the first');

    # with pages and streams it is the same
    @answers = many(map { "GET /shop/$_ HTTP/1.1\r\n${head}Accept: text/html"
                          . "\r\n" } 1 .. 200);
    is(scalar(grep { $_->body =~ /data-status="none"/ } @answers), 200,
       'pages');
    is_deeply($line->waiting, [ $v->id ], 'one is in line');
    for (1 .. 50) {
        visitor(path => '/shop/', jar => 0)->get(undef, headers => {
            Accept => 'text/event-stream' });
    }
    is_deeply($line->waiting, [ $v->id ], 'streams');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 8: what is free they can take, but not for long
--- anonymous
--- settings
    waiting_queue_capacity 5;
    waiting_queue_ttl 10m claim=2s;
--- check
    my $line = line();
    my $head = "Host: localhost\r\n";
    my @answers = many(map { "GET /shop/$_ HTTP/1.1\r\n$head" } 1 .. 100);

    is(scalar(grep { $_->body =~ /^backend GET/ } @answers), 5,
       'as many as there are slots');
    is(scalar(@{$line->inside}), 5, 'by a lease each');
    is_deeply($line->waiting, [], 'and nobody waits');

    # who comes with a cookie gets in when the claim time is over
    my $v = visitor(path => '/shop/');
    $v->get;
    await('it is in', sub { $v->get->status == 200 });
    cmp_ok($line->stat('expired'), '>=', 1, 'theirs have lapsed');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 9: two lengths, and other tries to hide a request
--- check
    my $line = line();

    is(at('/shop/', 'in')->status, 200, 'one is in');
    $backend->forget;

    my $hidden = "GET /shop/hidden?user=in HTTP/1.1\r\nHost: localhost\r\n\r\n";
    my $length = length $hidden;
    my %tries = (
        'both lengths' => "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
                          . "\r\n0\r\n\r\n$hidden",
        'two lengths' => "Content-Length: 0\r\nContent-Length: $length\r\n\r\n"
                         . $hidden,
        'a list of lengths' => "Content-Length: 0, $length\r\n\r\n$hidden",
        'a signed length' => "Content-Length: +0\r\n\r\n$hidden",
        'a negative length' => "Content-Length: -1\r\n\r\n$hidden",
        'an odd coding' => "Transfer-Encoding: xchunked\r\n\r\n$hidden",
        'two codings' => "Transfer-Encoding: chunked\r\n"
                         . "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"
                         . $hidden,
        'a list of codings' => "Transfer-Encoding: identity, chunked\r\n\r\n"
                               . "0\r\n\r\n$hidden",
        'a bad chunk' => "Transfer-Encoding: chunked\r\n\r\nxyz\r\n$hidden",
        'a huge chunk' => "Transfer-Encoding: chunked\r\n\r\n"
                          . "ffffffffffffffffff\r\n$hidden",
        'a space in the name' => "Content-Length : $length\r\n\r\n$hidden",
        'a folded line' => "X-A: b\r\n Content-Length: 0\r\n\r\n",
        'a NUL' => "X-A: b\0c\r\n\r\n",
    );

    # by who waits and by who is in; nothing is to come through that was hidden
    for my $try (sort keys %tries) {
        for my $user (qw(w in)) {
            $backend->forget;
            my $raw = talk("POST /shop/try?user=$user HTTP/1.1\r\n"
                           . "Host: localhost\r\n" . $tries{$try})->raw;
            my @seen = map { "$_->{method} $_->{uri}" } $backend->requests;
            my @codes = $raw =~ m{^HTTP/1\.1 (\d+)}mg;

            is(scalar(grep { m{^POST /shop/try\?user=w} } @seen), 0,
               "$try, of who waits");
            ok(!(grep { /hidden/ } @seen), "$try of $user: @codes, "
                                           . (@seen ? "@seen" : 'nothing'))
                or diag($raw);
        }
    }

    is(at('/open/', 'x')->status, 200, 'the workers are well');
    is_deeply($line->inside, [ 'in' ], 'one is in');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 10: words that would be headers, and more of them than fit
--- http_config
    log_format ids "[$waiting_queue_event][$waiting_queue_user]";
--- config
    access_log logs/ids.log ids;
    location ~ ^/ev/(?<ev>(?s:.*))$ {
        waiting_queue on;
        waiting_queue_event $ev;
        add_header X-Event "$waiting_queue_event" always;
        proxy_set_header X-Event "$waiting_queue_event";
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /header/ {
        waiting_queue on;
        waiting_queue_user $http_x_user;
        add_header X-User "$waiting_queue_user" always;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = line();

    # decoded by nginx: a line end, in an event
    for my $path ('/ev/a%0d%0aX-Evil:%201', '/ev/a%0aSet-Cookie:%20x=1',
                  '/ev/a%22b', '/ev/%7Be%7D', '/ev/',
                  '/ev/%3Cscript%3E', '/ev/' . '%41' x 129)
    {
        for my $accept ('text/html', '*/*', 'text/event-stream') {
            my $a = visitor(jar => 0)->get("$path?user=u", headers => {
                Accept => $accept });
            is($a->status, 400, substr "$accept $path", 0, 50);
            is($a->json->{error}, 'bad_event_id', 'no event');
            is($a->header('X-Evil'), undef, 'no header');
            is_deeply([ $a->cookies ], [], 'no cookie');
            unlike($a->raw, qr/<script>|Evil/, 'nothing of it comes back');
        }
    }

    is(visitor(jar => 0)->get('/ev/a%00?user=u')->status, 400,
       'a NUL, which nginx does not take itself');

    for my $user ('a b', 'a"b', '<script>', "a\tb", "\xff\xfe", 'a,b',
                  '{"userId":"x"}', 'u' x 5000)
    {
        my $a = visitor(jar => 0)->get('/header/', headers => {
            'X-User' => $user });
        is($a->status, 400, 'user ' . substr $user, 0, 20);
        is($a->json->{error}, 'bad_user_id', 'no user');
        is($a->header('X-User'), undef, 'no header');
    }
    is(scalar($backend->requests), 0, 'nothing came to the backend');
    is(redis('KEYS', "${prefix}WAITING*{*"), '', 'nor to Redis');
    is_deeply([ grep { !/^\[(?:-|e)\]\[(?:-|u)\]$/ } log_lines('ids.log') ],
              [], 'nor to the log');

    # huge ones
    is(at('/shop/', 'in')->status, 200, 'one is in');
    my $name = token_cookie('e');
    my $t = $line->token('in');

    for my $cookie ('x' x 7000, join('; ', map { "c$_=$_" } 1 .. 700),
                    "$name=" . '0' x 7000, '; ' x 3000, '=' x 6000,
                    join('; ', map { "$name=" . '0' x 40 } 1 .. 100),
                    join('; ', map { 'wq_uid=' . 'f' x 32 } 1 .. 100))
    {
        my $what = length($cookie) . ' bytes of ' . substr $cookie, 0, 20;
        is(at('/shop/', 'w', headers => { Cookie => $cookie })->status, 503,
           "who waits, with $what");
        is(at('/shop/', 'in', headers => { Cookie => $cookie })->status, 200,
           'who is in');
    }
    is(at('/shop/', 'in', headers => {
           Cookie => [ ('a=b') x 200, "$name=$t" ] })->status, 200,
       'many Cookie headers');
    is(at('/shop/', 'w', headers => { Cookie => 'x' x 100_000 })->status, 400,
       'too much for nginx');
    is(at('/shop/', 'w', headers => { Cookie => [ ('x' x 7000) x 10 ] })
           ->status, 400, 'by many');

    for my $header (qw(Accept Accept-Language X-Waiting-Queue-Token)) {
        for my $value ('x' x 7000, 'text/html;q=' x 600, ',' x 7000,
                       'a/b;q=0.1,' x 700, "\x01\x7f\xff", '*' x 7000)
        {
            my $a = at('/shop/', 'w', headers => { Accept => 'text/html',
                                                   $header => $value });
            ok($a->status == 503 && $a->raw !~ /backend/,
               length($value) . " bytes of $header") or diag($a->raw);
        }
    }
    is_deeply($line->waiting, [ 'w' ], 'one place for all of that');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 11: answers of Redis that make no sense
--- check
    my $line = line();

    is(at('/shop/', 'in')->status, 200, 'one is in');

    # somebody has put something else where the lease is
    $line->call('HSET', $line->key('ENTRY_LEASE'), 'in', 'garbage');
    await('it is asked for, and written anew', sub {
        at('/shop/', 'in')->status == 200 or die "kept back\n";
        eval { $line->lease('in')->{state} eq 'entered' };
    });
    is(at('/shop/', 'in')->status, 200, 'a lease that cannot be read');

    # and of another type
    $line->call('DEL', $line->key('WAITING_STATS'));
    $line->call('SET', $line->key('WAITING_STATS'), 'a string');
    unavailable(at('/shop/', 'x'), 'redis_unavailable',
                'an error of the script');
    $line->call('DEL', $line->key('WAITING_STATS'));
    like(at('/shop/', 'x')->status, qr/^(?:200|503)$/, 'and then it goes on');
    is(at('/open/', 'x')->status, 200, 'the workers are well');



=== TEST 12: who was sent out stays out while Redis is away
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- check
    my $redis = private_redis();
    my $line = line(redis => $redis);

    ready();
    for my $how (qw(token name)) {
        # of a Redis that was replaced it takes some seconds
        ok(await("$how: one is in", sub {
            at('/shop/', 'in')->status == 200;
        }), "$how: one is in");
        my $t = $line->token('in');
        my %shown = $how eq 'token'
                    ? (headers => { 'X-Waiting-Queue-Token' => $t }) : ();

        # by another node, or by the operator
        $line->release('in');
        is(at('/shop/', 'other')->status, 200, "$how: another is in");
        await('the second is over', sub {
            at('/shop/', 'in', %shown)->status == 503;
        });
        lose_redis();
        unavailable(at('/shop/', 'in', %shown), 'redis_unavailable',
                    "$how: out");
        unavailable(at('/shop/', 'in'), 'redis_unavailable',
                    "$how: by the name too");
        is(at('/shop/', 'other')->status, 200, "$how: who is in goes on");

        $redis = private_redis();
        $line = line(redis => $redis);
        ready();
        ok(await('the one inside is', sub { $line->release('other') }),
           "$how: who was in is still");
    }
