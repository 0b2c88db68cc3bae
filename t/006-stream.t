# The stream is a contract with every browser and proxy there is: what comes
# back for which request, to the letter.  And whatever a request asks for that
# cannot be, the answer says so, nothing is stored, and nobody hangs.

use WaitingQueue::Test;
use WaitingQueue::Live;

use IO::Select;
use IO::Socket::INET;
use Time::HiRes ();
use WaitingQueue::Line;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;

my ($sse, $prefix, $redis_pid);

my $bad_event = error('bad_event_id', 'an event id is 1 to 128 of '
                                      . 'A-Z a-z 0-9 . _ ~ @ : -');
my $bad_user = error('bad_user_id', 'a user id is 1 to 128 of '
                                    . 'A-Z a-z 0-9 . _ ~ @ : -');
my $no_user = error('user_required', 'the waiting room does not know who you '
                                     . 'are');
my $no_method = error('method_not_allowed', 'this address does not have this '
                                            . 'method');
my $no_body = error('unexpected_body', 'a stream is asked for without a body');
my $no_redis = error('redis_unavailable', 'the waiting room is not available '
                                          . 'now, try again later');


# "--- check" runs after the request, as one test.  Each block has a prefix of
# its own, $prefix; "--- settings" are those of the usual location, at
# /events/<event>/tickets/waiting?user=<user>; "--- redis" is another Redis.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t006-$prefix:";

    $block->set_value('http_config', $text->('http_config') . '
    waiting_queue_redis ' . ($text->('redis')
                             || 'unix:$TEST_NGINX_REDIS_SOCKET') . ';
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    log_format line "$request_method $uri $status";
    log_format balanced "$remote_addr $status";
');
    $block->set_value('config', $text->('config') . '
    location = /status {
        waiting_queue_status;
        access_log off;
    }

    location ~ ^/events/(?<id>[^/]+)/tickets/waiting$ {
        waiting_queue_stream;
        waiting_queue_event $id;
        waiting_queue_user $arg_user;
        ' . $text->('settings')
          . ($text->('settings') =~ /_capacity/ ? ''
                                                : 'waiting_queue_capacity 1;')
          . '
    }
');
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t006-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());

        ready() if !defined $block->redis;

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        wake_redis();
        $sse->close_all;
        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
    });
});

plan tests => repeat_each() * (blocks() * 4);

redis('FLUSHALL');

run_tests();


END {
    # it would not take the signal that ends it
    wake_redis();
}


sub error {
    my ($error, $message) = @_;
    return qq({"error":"$error","message":"$message"}\n);
}


# line(event): its streams and what is in Redis of it

sub line {
    my ($event, %options) = @_;

    return WaitingQueue::Line->new(event => $event, prefix => $prefix,
                                   sse => $sse, %options);
}


# answer(path, options of Sse's open): to a request that gets no open stream

sub answer {
    my ($path, %options) = @_;

    my $s = $sse->open(path => $path, %options);

    $sse->run_until(sub { $s->ended }, 20)
        or fail("$path: no answer") || diag($sse->describe);

    return $s;
}


# refused(stream, status, body): in JSON

sub refused {
    my ($s, $status, $body, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    Test::More::subtest($what => sub {
        is($s->status, $status, 'status');
        is($s->header('Content-Type'), 'application/json', 'type');
        is($s->header('Cache-Control'), 'no-store', 'not to be cached');
        is($s->body, $body, 'body');
    });
}


# talk(bytes, pattern): what comes back, until it matches or ends

sub talk {
    my ($bytes, $pattern, %options) = @_;

    my $socket = $options{socket}
                 || IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                          PeerPort => server_port())
        or die "connect: $!\n";
    my $select = IO::Select->new($socket);
    my $end = Time::HiRes::time() + 20;
    my $answer = '';

    print $socket $bytes;
    $socket->flush;

    while ($answer !~ $pattern && Time::HiRes::time() < $end) {
        next if !$select->can_read(0.5);
        last if !sysread $socket, $answer, 65536, length $answer;
    }

    return wantarray ? ($answer, $socket) : $answer;
}


# all keys of the block, but for those of the workers and the promoter

sub keys_left {
    return [ grep { !/^\Q$prefix\E(?:DISPATCH:|WAITING_(?:INSTANCES|ORIGIN)$
                                     |PROMOTION_|ENTRY$)/x }
             sort split /\n/, redis('KEYS', "$prefix*") ];
}


sub sum {
    my ($counter) = @_;

    my $sum = 0;
    $sum += $_->{$counter} for @{status()->{processes}};
    return $sum;
}


# reaches(counter, number, what): a worker counts after it has written

