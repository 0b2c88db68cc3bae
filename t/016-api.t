# The token API: for apps, and for pages that poll.  What each call answers, to
# the letter, and what it does to the line; that it is the same line as that of
# streams and of the gate; and that whatever goes wrong, nobody has half a place
# or a slot too many.

use WaitingQueue::Test;
use WaitingQueue::Live;

use File::Temp ();
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Time::HiRes ();
use WaitingQueue::Gate;
use WaitingQueue::Http2;
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;

# an event service that answers when the test says so
my $service = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64)
    or die "no service: $!\n";

$ENV{TEST_NGINX_SERVICE_PORT} = $service->sockport;
$ENV{TEST_NGINX_INNER_PORT} = free_port();
$ENV{TEST_NGINX_HTTP2_PORT} = free_port();
$ENV{TEST_NGINX_PRIVATE_REDIS_PORT} = free_port();

my ($sse, $prefix, $redis_pid, $redis_dir);

my $methods = 'POST, GET, HEAD, DELETE, OPTIONS';

# the JSON, in this order

my $number = qr/null|\d+/;
my $form = qr/\A\{"status":"(\w+)","eventId":"([^"]*)","userId":"([^"]*)",
              "rank":($number),"waitingPosition":($number),
              "aheadCount":($number),"total":($number),
              "etaSeconds":($number),"token":(null|"[0-9a-f]{40}"),
              "expiresAt":(null|\d{13}),"pollAfterMs":($number)\}\n\z/x;


# "--- check" runs after the request, as one test.  The API is at /api, the
# stream at /stream, and the gate at /shop/ for who has a name; /cookie/api and
# so on are for who has none.  "--- settings" are those of the event e.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t016-$prefix:";

    my $places = join '', map {
        my ($under, $user) = @$_;
        "
    location = $under/api {
        waiting_queue_api;
        $user
    }
    location = $under/stream {
        waiting_queue_stream;
        $user
    }
    location $under/shop/ {
        waiting_queue on;
        $user
        proxy_pass http://127.0.0.1:\$TEST_NGINX_INNER_PORT;
    }
" } [ '', 'waiting_queue_user $arg_user;' ], [ '/cookie', '' ];

    my $server = '
    location = /status {
        waiting_queue_status;
        access_log off;
    }
    location = /prometheus {
        waiting_queue_status prometheus;
        access_log off;
    }
    location = /any {
        waiting_queue_api;
        waiting_queue_event $arg_event;
        waiting_queue_user $arg_user;
    }
    waiting_queue_event e;
    ' . ($text->('settings') || 'waiting_queue_capacity 1;')
      . $places . $text->('config');

    $block->set_value('http_config', $text->('http_config') . '
    waiting_queue_redis ' . ($text->('redis')
                             || 'unix:$TEST_NGINX_REDIS_SOCKET') . ';
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval ' . ($text->('round') || '50ms') . ';
    server {
        listen 127.0.0.1:$TEST_NGINX_INNER_PORT;
        location / {
            return 200 "inside\n";
        }
    }
    server {
        listen 127.0.0.1:$TEST_NGINX_HTTP2_PORT http2;
        ' . $server . '
    }
');
    $block->set_value('config', $server);
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t016-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());

        ready() if !defined $block->redis;

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
                                   sse => $sse, path => '/stream?user=%u',
                                   %options);
}


# api(method, user, options): the answer

sub api {
    my ($method, $user, %options) = @_;

    return visitor(jar => 0)->ask($method, "/api?user=$user", %options);
}


# says(answer, code, status, what): the JSON, which is as it is documented, and
# so are the headers

