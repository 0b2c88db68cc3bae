# The gate decides who comes to the backend, on the address that the visitor
# asked for: with a lease one passes and sees nothing of it, without one gets
# what its client can read.  Cookies and headers are a contract, so they are
# compared to the letter; and a token is good for its event and its user, for
# its time, and for nobody else.

use WaitingQueue::Test;
use WaitingQueue::Live;

use File::Temp ();
use IO::Socket::INET;
use Time::HiRes ();
use WaitingQueue::Gate;
use WaitingQueue::Line;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;
my $certificate = File::Temp->newdir();

system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
       . " -keyout $certificate/key.pem -out $certificate/cert.pem"
       . " 2>$certificate/log") == 0 or die "openssl\n";

$ENV{TEST_NGINX_CERTIFICATE} = "$certificate";
$ENV{TEST_NGINX_INNER_PORT} = free_port();
$ENV{TEST_NGINX_TLS_PORT} = free_port();
$ENV{TEST_NGINX_HTTP2_PORT} = free_port();

my ($sse, $prefix);

my $page_type = 'text/html; charset=utf-8';
my $id = qr/[0-9a-f]{32}/;
my $token = qr/[0-9a-f]{40}/;
my $attributes = '; Path=/; HttpOnly; SameSite=Lax';


# "--- check" runs after the request, as one test.  /shop/ is for visitors with
# cookies, /named/?user= for those who have a name, /other/ and /other-named/
# are another event; "--- settings" are those of all of them.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };
    my $settings = $text->('settings')
                   . ($text->('settings') =~ /_capacity/
                      ? '' : 'waiting_queue_capacity 1;');

    my $gate = sub {
        my ($event, $more) = @_;
        return "{
        waiting_queue on;
        waiting_queue_event $event;
        $settings
        $more
        proxy_pass http://127.0.0.1:\$TEST_NGINX_INNER_PORT/;
    }";
    };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t011-$prefix:";

    my $locations = '
    location /shop/ ' . $gate->('e', '') . '
    location /named/ ' . $gate->('e', 'waiting_queue_user $arg_user;') . '
    location /other/ ' . $gate->('f', '') . '
    location /other-named/ ' . $gate->('f',
                                       'waiting_queue_user $arg_user;') . '
    location /any/ ' . $gate->('$arg_event',
                               'waiting_queue_user $arg_user;') . '
';

    $block->set_value('http_config', $text->('http_config') . '
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    server {
        listen 127.0.0.1:$TEST_NGINX_INNER_PORT;
        access_log logs/inner.log;
        location / {
            return 200 "inside $request_method $request_uri\n";
        }
    }
    server {
        listen 127.0.0.1:$TEST_NGINX_TLS_PORT ssl;
        listen 127.0.0.1:$TEST_NGINX_HTTP2_PORT http2;
        ssl_certificate $TEST_NGINX_CERTIFICATE/cert.pem;
        ssl_certificate_key $TEST_NGINX_CERTIFICATE/key.pem;
        ' . $locations . '
    }
');
    $block->set_value('config', $text->('config') . '
    server_tokens off;
    location = /status {
        waiting_queue_status;
        access_log off;
    }
' . $locations);
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t011-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());

        ready();

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        $sse->close_all;
        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
    });
});

plan tests => repeat_each() * (blocks() * 4);

worker_connections(2048);
redis('FLUSHALL');

run_tests();


sub free_port {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
        or die "no port: $!\n";
    return $socket->sockport;
}


# line(event): what is in Redis of it, and streams of the named at the gate

sub line {
    my ($event, %options) = @_;

    return WaitingQueue::Line->new(
        event => $event, prefix => $prefix, sse => $sse,
        path => ($event eq 'e' ? '/named/' : '/other-named/') . '?user=%u',
        %options);
}


# named(user): a visitor who needs no cookie, and returns none

sub named {
    my ($user, %options) = @_;
    return visitor(path => "/named/?user=$user", jar => 0, %options);
}


# inside(answer, what): it came from behind the gate