sub reaches {
    my ($counter, $number, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $reached = eval {
        await($what, sub { sum($counter) == $number });
    };
    ok($reached, $what) or diag("$counter: " . sum($counter));
}


# descriptors of all workers; the one by which status() asks is among them

sub fds {
    my $n = 0;

    for my $process (@{status()->{processes}}) {
        opendir my $dir, "/proc/$process->{pid}/fd" or die "/proc: $!\n";
        $n += grep { /^\d+$/ } readdir $dir;
    }

    return $n;
}


# log_lines(file): of an access log

sub log_lines {
    my ($file) = @_;

    open my $log, '<', server_root() . "/logs/$file" or return;
    chomp(my @lines = <$log>);

    return @lines;
}


# a Redis that does not answer, and that does again

sub stop_redis {
    ($redis_pid) = redis('INFO', 'server') =~ /^process_id:(\d+)/m;
    kill 'STOP', $redis_pid or die "kill: $!\n";
}

sub wake_redis {
    kill 'CONT', $redis_pid if $redis_pid;
    undef $redis_pid;
}

__DATA__

=== TEST 1: the head and the first event, to the letter
--- config
    server_tokens off;
--- check
    my $line = line('e1');
    my $request = "GET /events/e1/tickets/waiting?user=%s HTTP/1.1\r\n"
                  . "Host: localhost\r\nAccept: text/event-stream\r\n\r\n";
    my $head = qr{HTTP/1\.1\ 200\ OK\r\n
                  Server:\ nginx\r\n
                  Date:\ [^\r\n]+\r\n
                  Content-Type:\ text/event-stream\r\n
                  Transfer-Encoding:\ chunked\r\n
                  Connection:\ close\r\n
                  Cache-Control:\ no-store\r\n
                  X-Accel-Buffering:\ no\r\n
                  \r\n}x;

    my ($in, $in_socket) = talk(sprintf($request, 'u1'), qr/\n\n\r\n\z/);
    my $token = $line->token('u1');
    my $ends = redis('ZSCORE', "${prefix}ENTRY_ACTIVE:{e1}", 'u1');

    like($in, qr/\A$head([0-9a-f]+)\r\nretry:\ ([0-9]{4})\n
                 event:\ promoted\n
                 data:\ \{"status":"ready","eventId":"e1","userId":"u1",
                 "rank":null,"waitingPosition":null,"aheadCount":null,
                 "total":0,"etaSeconds":null,"token":"$token",
                 "expiresAt":$ends\}\n\n\r\n\z/x, 'let in at once');

    my ($waits, $socket) = talk(sprintf($request, 'u2'), qr/\n\n\r\n\z/);

    like($waits, qr/\A$head([0-9a-f]+)\r\nretry:\ ([0-9]{4})\n
                    event:\ position\n
                    data:\ \{"status":"waiting","eventId":"e1","userId":"u2",
                    "rank":0,"waitingPosition":1,"aheadCount":0,"total":1,
                    "etaSeconds":null,"token":null,"expiresAt":null\}\n\n
                    \r\n\z/x, 'waits');

    my $third = talk(sprintf($request, 'u3'), qr/\n\n\r\n\z/);
    like($third, qr/"rank":1,"waitingPosition":2,"aheadCount":1,"total":2,/,
         'the next');

    # what follows is brief; the third has closed its connection, but has grace
    my $fourth = $line->join('u4');
    is($fourth->rank, 2, 'and the one after');
    my ($later) = talk('', qr/\n\n\r\n\z/, socket => $socket)
        if $line->release('u1');

    $token = $line->token('u2');
    $ends = redis('ZSCORE', "${prefix}ENTRY_ACTIVE:{e1}", 'u2');
    like($later, qr/\A[0-9a-f]+\r\nevent:\ promoted\n
                    data:\ \{"status":"ready","eventId":"e1","userId":"u2",
                    "rank":null,"waitingPosition":null,"aheadCount":null,
                    "total":\d+,"etaSeconds":null,"token":"$token",
                    "expiresAt":$ends\}\n\n\r\n\z/x, 'promoted later');

    $sse->run_until(sub { $fourth->count('position') == 2 }, 10, 'moved up');
    is($fourth->last('position')->{raw},
       '{"status":"waiting","rank":1,"waitingPosition":2,"aheadCount":1,'
       . '"total":2,"etaSeconds":null}', 'which is told briefly');



=== TEST 2: retry is spread over 3 to 6 seconds
--- check
    my $line = line('e');
    my %seen;

    for my $n (1 .. 20) {
        my $s = $line->join("u$n");
        my $retry = $s->first->{retry};
        cmp_ok($retry, '>=', 3000, 'at least 3 s');
        cmp_ok($retry, '<=', 6000, 'at most 6 s');
        $seen{$retry} = 1;
    }

    cmp_ok(scalar(keys %seen), '>', 5, 'not the same for all');



=== TEST 3: HTTP/1.0
--- check
    my $line = line('e');
    my ($in, $a, $b) = (
        $line->join('u0'),
        $line->join('u1', http => '1.0'),
        $line->join('u2', http => '1.0',
                    headers => { Connection => 'keep-alive' }),
    );

    for my $s ($a, $b) {
        is($s->version, '1.1', 'the version is the server\'s');
        is($s->header('Transfer-Encoding'), undef, 'not in chunks');
        is($s->header('Content-Length'), undef, 'without a length');
        is($s->header('Connection'), 'close', 'it ends with the connection');
    }

    $line->release('u0');
    $sse->run_until(sub { $a->last('promoted') && $b->rank == 0 }, 10,
                    'told');

    # the end
    $line->set(closed => 1);
    $sse->run_until(sub { $b->ended }, 10, 'it ends');
    is($b->last->{event}, 'closed', 'with the last word');
    is($b->ended, 'eof', 'and the connection');
    is($a->ended, undef, 'but not for who is in');



=== TEST 4: a stream has the method GET alone
--- check
    for my $method (qw(HEAD POST PUT DELETE OPTIONS PATCH PROPFIND)) {
        my $s = answer('/events/e/tickets/waiting?user=u', method => $method,
                       $method =~ /^P/ ? (body => 'a=b') : ());

        is($s->header('Allow'), 'GET', "$method: Allow");
        refused($s, 405, $method eq 'HEAD' ? '' : $no_method, $method);
    }

    is(answer('/events/e/tickets/waiting?user=u', method => 'TRACE')->status,
       405, 'TRACE');

    # the connection is good for more
    my $two = talk("POST /events/e/tickets/waiting HTTP/1.1\r\nHost: a\r\n"
                   . "Content-Length: 10\r\n\r\n0123456789"
                   . "GET /status HTTP/1.1\r\nHost: a\r\n"
                   . "Connection: close\r\n\r\n", qr/\]\}\n\z/);
    like($two, qr{^HTTP/1\.1 405 .*^HTTP/1\.1 200 OK}ms,
         'what was refused does not hold up the next');

    is_deeply(keys_left(), [], 'nothing is stored');
    is(sum('streamsOpened'), 0, 'no stream');