sub says {
    my ($a, $code, $status, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my @values = $a->body =~ $form;
    my $json = $a->json || {};
    my $in = $status =~ /^(?:ready|entered)$/;
    my $ms = $json->{pollAfterMs};
    my $retry = $a->header('Retry-After');
    my $wanted = defined $ms && !$in ? POSIX::ceil($ms / 1000) : undef;

    my @wrong = (
        @values ? () : 'the form',
        $a->status eq $code ? () : "not $code",
        ($json->{status} // '') eq $status ? () : "not $status",
        ($a->header('Content-Type') // '') eq 'application/json'
            ? () : 'the type',
        ($a->header('Cache-Control') // '') eq 'no-store' ? () : 'cacheable',
        ($a->header('Content-Length') // '') eq length $a->body
            ? () : 'the length',
        ($retry // 'none') eq ($wanted // 'none')
            ? () : 'Retry-After ' . ($retry // 'none'),
        $in == defined $json->{token} && $in == defined $json->{expiresAt}
            ? () : 'the token',
        ($status eq 'waiting') == defined $json->{rank} ? () : 'the rank',
        defined $json->{rank}
            && ($json->{waitingPosition} != $json->{rank} + 1
                || $json->{aheadCount} != $json->{rank}
                || $json->{total} < $json->{waitingPosition})
            ? 'the place' : (),
        # there is nothing to ask any more
        defined $ms != ($status =~ /^(?:sold_out|closed|none)$/)
            || $status eq 'none' ? () : 'pollAfterMs',
    );

    ok(!@wrong, $what // "$code $status")
        or Test::More::diag(join ', ', @wrong, $a->raw);

    return $json;
}


# fails(answer, code, error, what)

sub fails {
    my ($a, $code, $error, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $json = $a->json || {};
    my $retry = $a->header('Retry-After') // 'none';

    ok($a->status eq $code && ($json->{error} // '') eq $error
       && length($json->{message} // '') && keys %$json == 2
       && $retry =~ ($code == 503 ? qr/^[1-5]$/ : qr/^none$/)
       && ($a->header('Content-Type') // '') eq 'application/json'
       && ($a->header('Cache-Control') // '') eq 'no-store',
       $what // "$code $error")
        or Test::More::diag($a->raw);
}


# no answer but "there is nothing any more"

sub gone {
    my ($a, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok($a->status eq '204' && $a->body eq ''
       && !defined $a->header('Content-Length')
       && !defined $a->header('Content-Type')
       && !defined $a->header('Retry-After')
       && $a->header('Cache-Control') eq 'no-store', $what)
        or Test::More::diag($a->raw);
}


sub well {
    my ($line, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is_deeply([ $line->wrong ], [], $what // 'all is well in Redis');
}


# meanwhile(seconds, code): over and over, for so long

sub meanwhile {
    my ($seconds, $code) = @_;

    my $end = Time::HiRes::time() + $seconds;

    while (Time::HiRes::time() < $end) {
        $code->();
        $sse->run_for(0.1);
    }
}


# the figures of the event

sub figures {
    my ($row) = grep { $_->{event} eq 'e' } @{status()->{events}};
    return $row || {};
}


# serve(body, status line): the event service is asked, and answers

sub serve {
    my ($body, $status) = @_;

    IO::Select->new($service)->can_read(10) or die "nobody asks\n";

    my $socket = $service->accept;
    my $head = '';

    while ($head !~ /\r\n\r\n/) {
        sysread $socket, $head, 4096, length $head or die "half a question\n";
    }

    print $socket join "\r\n", 'HTTP/1.1 ' . ($status || '200 OK'),
                               'Connection: close',
                               'Content-Length: ' . length $body, '', $body;
    close $socket;

    return $head;
}


# a Redis that can be ended

sub private_redis {
    my $port = $ENV{TEST_NGINX_PRIVATE_REDIS_PORT};

    $redis_dir ||= File::Temp->newdir();
    $redis_pid = fork;
    die "fork: $!\n" if !defined $redis_pid;

    if ($redis_pid == 0) {
        open STDOUT, '>>', "$redis_dir/log";
        open STDERR, '>&', \*STDOUT;
        exec 'redis-server', '--bind', '127.0.0.1', '--port', $port,
             '--dir', "$redis_dir", '--save', '' or POSIX::_exit(127);
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


__DATA__

=== TEST 1: the calls, to the letter
--- check
    my $line = line();

    # nobody
    my $none = says(api('GET', 'a'), 404, 'none', 'GET of nobody');
    is_deeply([ @$none{qw(eventId userId rank total token pollAfterMs)} ],
              [ 'e', 'a', undef, 0, undef, undef ], 'who has nothing');
    says(api('DELETE', 'a'), 404, 'none', 'DELETE of nobody');
    my $a = api('HEAD', 'a');
    is($a->status . $a->body, '404', 'HEAD of nobody');
    is(redis('KEYS', "$prefix*{e}*"), '', 'nothing is stored');

    # straight in
    $a = api('POST', 'a');
    my $in = says($a, 200, 'entered', 'POST with a free slot');
    is_deeply([ @$in{qw(eventId userId rank waitingPosition aheadCount total
                        etaSeconds)} ],
              [ 'e', 'a', undef, undef, undef, 0, undef ], 'is in');
    is($in->{token}, $line->token('a'), 'by the token');
    is($in->{expiresAt}, $line->snapshot->{active}{a}, 'until then');
    cmp_ok(abs($in->{expiresAt} - 1000 * Time::HiRes::time() - 300_000), '<',
           5000, 'which is the ttl from now');
    is_deeply([ $a->cookies ], [], 'no cookies are needed');
    is(says(api('POST', 'a'), 200, 'entered', 'POST again')->{token},
       $in->{token}, 'is the same token');
    is(says(api('GET', 'a'), 200, 'entered', 'GET')->{token}, $in->{token},
       'the same token');
    is($line->stat('entered'), 1, 'entered once');

    # in line
    my $b = says(api('POST', 'b'), 202, 'waiting', 'POST without one');
    is_deeply([ @$b{qw(rank waitingPosition aheadCount total token
                       expiresAt)} ], [ 0, 1, 0, 1, undef, undef ],
              'is the first');
    my $c = says(api('POST', 'c'), 202, 'waiting', 'POST of another');
    is_deeply([ @$c{qw(rank total)} ], [ 1, 2 ], 'is the second');
    is(says(api('POST', 'b'), 202, 'waiting', 'POST again')->{rank}, 0,
       'the same place');
    my $polled = says(api('GET', 'c'), 200, 'waiting', 'GET');
    is_deeply([ @$polled{qw(rank total)} ], [ 1, 2 ], 'the same place');
    is($line->stat('joined'), 3, 'three have joined');

    $a = api('HEAD', 'c');
    is($a->status . $a->body, '200', 'HEAD: the same without a body');
    is($a->header('Content-Type'), 'application/json', 'its type');
    cmp_ok($a->header('Content-Length'), '>', 100, 'its length');
    like($a->header('Retry-After'), qr/^[12]$/, 'and when to come again');
    well($line);

    # what it does not have
    for my $method (qw(PUT PATCH PROPFIND LOCK MKCOL COPY SPAM)) {
        $a = api($method, 'x', body => 'a body');
        fails($a, 405, 'method_not_allowed', $method);
        is($a->header('Allow'), $methods, 'says what there is');
    }

    $a = api('OPTIONS', 'x', body => 'a body');
    gone($a, 'OPTIONS');
    is($a->header('Allow'), $methods, 'says what there is');
    gone(visitor(jar => 0)->ask('OPTIONS', '/any'), 'whoever asks');
    is_deeply([ $line->inside, $line->waiting ], [ [ 'a' ], [ qw(b c) ] ],
              'and nobody has come by that');

    # ids
    my $ask = sub {
        my ($method, $event, $user) = @_;
        return visitor(jar => 0)->ask($method,
                                      "/any?event=$event&user=$user");
    };
    my $long = 'x' x 128;

    for my $method (qw(POST GET DELETE)) {
        for my $bad ('', 'a%20b', '%C3%A4', "${long}x", 'a/b', '{e}') {
            fails($ask->($method, $bad, 'u'), 400, 'bad_event_id',
                  "$method, event '" . substr($bad, 0, 10) . "'");
            fails($ask->($method, 'e9', $bad), $bad eq '' ? 401 : 400,
                  $bad eq '' ? 'user_required' : 'bad_user_id',
                  "$method, user '" . substr($bad, 0, 10) . "'");
        }
    }
    my $head = $ask->('HEAD', 'a b', 'u');
    is($head->status . $head->body, '400', 'HEAD has no body');
    is(redis('KEYS', "$prefix*{e9}*"), '', 'nothing is stored');
    my $last = says($ask->('POST', $long, $long), 200, 'entered',
                    'as long as they may be');
    is_deeply([ @$last{qw(eventId userId)} ], [ $long, $long ],
              'both come back');
    my $signs = 'A.z_0~9@a:b-';
    is($ask->('POST', $signs, $signs)->json->{eventId}, $signs,
       'all the signs there are');



=== TEST 2: full, closed, sold out, and not any more
--- settings
    waiting_queue_capacity 1;
    waiting_queue_max_waiting 2;
--- check
    my $line = line();
    my $seats = $line->key('seat:count');

    api('POST', $_) for qw(in a b);
    my $full = says(api('POST', 'c'), 429, 'full');
    is($full->{total}, 2, 'so many wait');
    cmp_ok($full->{pollAfterMs}, '>=', 5000, 'not so soon again');
    cmp_ok($full->{pollAfterMs}, '<=', 10000, 'but again');
    says(api('GET', 'c'), 404, 'none', 'has no place');
    is(says(api('POST', 'b'), 202, 'waiting', 'who has one')->{rank}, 1,
       'keeps it');
    is_deeply($line->waiting, [ qw(a b) ], 'two wait');

    for my $over ([ 'closed', sub { $line->set(closed => $_[0]) } ],
                  [ 'sold_out', sub { $line->call('SET', $seats,
                                           $_[0] ? 0 : 1) } ])
    {
        my ($status, $set) = @$over;

        $set->(1);
        for my $method (qw(GET POST)) {
            my $told = says(api($method, 'x'), 410, $status,
                            "$method of a stranger");
            is($told->{pollAfterMs}, undef, 'there is nothing to ask for');
        }
        says(api('POST', 'a'), 410, $status, 'POST of who waits');
        says(api('GET', 'b'), 410, $status, 'GET of who waits');
        is_deeply($line->waiting, [], 'the places are gone');
        says(api('DELETE', 'a'), 404, 'none', 'nothing to give back');
        my $a = api('HEAD', 'b');
        is($a->status . $a->body, '410', 'HEAD');
        says(api('GET', 'in'), 200, 'entered', 'who is in');
        says(api('POST', 'in'), 200, 'entered', 'stays in');
        well($line);

        # undone
        $set->(0);
        says(api('GET', 'a'), 404, 'none', 'open again: nobody waits');
        is(says(api('POST', $_), 202, 'waiting', "open again: $_")->{total},
           $_ eq 'b' ? 1 : 2, 'in the order of coming') for qw(b a);
        is_deeply($line->waiting, [ qw(b a) ], 'anew');
        well($line);
    }

    $line->call('SET', $seats, -3);
    says(api('POST', 'x'), 410, 'sold_out', 'less than none is none');
    $line->call('SET', $seats, 'many');
    says(api('GET', 'x'), 404, 'none', 'a word is not a number');



=== TEST 3: when to ask again
--- check
    my $line = line();
    my $length = "Host: localhost\r\nContent-Length: 0\r\n";

    api('POST', 'in');
    # one after the other, so that u0 is the first
    api('POST', "u$_") for 0 .. 10;
    many(map { "POST /api?user=m$_ HTTP/1.1\r\n$length" } 1 .. 100);

    my @line = @{$line->waiting};
    is(scalar(@line), 111, 'they wait');

    my @ranks = ([ 0, 1000, 2000 ], [ 9, 1000, 2000 ], [ 10, 2500, 5000 ],
                 [ 99, 2500, 5000 ], [ 100, 5000, 10000 ],
                 [ 110, 5000, 10000 ]);
    for my $case (@ranks) {
        my ($rank, $least, $most) = @$case;
        my @ms;

        for (1 .. 8) {
            my $a = api($_ % 2 ? 'GET' : 'POST', $line[$rank]);
            is($a->json->{rank}, $rank, "rank $rank");
            push @ms, $a->json->{pollAfterMs};
            is($a->header('Retry-After'), POSIX::ceil($ms[-1] / 1000),
               "Retry-After is $ms[-1] ms in s");
        }

        is(scalar(grep { $_ < $least || $_ > $most } @ms), 0,
           "rank $rank: within $least and $most ms: @ms");
        my %different = map { $_ => 1 } @ms;
        cmp_ok(scalar(keys %different), '>', 2, 'and not all at once');
    }

    # who is let in
    $line->release('in');
    is(says(api('GET', 'u0'), 200, 'ready')->{pollAfterMs}, 1000,
       'ready: soon');
    is(says(api('POST', 'u0'), 200, 'entered')->{pollAfterMs}, 10000,
       'entered: often enough to renew it');



=== TEST 4: when to ask again, where the place or the lease is short
--- settings
    waiting_queue_capacity 1;
    waiting_queue_poll_timeout 6s;
    waiting_queue_ttl 9s max=10s claim=9s;
--- check
    my $line = line();
    my $length = "Host: localhost\r\nContent-Length: 0\r\n";

    my $ms = api('POST', 'in')->json->{pollAfterMs};
    cmp_ok(abs($ms - 3000), '<', 200, 'a third of a lease');
    many(map { "POST /api?user=m$_ HTTP/1.1\r\n$length" } 1 .. 110);
    my @line = @{$line->waiting};

    for my $rank (0, 50, 105) {
        my @ms = map { api('GET', $line[$rank])->json->{pollAfterMs} } 1 .. 5;
        is(scalar(grep { $_ < 1000 || $_ > 2000 } @ms), 0,
           "rank $rank: a third of the time of a place at most: @ms");
    }

    # near the end of a lease it does not help to ask more often
    $line->call('HSET', $line->key('ENTRY_LEASE'), 'in', JSON::PP::encode_json(
        { %{$line->lease('in')},
          since => $line->snapshot->{now} - 9000 }) =~ s/"(\d{13})"/$1/r);
    is(api('GET', 'in')->json->{pollAfterMs}, 1000, 'a second at least');



=== TEST 5: ready by GET, entered by POST, and nobody by neither
--- settings
    waiting_queue_capacity 1;
    waiting_queue_ttl 5m claim=1500ms;
--- check
    my $line = line();

    api('POST', $_) for qw(in a b c);
    gone(api('DELETE', 'in'), 'a slot is free');
    is_deeply($line->inside, [ 'a' ], 'it is the turn of a');

    my $ends = $line->snapshot->{active}{a};
    my $token = $line->token('a');

    for (1 .. 3) {
        my $ready = says(api('GET', 'a'), 200, 'ready');
        is_deeply([ @$ready{qw(token expiresAt rank total)} ],
                  [ $token, $ends, undef, 2 ],
                  'told, with the same end each time');
    }
    is($line->lease('a')->{state}, 'ready', 'GET is not to enter');
    is($line->stat('entered'), 1, 'nor counted as that');

    my $entered = says(api('POST', 'a'), 200, 'entered', 'POST is');
    is($entered->{token}, $token, 'by the same token');
    cmp_ok($entered->{expiresAt}, '>', $ends + 200_000, 'for the ttl');
    is($line->stat('entered'), 2, 'counted');
    is(visitor(jar => 0)->get('/shop/?user=a', headers => {
           'X-Waiting-Queue-Token' => $token })->body, "inside\n",
       'and with the token through the gate');

    # b does not come, though it looks
    gone(api('DELETE', 'a'), 'the next slot');
    my $end = says(api('GET', 'b'), 200, 'ready')->{expiresAt};
    await('the turn of c', sub {
        my $a = api('GET', 'b');
        $a->status == 404 || $a->json->{status} eq 'ready'
            or die 'b is ' . $a->body;
        $line->inside->[0] eq 'c';
    });
    my $late = $line->snapshot->{now} - $end;
    cmp_ok($late, '>=', 0, 'not before the claim time is over');
    cmp_ok($late, '<', 1000, 'and soon after it');
    says(api('GET', 'b'), 404, 'none', 'b is nobody');
    is($line->stat('expired'), 1, 'lapsed');
    says(api('POST', 'c'), 200, 'entered', 'c is in');
    is(says(api('POST', 'b'), 202, 'waiting', 'b can come again')->{rank}, 0,
       'as somebody new');
    well($line);



=== TEST 6: a lease is renewed by asking, up to its cap
--- settings
    waiting_queue_capacity 1;
    waiting_queue_ttl 2s max=5s;
--- check
    my $line = line();
    my $begun = $line->snapshot->{now};
    my $first = api('POST', 'in')->json;
    my $waits = api('POST', 'w');

    # GET, POST and HEAD in turn, for longer than the ttl
    my @ways = qw(GET POST HEAD);
    my ($ends, $n, $renewed) = ($first->{expiresAt}, 0, 0);

    meanwhile(3, sub {
        my $a = api($ways[$n++ % 3], 'in');
        $a->status == 200 or die 'lost: ' . $a->raw;
        my $now = $line->snapshot;
        my $to = $now->{active}{in};

        fail("from $ends to $to") if $to < $ends;
        fail("$to is beyond the cap") if $to > $begun + 5500;
        fail('longer than the ttl') if $to > $now->{now} + 2000;
        $renewed++ if $to > $ends;
        $ends = $to;
    });
    cmp_ok($renewed, '>', 5, 'renewed, and again');
    is($line->token('in'), $first->{token}, 'the same token');

    # the end, however often one asks
    await('the end', sub {
        my $a = api($ways[$n++ % 3 == 1 ? 1 : 0], 'in');
        my $word = $a->json->{status};
        my $ms = $line->snapshot->{now} - $begun;

        if ($word ne 'entered') {
            cmp_ok($ms, '>=', 5000, 'not before the cap');
            return 1;
        }
        $ms < 6500 or die "still in after $ms ms\n";
        return 0;
    });
    await('the next', sub { "@{$line->inside}" eq 'w' });
    pass('and the next is in');
    well($line);



=== TEST 7: DELETE gives back what one has, once
--- check
    my $line = line();
    my $token = api('POST', 'in')->json->{token};
    api('POST', $_) for qw(a b c);

    # out of the line
    gone(api('DELETE', 'b'), 'out of the line');
    says(api('DELETE', 'b'), 404, 'none', 'a second time');
    says(api('GET', 'b'), 404, 'none', 'and is nobody');
    is(api('GET', 'c')->json->{rank}, 1, 'who stood behind moves up');
    is_deeply($line->waiting, [ qw(a c) ], 'the others wait');
    well($line);

    # of a lease; the gate of this node knows its token
    my $shop = sub {
        my ($user, $t) = @_;
        return visitor(jar => 0)->get("/shop/?user=$user", headers => {
            $t ? ('X-Waiting-Queue-Token' => $t) : () });
    };
    is($shop->('in', $token)->body, "inside\n", 'the token is good');
    my $remembered = sum('gateRemembered');
    is($shop->('in', $token)->body, "inside\n", 'and known here');
    reaches('gateRemembered', $remembered + 1);

    gone(api('DELETE', 'in'), 'a lease');
    my $a = $shop->('in', $token);
    is($a->status, 503, 'the token is good no more, at once');
    is($a->json->{status}, 'waiting', 'one is in line by asking the gate');
    is($a->json->{rank}, 1, 'as the last');
    is_deeply($line->inside, [ 'a' ], 'the next is in, without a round');
    says(api('GET', 'a'), 200, 'ready', 'and hears it');
    is($line->stat('left'), 2, 'two have left');
    well($line);

    # ready, not entered
    gone(api('DELETE', 'a'), 'a turn that one does not want');
    is_deeply([ $line->inside, $line->waiting ], [ [ 'c' ], [ 'in' ] ],
              'the next');
    says(api('DELETE', 'a'), 404, 'none', 'a second time');

    # by POST again: another visit, another token
    says(api('POST', 'c'), 200, 'entered');
    gone(api('DELETE', $_), $_) for qw(in c);
    my $again = says(api('POST', 'in'), 200, 'entered', 'somebody new');
    isnt($again->{token}, $token, 'with a token of its own');
    is($shop->('in', $again->{token})->body, "inside\n", 'which is good');
    is($shop->('in', $token)->body, "inside\n",
       'and the name is enough for who is in');
    is($shop->('a', $again->{token})->status, 503, 'but not of another');
    gone(api('DELETE', $_), $_) for qw(in a);
    is_deeply([ $line->inside, $line->waiting, $line->slots ], [ [], [], 1 ],
              'nobody is there');
    well($line);



=== TEST 8: a stream hears that its user has gone elsewhere
--- check
    my $line = line();

    api('POST', 'in');
    my ($a, $b, $c) = $line->joins(qw(a b c));
    gone(api('DELETE', 'b'), 'gone from the line');
    $sse->run_until(sub { $b->ended && $c->rank == 1 }, 10, 'it ends');
    is($b->names, 'position expired', 'and is told');
    is($b->ended, 'clean', 'to the last chunk');
    is($b->last->{data}{status}, 'none', 'of what is no more');
    is($b->last->{id}, 'over', 'and that there is nothing to come back for');
    ok($a->is_open && $c->is_open, 'the others go on');

    # who comes back at once has a new place, which the old word does not end
    gone(api('DELETE', 'c'), 'gone, and back at once');
    my $d = $line->join('c');
    is($d->rank, 1, 'as somebody new');
    $sse->run_until(sub { $c->ended }, 10, 'the old stream ends');
    $sse->run_for(0.3);
    ok($d->is_open, 'and the new one does not');
    is_deeply($line->waiting, [ qw(a c) ], 'in line');

    # with a turn that was told
    gone(api('DELETE', 'in'), 'a slot is free');
    $sse->run_until(sub { $a->token }, 10, 'it is the turn of a');
    is(says(api('GET', 'a'), 200, 'ready')->{token}, $a->token,
       'the same by GET');
    gone(api('DELETE', 'a'), 'who does not want it');
    $sse->run_until(sub { $a->ended && $d->token }, 10,
                    'it ends, and the next is in');
    is($a->names, 'position position promoted expired', 'told in this order')
        if $a->count('position') == 2;
    like($a->names, qr/promoted expired$/, 'and told why');

    # inside, with the stream still there
    says(api('POST', 'c'), 200, 'entered', 'enters');
    $sse->run_for(0.2);
    ok($d->is_open, 'the stream stays');
    gone(api('DELETE', 'c'), 'and goes');
    $sse->run_until(sub { $d->ended }, 10, 'the stream hears of it');
    is($d->last->{event}, 'expired', 'in a word');
    is_deeply([ $line->inside, $line->waiting, $line->slots ], [ [], [], 1 ],
              'nobody is there');
    await('nobody is waited for', sub {
        !grep { $_->{absent} || $_->{streams} } @{status()->{processes}}
    });
    is($line->stat('left'), 5, 'five have left, each once');
    well($line);



=== TEST 9: from asking to listening and back
--- settings
    waiting_queue_capacity 1;
    waiting_queue_poll_timeout 2s;
    waiting_queue_grace 1s;
--- check
    my $line = line();

    api('POST', $_) for qw(in u v);
    my $idx = $line->idx('u');
    is($line->record('u')->{instanceId}, '', 'nobody holds a connection');

    my $s = $line->join('u');
    is($s->rank, 0, 'the stream has the place of who asked');
    is($line->idx('u'), $idx, 'the very same');
    isnt($line->record('u')->{instanceId}, '', 'which a worker holds now');

    # listening is enough, for longer than a poller would be kept
    meanwhile(2.5, sub { api('GET', 'in'); api('GET', 'v') });
    is($line->idx('u'), $idx, 'listening is enough');
    is(says(api('GET', 'u'), 200, 'waiting', 'asking beside it')->{rank}, 0,
       'tells the same');
    is($s->ended, undef, 'and does not end the stream');
    is(says(api('POST', 'u'), 202, 'waiting', 'nor does POST')->{rank}, 0,
       'the same place');

    # back, past the grace time
    $s->close;
    meanwhile(2.5, sub { api('GET', $_) for qw(in u v) });
    is($line->idx('u'), $idx, 'asking is enough');
    is($line->record('u')->{instanceId}, '', 'no worker holds it');
    is_deeply($line->waiting, [ qw(u v) ], 'nobody has lost a place');
    well($line);

    # to the stream, and in by POST
    $s = $line->join('u');
    is($line->idx('u'), $idx, 'to the stream again');
    gone(api('DELETE', 'in'), 'a slot');
    $sse->run_until(sub { $s->token }, 10, 'told by the stream');
    is(says(api('POST', 'u'), 200, 'entered', 'in by POST')->{token},
       $s->token, 'with its token');
    is($line->stat('joined'), 3, 'nobody has joined twice');

    # in, and a stream again
    my $t = $line->join('u');
    is($t->last('promoted')->{data}{status}, 'entered', 'a stream of who is in');
    is($t->token, $s->token, 'tells the token');
    well($line);



=== TEST 10: it was one's turn while the stream had gone
--- settings
    waiting_queue_capacity 3;
    waiting_queue_grace 2s;
--- check
    my $line = line();

    api('POST', "in$_") for 1 .. 3;
    my @s = $line->joins(qw(asks asked silent));
    api('POST', $_) for qw(next1 next2);
    $_->close for @s;
    await('the streams are gone', sub {
        3 == sum('absent') && !sum('streams')
    });

    # one asks before the turn has come, and one after it
    is(api('GET', 'asked')->json->{rank}, 1, 'one asks while it waits');
    api('DELETE', "in$_") for 1 .. 3;
    is_deeply($line->inside, [ qw(asked asks silent) ], 'it is their turn');
    my $told = says(api('GET', 'asks'), 200, 'ready', 'one is told by GET');

    await('the grace time is over', sub { !sum('absent') });
    is_deeply($line->inside, [ qw(asked asks next1) ],
              'who has asked has the turn, and who has not has lost it');
    is(says(api('GET', 'asks'), 200, 'ready', 'as told')->{token},
       $told->{token}, 'the same token');
    says(api('POST', 'asks'), 200, 'entered', 'and can enter');
    says(api('POST', 'asked'), 200, 'entered', 'who asked before can, too');
    says(api('GET', 'silent'), 404, 'none', 'the other is nobody');
    is($line->stat('left'), 4, 'which is to have left');
    is(sum('releases'), 1, 'because nobody was connected');
    well($line);



=== TEST 11: who asks no more leaves, and the others move up
--- settings
    waiting_queue_capacity 1;
    waiting_queue_poll_timeout 2s;
--- check
    my $line = line();

    api('POST', $_) for qw(in a b c);
    my $s = $line->join('s');
    is($s->rank, 3, 'a stream behind three who ask');

    my $since = $line->snapshot->{now};
    await('b has left', sub {
        api('GET', 'a');
        api('HEAD', 'c');
        $sse->turn(0.01);
        "@{$line->waiting}" eq 'a c s';
    });
    my $silent = $line->snapshot->{now} - $since;
    cmp_ok($silent, '>=', 1500, 'not too soon');
    cmp_ok($silent, '<', 6000, 'nor too late');
    is(api('GET', 'c')->json->{rank}, 1, 'who asks is told');
    $sse->run_until(sub { $s->rank == 2 }, 10, 'who listens is told');
    says(api('GET', 'b'), 404, 'none', 'who was silent is nobody');
    is($line->stat('left'), 1, 'counted');
    await('the others leave as well', sub { "@{$line->waiting}" eq 's' });
    is_deeply([ sort keys %{$line->snapshot->{seen}} ], [],
              'nobody is seen who is not there');
    well($line);



=== TEST 12: all kinds of people in one line
--- settings
    waiting_queue_capacity 1;
--- check
    my $line = line();
    my $gate = sub {
        my $a = visitor(jar => 0)->get("/shop/?user=$_[0]");
        return $a->status == 200 ? 'in' : $a->json->{rank};
    };
    my $poll = sub {
        my $json = api('GET', $_[0])->json;
        return $json->{status} eq 'waiting' ? $json->{rank} : 'in';
    };
    my %stream;
    my $stream = sub {
        my $s = $stream{$_[0]};
        return $s->token ? 'in' : $s->rank;
    };

    api('POST', 'in');

    my @line;
    for my $n (0 .. 3) {
        api('POST', "p$n");
        $stream{"s$n"} = $line->join("s$n");
        $gate->("g$n");
        push @line, [ "p$n", $poll ], [ "s$n", $stream ], [ "g$n", $gate ];
    }
    is_deeply($line->waiting, [ map { $_->[0] } @line ],
              'in the order of coming');

    my $before = 'in';
    while (my $next = shift @line) {
        $before =~ /^g/ ? $line->release($before) : api('DELETE', $before);
        my ($user, $ask) = @$next;

        $sse->run_until(sub { $ask->($user) eq 'in' }, 10, "$user is in");
        is_deeply($line->inside, [ $user ], 'and nobody else');
        api('POST', $user);

        my $n = 0;
        for (@line) {
            my ($behind, $how) = @$_;
            my $rank = $n++;
            $sse->run_until(sub { $how->($behind) eq $rank }, 10,
                            "$behind is $rank");
        }
        $before = $user;
    }
    well($line);



=== TEST 13: cookies
--- settings
    waiting_queue_capacity 1;
    waiting_queue_ttl 5m claim=1m;
--- check
    my $line = line();
    my $cookie = qr/^wq_uid=([0-9a-f]{32}); Path=\/; HttpOnly; SameSite=Lax$/;
    my $new = sub { visitor(path => '/cookie/api') };

    # nobody has nothing, and needs no cookie for that
    for my $method (qw(GET HEAD DELETE)) {
        my $a = $new->()->ask($method, undef);
        is($a->status, 404, "$method without a cookie");
        is_deeply([ $a->cookies ], [], 'gives none');
        next if $method eq 'HEAD';
        is(says($a, 404, 'none', 'nobody')->{userId}, '', 'who has no name');
    }
    for my $bad ('wq_uid=', 'wq_uid=x', 'wq_uid=' . 'A' x 32, 'wq_uid='
                 . '0' x 33, 'x=y')
    {
        is($new->()->get(undef, headers => { Cookie => $bad })->status, 404,
           "nor by $bad");
    }
    is(redis('KEYS', "$prefix*{e}*"), '', 'nothing is stored');

    # a slot that is free
    my $in = $new->();
    my $a = $in->post;
    my $ready = says($a, 200, 'ready', 'a free slot: one is let in');
    like(join(' ', $a->cookies), $cookie, 'with a cookie');
    is($ready->{userId}, $in->id, 'and by its name');
    cmp_ok(abs($ready->{expiresAt} - 1000 * Time::HiRes::time() - 60_000),
           '<', 5000, 'for the claim time');
    $a = $in->post;
    is(says($a, 200, 'entered', 'with the cookie: entered')->{token},
       $ready->{token}, 'by the same token');
    is_deeply([ $a->cookies ], [], 'and no other cookie');

    # no slot
    my $v = $new->();
    $a = $v->post;
    my $none = says($a, 202, 'none', 'no slot: no place');
    is_deeply([ @$none{qw(rank pollAfterMs userId)} ],
              [ undef, 1000, $v->id ], 'but to come again in a second');
    is($a->header('Retry-After'), 1, 'said twice');
    like(join(' ', $a->cookies), $cookie, 'with a cookie');
    is_deeply($line->waiting, [], 'nobody waits');
    $new->()->post for 1 .. 20;
    is_deeply($line->waiting, [], 'however often that is done');

    is(says($v->get, 404, 'none', 'the cookie alone')->{userId}, $v->id,
       'is a name, and no place');
    is(says($v->post, 202, 'waiting', 'POST with it')->{rank}, 0,
       'is the first');
    is(says($v->get, 200, 'waiting', 'GET')->{rank}, 0, 'knows it');
    is_deeply($line->waiting, [ $v->id ], 'in line');

    # the same line as the page's
    is($v->get('/cookie/shop/')->json->{rank}, 0, 'the gate knows it');
    my $s = $sse->open(path => '/cookie/stream',
                       headers => { Cookie => $v->cookie });
    $sse->run_until(sub { $s->events }, 10, 'a stream');
    is($s->rank, 0, 'has the same place');
    gone($in->ask('DELETE', undef), 'who is in goes');
    $sse->run_until(sub { $s->token }, 10, 'the next is in');
    says($v->post, 200, 'entered', 'by POST');
    is($v->get('/cookie/shop/')->body, "inside\n", 'and through the gate');
    gone($v->ask('DELETE', undef), 'goes');
    says($v->ask('DELETE', undef), 404, 'none', 'once');
    well($line);

    # closed: no use for a cookie, but it does no harm
    $line->set(closed => 1);
    says($new->()->post, 410, 'closed', 'who is new is told');



=== TEST 14: requests of all kinds
--- settings
    waiting_queue_capacity 1;
--- check
    my $line = line();

    # bodies are not looked at
    my $json = '{"userId":"somebody","scheduleId":7}';
    my %json = (headers => { 'Content-Type' => 'application/json' });

    is(says(api('POST', 'in', body => $json, %json), 200, 'entered',
            'JSON')->{userId}, 'in', 'which says nothing');
    for my $size (1, 5000, 100_000, 3_000_000) {
        is(says(api('POST', 'w', body => 'x' x $size), 202, 'waiting',
                "$size bytes")->{rank}, 0, 'thrown away');
    }
    says(api('GET', 'w', body => $json), 200, 'waiting', 'GET with a body');
    says(api('DELETE', 'x', body => $json), 404, 'none', 'DELETE with one');
    my $chunks = join '', map { sprintf "%x\r\n%s\r\n", length, $_ }
                              'a' x 10, 'b' x 70_000, 'c';
    says(api('POST', 'w', body => "${chunks}0\r\n\r\n",
             headers => { 'Transfer-Encoding' => 'chunked' }), 202, 'waiting',
         'chunks');
    is(api('POST', 'w', body => "xyz\r\n", headers => {
           'Transfer-Encoding' => 'chunked' })->status, 400, 'bad chunks');
    is(api('POST', 'w', body => '', headers => {
           'Content-Length' => 1_000_000_000 })->status, 413, 'a body too large');

    # one that comes late is not waited for, and the connection goes on
    my $head = "Host: localhost\r\n";
    my $p = visitor(jar => 0)->send('POST', '/api?user=w', headers => {
        'Content-Length' => 5000, Connection => undef });
    $p->until(qr/"pollAfterMs":\d+\}\n\z/);
    like($p->{in}, qr{^HTTP/1\.1 202 }, 'answered before the body is there');
    $p->{in} = '';
    $p->write('b' x 5000 . "GET /api?user=w HTTP/1.1\r\n$head"
              . "Connection: close\r\n\r\n");
    says($p->answer, 200, 'waiting', 'and the next is answered');

    # one that never comes
    $p = visitor(jar => 0)->send('POST', '/api?user=w', headers => {
        'Content-Length' => 5000, Connection => undef });
    $p->until(qr/"pollAfterMs":\d+\}\n\z/);
    $p->write('b' x 2000);
    $p->close;

    my $continue = api('POST', 'w', body => $json,
                       headers => { Expect => '100-continue' });
    like($continue->raw, qr{^HTTP/1\.1 100 .*^HTTP/1\.1 202 }ms,
         'Expect: 100-continue');

    # several at once on one connection
    my $raw = talk(join '', map { "$_->[0] /api?user=$_->[1] HTTP/1.1\r\n"
                                  . $head . ($_->[2] || '') . "\r\n"
                                  . ($_->[3] || '') }
                   [ POST => 'v', "Content-Length: 3\r\n", 'abc' ],
                   [ GET => 'v' ], [ HEAD => 'v' ], [ OPTIONS => 'v' ],
                   [ PUT => 'v' ], [ DELETE => 'v' ], [ GET => 'v' ],
                   [ POST => 'in', "Transfer-Encoding: chunked\r\n",
                     "3\r\nabc\r\n0\r\n\r\n" ],
                   [ GET => 'x', "Connection: close\r\n" ])->raw;
    is(join(' ', $raw =~ m{^HTTP/1\.1 (\d+)}mg),
       '202 200 200 204 405 204 404 200 404', 'pipelined, in their order');
    is_deeply($line->waiting, [ 'w' ], 'and carried out in it');

    # one after the other
    my @answers = many(map { ("POST /api?user=k$_ HTTP/1.1\r\n${head}"
                              . "Content-Length: 0\r\n") } 1 .. 60);
    is(scalar(grep { $_->status == 202 } @answers), 60, 'kept alive');

    my $old = talk("POST /api?user=in HTTP/1.0\r\n\r\n");
    says($old, 200, 'entered', 'HTTP/1.0');

    # HTTP/2
    my $url = "http://127.0.0.1:$ENV{TEST_NGINX_HTTP2_PORT}/api";
    my $h2 = sub {
        my ($method, $user, @options) = @_;
        my $curl = `curl -sig --http2-prior-knowledge -X $method @options \\
                    '$url?user=$user' --max-time 20`;
        my ($status) = $curl =~ m{^HTTP/2 (\d+)};
        return ($status || 'none') . ' '
               . ($curl =~ /"status":"(\w+)"/ ? $1 : '-');
    };
    is($h2->('POST', 'in'), '200 entered', 'HTTP/2: POST');

    # a body; curl shows nothing of an answer that comes before it has sent it
    my $http2 = WaitingQueue::Http2->new($sse, $ENV{TEST_NGINX_HTTP2_PORT});
    my $body = $http2->open('/api?user=w', 'late body', method => 'POST',
                            body => 1);
    $body->send('x' x 1000, 1);
    $sse->run_until(sub { $body->ended }, 10, 'HTTP/2: a body');
    is($body->status, 202, 'which is not looked at');
    like($body->body, qr/"status":"waiting"/, 'the answer is all there');
    is($h2->('GET', 'w'), '200 waiting', 'HTTP/2: GET of who came with one');
    is($h2->('PUT', 'w'), '405 -', 'HTTP/2: PUT');
    is($h2->('OPTIONS', 'w'), '204 -', 'HTTP/2: OPTIONS');
    is($h2->('DELETE', 'w'), '204 -', 'HTTP/2: DELETE');
    is($h2->('DELETE', 'w'), '404 none', 'HTTP/2: and again');
    is($h2->('GET', ''), '401 -', 'HTTP/2: nobody');

    # a body that is not waited for, and comes in the end
    my @late = map { $http2->open("/api?user=n$_", "late $_",
                                  method => 'DELETE', body => 1) } 1 .. 5;
    $late[0]->send('x' x 9000);
    $sse->run_until(sub { 5 == grep { $_->status } @late }, 10,
                    'HTTP/2: answered before the body is there');
    is(join(' ', map { $_->status } @late), '404 404 404 404 404', 'with none');
    $_->send('x' x 5000, 1) for @late;
    my $then = $http2->open('/api?user=n', 'late then');
    $sse->run_until(sub { $then->status }, 10, 'and the next is answered');
    is($then->status, 404, 'as it must');
    well($line);



=== TEST 15: Redis is frozen
--- redis
unix:$TEST_NGINX_REDIS_SOCKET timeout=1s
--- settings
    waiting_queue_capacity 1;
    waiting_queue_poll_timeout 2s;
--- config
    access_log logs/api.log;
--- check
    my $line = line();

    ready();
    my $in = api('POST', 'in')->json;
    api('POST', 'w');

    my $h2 = WaitingQueue::Http2->new($sse, $ENV{TEST_NGINX_HTTP2_PORT});
    $sse->run_for(0.1);
    stop_redis();

    # some go before they are answered, in all ways
    my $begun = Time::HiRes::time();
    my @gone = map { visitor(jar => 0)->send(@$_) }
                   map { ([ 'POST', "/api?user=g$_" ],
                          [ 'POST', "/api?user=b$_", body => 'x' x 100_000 ],
                          [ 'GET', '/api?user=w' ],
                          [ 'DELETE', "/api?user=g$_" ]) } 1 .. 5;
    my @h2 = map { $h2->open("/api?user=h$_", "h$_", method => 'POST') }
                 1 .. 10;
    my %stays = map { my ($method, $user) = @$_;
                      ("$method $user" => visitor(jar => 0)->send(
                          $method, "/api?user=$user")) }
                    [ POST => 'x' ], [ POST => 'in' ], [ GET => 'w' ],
                    [ GET => 'in' ], [ DELETE => 'nobody' ],
                    [ POST => 'y' ];
    my $half = visitor(jar => 0)->send('POST', '/api?user=half', headers => {
        'Content-Length' => 1000 });
    $sse->run_for(0.1);
    $_->close for @gone;
    $_->reset for @h2;
    $half->close;

    fails($_->[1]->answer, 503, 'redis_unavailable', $_->[0])
        for map { [ $_, $stays{$_} ] } sort keys %stays;
    cmp_ok(Time::HiRes::time() - $begun, '<', 5, 'within the time of a command');
    fails(api('POST', 'z'), 503, 'redis_unavailable', 'and afterwards');
    gone(api('OPTIONS', 'z'), 'for OPTIONS nobody is asked');
    says(visitor(jar => 0)->get('/cookie/api'), 404, 'none',
         'nor for nobody');
    cmp_ok(sum('apiUnavailable'), '>=', 7, 'counted');
    is(sum('streams') + sum('absent'), 0, 'nobody is held');

    # what was sent before may be carried out now, all of it or nothing
    wake_redis();
    ready();
    well($line, 'no half things');
    is(says(api('POST', 'in'), 200, 'entered', 'who was in is in')->{token},
       $in->{token}, 'with the token');
    my %left = map { $_ => 1 } @{$line->waiting};
    is(says(api('POST', 'x'), 202, 'waiting', 'who was refused')->{status},
       'waiting', 'comes again');
    is(scalar(grep { $_ eq 'x' } @{$line->waiting}), 1, 'and has one place');
    await('who does not leaves', sub {
        api('GET', $_) for qw(in x);
        "@{$line->waiting}" eq 'x';
    });
    is_deeply($line->inside, [ 'in' ], 'no slot is lost');
    well($line);

    my $s = $h2->open('/api?user=nobody', 'afterwards');
    $sse->run_until(sub { $s->status }, 10, 'the HTTP/2 connection goes on');
    is($s->status, 404, 'as it must');



=== TEST 16: Redis is not there
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- check
    for my $method (qw(POST GET DELETE)) {
        fails(api($method, 'u'), 503, 'redis_unavailable', $method);
        fails(api($method, 'u', body => 'x' x 50_000), 503,
              'redis_unavailable', "$method with a body");
    }
    my $a = api('HEAD', 'u');
    is($a->status . $a->body, '503', 'HEAD');
    like($a->header('Retry-After'), qr/^[1-5]$/, 'says when');
    $a = visitor(path => '/cookie/api')->post;
    fails($a, 503, 'redis_unavailable', 'who has no cookie');
    is_deeply([ $a->cookies ], [], 'gets none');
    my %after = map { api('GET', 'u')->header('Retry-After') => 1 } 1 .. 30;
    cmp_ok(scalar(keys %after), '>', 1, 'not all at once');
    fails(api('PUT', 'u'), 405, 'method_not_allowed');
    fails(api('GET', 'a%20b'), 400, 'bad_user_id');
    gone(api('OPTIONS', 'u'), 'OPTIONS');
    reaches('apiUnavailable', 38);

    my $redis = private_redis();
    my $line = line(redis => $redis);
    ready();
    is_deeply($line->call('KEYS', '*{e}*'), [], 'nothing was kept for later');
    says(api('POST', 'u'), 200, 'entered', 'and then it goes');
    well($line);

    # in the middle of it
    kill_redis();
    await('all workers know', sub {
        !grep { $_->{state} eq 'ready' } links(status());
    });
    fails(api('POST', 'u'), 503, 'redis_unavailable', 'who is in, by POST');
    is(visitor(jar => 0)->get('/shop/?user=u')->body, "inside\n",
       'but the gate knows what the API was told');



=== TEST 17: not as a part of another request
--- config
    location = /auth {
        auth_request /api;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location = /ssi {
        ssi on;
        ssi_types text/plain;
        default_type text/plain;
        root html;
        try_files /page.txt =404;
    }
    location = /mirror {
        mirror /api;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
--- user_files
>>> page.txt
before <!--# include virtual="/api?user=u" --> after
--- check
    for my $case ([ '/auth?user=u', 403, qr/403 Forbidden/ ],
                  [ '/ssi', 200, qr/before .* after\n\z/s ],
                  [ '/mirror?user=u', 200, qr/^inside\n\z/ ])
    {
        my ($path, $status, $body) = @$case;
        my $a = visitor(jar => 0)->get($path);

        is($a->status, $status, "$path: status");
        like($a->body, $body, "$path: body");
        unlike($a->body, qr/"status"|token/, 'nothing of a state');
    }

    my @refusals = grep { / \[error\] .*waiting_queue: the token API cannot be/ }
                        split /\n/, error_log();
    is(scalar @refusals, 3, 'each is logged');
    is(redis('KEYS', "$prefix*{e}*"), '', 'nothing is stored');
    is(sum('apiPolls') + sum('apiJoins'), 0, 'nothing was asked');



=== TEST 18: the capacity from the event service
--- settings
    waiting_queue_capacity uri=/seats;
--- config
    location = /seats {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVICE_PORT/$waiting_queue_event?$waiting_queue_user;
    }
--- check
    my $line = line();

    # who only asks does not make it asked
    says(api('GET', 'u1'), 404, 'none', 'GET of nobody');
    says(api('DELETE', 'u1'), 404, 'none', 'DELETE of nobody');
    ok(!IO::Select->new($service)->can_read(0.2), 'the service is not asked');

    # while it gives none
    my @pending = map { visitor(jar => 0)->send('POST', "/api?user=u$_") }
                      1 .. 20;
    serve('{}', '500 Oops');
    fails($_->answer, 503, 'capacity_unavailable', 'no capacity, no place')
        for @pending;
    fails(api('POST', 'u1'), 503, 'capacity_unavailable',
          'nor is it asked at once again');
    is(redis('KEYS', "$prefix*{e}*"), '', 'nothing is stored');
    reaches('apiUnavailable', 21);
    reaches('capacityAsked', 1);
    reaches('capacityFailed', 1);

    # many at once, and one of them goes
    @pending = await('another question', sub {
        my $first = visitor(jar => 0)->send('POST', '/api?user=u0');
        return $first if IO::Select->new($service)->can_read(0.2);
        fails($first->answer, 503, 'capacity_unavailable', 'not yet');
        return;
    });
    push @pending, map { visitor(jar => 0)->send('POST', "/api?user=u$_",
                                                 body => 'x' x 1000) } 1 .. 39;
    # they wait for the same answer
    $sse->run_for(0.2);
    (pop @pending)->close;
    my $question = serve('{"seatCount":2}');
    like($question, qr{^GET /e\?u\d+ HTTP}, 'the service is asked');
    unlike($question, qr/^Content-Length: [1-9]/mi, 'without a body');
    my %codes;
    $codes{$_->answer->status}++ for @pending;
    ok(!IO::Select->new($service)->can_read(0.2), 'once');
    reaches('capacityAsked', 2);
    # the one who has gone may have been one of the two
    cmp_ok($codes{200} || 0, '>=', 1, 'some are in');
    cmp_ok($codes{200} || 0, '<=', 2, 'but no more than there are slots');
    is($codes{200} + ($codes{202} || 0), 39, 'the others wait');
    is(scalar(@{$line->inside}), 2, 'two are inside');
    is($line->stat('capacity'), 2, 'as the service said');
    well($line);

    # what it said is kept
    says(api('GET', $line->waiting->[0]), 200, 'waiting', 'asking');
    says(api('POST', 'another'), 202, 'waiting', 'and joining');
    is(sum('capacityAsked'), 2, 'it is never asked again');



=== TEST 19: the operator's word, while it goes on
--- settings
    waiting_queue_capacity 2;
    waiting_queue_rate 100/100s;
    waiting_queue_ttl 1m;
--- check
    my $line = line();
    my $ends = sub { $line->snapshot->{active}{$_[0]}
                     - $line->snapshot->{now} };

    api('POST', "u$_") for 0 .. 9;
    is_deeply($line->inside, [ qw(u0 u1) ], 'two are in');
    is($line->slots, 0, 'no slot is free');

    # up: the difference, once
    $line->set(capacity => 5);
    await('three more', sub { @{$line->inside} == 5 });
    is_deeply([ $line->slots, $line->stat('capacity') ], [ 0, 5 ],
              'the slots are filled');
    is_deeply($line->waiting, [ map { "u$_" } 5 .. 9 ], 'from the head');
    says(api('GET', 'u4'), 200, 'ready', 'who asks is told');
    my $calls = sum('promoteCalls');
    await('more rounds', sub { sum('promoteCalls') > $calls + 5 });
    is(scalar(@{$line->inside}), 5, 'and it stays so');
    well($line, 'up');

    # down: nobody is sent out
    $line->set(capacity => 3);
    await('the new capacity', sub { $line->stat('capacity') == 3 });
    is($line->slots, -2, 'slots are owed');
    well($line, 'down');
    gone(api('DELETE', 'u0'), 'one goes');
    gone(api('DELETE', 'u1'), 'two go');
    is_deeply($line->inside, [ qw(u2 u3 u4) ], 'nobody comes in for them');
    is($line->slots, 0, 'nothing is owed any more');
    gone(api('DELETE', 'u2'), 'a third goes');
    is_deeply($line->inside, [ qw(u3 u4 u5) ], 'and is followed by the next');
    well($line, 'at the end of it');

    # no word: that of nginx.conf
    $line->call('HDEL', $line->key('WAITING_QUEUE_OVERRIDE'), 'capacity');
    await('the old capacity', sub { $line->stat('capacity') == 2 });
    is($line->slots, -1, 'as it was');
    $line->set(capacity => 3);
    await('and back', sub { $line->slots == 0 });

    # ttl: from the next use on
    says(api('POST', 'u3'), 200, 'entered');
    cmp_ok(abs($ends->('u3') - 60_000), '<', 3000, 'the ttl of nginx.conf');
    $line->set(ttl => 20_000);
    cmp_ok($ends->('u3'), '>', 50_000, 'the end stays');
    api('GET', 'u3');
    cmp_ok(abs($ends->('u3') - 20_000), '<', 3000, 'until it is used');
    $line->set(ttl => 200_000, ttl_max => 100_000);
    api('POST', 'u3');
    cmp_ok(abs($ends->('u3') - 100_000), '<', 5000, 'a cap counts as well');

    # paused: nobody in, everybody may wait, and there is no telling how long
    # (where all slots are taken the time is measured, and so not yet known)
    $line->set(capacity => 4);
    await('one more', sub { @{$line->inside} == 4 });
    $line->set(capacity => 5, paused => 1);
    await('a slot is free', sub { $line->slots == 1 });
    $calls = sum('promoteCalls');
    await('more rounds', sub { sum('promoteCalls') > $calls + 5 });
    is(scalar(@{$line->inside}), 4, 'paused: nobody comes in');
    my $w = says(api('POST', 'new'), 202, 'waiting', 'paused: one may come');
    is($w->{etaSeconds}, undef, 'but does not know how long it takes');
    is(api('GET', 'u7')->json->{etaSeconds}, undef, 'nor does who was there');
    gone(api('DELETE', 'u4'), 'who goes');
    is($line->slots, 2, 'leaves a slot');
    well($line, 'paused');
    $line->set(paused => 0);
    await('and on', sub { @{$line->inside} == 5 });
    await('a time', sub { defined api('GET', 'new')->json->{etaSeconds} });
    is($line->slots, 0, 'on: the slots are filled');
    well($line, 'on');

    # closed, for all who wait
    $line->set(closed => 1);
    says(api('GET', 'new'), 410, 'closed');
    says(api('POST', 'other'), 410, 'closed');
    says(api('GET', 'u3'), 200, 'entered', 'who is in is in');
    well($line, 'closed');



=== TEST 20: other settings come with the next poll
--- settings
    waiting_queue_capacity 1;
    waiting_queue_ttl 1m;
--- check
    # a single process cannot be reloaded
    pass('needs a master') if $workers == 1;

    if ($workers > 1) {
        my $line = line();
        my $conf = server_root() . '/conf/nginx.conf';

        api('POST', $_) for qw(in a b c);

        open my $in, '<', $conf or die "nginx.conf: $!";
        my $text = do { local $/; <$in> };
        $text =~ s/waiting_queue_capacity 1;/waiting_queue_capacity 3;/g
            or die 'no capacity';
        $text =~ s/waiting_queue_ttl 1m;/waiting_queue_ttl 10m;/g
            or die 'no ttl';
        open my $out, '>', $conf or die "nginx.conf: $!";
        print $out $text;
        close $out or die "nginx.conf: $!";

        my %old = map { $_->{pid} => 1 } @{status()->{processes}};
        reload();
        await('the new workers', sub {
            my $status = ready();
            !grep { $old{$_->{pid}} } @{$status->{processes}};
        });
        is($line->stat('capacity'), 1, 'a reload alone changes nothing');
        is_deeply($line->waiting, [ qw(a b c) ], 'nor the line');

        # of nobody it is not taken
        says(api('GET', 'nobody'), 404, 'none');
        is($line->stat('capacity'), 1, 'nor does somebody who is nobody');

        is(says(api('GET', 'c'), 200, 'waiting', 'one asks')->{rank}, 2,
           'and is told what was so');
        is($line->stat('capacity'), 3, 'the new capacity is there');
        await('two more', sub { @{$line->inside} == 3 });
        is_deeply($line->inside, [ qw(a b in) ], 'from the head');
        my $ends = api('GET', 'in')->json->{expiresAt};
        cmp_ok(abs($ends - 600_000 - $line->snapshot->{now}), '<', 3000,
               'and the new ttl');
        like(error_log(), qr/\[warn\].*settings/, 'which is logged');
        well($line);
    }



=== TEST 21: the figures
--- settings
    waiting_queue_capacity 3;
--- round
1s
--- check
    my $line = line();
    my @names = qw(capacity active freeSlots waiting joined direct promoted
                   entered left expired done sold seats drift reconciled);
    my $shows = sub {
        my ($what, %figures) = @_;

        local $Test::Builder::Level = $Test::Builder::Level + 1;
        my %shown;
        my $right = eval {
            await($what, sub {
                my $row = figures();
                %shown = map { $_ => $row->{$_} } keys %figures;
                !grep { ($shown{$_} // 'null') ne ($figures{$_} // 'null') }
                      keys %figures;
            });
        };
        ok($right, $what) or Test::More::diag(JSON::PP::encode_json(\%shown));
    };
    my %true = (reconciled => JSON::PP::true, drift => 0);
    my %false = (reconciled => JSON::PP::false);

    api('POST', $_) for qw(a b c d e);
    $shows->('five have come', %true, capacity => 3, active => 3,
             freeSlots => 0, waiting => 2, joined => 5, direct => 3,
             promoted => 0, entered => 3, left => 0, seats => undef);
    my $token = $line->token('a');
    $line->release('a');
    api('DELETE', 'e');
    $line->call('SET', $line->key('seat:count'), 7);
    $line->script('release', 'b', 'sold', 'seed', '', $line->token('b'),
                  'sold');
    $shows->('done, sold, gone', %true, capacity => 3, active => 2,
             freeSlots => 0, waiting => 0, promoted => 1, entered => 3,
             left => 1, done => 1, sold => 1, seats => 6);
    says(api('POST', 'd'), 200, 'entered');
    api('DELETE', 'd');
    $shows->('entered, and gone', %true, active => 1, entered => 4,
             left => 2, freeSlots => 1);

    # by hand: the next round says so, and has put it right
    my $slots = $line->key('ENTRY_QUEUE_SLOTS');
    my $rounds = sum('promoteCalls');
    await('a round is over', sub { sum('promoteCalls') > $rounds });
    $line->call('HSET', $slots, 'e', 99);
    $shows->('99 slots of 1: not reconciled', %false, drift => 98,
             freeSlots => 1);
    is($line->slots, 1, 'and mended');
    $shows->('reconciled', %true, freeSlots => 1);

    # with a stream it is seen before that
    api('POST', 'x');
    my $s = $line->join('y');
    $rounds = sum('promoteCalls');
    await('a round is over', sub { sum('promoteCalls') > $rounds });
    $line->call('HSET', $slots, 'e', -5);
    $shows->('less than there are', %false, drift => 5);
    $shows->('reconciled again', %true, freeSlots => 0);
    $line->call('HDEL', $line->key('ENTRY_LEASE'), 'x');
    $shows->('a lease that is lost', %false, drift => 1);
    says(api('GET', 'x'), 200, 'ready', 'is found by who holds it');
    $shows->('reconciled at last', %true, active => 2);
    well($line);

    my $prometheus = http('GET', '/prometheus')->{content};
    like($prometheus, qr/^waiting_queue_event_drift\{event="e"\} 0$/m,
         'in Prometheus too');
    like($prometheus, qr/^waiting_queue_event_seats\{event="e"\} 6$/m,
         'the seats');
    like($prometheus, qr/^waiting_queue_event_capacity\{event="e"\} 3$/m,
         'and the capacity');

    # what was asked here
    is_deeply([ map { sum($_) } qw(apiJoins apiPolls apiQuits
                                   apiUnavailable) ], [ 7, 1, 2, 0 ],
              'requests of each kind');
    api($_, 'nobody') for qw(GET HEAD DELETE OPTIONS PUT);
    is_deeply([ map { sum($_) } qw(apiJoins apiPolls apiQuits) ], [ 7, 3, 3 ],
              'HEAD is a poll, and OPTIONS is none');



=== TEST 22: from another site
--- config
    location = /cors/api {
        waiting_queue_api;
        waiting_queue_user $http_x_user;
        add_header Access-Control-Allow-Origin https://shop.example always;
        add_header Access-Control-Allow-Methods "GET, POST, DELETE" always;
        add_header Access-Control-Allow-Headers X-User always;
        add_header Access-Control-Expose-Headers Retry-After always;
    }
--- check
    my $line = line();
    my $ask = sub {
        my ($method, $user) = @_;
        return visitor(jar => 0)->ask($method, '/cors/api', headers => {
            Origin => 'https://shop.example',
            defined $user ? ('X-User' => $user)
            : ('Access-Control-Request-Method' => 'POST',
               'Access-Control-Request-Headers' => 'x-user') });
    };
    my $allowed = sub {
        my ($a, $what) = @_;
        is($a->header('Access-Control-Allow-Origin'), 'https://shop.example',
           "$what: the origin");
        is($a->header('Access-Control-Expose-Headers'), 'Retry-After',
           "$what: what it may see");
    };

    my $a = $ask->('OPTIONS');
    gone($a, 'the question before, of nobody');
    $allowed->($a, 'OPTIONS');
    is($a->header('Access-Control-Allow-Methods'), 'GET, POST, DELETE',
       'the methods');
    is($a->header('Access-Control-Allow-Headers'), 'X-User', 'the headers');

    my %codes = ('POST a' => 200, 'POST b' => 202, 'GET b' => 200,
                 'GET x' => 404, 'DELETE b' => 204, 'PUT b' => 405);
    for ('POST a', 'POST b', 'GET b', 'GET x', 'DELETE b', 'PUT b') {
        $a = $ask->(split / /);
        is($a->status, $codes{$_}, $_);
        $allowed->($a, $_);
    }
    $line->set(closed => 1);
    $a = $ask->('GET', 'x');
    is($a->status, 410, 'closed');
    $allowed->($a, 'closed');
    stop_redis();
    $a = $ask->('POST', 'y');
    is($a->status, 503, 'no Redis');
    $allowed->($a, 'no Redis');
    like($a->header('Retry-After'), qr/^[1-5]$/, 'and when to come again');



=== TEST 23: who has gone stays gone, also when the word comes late
--- settings
    waiting_queue_capacity 0;
--- check
    my $line = line();
    my $s = $line->join('u');
    my $idx = $line->idx('u');
    my $instance = $line->record('u')->{instanceId};

    # The message is on its way, and meanwhile Redis seems to have lost data:
    # the worker puts the place back, as it knows of nothing else.

    $line->script('quit', 'nobody', 'seed');
    $line->call('MULTI');
    $line->script('quit', 'u', 'seed');
    $line->call('XTRIM', "${prefix}ENTRY", 'MAXLEN', 0);
    $line->call('HSET', $line->key('WAITING_STATS'), 'epoch', 'another');
    $line->call('EXEC');
    $sse->run_until(sub { @{$line->waiting} }, 20, 'put back');

    $line->call('XADD', "${prefix}ENTRY", '*', type => 'expired',
                userId => 'u', eventId => 'e', instanceId => $instance,
                idx => $idx, token => '', expiresAt => 0, serial => 0);
    $sse->run_until(sub { $s->ended }, 20, 'then the word comes');
    is($s->last->{event}, 'expired', 'which the stream is told');
    $sse->run_until(sub { !@{$line->waiting} }, 20, 'and the place is given up');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 24: the cookie of who is sent by a page of another site
--- check
    my $line = line();
    my $v = visitor(path => '/cookie/api');
    my $sent = sub {
        my ($site, $mode, $dest) = @_;
        return (headers => { 'Sec-Fetch-Site' => $site,
                             'Sec-Fetch-Mode' => $mode,
                             'Sec-Fetch-Dest' => $dest });
    };
    my @form = $sent->('cross-site', 'navigate', 'document');

    # a slot is free, which is not for who seems to be new
    my $a = $v->post(undef, 'x', @form);
    fails($a, 403, 'cross_site', 'a form of another site');
    is_deeply([ $a->cookies ], [], 'sets no cookie');
    is(redis('KEYS', "$prefix*{e}*"), '', 'and stores nothing');

    says($v->post(undef, 'x', $sent->('same-origin', 'cors', 'empty')), 200,
         'ready', 'of the same site: let in');
    my $id = $v->id;
    says($v->post, 200, 'entered', 'and in');

    for my $fetch ([ 'navigate', 'document' ], [ 'no-cors', 'empty' ],
                   [ 'cors', 'empty' ], [ 'navigate', 'iframe' ],
                   [ 'junk', 'junk' ])
    {
        # which the browser sends without the cookie
        my %options = $sent->('cross-site', @$fetch);
        $options{headers}{Cookie} = undef;
        $a = $v->post(undef, 'x', %options);
        fails($a, 403, 'cross_site', "POST, @$fetch");
        is_deeply([ $a->cookies ], [], 'no cookie');
        for my $method (qw(GET DELETE)) {
            $a = $v->ask($method, undef, %options);
            says($a, 404, 'none', "$method, @$fetch");
            is_deeply([ $a->cookies ], [], 'no cookie');
        }
    }
    is($v->id, $id, 'the cookie is the same');
    says($v->get, 200, 'entered', 'and so is who is in');
    is_deeply($line->inside, [ $id ], 'nobody else');

    # the same of a stream, which would come again for ever
    my $open = sub {
        my ($site, $mode, $dest, $cookie) = @_;
        my %options = $sent->($site, $mode, $dest);
        $options{headers}{Cookie} = $cookie if $cookie;
        my $s = $sse->open(path => '/cookie/stream', %options);
        $sse->run_until(sub { $s->ended || $s->events }, 10, 'a stream');
        return $s;
    };
    my $s = $open->('cross-site', 'cors', 'empty');
    is($s->status, 403, 'is refused');
    is($s->json->{error}, 'cross_site', 'and told why');
    is($s->header('Set-Cookie'), undef, 'without a cookie');
    $a = visitor(path => '/cookie/stream')
        ->get(undef, $sent->('same-site', 'cors', 'empty'));
    is($a->status, 200, 'from a sibling: a stream');
    like($a->header('Set-Cookie'), qr/^wq_uid=/, 'with a cookie');
    is($open->('cross-site', 'cors', 'empty', $v->cookie)->names, 'promoted',
       'with one: whoever it is');

    # a program says nothing of where it is
    $a = visitor(path => '/cookie/api')->post;
    is(scalar($a->cookies), 1, 'without the header: as ever');
    says(visitor(jar => 0)->post('/api?user=a', 'x', @form), 202, 'waiting',
         'who has a name needs no cookie');
    well($line);
