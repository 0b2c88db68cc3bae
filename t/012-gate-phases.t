# The gate stands between the access modules and whatever makes the content, so
# that it can be put in front of any site.  Who may not come in at all takes no
# place; who is let in gets just what there would be without the gate, body and
# method and all, once; and no way around leads to the backend.

use WaitingQueue::Test;
use WaitingQueue::Live;

use Digest::SHA ();
use IO::Socket::INET;
use WaitingQueue::Backend;
use WaitingQueue::Gate;
use WaitingQueue::Line;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;
my $backend = WaitingQueue::Backend->new;

$ENV{TEST_NGINX_BACKEND_PORT} = $backend->port;
$ENV{TEST_NGINX_FASTCGI_PORT} = $backend->fastcgi_port;
$ENV{TEST_NGINX_HTTP2_PORT} = free_port();

my ($sse, $prefix);


# "--- check" runs after the request, as one test.  /named/?user= is a gate in
# front of the backend; a block has other locations of its own, of the same
# event, in each server.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t012-$prefix:";

    my $locations = $text->('config') . '
    location = /status {
        waiting_queue_status;
        access_log off;
    }
    location /named/ {
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
';

    $block->set_value('http_config', $text->('http_config') . '
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    waiting_queue_event e;
    waiting_queue_user $arg_user$http_x_user;
    waiting_queue_capacity 1;
    client_max_body_size 10m;
    server {
        listen 127.0.0.1:$TEST_NGINX_HTTP2_PORT http2;
        server_name localhost;
        ' . $locations . '
    }
');
    $block->set_value('config', $locations);
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t012-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());

        ready();
        $backend->forget;

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


sub line {
    return WaitingQueue::Line->new(event => 'e', prefix => $prefix,
                                   sse => $sse, path => '/named/?user=%u');
}


# at(path, user, options): an answer to GET, without cookies

sub at {
    my ($path, $user, %options) = @_;

    return visitor(jar => 0)->ask($options{method} || 'GET',
                                  "$path?user=$user", %options);
}


# waits(answer, what): and has not got anything else

sub waits {
    my ($answer, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    is($answer->status . ' ' . ($answer->json || {})->{status}, '503 waiting',
       $what) or diag($answer->raw);
}


# seen(): what has come to the backend, as "method uri length"

sub seen {
    my @seen = map { join ' ', $_->{method}, $_->{uri}, $_->{length} || 0 }
               $backend->requests;
    return \@seen;
}


sub curl {
    my ($path, @arguments) = @_;

    open my $curl, '-|', 'curl', '-sig', '--http2-prior-knowledge', '-m', 30,
         @arguments, "http://127.0.0.1:$ENV{TEST_NGINX_HTTP2_PORT}$path"
        or die "curl: $!\n";
    my $answer = do { local $/; <$curl> };

    return defined $answer ? $answer : '';
}


# a file in nginx' html

sub put_file {
    my ($name, $text) = @_;

    open my $file, '>', server_root() . "/html/$name" or die "$name: $!\n";
    print $file $text;
    close $file;
}

__DATA__

=== TEST 1: proxy_pass: a body waits with its visitor, and passes once
--- check
    my $line = line();
    my $big = join '', map { sprintf '%08x', $_ } 1 .. 300_000;

    is(at('/named/', 'in')->body, "backend GET /named/\n", 'one is in');
    $backend->forget;

    for my $body ('', 'x', 'a=b&c=d' x 1000, $big) {
        waits(at('/named/', 'u', method => 'POST', body => $body),
              'a POST of ' . length $body);
    }
    is_deeply(seen(), [], 'nothing comes to the backend');

    for my $body ('', 'x', 'a=b&c=d' x 1000, $big) {
        $backend->forget;
        is(at('/named/buy', 'in', method => 'POST', body => $body)->body,
           "backend POST /named/buy\n", 'who is in');
        is_deeply(seen(), [ 'POST /named/buy?user=in ' . length $body ],
                  'comes once, with all of it');
        is(($backend->requests)[0]{body},
           length $body > 4096 ? Digest::SHA::sha1_hex($body) : $body,
           'to the byte');
    }

    # as chunks
    $backend->forget;
    is(at('/named/', 'in', method => 'POST',
          headers => { 'Transfer-Encoding' => 'chunked' },
          body => "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")->status, 200,
       'chunked');
    is(($backend->requests)[0]{body}, 'hello world', 'to the byte');

    # the one who waited comes in with the same request
    $backend->forget;
    $line->release('in');
    is(at('/named/', 'u', method => 'POST', body => 'at last')->status, 200,
       'and then the one who waited');
    is_deeply(seen(), [ 'POST /named/?user=u 7' ], 'once');
    is(($backend->requests)[0]{body}, 'at last', 'with its body');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 2: a body that comes later, piece by piece, and is asked for
--- config
    location /live/ {
        waiting_queue on;
        proxy_request_buffering off;
        proxy_http_version 1.1;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = line();
    my $v = visitor(jar => 0);

    # the head, and the body only when it has been seen
    my $p = $v->send('POST', '/live/?user=in',
                     headers => { 'Content-Length' => 10 });
    await('the slot', sub { @{$line->inside} });
    $p->write('hello');
    my $part = await('the half of it', sub {
        my ($part) = $backend->requests('part');
        $part;
    });
    is($part->{length}, 5, 'comes to the backend before the rest is sent');
    is_deeply(seen(), [], 'which waits for that');
    $p->write('world');
    is($p->answer->body, "backend POST /live/\n", 'answered');
    is(($backend->requests)[0]{body}, 'helloworld', 'all of it');
    is_deeply(seen(), [ 'POST /live/?user=in 10' ], 'once');

    # chunks, likewise
    $backend->forget;
    $p = $v->send('POST', '/live/?user=in',
                  headers => { 'Transfer-Encoding' => 'chunked' });
    $p->write("3\r\nabc\r\n");
    await('the first chunk', sub { $backend->requests('part') });
    $p->write("3\r\ndef\r\n0\r\n\r\n");
    is($p->answer->status, 200, 'chunks');
    is(($backend->requests)[0]{body}, 'abcdef', 'as they come');

    # 100-continue
    $backend->forget;
    for my $path ('/named/', '/live/') {
        $p = $v->send('POST', "$path?user=in",
                      headers => { 'Content-Length' => 4,
                                   Expect => '100-continue' });
        $p->until(qr{^HTTP/1\.1 100 Continue\r\n\r\n});
        $p->write('body');
        like($p->answer->raw, qr{\r\n\r\nHTTP/1\.1 200 .*backend POST $path}s,
             "$path: sent when asked for");
    }
    is_deeply([ map { $_->{body} } $backend->requests ], [ qw(body body) ],
              'all of it');

    # who has to wait is not asked for it
    my $a = at('/named/', 'w', method => 'POST',
               headers => { 'Content-Length' => 4,
                            Expect => '100-continue' }, body => 'body');
    is($a->status, 100, 'nginx takes what it discards');
    like($a->raw, qr{\r\n\r\nHTTP/1\.1 503 }, 'but keeps back its sender');
    is(scalar($backend->requests), 2, 'from the backend');



=== TEST 3: one connection: a body kept back is not taken for a request
--- check
    is(at('/named/', 'in')->status, 200, 'one is in');
    $backend->forget;

    my $hidden = "GET /named/hidden?user=in HTTP/1.1\r\nHost: localhost\r\n"
                 . "\r\n";
    my $post = "POST /named/a?user=w HTTP/1.1\r\nHost: localhost\r\n"
               . 'Content-Length: ' . length($hidden) . "\r\n\r\n$hidden";
    my $next = "GET /named/b?user=in HTTP/1.1\r\nHost: localhost\r\n"
               . "Connection: close\r\n\r\n";
    my $raw = talk($post . $post . $next)->raw;

    is_deeply([ $raw =~ m{^HTTP/1\.1 (\d+)}mg ], [ 503, 503, 200 ],
              'three answers to three requests');
    like($raw, qr{backend GET /named/b\n\z}, 'the last of them to the last');
    is_deeply(seen(), [ 'GET /named/b?user=in 0' ], 'and no other request');

    # the same by chunks
    $backend->forget;
    $post = "POST /named/a?user=w HTTP/1.1\r\nHost: localhost\r\n"
            . "Transfer-Encoding: chunked\r\n\r\n"
            . sprintf("%x\r\n", length $hidden) . "$hidden\r\n0\r\n\r\n";
    $raw = talk($post . $next)->raw;
    is_deeply([ $raw =~ m{^HTTP/1\.1 (\d+)}mg ], [ 503, 200 ], 'chunked');
    is_deeply(seen(), [ 'GET /named/b?user=in 0' ], 'no other request');

    # let in one after the other, none mixed up
    $backend->forget;
    $raw = talk(join '', map({ "POST /named/$_?user=in HTTP/1.1\r\n"
                               . "Host: localhost\r\nContent-Length: 1\r\n\r\n"
                               . $_ } 1 .. 5), $next)->raw;
    is_deeply([ $raw =~ m{^backend (\S+ \S+)$}mg ],
              [ (map { "POST /named/$_" } 1 .. 5), 'GET /named/b' ],
              'requests in a row');
    is(join('', map { $_->{body} } $backend->requests), '12345',
       'each with its own body');



=== TEST 4: fastcgi_pass
--- config
    location /fcgi/ {
        waiting_queue on;
        fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param REQUEST_URI $request_uri;
        fastcgi_param QUERY_STRING $query_string;
        fastcgi_param CONTENT_LENGTH $content_length;
        fastcgi_param QUEUE "$waiting_queue_state $waiting_queue_user";
        fastcgi_pass 127.0.0.1:$TEST_NGINX_FASTCGI_PORT;
    }
--- check
    my $line = line();

    is(at('/fcgi/a', 'in')->body, "fastcgi GET /fcgi/a?user=in 0\n", 'in');
    waits(at('/fcgi/a', 'w'), 'who waits');
    waits(at('/fcgi/a', 'w', method => 'POST', body => 'body'), 'with a body');
    is(at('/fcgi/b', 'in', method => 'POST', body => 'x' x 100_000)->body,
       "fastcgi POST /fcgi/b?user=in 100000\n", 'a body passes');
    is_deeply(seen(), [ 'GET /fcgi/a?user=in 0',
                        'POST /fcgi/b?user=in 100000' ], 'each once');
    is(($backend->requests)[1]{params}{QUEUE}, 'entered in',
       'and knows of the gate');

    my $a = visitor(jar => 0)->get('/fcgi/c?user=in&say=done');
    is($a->status, 200, 'its word');
    is($a->header('X-Waiting-Queue'), undef, 'is not for the client');
    await('the next', sub { "@{$line->inside}" eq 'w' });
    is($line->stat('done'), 1, 'but ends the visit');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 5: static files, index, try_files
--- config
    location /files/ {
        waiting_queue on;
        alias html/;
    }
    location /tried/ {
        waiting_queue on;
        try_files $uri /missing.txt /page.txt =404;
    }
    location /fallback/ {
        waiting_queue on;
        try_files $uri @backend;
    }
    location /nothing/ {
        waiting_queue on;
        try_files $uri =404;
    }
    location @backend {
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = line();

    put_file('page.txt', "a page\n");
    put_file('index.html', "an index\n");

    is(at('/files/page.txt', 'in')->body, "a page\n", 'a file');

    my %in = ('/files/page.txt' => "a page\n", '/files/' => "an index\n",
              '/tried/x' => "a page\n",
              '/fallback/x' => "backend GET /fallback/x\n");

    for my $path (sort keys %in) {
        my $passed = sum('gatePassed');

        is(at($path, 'in')->body, $in{$path}, "$path: in");
        is(sum('gatePassed'), $passed + 1, 'counted once');
        waits(at($path, 'w'), "$path: waits");
    }

    is(at('/nothing/x', 'in')->status, 404, 'what is not there, inside');
    waits(at('/nothing/x', 'w'), 'is not told outside');
    is(at('/files/none', 'in')->status, 404, 'a file that is not there');
    waits(at('/files/none', 'w'), 'likewise');

    # as without the gate
    my $a = at('/files/page.txt', 'in', headers => { Range => 'bytes=2-5' });
    is($a->status . $a->body, '206page', 'a part of a file');
    $a = at('/files/page.txt', 'in', headers => {
        'If-None-Match' => at('/files/page.txt', 'in')->header('ETag') });
    is($a->status, 304, 'unchanged');
    like($a->header('Set-Cookie'), qr/^wq_/, 'with the cookie, all the same');
    is(at('/files/page.txt', 'in', method => 'POST', body => 'x')->status,
       405, 'POST to a file');
    is_deeply([ $line->waiting, $line->inside ], [ [ 'w' ], [ 'in' ] ],
              'one in, one waits');



=== TEST 6: auth_request, allow, deny: who may not come in takes no place
--- config
    location = /auth {
        # as it is where the whole server has a gate: for visitors alone
        internal;
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT/auth$about;
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
    }
    location /checked/ {
        waiting_queue on;
        set $about ?status=$http_x_allowed;
        auth_request /auth;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /login/ {
        waiting_queue on;
        waiting_queue_user $login;
        set $about ?login=$http_x_login;
        auth_request /auth;
        auth_request_set $login $upstream_http_x_login;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /denied/ {
        waiting_queue on;
        deny all;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = line();
    my $checked = sub {
        my ($user, $auth, %options) = @_;
        return at('/checked/', $user, %options,
                  headers => { 'X-Allowed' => $auth });
    };

    is($checked->('bad', 403)->status, 403, 'forbidden');
    is($checked->('bad', 401)->status, 401, 'unauthorized');
    is(at('/denied/', 'bad')->status, 403, 'denied');
    is_deeply([ $line->waiting, $line->inside ], [ [], [] ],
              'is nobody for the waiting room');

    is($checked->('in', 200)->body, "backend GET /checked/\n", 'allowed');
    waits($checked->('w', 200), 'allowed, but has to wait');
    is($checked->('x', 403)->status, 403, 'forbidden now');
    is_deeply($line->waiting, [ 'w' ], 'without a place');

    $backend->forget;
    is($checked->('in', 200, method => 'POST', body => 'body')->status, 200,
       'a body, past both');
    is_deeply(seen(), [ 'GET /auth?status=200 0',
                        'POST /checked/?user=in 4' ], 'comes once');

    # the id is what the authentication found
    my $a = visitor(jar => 0)->get('/login/', headers => {
        'X-Login' => 'kim' });
    waits($a, 'by the name of the login');
    is($a->json->{userId}, 'kim', 'which is who waits');
    is(visitor(jar => 0)->get('/login/')->status, 401,
       'no name, no place');
    is_deeply($line->waiting, [ qw(w kim) ], 'in line');



=== TEST 7: limit_req: before the gate, and it may take a while
--- http_config
    limit_req_zone all zone=strict:32k rate=1r/m;
    limit_req_zone all zone=slow:32k rate=5r/s;
--- config
    location /strict/ {
        waiting_queue on;
        limit_req zone=strict;
        limit_req_status 429;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /slow/ {
        waiting_queue on;
        limit_req zone=slow burst=10;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = line();

    is(at('/strict/', 'in')->status, 200, 'one is in');
    is(at('/strict/', 'x')->status, 429, 'too many');
    is_deeply($line->waiting, [], 'and so without a place');

    # those who were held up, by body and all
    my @pending = map {
        visitor(jar => 0)->send('POST', "/slow/$_?user=in", body => "body$_")
    } 1 .. 5;
    is(scalar(grep { $_->answer->status == 200 } @pending), 5, 'all pass');
    is_deeply([ sort map { $_->{body} } $backend->requests ],
              [ '', map { "body$_" } 1 .. 5 ], 'each with its own body');
    waits(at('/slow/', 'w'), 'who waits there');



=== TEST 8: error_page and named locations
--- config
    location /broken/ {
        waiting_queue on;
        error_page 500 502 /sorry/;
        error_page 404 @lost;
        error_page 403 = @taken;
        error_page 503 /maintenance/;
        proxy_intercept_errors on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /sorry/ {
        internal;
        waiting_queue on;
        alias html/;
        index sorry.html;
    }
    location @lost {
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location @taken {
        waiting_queue on;
        rewrite ^ /taken break;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /maintenance/ {
        return 503 "closed for repairs\n";
    }
    location /elsewhere/ {
        error_page 418 = @gated;
        return 418;
    }
    location @gated {
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = line();
    my $get = sub {
        my ($user, $status, %options) = @_;
        return visitor(jar => 0)->ask($options{method} || 'GET',
                          "/broken/?user=$user&status=$status", %options);
    };

    put_file('sorry.html', "sorry\n");
    is($get->('in', 200)->body, "backend GET /broken/\n", 'one is in');

    my $passed = sum('gatePassed');
    my $a = $get->('in', 500);
    is($a->status . $a->body, "500sorry\n", 'a page for an error, gated too');
    is(sum('gatePassed'), $passed + 1, 'who was let in stays so, as one');
    is($get->('in', 404)->status, 404, 'a named location for another');
    is(scalar(grep { /status=404/ } @{seen()}), 2, 'which asks once more');
    is($get->('in', 403)->body, "backend GET /taken\n", 'that takes over');
    is($get->('in', 503)->body, "closed for repairs\n",
       'the 503 of the backend is the site\'s own');

    $a = $get->('w', 200);
    waits($a, 'but that of the gate is the gate\'s');
    is($a->header('Retry-After'), 2, 'with all that belongs to it');

    waits(at('/elsewhere/', 'w'), 'a gate in a named location');
    is(at('/elsewhere/', 'in')->body, "backend GET /elsewhere/\n",
       'opens for who is in');
    is(at('/elsewhere/', 'in', method => 'POST', body => 'b')->body,
       "backend POST /elsewhere/\n", 'with a body');
    is(($backend->requests)[-1]{body}, 'b', 'which is all there');

    $backend->forget;
    $a = $get->('in', 403, method => 'POST', body => 'body');
    is($a->body, "backend POST /taken\n", 'a POST that was intercepted');
    is_deeply([ map { $_->{body} } $backend->requests ], [ qw(body body) ],
              'comes to both with its body');
    is_deeply($line->waiting, [ 'w' ], 'one waits');



=== TEST 9: internal redirects
--- config
    location /from/ {
        rewrite ^/from/(.*)$ /to/$1 last;
    }
    location /to/ {
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /twice/ {
        waiting_queue on;
        rewrite ^/twice/(.*)$ /to/$1 last;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /open/ {
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /private/ {
        internal;
        waiting_queue on;
        alias html/;
    }
    location /public/ {
        internal;
        alias html/;
    }
    location /second/ {
        internal;
        waiting_queue on;
        waiting_queue_event second;
        alias html/;
    }
--- check
    my $line = line();
    my $accel = sub {
        my ($path, $user, $to) = @_;
        # by a header: an internal redirect has other arguments
        return visitor(jar => 0)->get("$path?accel=$to",
                                      headers => { 'X-User' => $user });
    };

    put_file('secret.txt', "secret\n");
    is(at('/from/a', 'in')->body, "backend GET /to/a\n", 'by a rewrite');
    waits(at('/from/a', 'w'), 'which is no way around');
    is(at('/twice/a', 'in')->body, "backend GET /to/a\n", 'through two gates');
    waits(at('/twice/a', 'w'), 'which both hold');

    my $passed = sum('gatePassed');
    is($accel->('/named/', 'in', '/private/secret.txt')->body, "secret\n",
       'the backend sends on, to a gate of the same event');
    is(sum('gatePassed'), $passed + 1, 'which lets the same one in, once');
    is($accel->('/named/', 'in', '/public/secret.txt')->body, "secret\n",
       'to where there is none');
    is($accel->('/open/', 'in', '/private/secret.txt')->body, "secret\n",
       'from where there is none');
    waits($accel->('/open/', 'w', '/private/secret.txt'),
          'which does not let in who has to wait');

    # another event, another line
    my $second = WaitingQueue::Line->new(event => 'second',
                                         prefix => $prefix, sse => $sse);
    is($accel->('/named/', 'in', '/second/secret.txt')->body, "secret\n",
       'and to the gate of another event');
    is_deeply($second->inside, [ 'in' ], 'takes a slot there');
    $line->set(capacity => 2);
    await('room', sub { at('/named/', 'w')->status == 200 });
    my $a = $accel->('/named/', 'w', '/second/secret.txt');
    waits($a, 'or a place');
    is($a->json->{eventId}, 'second', 'of that event');
    is_deeply($second->waiting, [ 'w' ], 'in its line');



=== TEST 10: subrequests come through with their page, the mirror does not
--- config
    location /ssi/ {
        waiting_queue on;
        ssi on;
        ssi_types text/plain;
        alias html/;
    }
    location /mirrored/ {
        waiting_queue on;
        mirror /mirror;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location = /mirror {
        internal;
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT/mirror;
    }
--- check
    put_file('ssi.txt', "[<!--# include virtual=\"/named/part?user=in\" -->]");

    is(at('/ssi/ssi.txt', 'in')->body, "[backend GET /named/part\n]",
       'a page of parts, each behind the gate');
    reaches('gatePassed', 1, 'is one visit');
    waits(at('/ssi/ssi.txt', 'w'), 'who waits has none of it');

    $backend->forget;
    waits(at('/mirrored/', 'w', method => 'POST', body => 'body'), 'waits');
    is_deeply(seen(), [], 'and is not mirrored');
    is(at('/mirrored/', 'in', method => 'POST', body => 'body')->status, 200,
       'who is in');
    await('the mirror', sub { @{seen()} == 2 });
    is_deeply([ sort map { "$_->{method} $_->{uri} $_->{body}" }
                     $backend->requests ],
              [ 'POST /mirror?user=in body',
                'POST /mirrored/?user=in body' ],
              'is, with the body');



=== TEST 11: HTTP/2
--- check
    my $line = line();

    my $a = curl('/named/a?user=in');
    like($a, qr{^HTTP/2 200 .*backend GET /named/a\n\z}s, 'in');
    like($a, qr{^set-cookie: wq_[0-9a-f]{8}=[0-9a-f]{40}; Path=/; HttpOnly; }m,
         'with a cookie');

    $a = curl('/named/a?user=w');
    like($a, qr{^HTTP/2 503 .*"status":"waiting"}s, 'who waits');
    like($a, qr{^cache-control: no-store\r$}m, 'is told so');
    like($a, qr{^retry-after: 2\r$}m, 'and when to ask again');
    like(curl('/named/a?user=w', '-H', 'Accept: text/html'),
         qr{^HTTP/2 503 .*<!DOCTYPE html>.*</html>\s*\z}s, 'the page');

    # bodies: of the first window, and beyond it
    for my $size (1, 50_000, 3_000_000) {
        my $body = server_root() . '/html/body';

        put_file('body', 'b' x $size);
        $backend->forget;

        # The answer comes before the end of the body, as HTTP/2 allows: nginx
        # then ends the stream without an error, which this curl may take for
        # one and show nothing.
        curl('/named/a?user=w', '--data-binary', "\@$body");
        like(curl('/named/a?user=w'), qr{^HTTP/2 503 }m,
             "who waits, with a body of $size");
        is_deeply(seen(), [], 'keeps it');
        like(curl('/named/a?user=in', '--data-binary', "\@$body"),
             qr{^HTTP/2 200 .*backend POST /named/a\n\z}s, 'who is in');
        is_deeply(seen(), [ "POST /named/a?user=in $size" ], 'sends it once');
        is(($backend->requests)[0]{body},
           $size > 4096 ? Digest::SHA::sha1_hex('b' x $size) : 'b' x $size,
           'to the byte');
    }

    # the stream on the same address
    my $s = $sse->curl("http://127.0.0.1:$ENV{TEST_NGINX_HTTP2_PORT}"
                       . '/named/a?user=w', '--http2-prior-knowledge');
    $sse->run_until(sub { $s->last('position') }, 10, 'a stream');
    $line->release('in');
    $sse->run_until(sub { $s->last('promoted') }, 10, 'promoted on it');
    like(curl('/named/a?user=w'), qr{^HTTP/2 200 }m, 'and in');



=== TEST 12: WebSocket
--- config
    location /ws/ {
        waiting_queue on;
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = line();
    my %upgrade = (headers => {
        Upgrade => 'websocket', Connection => 'Upgrade',
        'Sec-WebSocket-Version' => 13,
        'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==' });

    is(at('/named/', 'in')->status, 200, 'one is in');
    $backend->forget;

    my $p = visitor(jar => 0)->send('GET', '/ws/?user=w', %upgrade);
    like($p->until(qr/\}\n/), qr{^HTTP/1\.1 503 .*"status":"waiting"}s,
         'who waits gets no upgrade');
    $p->close;
    is_deeply(seen(), [], 'and does not come to the backend');

    # the first frame may be sent with the request
    $p = visitor(jar => 0)->send('GET', '/ws/?user=in', %upgrade,
                                 body => "\x81\x02hi");
    my $head = $p->until(qr/\x81\x02hi/);
    like($head, qr{\AHTTP/1\.1\ 101\ Switching\ Protocols\r\n.*
                   ^Sec-WebSocket-Accept:\ s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r\n
                   .*\r\n\r\n\x81\x02hi\z}smx, 'who is in does, with frames');
    like($head, qr{^Set-Cookie: wq_}m, 'and the cookie');

    $p->write("\x82\x03abc");
    like($p->until(qr/abc/), qr/\x82\x03abc\z/, 'both ways');
    $p->write("\x82\x7e\x40\x00" . 'y' x 16384);
    like($p->until(qr/y{16384}/), qr/y{16384}\z/, 'and large ones');

    # an open one needs no lease any more; the next does
    $line->set(paused => 1);
    $line->release('in');
    $p->write("\x81\x01z");
    like($p->until(qr/\x81\x01z/), qr/\x81\x01z\z/, 'goes on after the lease');
    $p->close;
    await('no new one', sub {
        my $p = visitor(jar => 0)->send('GET', '/ws/?user=in', %upgrade);
        my $head = $p->until(qr/\r\n\r\n/);
        $p->close;
        $head =~ /^HTTP\/1\.1 503/;
    });
    pass('a new one waits');



=== TEST 13: gzip, HEAD, rewrite break
--- config
    gzip on;
    gzip_types *;
    gzip_min_length 1;
    waiting_queue_code 200;
    location /other/ {
        waiting_queue on;
        rewrite ^/other/(.*)$ /named/$1 break;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    is(at('/named/', 'in')->status, 200, 'one is in');

    my $a = at('/named/', 'w', headers => { Accept => 'text/html',
                                            'Accept-Encoding' => 'gzip' });
    is($a->status, 200, 'the page, by a code that nginx compresses');
    is($a->header('Content-Encoding'), 'gzip', 'as any other');
    like(Compress::Zlib::memGunzip($a->body), qr/<!DOCTYPE html>/, 'is whole');

    my $s = $sse->open(path => '/named/?user=w',
                       headers => { 'Accept-Encoding' => 'gzip' });
    $sse->run_until(sub { $s->last('position') }, 10, 'but not the stream');
    is($s->header('Content-Encoding'), undef, 'which is to be read now');

    is(at('/named/', 'in', method => 'HEAD')->status, 200, 'HEAD');

    is(at('/other/a', 'w')->json->{status}, 'waiting',
       'a rewrite within the location');
    is(at('/other/a', 'in')->body, "backend GET /named/a\n", 'who is in');