=== TEST 5: a stream is asked for without a body
--- check
    my $path = '/events/e/tickets/waiting?user=u';

    refused(answer($path, body => 'a'), 400, $no_body, 'one byte');
    refused(answer($path, body => 'x' x 300000), 400, $no_body, 'many');
    refused(answer($path, body => "5\r\nhello\r\n0\r\n\r\n",
                   headers => { 'Transfer-Encoding' => 'chunked' }),
            400, $no_body, 'chunks');
    refused(answer($path, body => "0\r\n\r\n",
                   headers => { 'Transfer-Encoding' => 'chunked' }),
            400, $no_body, 'chunks, but none');

    is_deeply(keys_left(), [], 'nothing is stored');

    my $s = line('e')->join('u', body => '');
    is($s->header('Content-Type'), 'text/event-stream',
       'a body of no length is none');
    is($s->names, 'promoted', 'and does not matter');



=== TEST 6: a subrequest gets none, and whoever made it does not hang
--- config
    location /internal-stream {
        waiting_queue_stream;
        waiting_queue_user u;
        waiting_queue_event e;
    }

    location = /auth {
        auth_request /internal-stream;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/status;
    }

    location = /ssi {
        ssi on;
        ssi_types text/plain;
        default_type text/plain;
        root html;
        try_files /page.txt =404;
    }

    location = /mirror {
        mirror /internal-stream;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/status;
    }