sub inside {
    my ($answer, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok($answer->status == 200 && $answer->body =~ /^inside /, $what)
        or diag($answer->raw);
}


# kept_back(answer, what): it did not, and nothing of that is in it

sub kept_back {
    my ($answer, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok($answer->status == 503 && $answer->raw !~ /inside /, $what)
        or diag($answer->raw);
}


# how many requests have come to the backend

sub arrived {
    my @lines = log_lines('inner.log');
    return scalar @lines;
}


# forged(token): one that looks the same

sub forged {
    my ($token) = @_;
    return substr($token, 0, -1) . ($token =~ /0$/ ? '1' : '0');
}

__DATA__

=== TEST 1: who waits and asks for nothing special gets JSON, to the letter
--- check
    my $line = line('e');

    inside(named('first')->get, 'a slot is free');

    my $a = named('u1')->get;
    my $body = '{"status":"waiting","eventId":"e","userId":"u1","rank":0,'
               . '"waitingPosition":1,"aheadCount":0,"total":1,'
               . '"etaSeconds":null,"token":null,"expiresAt":null}' . "\n";

    is($a->body, $body, 'the state');
    like($a->head, qr{\AHTTP/1\.1\ 503\ Service\ Temporarily\ Unavailable\r\n
                      Server:\ nginx\r\n
                      Date:\ [^\r\n]+\r\n
                      Content-Type:\ application/json\r\n
                      Content-Length:\ @{[length $body]}\r\n
                      Connection:\ close\r\n
                      Retry-After:\ 2\r\n
                      Cache-Control:\ no-store\z}x, 'and the head');

    is_deeply(named('u2')->get->json,
              { status => 'waiting', eventId => 'e', userId => 'u2',
                rank => 1, waitingPosition => 2, aheadCount => 1, total => 2,
                etaSeconds => undef, token => undef, expiresAt => undef },
              'the next stands behind');
    is(named('u1')->get->json->{total}, 2, 'who asks again sees both');
    is_deeply($line->waiting, [ qw(u1 u2) ], 'and has one place');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');
    is(arrived(), 1, 'only one came to the backend');
    reaches('gatePassed', 1);
    reaches('gateKeptBack', 3);

    $a = named('u1')->ask('HEAD');
    is($a->status, 503, 'HEAD');
    is($a->body, '', 'has no body');
    is($a->header('Content-Type'), 'application/json', 'but the same head');



=== TEST 2: the further behind, the later to ask again
--- check
    my $line = line('e');

    named('first')->get;
    $line->joins(map { "s$_" } 1 .. 9);
    is(named('u10')->get->header('Retry-After'), 2, 'the tenth');
    is(named('u11')->get->header('Retry-After'), 5, 'the eleventh');

    # the others of the first hundred need no connection
    named("v$_")->get for 12 .. 100;
    is(named('u101')->get->header('Retry-After'), 10, 'the hundred and first');
    is($line->rank('u101'), 100, 'that is where it stands');



=== TEST 3: a browser gets the page
--- check
    my $line = line('e');
    my %html = (headers => { Accept => 'text/html' });

    named('first')->get;

    my $a = named('u1', %html)->get;
    is($a->status, 503, 'the code');
    is($a->header('Content-Type'), $page_type, 'the type');
    is($a->header('Cache-Control'), 'no-store', 'not to be cached');
    is($a->header('Retry-After'), 2, 'when to come again');
    is($a->header('Vary'), 'Accept, Accept-Language', 'what it depends on');
    is($a->header('Content-Length'), length $a->body, 'all of it');
    is_deeply([ $a->cookies ], [], 'who has a name needs no cookie');
    is($a->names, 'Server Date Content-Type Content-Length Connection '
                  . 'Retry-After Vary Content-Security-Policy Cache-Control',
       'nothing else in the head');
    like($a->body, qr/\A<!DOCTYPE html>.*<\/html>\s*\z/s, 'a whole page');
    unlike($a->body, qr/\{\{/, 'nothing is left to fill in');
    like($a->body, qr/<html lang="en">/, 'in English');
    like($a->body, qr/data-status="waiting"/, 'who waits');
    like($a->body, qr/data-position="1"/, 'at the head of the line');
    like($a->body, qr/content="2"/, 'refreshes itself without a script');

    my ($policy) = $a->headers('Content-Security-Policy');
    like($policy, qr/^default-src 'none'; script-src 'sha256-[\w+\/]{43}=';/,
         'nothing but its own script');

    like(named('u2', %html)->get->body, qr/data-position="2"/, 'the next');
    is($line->rank('u2'), 1, 'has a place');

    my %lang = ('ko-KR,ko;q=0.9,en;q=0.8' => 'ko', 'ja' => 'ja', 'de' => 'en',
                'de, ja;q=0.5, ko;q=0.1' => 'ja', '' => 'en', '*' => 'en');

    for my $accepts (sort keys %lang) {
        like(named('u1')->get(undef, headers => {
                 Accept => 'text/html', 'Accept-Language' => $accepts })->body,
             qr/<html lang="$lang{$accepts}">/,
             "Accept-Language: $accepts");
    }

    $a = named('u1')->ask('HEAD', undef, headers => { Accept => 'text/html' });
    is($a->header('Content-Type'), $page_type, 'HEAD is like GET');
    is($a->body, '', 'without the page');

    # it is no version of what is behind the gate
    $a = named('u1')->get(undef, headers => {
        Accept => 'text/html', 'If-None-Match' => '*',
        'If-Modified-Since' => 'Fri, 01 Jan 2038 00:00:00 GMT',
        Range => 'bytes=0-9' });
    is($a->status, 503, 'neither unchanged nor a part');
    is($a->header('Content-Length'), length $a->body, 'but all');



=== TEST 4: what the client can read, on one address
--- check
    my %kind = (
        '*/*' => 'json', 'application/json' => 'json', '' => 'json',
        'application/json, text/plain, */*' => 'json',
        'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,'
            . 'image/webp,*/*;q=0.8' => 'html',
        'text/html' => 'html', 'TEXT/HTML' => 'html', 'text/*' => 'html',
        'text/html;q=0.5, application/json' => 'json',
        'application/json;q=0.5, text/html' => 'html',
        'application/xhtml+xml' => 'html',
        'image/png' => 'json', 'nonsense' => 'json',
        'text/html;q=0, */*' => 'json',
        'text/event-stream' => 'stream',
        'text/event-stream, text/html' => 'stream',
        'text/event-stream;q=0.1, text/html' => 'html',
        'text/event-stream;q=0' => 'json',
    );

    named('first')->get;

    for my $accept (sort keys %kind) {
        my $s = $sse->open(path => '/named/?user=u',
                           headers => { Accept => $accept,
                                        Connection => 'close' });
        $sse->run_until(sub { $s->events || $s->ended }, 20);

        my $type = $s->header('Content-Type') || 'none';

        is($type =~ m{^text/html;} && $s->status == 503 ? 'html'
           : $type eq 'application/json' && $s->status == 503 ? 'json'
           : $type eq 'text/event-stream' && $s->status == 200 ? 'stream'
           : $type, $kind{$accept}, "Accept: $accept");
        $s->close;
    }

    my $a = named('u')->get;
    is($a->header('Content-Type'), 'application/json', 'no Accept at all');
    is($a->header('Vary'), undef, 'JSON');
    is_deeply(line('e')->waiting, [ 'u' ], 'one place for all of that');
    is(arrived(), 1, 'and nothing came to the backend');



=== TEST 5: from the page to the stream to the backend, by cookies
--- check
    my $line = line('e');

    named('first')->get;

    my $v = visitor(path => '/shop/a?b=c');
    my $a = $v->get(undef, headers => { Accept => 'text/html' });

    kept_back($a, 'the first time');
    is(scalar($a->cookies), 1, 'one cookie');
    like(($a->cookies)[0], qr/\Awq_uid=$id\Q$attributes\E\z/, 'to the letter');
    like($a->body, qr/data-status="none"/, 'there is no place yet');
    is($a->header('Retry-After'), 1, 'and it should come soon');
    is_deeply($line->waiting, [], 'as nobody knows whether it returns it');

    my $u = $v->id;
    my %headers = (Cookie => $v->cookie);
    my $s = $sse->open(path => '/shop/a?b=c', headers => \%headers);
    $sse->run_until(sub { $s->last('position') }, 10, 'its EventSource');
    is($s->first->{data}{userId}, $u, 'is of the id in the cookie');
    is($s->header('Set-Cookie'), undef, 'which it has already');
    is_deeply($line->waiting, [ $u ], 'and now waits');

    # a tab that asks for the page again changes nothing
    $a = $v->get(undef, headers => { Accept => 'text/html' });
    like($a->body, qr/data-status="waiting".*data-position="1"/s,
         'a reload tells the place');
    is_deeply([ $a->cookies ], [], 'and gives no other cookie');
    is($s->ended, undef, 'the stream goes on');

    $line->release('first');
    $sse->run_until(sub { $s->last('promoted') }, 10, 'the slot is free');
    is($line->lease($u)->{state}, 'ready', 'promoted, not yet used');

    $a = $v->get(undef, headers => { Accept => 'text/html' });
    inside($a, 'the reload goes in');
    is($a->body, "inside GET /a?b=c\n", 'to what was asked for');
    is_deeply([ $a->cookies ],
              [ token_cookie('e') . '=' . $line->token($u) . $attributes ],
              'with the token');
    is($s->last('promoted')->{data}{token}, $line->token($u),
       'which is the one that was told');
    is($line->lease($u)->{state}, 'entered', 'and used now');

    $a = $v->get;
    inside($a, 'and again');
    is_deeply([ $a->cookies ], [], 'without a cookie that it has');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 6: an EventSource without a cookie gets one, and no place
--- check
    my $line = line('e');

    named('first')->get;

    my $a = visitor(path => '/shop/')->get(undef, headers => {
        Accept => 'text/event-stream' });
    is($a->status, 200, 'a stream');
    is($a->header('Content-Type'), 'text/event-stream', 'of that type');
    like($a->header('Set-Cookie'), qr/\Awq_uid=$id\Q$attributes\E\z/,
         'with the cookie');
    is($a->body, "retry: 1000\n: come again with the cookie\n\n",
       'which ends at once');
    is_deeply($line->waiting, [], 'nobody is in line');

    my ($cookie) = $a->header('Set-Cookie') =~ /^([^;]+)/;
    my $s = $sse->open(path => '/shop/', headers => { Cookie => $cookie });
    $sse->run_until(sub { $s->last('position') }, 10, 'with it there is one');
    is_deeply($line->waiting, [ $cookie =~ s/wq_uid=//r ], 'in line');



=== TEST 7: a first visit, while a slot is free
--- settings
    waiting_queue_ttl 10m claim=20s;
--- check
    my $line = line('e');
    my $v = visitor(path => '/shop/');
    my $before = $line->snapshot->{now};
    my $a = $v->get(undef, headers => { Accept => 'text/html' });
    my $name = token_cookie('e');

    inside($a, 'no wait');
    is($name, 'wq_efda7a5a', 'the name is the CRC of the event');
    is(scalar($a->cookies), 2, 'two cookies');
    like(($a->cookies)[0], qr/\Awq_uid=$id\Q$attributes\E\z/, 'who it is');
    like(($a->cookies)[1], qr/\A$name=$token\Q$attributes\E\z/, 'the token');

    my ($u, $t) = ($v->id, $v->token('e'));
    my $snap = $line->snapshot;

    is($line->token($u), $t, 'as in Redis');
    is($line->lease($u)->{state}, 'ready', 'the cookie may never come back');
    cmp_ok($snap->{active}{$u}, '>=', $before + 20_000, 'so it has');
    cmp_ok($snap->{active}{$u}, '<=', $snap->{now} + 20_000, 'the claim time');
    is(status()->{tokens}{known}, 0, 'and Redis is to hear of the next use');

    inside($v->get, 'it came back');
    $snap = $line->snapshot;
    is($line->lease($u)->{state}, 'entered', 'so it is a visit');
    cmp_ok($snap->{active}{$u}, '>', $before + 500_000, 'of full length');
    is($line->token($u), $t, 'by the same token');
    is(status()->{tokens}{known}, 1, 'which the node knows now');
    is(scalar(@{$line->inside}), 1, 'and one slot');

    # the next has none, and no place
    my $w = visitor(path => '/shop/');
    $a = $w->get;
    kept_back($a, 'the next visitor');
    is_deeply($a->json, { status => 'none', eventId => 'e',
                          userId => $w->id, rank => undef,
                          waitingPosition => undef, aheadCount => undef,
                          total => 0, etaSeconds => undef, token => undef,
                          expiresAt => undef }, 'is told so');
    is($a->header('Retry-After'), 1, 'and to come back');
    isnt($w->id, $u, 'by an id of its own');
    is($w->get->json->{status}, 'waiting', 'with the cookie it waits');
    is_deeply($line->waiting, [ $w->id ], 'in line');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 8: over TLS the cookies are Secure
--- check
    my $url = "https://127.0.0.1:$ENV{TEST_NGINX_TLS_PORT}/shop/";
    my $a = `curl -sik -H 'Accept: text/html' $url`;
    my @cookies = $a =~ /^set-cookie: ([^\r\n]+)\r$/mgi;

    like($a, qr/inside GET/, 'inside');
    is(scalar(@cookies), 2, 'two');
    like($_, qr/\A[^;]+\Q$attributes\E; Secure\z/, 'Secure') for @cookies;

    $a = `curl -sik -H 'Accept: text/event-stream' $url`;
    like($a, qr/^set-cookie: wq_uid=$id\Q$attributes\E; Secure\r$/mi,
         'that of the stream too');



=== TEST 9: ids are random, and who makes up one gets another
--- check
    my %seen;

    named('first')->get;

    for my $n (1 .. 50) {
        my $v = visitor(path => '/shop/');
        $v->get;
        $seen{$v->id}++;
    }

    is(scalar(keys %seen), 50, 'no two alike');

    # each bit is as often set as not: 1600 and some, of 6400
    my $bits = unpack '%32b*', pack 'H*', join '', keys %seen;
    cmp_ok(abs($bits - 3200), '<', 400, "random bits: $bits of 6400");

    for my $made_up ('', 'x', 'me', 'F' x 32, 'f' x 31, 'f' x 33, 'g' x 32,
                     '"' . 'f' x 32 . '"', "{\"userId\":\"x\"}",
                     'f' x 16 . ' ' . 'f' x 15, 'a' x 4000)
    {
        my $a = visitor(path => '/shop/', jar => 0)->get(undef, headers => {
            Cookie => "wq_uid=$made_up" });

        is($a->json->{status}, 'none', 'wq_uid=' . substr $made_up, 0, 40);
        like($a->header('Set-Cookie'), qr/\Awq_uid=$id;/, 'gets a good one');
    }

    is_deeply(line('e')->waiting, [], 'and nobody is in line');

    # a well-formed one is somebody, as an EventSource may have been given it
    is(visitor(path => '/shop/', jar => 0)->get(undef, headers => {
           Cookie => 'a=b; wq_uid=' . 'f' x 32 . '; c=d' })->json->{userId},
       'f' x 32, 'among other cookies');

    # [ name, cookies, whose they are: undef for a new one ]
    my $f = 'f' x 32;
    my @several = (
        [ 'in another header', [ 'a=b', 'c="d; e"', "wq_uid=$f" ], $f ],
        [ 'behind those that have none', [ 'wq_uid', '', "wq_uid=$f" ], $f ],
        [ 'the first counts', [ "wq_uid=$f", 'wq_uid=' . 'e' x 32 ], $f ],
        [ 'good or not', [ 'wq_uid=x', "wq_uid=$f" ], undef ],
        [ 'without regard to case and spaces', [ "a=b;  WQ_Uid = $f" ], $f ],
    );

    for my $case (@several) {
        my ($name, $cookies, $user) = @$case;
        my $a = visitor(path => '/shop/', jar => 0)->get(undef, headers => {
            Cookie => $cookies });
        my @fields = map { /^$/ ? () : "-H 'cookie: $_'" } @$cookies;
        my $url = "http://127.0.0.1:$ENV{TEST_NGINX_HTTP2_PORT}/shop/";
        my $h2 = `curl -s --http2-prior-knowledge @fields $url`;

        for my $got ([ $name, $a->body ], [ "$name, in HTTP/2", $h2 ]) {
            my ($said) = $got->[1] =~ /"userId":"($id)"/;

            defined $user ? is($said, $user, $got->[0])
                          : isnt($said || $f, $f, $got->[0]);
        }
    }



=== TEST 10: the token by cookie, by header, or by nothing but the name
--- settings
    waiting_queue_capacity 3;
--- check
    my $line = line('e');
    my $name = token_cookie('e');

    my $a = named('u')->get;
    inside($a, 'let in');
    is_deeply([ $a->cookies ], [ "$name=" . $line->token('u') . $attributes ],
              'the cookie');

    my $t = $line->token('u');

    for my $with ({ Cookie => "$name=$t" }, { Cookie => "a=1; $name=$t; b=2" },
                  { 'X-Waiting-Queue-Token' => $t },
                  { 'x-waiting-queue-token' => $t, Cookie => "$name=other" })
    {
        $a = named('u')->get(undef, headers => $with);
        inside($a, join ' ', %$with);
        is_deeply([ $a->cookies ], [], 'has what it needs');
    }

    # without: found by the id, and given again
    $a = named('u')->get;
    inside($a, 'without');
    is_deeply([ $a->cookies ], [ "$name=$t$attributes" ], 'is given again');

    is(sum('tokensRefused'), 0, 'none was refused');
    is_deeply($line->inside, [ 'u' ], 'one slot for all of that');
    is($line->token('u'), $t, 'and one token');



=== TEST 11: a token is of one user and one event
--- settings
    waiting_queue_capacity 2;
--- check
    my ($e, $f) = (line('e'), line('f'));

    inside(named('u')->get, 'u is in');
    inside(named('v')->get, 'v is in');
    inside(named('a', path => '/other-named/?user=a')->get, 'a, of f');

    my $refused = 0;
    my $try = sub {
        my ($what, $user, $value) = @_;

        for my $headers ({ Cookie => token_cookie('e') . "=$value" },
                         { 'X-Waiting-Queue-Token' => $value })
        {
            my $a = named($user)->get(undef, headers => $headers);

            kept_back($a, "$what, by $_") for keys %$headers;
            is($a->json->{status}, 'waiting', 'has to wait');
            unlike($a->raw, qr/$value/, 'and is not told of it');
        }
        reaches('tokensRefused', $refused += 2);
    };

    $try->('of another user', 'x', $e->token('u'));
    $try->('of another event', 'y', $f->token('a'));
    $try->('forged', 'z', forged($e->token('u')));
    $try->('made up', 'z', '0' x 40);

    # known to the node or not makes no difference
    is_deeply($e->waiting, [ qw(x y z) ], 'they wait as any other');

    # that of somebody else does not lock out who is in by itself
    my $a = named('v')->get(undef, headers => {
        'X-Waiting-Queue-Token' => $e->token('u') });
    inside($a, 'who is in');
    is_deeply([ $a->cookies ],
              [ token_cookie('e') . '=' . $e->token('v') . $attributes ],
              'gets its own');
    is_deeply($e->inside, [ qw(u v) ], 'those who are in');

    # no token at all, by its form: nobody asks Redis
    $refused = sum('tokensRefused');
    for my $bad ('', '0', 'x' x 40, 'A' x 40, '0' x 39, '0' x 41, '0' x 4000,
                 '{"a":1}', '%00' x 13 . '0')
    {
        $a = named('x')->get(undef, headers => {
            Cookie => token_cookie('e') . "=$bad" });
        kept_back($a, 'cookie of ' . substr $bad, 0, 40);
        $a = named('x')->get(undef, headers => {
            'X-Waiting-Queue-Token' => $bad });
        kept_back($a, 'header of ' . substr $bad, 0, 40);
    }
    is_deeply([ $e->wrong ], [], 'all is well in Redis');



=== TEST 12: two cookies for two events, side by side
--- check
    my ($e, $f) = (line('e'), line('f'));
    my $v = visitor(path => '/shop/');

    inside($v->get, 'one event');
    my $id = $v->id;
    inside($v->get('/other/'), 'the other');
    is($v->id, $id, 'one id');
    isnt($v->token('e'), $v->token('f'), 'two tokens');
    inside($v->get, 'the one again');
    inside($v->get('/other/'), 'the other again');
    is($v->token('e'), $e->token($id), 'that of the one');
    is($v->token('f'), $f->token($id), 'that of the other');
    is_deeply([ $e->inside, $f->inside ], [ [ $id ], [ $id ] ],
              'a slot in each');

    my $w = visitor(path => '/shop/');
    $w->get;
    $w->{cookies}{token_cookie('e')} = $v->token('f');
    kept_back($w->get, 'one does not open the other');



=== TEST 13: a lease that has lapsed is none
--- settings
    waiting_queue_ttl 1s claim=1s;
--- check
    my $line = line('e');
    my $v = visitor(path => '/named/?user=u');

    inside($v->get, 'in');
    my $t = $v->token('e');
    my $s = $line->join('w');
    $sse->run_until(sub { $s->last('promoted') }, 10,
                    'over, and the next is in');

    my $refused = sum('tokensRefused');
    my $a = $v->get;
    kept_back($a, 'the token is of the past');
    is($a->json->{status}, 'waiting', 'and its user waits');
    is(sum('tokensRefused'), $refused + 1, 'counted');

    # it gets in again, with another
    await('its turn', sub { $v->get->status == 200 });
    isnt($v->token('e'), $t, 'by another token');
    is($v->token('e'), $line->token('u'), 'which the browser has');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 14: a lease that is taken back is none, within a second or so
--- check
    my $line = line('e');
    my $v = visitor(path => '/named/?user=u');

    inside($v->get, 'in');
    inside($v->get, 'and again');

    # by the operator, and somebody else gets it
    $line->set(paused => 1);
    is($line->release('u'), 1, 'taken back');

    my $a = await('the node has heard', sub {
        my $a = $v->get;
        $a->status == 503 && $a;
    });
    is($a->json->{status}, 'waiting', 'it waits');
    cmp_ok(sum('tokensRefused'), '>=', 1, 'its token is refused');
    is_deeply($line->inside, [], 'nobody is in');



=== TEST 15: use renews the lease, up to the hard cap
--- settings
    waiting_queue_ttl 4s max=6s claim=4s;
--- check
    my $line = line('e');
    my $v = visitor(path => '/named/?user=u');

    inside($v->get, 'in');

    my $first = $line->snapshot->{active}{u};
    my $cap = $line->lease('u')->{since} + 6000;
    my $last = $first;

    cmp_ok($first, '<=', $cap - 2000, 'a lease of the usual length');

    # goes on asking: the lease grows, and ends at the cap
    my $t = $line->token('u');

    await('the end', sub {
        my $snap = $line->snapshot;
        my $ends = $snap->{active}{u};

        return 1 if !defined $ends || ($line->token('u') || '') ne $t;

        $last = $ends;
        $v->get;
        return;
    });

    cmp_ok($last, '>', $first, 'it was renewed');
    is($last, $cap, 'up to the cap, and not above');
    cmp_ok($line->snapshot->{now}, '>=', $cap, 'it was not over before');

    await('it is taken back', sub { $line->stat('expired') >= 1 });
    inside($v->get, 'and then there is another');
    isnt($line->token('u'), $t, 'by another token');



=== TEST 16: thirty pictures are one question
--- check
    my $line = line('e');
    my $v = visitor(path => '/named/?user=u');
    my ($passed, $asked, $ends) = (0, 0, '');

    # Redis renews the lease with each question: so they can be counted
    my $look = sub {
        my $now = $line->snapshot->{active}{u};
        $asked++ if $now ne $ends;
        $ends = $now;
    };

    inside($v->get, 'in');
    $passed++;
    $look->();

    # a busy machine may take longer than a second for it, but not every time
    await('many in one second', sub {
        my $before = $asked;

        for (1 .. 30) {
            $v->get('/named/picture?user=u')->status == 200 and $passed++;
            $look->();
        }
        $asked - $before <= 3;
    });

    is($passed % 30, 1, 'all were let in');
    cmp_ok($asked, '<', $passed / 2, "$asked questions for $passed requests");
    reaches('gatePassed', $passed);
    reaches('gateRemembered', $passed - $asked,
            'whichever worker got them, they knew');
    is(arrived(), $passed, 'each came to the backend');
    is(status()->{tokens}{known}, 1, 'there is one token');
    cmp_ok(status()->{tokens}{room}, '>', 1000, 'and room for many');
    is(status()->{tokens}{evicted}, 0, 'none had to go');

    # and a second later Redis is asked again
    await('the next question', sub {
        $v->get;
        $line->snapshot->{active}{u} ne $ends;
    });
    pass('it is asked again');



=== TEST 17: what is full, sold out or closed, and the code of each
--- settings
    waiting_queue_capacity 1;
    waiting_queue_max_waiting 1;
--- check
    my $line = line('e');
    my %html = (headers => { Accept => 'text/html' });

    inside(named('in')->get, 'one is in');
    is(named('w')->get->status, 503, 'one waits');

    my $a = named('x')->get;
    is($a->status, 429, 'full');
    is($a->json->{status}, 'full', 'it says so');
    is($a->header('Retry-After'), 5, 'later');
    $a = named('x', %html)->get;
    is($a->status, 429, 'the page of it');
    like($a->body, qr/data-status="full"/, 'says so too');
    is(visitor(path => '/shop/')->get->status, 429, 'for a new one as well');

    $line->set(closed => 1);
    for my $who (named('x'), visitor(path => '/shop/')) {
        $a = $who->get;
        is($a->status, 410, 'closed');
        is($a->json->{status}, 'closed', 'it says so');
        is($a->header('Cache-Control'), 'no-store', 'and may open again');
        is($a->header('Retry-After'), 60, 'in a while');
    }
    like(named('x', %html)->get->body, qr/data-status="closed"/, 'the page');
    inside(named('in')->get, 'who is in stays in');
    is(named('w')->get->json->{status}, 'closed', 'who waits is told');

    $line->set(closed => 0);
    is(named('w')->get->json->{status}, 'waiting', 'open again: in line');
    $line->call('SET', $line->key('seat:count'), 0);
    is(named('w')->get->json->{status}, 'sold_out', 'who waits is told');
    $a = named('x')->get;
    is($a->status, 410, 'sold out');
    is($a->json->{status}, 'sold_out', 'it says so');
    like(named('x', %html)->get->body, qr/data-status="sold_out"/,
         'the page');
    is_deeply($line->waiting, [], 'nobody is in line any more');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 18: names that are none
--- check
    my %why = (
        '/any/?event=e' => [ 401, 'user_required' ],
        '/any/?event=e&user=' => [ 401, 'user_required' ],
        '/any/?event=e&user=a%20b' => [ 400, 'bad_user_id' ],
        '/any/?event=e&user=a/b' => [ 400, 'bad_user_id' ],
        '/any/?event=e&user={u}' => [ 400, 'bad_user_id' ],
        '/any/?event=e&user=' . 'u' x 129 => [ 400, 'bad_user_id' ],
        '/any/?user=u' => [ 400, 'bad_event_id' ],
        '/any/?event=&user=u' => [ 400, 'bad_event_id' ],
        '/any/?event={e}&user=u' => [ 400, 'bad_event_id' ],
        '/any/?event=%00&user=u' => [ 400, 'bad_event_id' ],
        '/any/?event=' . 'e' x 129 . '&user=u' => [ 400, 'bad_event_id' ],
    );

    for my $path (sort keys %why) {
        for my $accept ('text/html', 'application/json', 'text/event-stream') {
            my $a = visitor(path => $path)->get(undef, headers => {
                Accept => $accept });
            my ($status, $error) = @{$why{$path}};

            is($a->status, $status, substr "$accept: $path", 0, 60);
            is($a->json->{error}, $error, $error);
            is($a->header('Cache-Control'), 'no-store', 'not to be cached');
        }
    }

    is(arrived(), 0, 'nothing came to the backend');
    is(redis('KEYS', "${prefix}WAITING*{*"), '', 'nothing is in Redis');
    is(visitor(path => '/any/?event=' . 'e' x 128 . '&user=' . 'u' x 128)
           ->get->status, 200, 'as long as can be');



=== TEST 19: the gate is for the method, too
--- check
    my $line = line('e');

    inside(named('in')->get, 'one is in');

    # a page that opens a stream asks for GET; who waits has one place for all
    for my $method (qw(POST PUT DELETE PATCH OPTIONS MKCOL)) {
        my $a = named('u')->ask($method, undef, body => 'x' x 1000);
        is($a->status, 503, "$method waits");
        is($a->json->{status}, 'waiting', 'like any other');

        $a = named('u')->ask($method, undef, body => 'x', headers => {
            Accept => 'text/html' });
        like($a->body, qr/data-method="$method"/, 'the page knows of it');

        $a = named('in')->ask($method, undef, body => 'x' x 1000);
        is($a->body, "inside $method /?user=in\n", 'who is in passes with it');
    }

    my $a = named('u')->ask('POST', undef, body => '', headers => {
        Accept => 'text/event-stream' });
    is($a->status, 405, 'but a stream is asked for with GET');
    is($a->header('Allow'), 'GET', 'it says so');
    is_deeply($line->waiting, [ 'u' ], 'one place');



=== TEST 20: from a page of another site no cookie comes, and none goes back
--- check
    my $line = line('e');

    # what browsers say with each request, over TLS
    my $sent = sub {
        my ($site, $mode, $dest, %more) = @_;
        return (headers => { 'Sec-Fetch-Site' => $site,
                             'Sec-Fetch-Mode' => $mode,
                             'Sec-Fetch-Dest' => $dest, %more });
    };
    my %html = (Accept => 'text/html,application/xhtml+xml,*/*;q=0.8');
    my @top = ('navigate', 'document', %html);
    my @form = ('Content-Type' => 'application/x-www-form-urlencoded',
                Origin => 'https://evil.example');

    # a slot is free, and nobody is new who only seems so
    my $a = visitor(path => '/shop/')->post(undef, 'x=y',
                                            $sent->('cross-site', @top, @form));
    kept_back($a, 'a form of another site');
    is_deeply([ $a->cookies ], [], 'sets no cookie');
    like($a->body, qr/data-status="none"/, 'but brings the page');
    is($a->header('Retry-After'), 1, 'which asks again, from here');
    is_deeply([ $line->keys ], [], 'no place, no lease, nothing');

    # a first visit by a link has its cookies, whatever the site
    my $in = visitor(path => '/shop/');
    $a = $in->get(undef, $sent->('cross-site', @top, 'Sec-Fetch-User' => '?1',
                                 Referer => 'https://news.example/'));
    inside($a, 'a link of another site');
    is(scalar($a->cookies), 2, 'brings both cookies');
    inside($in->get(undef, $sent->('same-origin', @top)), 'which are good');

    # one who waits loses nothing by another's page
    my $v = visitor(path => '/shop/');
    $v->get(undef, $sent->('none', @top));
    $v->get(undef, $sent->('same-origin', @top));
    is_deeply($line->waiting, [ $v->id ], 'one waits');

    my ($id, $idx) = ($v->id, $line->idx($v->id));
    my @pages = (
        [ 'a form', 403, POST => 'navigate', 'document' ],
        [ 'a form, the page', 503, POST => @top ],
        [ 'a picture', 403, GET => 'no-cors', 'image' ],
        [ 'a script', 403, GET => 'no-cors', 'script' ],
        [ 'fetch', 403, GET => 'cors', 'empty' ],
        [ 'fetch, PUT', 403, PUT => 'cors', 'empty' ],
        [ 'an EventSource', 403, GET => 'cors', 'empty',
          Accept => 'text/event-stream' ],
        [ 'a frame', 503, GET => 'navigate', 'iframe', %html ],
        [ 'an object', 503, GET => 'navigate', 'object', %html ],
        [ 'a WebSocket', 403, GET => 'websocket', 'empty',
          Upgrade => 'websocket' ],
        [ 'sendBeacon', 403, POST => 'no-cors', 'empty' ],
        [ 'a mode that is none', 403, GET => 'junk', 'document' ],
        [ 'a destination that is none', 403, GET => 'navigate', '' ],
    );

    for (@pages) {
        my ($what, $code, $method, @fetch) = @$_;

        # without the cookies, and who takes cookies takes what there is
        $a = $v->ask($method, undef, body => $method eq 'GET' ? undef : 'x=y',
                     $sent->('cross-site', @fetch, Cookie => undef));
        is($a->status, $code, $what);
        is_deeply([ $a->cookies ], [], "$what: no cookie");
        is($a->json->{error}, 'cross_site', "$what: says why")
            if $code == 403;
    }
    is($v->id, $id, 'the browser has the cookie that it had');
    is($v->get->json->{rank}, 0, 'and the place is there');
    is($line->idx($id), $idx, 'the same');
    is_deeply($line->waiting, [ $id ], 'and nobody else has one');
    is(scalar(@{$line->inside}), 1, 'nor a lease');

    # whose cookie comes all the same is known
    $a = $v->post(undef, 'x=y', $sent->('cross-site', @top));
    like($a->body, qr/data-position="1"/, 'a form with the cookie');
    $a = $in->post(undef, 'x=y', $sent->('cross-site', @top));
    inside($a, 'and who is in is in');

    # a token is not set that way either, nor taken away
    my $named = visitor(path => '/named/?user=' . $in->id);
    $a = $named->post(undef, 'x', $sent->('cross-site', @top, @form));
    inside($a, 'who has a name is let in by it');
    is_deeply([ $a->cookies ], [], 'without a cookie');
    $a = visitor(path => '/named/?user=u', jar => 0)
        ->post(undef, 'x', $sent->('cross-site', @top, Cookie =>
                                   token_cookie('e') . '=' . 'a' x 40));
    is_deeply([ $a->cookies ], [], 'one that is not good stays');

    # all that is not the word of a browser, or not that one, is as ever
    for my $site (undef, '', 'same-origin', 'same-site', 'none', 'Cross-Site',
                  'cross-site,', ' cross-site x', '"cross-site"', 'x' x 4000,
                  "cross\tsite", 'cross-sit', 'cross-sites')
    {
        $a = visitor(path => '/shop/')->post(undef, 'x',
                                             $sent->($site, @top, @form));
        is(scalar($a->cookies), 1,
           'Sec-Fetch-Site: ' . substr $site // '(absent)', 0, 40);
    }
    # an old one says the site, and no more
    for my $fetch ([ undef, undef ], [ 'navigate', undef ],
                   [ undef, 'document' ])
    {
        $a = visitor(path => '/shop/')->get(undef,
                                            $sent->('cross-site', @$fetch));
        is(scalar($a->cookies), 1, 'mode and destination: '
                                   . join ' ', map { $_ // '(absent)' } @$fetch);
    }
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 21: in a dry run whatever comes from another site passes, too
--- settings
    waiting_queue_dry_run on;
--- check
    my $line = line('e');
    my $a = visitor(path => '/shop/')->post(undef, 'x', headers => {
        'Sec-Fetch-Site' => 'cross-site', 'Sec-Fetch-Mode' => 'navigate',
        'Sec-Fetch-Dest' => 'document' });

    inside($a, 'it passes');
    is_deeply([ $a->cookies ], [], 'without a cookie');
    is_deeply([ $line->keys ], [], 'and is nobody');
    reaches('gateDryRun', 1);