--- user_files
>>> page.txt
before <!--# include virtual="/internal-stream" --> after
--- check
    my @cases = (
        [ '/auth', 403, qr/403 Forbidden/ ],
        [ '/ssi', 200, qr/before .* after\n\z/s ],
        [ '/mirror', 200, qr/^\{"version"/ ],
    );

    for my $case (@cases) {
        my ($path, $status, $body) = @$case;
        my $answer = http('GET', $path);

        is($answer->{status}, $status, "$path: status");
        like($answer->{content}, $body, "$path: body");
        unlike($answer->{content}, qr/retry|event:/, 'nothing of a stream');
    }

    my @refusals = grep { / \[error\] .* waiting_queue: a stream cannot be a / }
                        split /\n/, error_log();
    is(scalar @refusals, 3, 'each is logged');

    is_deeply(keys_left(), [], 'nothing is stored');
    is(sum('streamsOpened'), 0, 'no stream');



=== TEST 7: not compressed, whatever is configured and asked for
--- config
    gzip on;
    gzip_types text/event-stream application/json;
    gzip_min_length 0;
    gzip_proxied any;
    gzip_http_version 1.0;
    gzip_comp_level 9;
--- check
    my $line = line('e');
    my %headers = ('Accept-Encoding' => 'gzip, deflate, br');

    my ($in, $s, $old) = (
        $line->join('u1', headers => \%headers),
        $line->join('u2', headers => \%headers),
        $line->join('u3', headers => { %headers, Via => '1.1 proxy' },
                    http => '1.0'),
    );

    is($_->header('Content-Encoding'), undef, 'as it is') for $in, $s, $old;

    $line->release('u1');
    $sse->run_until(sub { $s->last('promoted') && $old->rank == 0 }, 10,
                    'events come at once');

    # it is on, and works
    is(answer('/status', headers => \%headers)->header('Content-Encoding'),
       'gzip', 'what may be compressed is');

    $line->set(closed => 1);
    my $late = answer($line->path('u9'), headers => \%headers);
    is($late->header('Content-Encoding'), undef, 'nor is one of one event');
    is($late->names, 'closed', 'which can be read');



=== TEST 8: through a proxy that buffers and caches: neither
--- http_config
    proxy_cache_path html/cache keys_zone=cache:1m;
--- config
    location /proxied/ {
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/;
        proxy_http_version 1.1;
        proxy_buffering on;
        proxy_cache cache;
        # the user is not in it
        proxy_cache_key $uri;
        proxy_cache_valid any 10m;
        proxy_pass_header X-Accel-Buffering;
        add_header X-Cache $upstream_cache_status;
    }
--- check
    my $line = line('e', path => '/proxied/events/%e/tickets/waiting?user=%u');
    my ($in, @waits) = $line->joins(qw(u0 u1 u2));

    is($in->first->{data}{userId}, 'u0', 'one');
    is($waits[1]->first->{data}{userId}, 'u2', 'and another: not cached');
    is($waits[1]->header('X-Cache'), 'MISS', 'by a cache');

    # buffered, it would come when kilobytes are there
    $line->release('u0');
    $sse->run_until(sub { $waits[0]->last('promoted')
                          && $waits[1]->rank == 0 }, 10, 'not buffered');

    reaches('streams', 3, 'three streams');
    $_->close for $in, @waits;
    ok(await('none', sub { sum('streams') == 0 }),
       'the end is seen through the proxy');

    $line->set(closed => 1);
    for my $user (qw(u8 u9)) {
        my $s = answer($line->path($user));
        is($s->names, 'closed', 'closed');
        is($s->first->{data}{userId}, $user, 'for each his own');
    }



=== TEST 9: TCP_NODELAY is set, unless nginx is told not to
--- config
    location = /delay {
        error_log logs/delay.log debug;
        tcp_nodelay off;
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_user $arg_user;
    }

    location = /nodelay {
        error_log logs/nodelay.log debug;
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_user $arg_user;
    }
--- check
    for my $path (qw(/delay /nodelay)) {
        my $s = line('e', path => "$path?user=%u")->join('u');
        is($s->names, 'promoted', "a stream at $path");
        $s->close;
    }

    await('the end of both', sub {
        2 == grep { /client closed its stream of positions/ }
                  log_lines('delay.log'), log_lines('nodelay.log');
    });

    is(scalar(grep { /tcp_nodelay/ } log_lines('nodelay.log')), 1, 'set');
    is(scalar(grep { /tcp_nodelay/ } log_lines('delay.log')), 0, 'not set');



=== TEST 10: ids of events
--- config
    location = /arg {
        waiting_queue_stream;
        waiting_queue_event $arg_event;
        waiting_queue_user u;
    }

    location = /host {
        waiting_queue_stream;
        waiting_queue_user u;
    }
--- check
    for my $id ('a%20b', '%20', 'a%7Bb%7D', '%7Be%7D', 'a%0D%0Ab',
                'a%22b', '%5C', 'a%2Bb', 'a+b', 'a,b', 'a=b',
                '%C3%A9', 'a%25', 'a*', '$a', 'a' x 129, 'a' x 4000)
    {
        refused(answer("/events/$id/tickets/waiting?user=u"), 400, $bad_event,
                substr $id, 0, 200);
    }

    refused(answer('/arg'), 400, $bad_event, 'no event');
    refused(answer('/arg?event='), 400, $bad_event, 'an empty one');
    refused(answer('/arg?event=a%41'), 400, $bad_event, 'one that is escaped');
    refused(answer('/host', http => '1.0', headers => { Host => '[::1]' }),
            400, $bad_event, 'a host that is no id');

    # the event is looked at before the user
    refused(answer('/events/a+b/tickets/waiting?user='), 400, $bad_event,
            'neither is good');

    is_deeply(keys_left(), [], 'nothing is stored');

    for my $id ('A', 'azAZ09._~@:-', '~', '0', 'null', 'a' x 128) {
        my $s = line($id)->join('u');
        is($s->first->{data}{eventId}, $id, $id);
        is(redis('EXISTS', "${prefix}ENTRY_ACTIVE:{$id}"), 1, 'in its key');
    }

    my $s = $sse->open(path => '/events/a%41%7E/tickets/waiting?user=u');
    $sse->run_until(sub { $s->events }, 10, 'one that was escaped');
    is($s->first->{data}{eventId}, 'aA~', 'is what it means');



=== TEST 11: ids of users
--- config
    location = /header {
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_user $http_x_user;
    }
--- check
    for my $id ('a%41', 'a+b', 'a{b}', '"', "'", 'a,b', '%00', '%C3%A9',
                'a=b', 'a/b', '*', 'a' x 129)
    {
        refused(answer("/events/e/tickets/waiting?user=$id"), 400, $bad_user,
                $id);
    }

    for my $id ("a\tb", 'a b', "\xc3\xa9", '{"userId":"u"}', "a\x7f") {
        refused(answer('/header', headers => { 'X-User' => $id }), 400,
                $bad_user, 'by a header');
    }

    refused(answer("/events/e/tickets/waiting$_"), 401, $no_user,
            "nobody: $_") for '', '?', '?user', '?user=', '?user=&a=b';
    refused(answer('/header'), 401, $no_user, 'no header');

    is_deeply(keys_left(), [], 'nothing is stored');

    for my $id ('A', 'azAZ09._~@:-', '~', '0', 'null', 'a' x 128) {
        my $s = line('e' . length $id)->join($id);
        is($s->first->{data}{userId}, $id, $id);
    }



=== TEST 12: without waiting_queue_user a cookie is who you are
--- config
    location = /cookie {
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_capacity 1;
    }
--- check
    my $cookie = sub {
        my ($answer, $what) = @_;

        Test::More::subtest($what => sub {
            is($answer->{status}, 200, 'status');
            is($answer->{headers}{'content-type'}, 'text/event-stream',
               'a stream');
            is($answer->{headers}{'cache-control'}, 'no-store',
               'not to be cached');
            is($answer->{content},
               "retry: 1000\n: come again with the cookie\n\n",
               'which ends at once');
            like($answer->{headers}{'set-cookie'},
                 qr{^wq_uid=[0-9a-f]{32}; Path=/; HttpOnly; SameSite=Lax$},
                 'and issues a cookie');
        });

        return $answer->{headers}{'set-cookie'} =~ /^wq_uid=([0-9a-f]+);/;
    };

    my ($one) = $cookie->(http('GET', '/cookie'), 'a first visit');
    my ($two) = $cookie->(http('GET', '/cookie'), 'another');
    isnt($one, $two, 'it is not the same');

    my $good = '0123456789abcdef' x 2;

    $cookie->(http('GET', '/cookie', headers => { Cookie => $_ }), $_)
        for 'wq_uid=', 'wq_uid', 'wq_uid=' . substr($good, 1),
            "wq_uid=${good}0", 'wq_uid=' . uc $good, "wq_uid=\"$good\"",
            'wq_uid=' . 'g' x 32, 'wq_uid=' . '{' x 32, "xwq_uid=$good",
            "wq_uidx=$good", "a=wq_uid=$good", 'wq_uid=' . 'a' x 3000;

    is_deeply(keys_left(), [], 'nobody has taken a place');
    is(sum('streamsOpened'), 0, 'nor a stream');

    my $line = line('e', path => '/cookie');
    my $in = $line->join('u', headers => { Cookie => "wq_uid=$one" });

    is($in->names, 'promoted', 'who comes with the cookie is in');
    is($in->first->{data}{userId}, $one, 'by that name');
    is($in->header('Set-Cookie'), undef, 'and needs no other');
    is_deeply($line->inside, [ $one ], 'and takes a place');

    my $waits = $line->join('u', headers => {
        Cookie => "a=b; wq_uid=$two; c" });
    is($waits->names, 'position', 'among others');
    is_deeply($line->waiting, [ $two ], 'the second waits');

    my $again = $line->join('u', headers => {
        Cookie => "x=y;wq_uid=$two;wq_uid=$good" });
    is($again->first->{data}{userId}, $two, 'of two the first counts');
    $sse->run_until(sub { $waits->ended }, 10, 'the same user again');
    is($waits->last->{event}, 'replaced', 'replaces');

    # 405 and the like come first
    my $post = http('POST', '/cookie');
    is($post->{status}, 405, 'POST');
    is($post->{headers}{'set-cookie'}, undef, 'gets no cookie');



=== TEST 13: Last-Event-ID: over, and it is
--- check
    my $line = line('e');

    for my $name (qw(Last-Event-ID last-event-id LAST-EVENT-ID)) {
        my $s = answer($line->path('u'), headers => { $name => 'over' });
        is($s->status, 204, "204 for $name");
        is($s->header('Content-Length'), undef, 'without a body');
        is($s->header('Content-Type'), undef, 'of no type');
    }

    # among so many headers that nginx has them in several pieces
    is(answer($line->path('u'),
              headers => { 'Last-Event-ID' => 'over',
                           map { ("A-$_" => $_, "Z-$_" => $_) } 1 .. 60 })
       ->status, 204, 'wherever it stands');

    # it is the method and the body that are looked at first
    is(answer($line->path('u'), method => 'POST',
              headers => { 'Last-Event-ID' => 'over' })->status, 405, 'POST');

    is_deeply(keys_left(), [], 'nothing is stored');

    my ($in, $s) = $line->joins(qw(u1 u2));
    is(answer($line->path('u2'), headers => { 'Last-Event-ID' => 'over' })
       ->status, 204, 'also to one who has a place');
    is($line->rank('u2'), 0, 'which is kept');
    is($s->ended, undef, 'as is the stream');

    for my $id ('', 'Over', 'over1', 'ove', '1', '"over"') {
        my $other = $line->join('u3', headers => { 'Last-Event-ID' => $id });
        is($other->status, 200, "a stream for \"$id\"");
    }



=== TEST 14: full
--- settings
    waiting_queue_max_waiting 2;
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my ($in, $a, $b) = $line->joins(qw(u0 u1 u2));
    my $state = '{"status":"full","eventId":"e","userId":"u3","rank":null,'
                . '"waitingPosition":null,"aheadCount":null,"total":2,'
                . '"etaSeconds":null,"token":null,"expiresAt":null}' . "\n";

    my $s = answer($line->path('u3'));
    refused($s, 429, $state, 'one too many');
    is($s->header('Retry-After'), 5, 'who may come again');

    is_deeply($line->waiting, [ qw(u1 u2) ], 'the line is as it was');
    is($line->record('u3'), undef, 'without a record');

    is($line->join('u2')->names, 'position', 'who is in line may come again');

    $a->close;
    ok(await('a place', sub { @{$line->waiting} == 1 }), 'one leaves');
    is($line->join('u3')->names, 'position', 'and another may wait');



=== TEST 15: closed by the operator
--- settings
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my ($in, @waits) = $line->joins(qw(u0 u1 u2));

    # an event as a stream, for an EventSource shows nothing else
    my $closed = sub {
        my ($s, $user) = @_;
        is($s->last->{event}, 'closed', "$user: closed");
        is($s->last->{id}, 'over', 'and over');
        # others may have left the line before
        is($s->last->{raw} =~ s/"total":\d/"total":N/r,
           qq({"status":"closed","eventId":"e","userId":"$user","rank":null,)
           . '"waitingPosition":null,"aheadCount":null,"total":N,'
           . '"etaSeconds":null,"token":null,"expiresAt":null}', 'said so');
        is($s->ended, 'clean', 'and ended');
    };

    $line->set(closed => 1);
    $sse->run_until(sub { !grep { !$_->ended } @waits }, 10, 'the streams end');
    $closed->($waits[$_], 'u' . ($_ + 1)) for 0, 1;

    is($in->names, 'promoted', 'but not of who is in');
    is($in->ended, undef, 'which goes on');
    ok(await('an empty line', sub { !@{$line->waiting} }), 'the line is empty');

    my $late = answer($line->path('u3'));
    is($late->status, 200, 'a stream');
    $closed->($late, 'u3');
    is($late->last->{data}{total}, 0, 'nobody waits any more');

    is($line->join('u0')->names, 'promoted', 'who is in may come again');
    is_deeply([ $line->wrong ], [], 'and all is in order');

    $line->set(closed => 0);
    is($line->join('u1')->names, 'position', 'until it opens again');



=== TEST 16: sold out
--- settings
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my $seats = $line->key('seat:count');

    redis('SET', $seats, 1);
    my ($in, $waits) = $line->joins(qw(u0 u1));
    is($waits->names, 'position', 'there is a seat left');

    my $sold = sub {
        my ($s, $user, $total) = @_;
        is($s->last->{event}, 'sold_out', "$user: sold out");
        is($s->last->{id}, 'over', 'and over');
        is($s->last->{raw},
           qq({"status":"sold_out","eventId":"e","userId":"$user","rank":null,)
           . '"waitingPosition":null,"aheadCount":null,"total":' . $total
           . ',"etaSeconds":null,"token":null,"expiresAt":null}', 'said so');
        is($s->ended, 'clean', 'and ended');
    };

    redis('SET', $seats, 0);
    $sse->run_until(sub { $waits->ended }, 10, 'the stream ends');
    $sold->($waits, 'u1', 1);
    is($in->ended, undef, 'but not of who is in');
    ok(await('an empty line', sub { !@{$line->waiting} }), 'the line is empty');

    $sold->(answer($line->path('u2')), 'u2', 0);

    redis('DEL', $seats);
    is($line->join('u1')->names, 'position', 'where nobody counts, go on');



=== TEST 17: whatever leads to the location
--- config
    location = /named {
        error_page 404 = @stream;
        return 404;
    }

    location = /files {
        try_files /no/such/file @stream;
    }

    location = /redirected {
        rewrite ^ /events/e-redirected/tickets/waiting last;
    }

    location = /error {
        error_page 403 = /events/e-error/tickets/waiting?user=$arg_user;
        deny all;
    }

    location @stream {
        waiting_queue_stream;
        waiting_queue_event e$uri;
        waiting_queue_user $arg_user;
    }

    location = /second {
        waiting_queue_stream;
        waiting_queue_event $arg_event;
        waiting_queue_user $arg_user;
        waiting_queue_capacity 1;
    }

    location = /if {
        if ($arg_closed) {
            return 410;
        }
        if ($arg_who) {
            set $who $arg_who;
        }
        if ($arg_who) {
            add_header X-Who $who;
        }
        waiting_queue_stream;
        waiting_queue_event e-if;
        waiting_queue_user $arg_user;
    }

    location = /denied {
        deny all;
        waiting_queue_stream;
        waiting_queue_user u;
    }

    location = /headers {
        add_header X-Added yes;
        expires off;
        charset utf-8;
        limit_rate 1;
        waiting_queue_stream;
        waiting_queue_event e-headers;
        waiting_queue_user $arg_user;
        waiting_queue_capacity 1;
    }
--- check
    # an id has no slash
    refused(answer("/$_?user=u"), 400, $bad_event, "/$_ leads there")
        for qw(named files);

    is(line('e-redirected', path => '/redirected?user=%u')->join('u')->names,
       'promoted', 'a rewrite');
    is(answer('/denied')->status, 403, 'access is checked before');

    # two locations, one event
    my $in = line('both')->join('u1');
    my $line = line('both', path => '/second?event=%e&user=%u');
    is($line->join('u2')->names, 'position', 'a second location');
    is($line->join('u1')->names, 'promoted', 'of the same event');
    $sse->run_until(sub { $in->ended }, 10, 'the first stream ends');
    is($in->last->{event}, 'replaced', 'as it is the same user');

    my $if = line('e-if', path => '/if?who=me&user=%u')->join('u');
    is($if->names, 'promoted', '`if`');
    is($if->header('X-Who'), 'me', 'which was true');
    is(answer('/if?closed=1&user=u')->status, 410, 'a return in it');

    $line = line('e-headers', path => '/headers?user=%u');
    my ($one, $two, $three) = $line->joins(qw(u1 u2 u3));
    is($two->header('X-Added'), 'yes', 'add_header');
    $line->release('u1');
    $sse->run_until(sub { $two->last('promoted') && $three->rank == 0 }, 10,
                    'limit_rate does not matter');

    is(line('e-error', path => '/error?user=%u')->join('u')->names,
       'promoted', 'an error page');



=== TEST 18: limit_conn counts streams as long as they are open
--- http_config
    limit_conn_zone $arg_user zone=users:1m;
--- config
    limit_conn users 1;
    error_page 503 /sorry;

    location = /sorry {
        internal;
        return 503 "too many\n";
    }
--- check
    my $line = line('e');

    for my $round (1 .. 3) {
        my $s;

        # the last request of the round before may still be counted
        ok(await('a stream', sub {
            $s = $line->join('u1');
            $s->status == 200;
        }), 'the first');

        my $refused = answer($line->path('u1'));
        is($refused->status, 503, 'a second is refused');
        is($refused->body, "too many\n", 'with the page for it');
        is($s->ended, undef, 'and the first stays');

        is($line->join("other$round")->names, 'position', 'others may come');

        $s->close;
        ok(await('the end of it', sub {
            my $again = answer($line->path('u1'), method => 'HEAD');
            $again->status == 405;
        }), 'until it is closed');
    }



=== TEST 19: auth_request in front
--- config
    location = /who {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/service;
    }

    location = /service {
        if ($http_x_token = alice) {
            add_header X-User alice;
            return 204;
        }
        if ($http_x_token = odd) {
            add_header X-User "not an id";
            return 204;
        }
        if ($http_x_token = nobody) {
            return 204;
        }
        return 401;
    }

    location = /auth {
        auth_request /who;
        auth_request_set $user $upstream_http_x_user;
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_user $user;
        waiting_queue_capacity 1;
    }
--- check
    my $line = line('e', path => '/auth');
    my $s = $line->join('alice', headers => { 'X-Token' => 'alice' });

    is($s->names, 'promoted', 'in');
    is($s->first->{data}{userId}, 'alice', 'by the name auth_request gave');

    is(answer('/auth')->status, 401, 'refused');
    refused(answer('/auth', headers => { 'X-Token' => 'nobody' }), 401,
            $no_user, 'let through, but without a name');
    refused(answer('/auth', headers => { 'X-Token' => 'odd' }), 400,
            $bad_user, 'with a name that is no id');

    my $again = $line->join('alice', headers => { 'X-Token' => 'alice' });
    is($again->first->{data}{token}, $s->token, 'the same lease');
    $sse->run_until(sub { $s->ended }, 10, 'one stream');



=== TEST 20: what access_log has
--- http_config
    limit_conn_zone $arg_user zone=users:1m;
--- config
    access_log logs/line.log line;

    location = /held {
        # its request stays until the stream ends
        limit_conn users 10;
        waiting_queue_stream;
        waiting_queue_event held;
        waiting_queue_user $arg_user;
    }

    location = /balanced {
        # what realip ties to the request is no reason for it to stay
        set_real_ip_from 127.0.0.1;
        real_ip_header X-Forwarded-For;
        waiting_queue_stream;
        waiting_queue_event balanced;
        waiting_queue_user $arg_user;
        access_log logs/balanced.log balanced;
    }
--- settings
    waiting_queue_max_waiting 1;
--- check
    my $line = line('e');
    my ($in, $waits) = $line->joins(qw(u1 u2));

    is(answer($line->path('u3'))->status, 429, 'full');
    is(answer($line->path('u3'), method => 'POST')->status, 405, 'POST');
    is(answer('/events/a+b/tickets/waiting?user=u')->status, 400, 'no id');
    is(answer($line->path(''))->status, 401, 'nobody');

    my $held = line('held', path => '/held?user=%u')->join('u');
    my $balanced = line('balanced', path => '/balanced?user=%u')
                   ->join('u', headers => { 'X-Forwarded-For' => '192.0.2.7' });

    # a moment after the first event has come, while the stream is open
    await('a line', sub { log_lines('balanced.log') });
    is_deeply([ log_lines('balanced.log') ], [ '192.0.2.7 200' ],
              'a request that a stream has left is logged at once');
    ok($balanced->is_open, 'not when it ends');
    is_deeply([ grep { /held/ } log_lines('line.log') ], [],
              'one that it has not left is not');

    $_->close for $in, $waits, $held, $balanced;
    await('no streams', sub { sum('streams') == 0 });

    my $path = '/events/e/tickets/waiting';

    ok(await('all lines', sub { log_lines('line.log') >= 7 }), 'logged');
    is_deeply([ sort +log_lines('line.log') ],
              [ sort "GET $path 200", "GET $path 200", "GET $path 429",
                     "POST $path 405", "GET /events/a+b/tickets/waiting 400",
                     "GET $path 401", 'GET /held 200' ],
              'each once, with its status');



=== TEST 21: Redis is not there
--- redis
redis://127.0.0.1:1
--- config
    error_page 503 /sorry;

    location = /sorry {
        internal;
        return 503 "sorry\n";
    }
--- check
    # a worker that has yet to begin has no descriptors
    await('all workers', sub { @{status()->{processes}} == $workers });

    my $before = fds();
    my %retry;

    for my $n (1 .. 30) {
        my $from = Time::HiRes::time();
        my $s = answer("/events/e/tickets/waiting?user=u$n");
        cmp_ok(Time::HiRes::time() - $from, '<', 5, 'at once');

        # the answer is ours, also where there is a page for errors
        refused($s, 503, $no_redis, 'in JSON');
        like($s->header('Retry-After'), qr/^[1-5]$/, 'when to come again');
        $retry{$s->header('Retry-After')} = 1;
    }

    cmp_ok(scalar(keys %retry), '>', 1, 'which is spread');
    is(sum('joinsRefused'), 30, 'counted');
    is(sum('streamsOpened'), 0, 'no stream');

    ok(await('as many descriptors', sub { fds() <= $before + 2 * $workers }),
       'no descriptor is left');

    is(answer('/events/a+b/tickets/waiting?user=u')->status, 400,
       'what is wrong is wrong without Redis too');



=== TEST 22: Redis does not answer
--- settings
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my $in = $line->join('in');
    my $before = fds();

    stop_redis();

    my $from = Time::HiRes::time();
    my @streams = map { $line->open("u$_") } 1 .. 20;

    $sse->run_until(sub { !grep { !$_->ended } @streams }, 15,
                    'all get an answer');
    my $took = Time::HiRes::time() - $from;

    for my $s (@streams) {
        refused($s, 503, $no_redis, $s->name);
        like($s->header('Retry-After'), qr/^[1-5]$/, 'when to come again');
    }

    cmp_ok($took, '<', $ENV{WQ_TEST_FLAVOUR} =~ /asan/ ? 12 : 6,
           'after the time for a command');
    is($in->ended, undef, 'a stream that is open stays');

    wake_redis();
    ready();

    is($line->join('again')->status, 200, 'when it is back, all is well');

    # the calls of those who were refused may have been carried out
    ok(await('nobody else', sub { "@{$line->waiting}" eq 'again' }),
       'nobody is left who was refused');
    is_deeply($line->inside, [ 'in' ], 'nor inside');
    is_deeply([ $line->wrong ], [], 'all is in order');
    ok(await('as many descriptors', sub { fds() <= $before + 1 }),
       'no descriptor is left');



=== TEST 23: those who go before Redis has answered
--- settings
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my $in = $line->join('in');
    my $before = fds();

    stop_redis();

    my @streams = map { $line->open("u$_") } 1 .. 20;
    await('that nginx has them', sub {
        $sse->turn(0.01);
        fds() >= $before + @streams;
    });

    $_->close for @streams[0 .. 9];
    $_->reset for @streams[10 .. 19];

    ok(await('the end of them', sub { fds() <= $before }),
       'their end is seen at once');

    wake_redis();
    ready();

    ok(await('an empty line', sub { !@{$line->waiting} }), 'nobody waits');
    is($in->ended, undef, 'who is in stays');
    reaches('streams', 1, 'one stream');
    is_deeply([ $line->wrong ], [], 'all is in order');



=== TEST 24: on a connection that was used before, with headers of any length
--- http_config
    client_header_buffer_size 256;
    large_client_header_buffers 8 8k;
--- check
    my $line = line('e');
    my $status = "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n";
    my $stream = "GET /events/e/tickets/waiting?user=%s HTTP/1.1\r\n"
                 . "Host: localhost\r\n%s\r\n";
    my $long = join '', map { "X-$_: " . 'x' x (200 * $_) . "\r\n" } 1 .. 20;
    my $got = qr/\n\n\r\n\z/;

    my @cases = (
        [ 'a long head', sprintf $stream, 'u1', $long ],
        [ 'after another request', $status . sprintf $stream, 'u2', '' ],
        [ 'after several, long heads', join '',
          "GET /status HTTP/1.1\r\nHost: localhost\r\n$long\r\n" x 3,
          sprintf $stream, 'u3', $long ],
    );

    my @sockets;

    for my $case (@cases) {
        my ($what, $request) = @$case;
        my ($answer, $socket) = talk($request, $got);
        like($answer, qr/retry: \d+\nevent: (?:position|promoted)\n/, $what);
        push @sockets, $socket;
    }

    # one after the other
    my (undef, $socket) = talk($status, qr/\]\}\n/);
    my $answer = talk(sprintf($stream, 'u4', $long), $got, socket => $socket);
    like($answer, qr/"userId":"u4","rank":2,/, 'kept alive');

    $line->release('u1');
    like(talk('', $got, socket => $sockets[1]), qr/^event: promoted$/m,
         'and they are told');
    reaches('streams', 4, 'four streams');
