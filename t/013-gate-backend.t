# A backend ends a visit with a word in its answer: done, and the slot is the
# next one's; sold, and the seat is gone.  Such a word is worth money: it counts
# once, from whatever road it comes, it is not lost with a Redis that is away or
# a worker that goes, and it is nothing that a client can say or see.

use WaitingQueue::Test;
use WaitingQueue::Live;

use File::Temp ();
use IO::Socket::INET;
use POSIX ();
use WaitingQueue::Backend;
use WaitingQueue::Gate;
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;
my $backend = WaitingQueue::Backend->new;

$ENV{TEST_NGINX_BACKEND_PORT} = $backend->port;
$ENV{TEST_NGINX_FASTCGI_PORT} = $backend->fastcgi_port;
$ENV{TEST_NGINX_HTTP2_PORT} = free_port();
$ENV{TEST_NGINX_PRIVATE_REDIS_PORT} = free_port();

my ($sse, $prefix, $redis_pid, $redis_dir);
my $attributes = '; Path=/; HttpOnly; SameSite=Lax';
my $cleared = token_cookie('e') . "=; Max-Age=0$attributes";

# a single process has no workers to be replaced
master_on();


# "--- check" runs after the request, as one test.  /shop/ is a gate in front of
# the backend; "--- redis" is another Redis.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t013-$prefix:";

    my $locations = $text->('config') . '
    location = /status {
        waiting_queue_status;
        access_log off;
    }
    location /shop/ {
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
';

    $block->set_value('http_config', $text->('http_config') . '
    waiting_queue_redis ' . ($text->('redis')
                             || 'unix:$TEST_NGINX_REDIS_SOCKET') . ';
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    waiting_queue_event e;
    waiting_queue_user $arg_user$http_x_user;
    waiting_queue_capacity 2;
    server {
        listen 127.0.0.1:$TEST_NGINX_HTTP2_PORT http2;
        ' . $locations . '
    }
');
    $block->set_value('config', $locations);
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t013-$prefix:";

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


# at(path with arguments, user, options): an answer to GET

sub at {
    my ($path, $user, %options) = @_;

    return visitor(jar => 0)->ask($options{method} || 'GET', $path, %options,
                                  headers => { 'X-User' => $user,
                                               %{$options{headers} || {}} });
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


sub pids {
    return map { $_->{pid} } @{status()->{processes}};
}

__DATA__

=== TEST 1: done: the slot is the next one's, and the cookie is cleared
--- check
    my $line = line();
    my $v = visitor(headers => { 'X-User' => 'a' });

    is($v->get('/shop/')->status, 200, 'in');
    is($v->token('e'), $line->token('a'), 'with a cookie');
    is(at('/shop/', 'b')->status, 200, 'another');
    my $s = $line->join('c');
    my $t = $line->join('d');

    my $a = $v->get('/shop/bye?say=done');
    is($a->status, 200, 'the answer');
    is($a->body, "backend GET /shop/bye\n", 'as it was');
    is($a->header('X-Waiting-Queue'), undef, 'without the word');
    is_deeply([ $a->cookies ], [ $cleared ], 'the cookie, to the letter');
    is($v->token('e'), undef, 'a browser has it no more');

    $sse->run_until(sub { $s->last('promoted') }, 10, 'the next is in');
    is($t->count('promoted'), 0, 'and only one');
    is($line->token('a'), undef, 'the token is no more');
    is($line->stat('done'), 1, 'counted in Redis');
    is($line->stat('sold'), 0, 'as nothing else');
    reaches('visitsDone', 1);
    reaches('visitsSold', 0);
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # the node has forgotten it, too: at once
    is(visitor(jar => 0)->get('/shop/', headers => {
           'X-User' => 'a', 'X-Waiting-Queue-Token' => '0' x 40 })->status,
       503, 'who is done has to wait again');
    is_deeply($line->waiting, [ qw(d a) ], 'behind the others');



=== TEST 2: sold: the seat is gone, and the slot with it
--- check
    my $line = line();

    $line->call('SET', $line->key('seat:count'), 2);
    is(at('/shop/', $_)->status, 200, "$_ is in") for qw(a b);
    my $s = $line->join('c');

    my $a = at('/shop/pay?say=sold', 'a', method => 'POST', body => 'card');
    is($a->status, 200, 'the answer');
    is($a->header('X-Waiting-Queue'), undef, 'without the word');
    reaches('visitsSold', 1);
    is($line->call('GET', $line->key('seat:count')), 1, 'one seat less');
    is($line->stat('sold'), 1, 'counted');
    is($line->slots, 0, 'no slot is free');
    is_deeply($line->inside, [ 'b' ], 'one is in');
    is($s->count('promoted'), 0, 'nobody else got in');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    at('/shop/pay?say=sold', 'b');
    $sse->run_until(sub { $s->last('sold_out') }, 10, 'the last seat');
    is($line->call('GET', $line->key('seat:count')), 0, 'is gone');
    reaches('visitsSold', 2);
    reaches('visitsDone', 0);

    # who sold is out; and there is nothing any more
    is(at('/shop/', 'a')->status, 410, 'sold out');



=== TEST 3: a word counts once, and only for who is in
--- check
    my $line = line();

    # said twice in one answer: the first counts
    is(at('/shop/', 'a')->status, 200, 'a is in');
    my $a = at('/shop/?say=done&say=sold', 'a');
    is($a->header('X-Waiting-Queue'), undef, 'neither is seen');
    await('it is over', sub { !@{$line->inside} });
    is($line->stat('done'), 1, 'done');
    is($line->stat('sold'), 0, 'and not sold as well');

    # by several answers at once, for one visit
    $line->set(paused => 1);
    $line->call('SET', $line->key('seat:count'), 100);
    $line->set(paused => 0);
    is(at('/shop/', 'b')->status, 200, 'b is in');
    my @pending = map {
        visitor(jar => 0)->send('GET', '/shop/?say=sold&hold=all',
                                headers => { 'X-User' => 'b' })
    } 1 .. 5;
    await('all at the backend', sub {
        5 == grep { $_->{uri} =~ /hold=all/ } $backend->requests
    });
    $backend->let_go('all');
    $_->answer for @pending;
    await('it is over', sub { !@{$line->inside} });
    is($line->stat('sold'), 1, 'one seat for one visit');
    is($line->call('GET', $line->key('seat:count')), 99, 'of all');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # in any case of letters; what is no word is none, but not seen either
    for my $word (qw(DONE Done)) {
        my $done = $line->stat('done');
        at('/shop/', 'c');
        at("/shop/?say=$word", 'c');
        await('over', sub { $line->stat('done') == $done + 1 });
    }
    pass('in any case of letters');

    is(at('/shop/', 'd')->status, 200, 'd is in');
    for my $word ('', 'don', 'donee', 'soldx', 'done,sold', 'x' x 1000, '0') {
        my $a = at("/shop/?say=$word", 'd');
        is($a->status, 200, 'said "' . substr($word, 0, 10) . '"');
        unlike($a->head, qr/X-Waiting-Queue/i, 'which is not seen');
    }
    is_deeply($line->inside, [ 'd' ], 'd is still in');
    like(error_log(), qr/\[warn\]\ [^\n]*\ waiting_queue:\ the\ backend\ sent
                         \ "X-Waiting-Queue:\ soldx",\ which\ is\ neither
                         \ "done"\ nor\ "sold"/x,
         'but the operator hears of it');

    is(at('/shop/' . ('?say=babble' . '&say=babble' x 49), 'd')->status, 200,
       'said fifty times');
    is(scalar(() = error_log() =~ /sent "X-Waiting-Queue: babble"/g), 1,
       'and once for an answer');



=== TEST 4: a client cannot say it
--- config
    location /echo/ {
        waiting_queue on;
        proxy_set_header X-Seen "$http_x_waiting_queue";
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /open/ {
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /file/ {
        waiting_queue on;
        alias html/;
    }
--- check
    my $line = line();

    open my $file, '>', server_root() . '/html/a.txt';
    print $file "a\n";
    close $file;

    is(at('/shop/', 'a')->status, 200, 'in');
    for my $word (qw(done sold)) {
        for my $path ('/shop/', '/echo/', '/file/a.txt') {
            is(at($path, 'a', headers => { 'X-Waiting-Queue' => $word })
                   ->status, 200, "X-Waiting-Queue: $word, at $path");
            is(at($path, 'b', method => 'HEAD', headers => {
                   'X-Waiting-Queue' => $word })->status, 200, 'or with HEAD');
        }
    }
    is_deeply($line->inside, [ qw(a b) ], 'nothing comes of it');
    is($line->stat('done') + $line->stat('sold'), 0, 'at all');
    is_deeply([ sum('visitsDone'), sum('visitsSold') ], [ 0, 0 ], 'counted');

    # who has to wait does not come to a backend that would say it
    is(at('/shop/?say=sold', 'w')->status, 503, 'nor for who waits');
    is($line->stat('sold'), 0, 'nothing is sold');

    # outside of the gate it is a header as any other
    is(at('/open/?say=done', 'a')->header('X-Waiting-Queue'), 'done',
       'where there is no gate');
    is_deeply($line->inside, [ qw(a b) ], 'nobody is out by it');



=== TEST 5: from a cache, from an internal redirect, with an error
--- http_config
    proxy_cache_path cache keys_zone=cache:64k;
--- config
    location /cached/ {
        waiting_queue on;
        proxy_cache cache;
        proxy_cache_key $uri;
        proxy_cache_valid any 1m;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
        add_header X-Cache $upstream_cache_status;
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
    location /errors/ {
        waiting_queue on;
        proxy_intercept_errors on;
        error_page 500 /public/a.txt;
        error_page 404 @named;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location @named {
        rewrite ^ /named? break;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /fcgi/ {
        waiting_queue on;
        fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param REQUEST_URI $request_uri;
        fastcgi_param QUERY_STRING $query_string;
        fastcgi_pass 127.0.0.1:$TEST_NGINX_FASTCGI_PORT;
    }
--- check
    my $line = line();
    my $done = 0;
    my $ends = sub {
        my ($what, $path, $user, $text, $status) = @_;

        is(at('/shop/', $user)->status, 200, "$what: in");
        my $a = at($path, $user, headers => {
            Cookie => token_cookie('e') . '=' . $line->token($user) });
        is($a->status . $a->body, ($status || 200) . $text, 'the answer');
        unlike($a->head, qr/X-Waiting-Queue|X-Accel/i, 'without the word');
        is_deeply([ $a->cookies ], [ $cleared ], 'the cookie is cleared');
        $done++;
        ok(eval { await('over', sub { $line->stat('done') == $done }) },
           'the visit is over');
        is_deeply($line->inside, [], 'nobody is in');
        return $a;
    };

    open my $file, '>', server_root() . '/html/a.txt';
    print $file "a file\n";
    close $file;

    my $a = $ends->('not yet cached', '/cached/a?say=done', 'u1',
                    "backend GET /cached/a\n");
    is($a->header('X-Cache'), 'MISS', 'of the backend');
    $a = $ends->('cached', '/cached/a', 'u2', "backend GET /cached/a\n");
    is($a->header('X-Cache'), 'HIT', 'of the cache');
    is(scalar(grep { $_->{uri} =~ /cached/ } $backend->requests), 1,
       'which was filled once');

    $ends->('sent on, within', '/shop/?say=done&accel=/private/a.txt', 'u3',
            "a file\n");
    $ends->('sent on, to where no gate is',
            '/shop/?say=done&accel=/public/a.txt', 'u4', "a file\n");
    $ends->('an error', '/shop/?say=done&status=500', 'u5',
            "backend GET /shop/\n", 500);
    $ends->('an error that has a page', '/errors/?say=done&status=500', 'u6',
            "a file\n", 500);
    $ends->('an error for a named location', '/errors/?say=done&status=404',
            'u7', "backend GET /named\n", 404);
    $ends->('fastcgi', '/fcgi/?say=done', 'u8',
            "fastcgi GET /fcgi/?say=done 0\n");
    $ends->('no content', '/shop/?say=done&status=204&size=0', 'u9', '', 204);
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # HEAD, and HTTP/2
    at('/shop/', 'u10');
    at('/shop/?say=done', 'u10', method => 'HEAD');
    await('HEAD', sub { $line->stat('done') == $done + 1 });
    at('/shop/', 'u11');
    my $url = "http://127.0.0.1:$ENV{TEST_NGINX_HTTP2_PORT}/shop/?say=done";
    my $h2 = `curl -sig --http2-prior-knowledge -H 'X-User: u11' '$url'`;
    like($h2, qr{^HTTP/2 200}, 'HTTP/2');
    unlike($h2, qr/x-waiting-queue/i, 'without the word');
    await('HTTP/2', sub { $line->stat('done') == $done + 2 });
    reaches('visitsDone', $done + 2);



=== TEST 6: the client is gone, the word counts all the same
--- config
    location /buy/ {
        waiting_queue on;
        proxy_ignore_client_abort on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = line();

    is(at('/shop/', 'a')->status, 200, 'in');
    my $p = visitor(jar => 0)->send('POST', '/buy/?say=sold&hold=gone',
                                    body => 'card',
                                    headers => { 'X-User' => 'a' });
    await('at the backend', sub { grep { /hold/ } map { $_->{uri} }
                                       $backend->requests });
    $p->close;
    $backend->let_go('gone');
    await('sold', sub { $line->stat('sold') == 1 });
    is_deeply($line->inside, [], 'and out');
    reaches('visitsSold', 1);
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 7: the first answer of a visit can be its last
--- check
    my $line = line();
    my $v = visitor(headers => { 'X-User' => 'a' });

    # the very answer that would set the cookie clears it
    my $a = $v->get('/shop/?say=done');
    is($a->status, 200, 'in, and done with');
    is_deeply([ $a->cookies ], [], 'there is no token to keep');
    await('over', sub { $line->stat('done') == 1 });
    is_deeply($line->inside, [], 'nobody is in');



=== TEST 8: Redis is away when it is said
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- check
    my $redis = private_redis();
    my $line = line(redis => $redis);

    ready();
    $line->call('SET', $line->key('seat:count'), 5);
    is(at('/shop/', 'a')->status, 200, 'a is in');
    is(at('/shop/', 'b')->status, 200, 'b is in');

    my @pending = map {
        visitor(jar => 0)->send('GET', "/shop/?say=$_->[1]&hold=redis",
                                headers => { 'X-User' => $_->[0] })
    } [ a => 'sold' ], [ b => 'done' ];
    await('both at the backend', sub {
        2 == grep { $_->{uri} =~ /hold=redis/ } $backend->requests
    });

    kill_redis();
    await('it is gone', sub {
        !grep { $_->{state} eq 'ready' } links(status());
    });
    $backend->let_go('redis');
    is($_->answer->status, 200, 'the visitors do not notice') for @pending;

    # who is done is not let in again by what the node remembers
    is(at('/shop/', 'a')->status, 503, 'who is out is out');

    $redis = private_redis();
    $line = line(redis => $redis);
    ready();
    await('said again', sub { $line->stat('sold') == 1
                              && $line->stat('done') == 1 });
    is($line->call('GET', $line->key('seat:count')), 4, 'one seat');
    is_deeply($line->inside, [], 'both are out');
    reaches('visitsSold', 1);
    reaches('visitsDone', 1);
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # and no more than once, however often it is said
    await('c is in', sub { at('/shop/', 'c')->status == 200 });
    is_deeply([ $line->stat('sold'), $line->stat('done') ], [ 1, 1 ],
              'once each');



=== TEST 9: nginx is reloaded while the backend thinks
--- check
    my $line = line();

    $line->call('SET', $line->key('seat:count'), 5);
    is(at('/shop/', $_)->status, 200, "$_ is in") for qw(a b);
    my $s = $line->join('w');

    my @pending = map {
        visitor(jar => 0)->send('POST', "/shop/?say=$_->[1]&hold=reload",
                                body => 'card',
                                headers => { 'X-User' => $_->[0] })
    } [ a => 'sold' ], [ b => 'done' ];
    await('both at the backend', sub {
        2 == grep { $_->{uri} =~ /hold=reload/ } $backend->requests
    });

    my %old = map { $_ => 1 } pids();
    reload();
    await('new workers, and old ones that wait for the backend', sub {
        my @processes = @{status()->{processes}};
        grep({ !$old{$_->{pid}} && $_->{heartbeats} } @processes) == $workers
            && grep { $old{$_->{pid}} && $_->{draining} } @processes;
    });
    $sse->run_until(sub { $s->ended }, 10, 'the stream is told to come again');
    $s = $line->join('w');
    is($s->rank, 0, 'with the same place');

    $backend->let_go('reload');
    is($_->answer->status, 200, 'answered') for @pending;
    await('both words', sub { $line->stat('sold') == 1
                              && $line->stat('done') == 1 });
    is($line->call('GET', $line->key('seat:count')), 4, 'one seat');
    $sse->run_until(sub { $s->last('promoted') }, 10, 'the next is in');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # and then the old ones go
    await('the old are gone', sub { !grep { $old{$_} } pids() });
    ok(await('their end', sub { !grep { kill 0, $_ } keys %old }), 'for good');
    unlike(error_log(), qr/Redis was not told/, 'and nothing is lost');



=== TEST 10: and Redis is away as well, at the end of the old worker
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- check
    my $redis = private_redis();
    my $line = line(redis => $redis);

    ready();
    is(at('/shop/', 'a')->status, 200, 'a is in');
    my $p = visitor(jar => 0)->send('GET', '/shop/?say=sold&hold=both',
                                    headers => { 'X-User' => 'a' });
    await('at the backend', sub {
        grep { $_->{uri} =~ /hold=both/ } $backend->requests
    });

    my %old = map { $_ => 1 } pids();
    reload();
    await('new workers', sub {
        grep({ !$old{$_->{pid}} && $_->{heartbeats} }
             @{status()->{processes}}) == $workers;
    });
    kill_redis();
    await('it is gone', sub {
        !grep { $_->{state} eq 'ready' } links(status());
    });
    $backend->let_go('both');
    is($p->answer->status, 200, 'answered');

    $redis = private_redis();
    $line = line(redis => $redis);
    my $heard = eval { await('sold', sub { $line->stat('sold') == 1 }) };
    ok($heard, 'the old worker says it when Redis is back')
        or diag(grep { /Redis was not told/ } split /^/, error_log());
    is_deeply($line->inside, [], 'and out') if $heard;
    await('the old are gone', sub { !grep { $old{$_} } pids() });
    pass('and then it goes');



=== TEST 11: Redis dies with the word in its hands
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- check
    my $redis = private_redis();
    my $line = line(redis => $redis);

    ready();
    is(at('/shop/', 'a')->status, 200, 'a is in');
    my $p = visitor(jar => 0)->send('GET', '/shop/?say=sold&hold=hands',
                                    headers => { 'X-User' => 'a' });
    await('at the backend', sub {
        grep { $_->{uri} =~ /hold=hands/ } $backend->requests
    });

    # it takes the command, but never gets to it
    kill 'STOP', $redis_pid;
    $backend->let_go('hands');
    is($p->answer->status, 200, 'answered');
    kill_redis();

    $redis = private_redis();
    $line = line(redis => $redis);
    await('sold', sub { $line->stat('sold') == 1 });
    is_deeply($line->inside, [], 'it is said again');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 12: the same, of a worker that goes
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- check
    my $redis = private_redis();
    my $line = line(redis => $redis);

    ready();
    is(at('/shop/', 'a')->status, 200, 'a is in');
    my $p = visitor(jar => 0)->send('GET', '/shop/?say=sold&hold=goes',
                                    headers => { 'X-User' => 'a' });
    await('at the backend', sub {
        grep { $_->{uri} =~ /hold=goes/ } $backend->requests
    });

    my %old = map { $_ => 1 } pids();
    reload();
    await('new workers, and the old one drains', sub {
        my @processes = @{status()->{processes}};
        grep({ !$old{$_->{pid}} && $_->{heartbeats} } @processes) == $workers
            && grep { $old{$_->{pid}} && $_->{draining} } @processes;
    });
    kill 'STOP', $redis_pid;
    $backend->let_go('goes');
    is($p->answer->status, 200, 'answered');
    kill_redis();

    $redis = private_redis();
    $line = line(redis => $redis);
    my $heard = eval { await('sold', sub { $line->stat('sold') == 1 }) };
    ok($heard, 'the word is not lost')
        or diag(grep { /Redis was not told/ } split /^/, error_log());
    await('the old are gone', sub { !grep { $old{$_} } pids() });
    pass('and then it goes');



=== TEST 13: the worker goes while a visitor is at the gate
--- redis
unix:$TEST_NGINX_REDIS_SOCKET timeout=20s
--- check
    my $line = line();

    ready();
    my %old = map { $_ => 1 } pids();

    stop_redis();
    my $p = visitor(jar => 0)->send('POST', '/shop/?say=sold', body => 'card',
                                    headers => { 'X-User' => 'a' });
    await('it asks', sub {
        grep { $_->{links}{commands}{inFlight} } @{status()->{processes}};
    });
    reload();
    await('the old one drains', sub {
        grep { $old{$_->{pid}} && $_->{draining} } @{status()->{processes}};
    });
    wake_redis();

    is($p->answer->status, 200, 'let in, and answered');
    my $heard = eval { await('sold', sub { $line->stat('sold') == 1 }) };
    ok($heard, 'the word of its backend is not lost')
        or diag(grep { /Redis was not told/ } split /^/, error_log());
    await('the old are gone', sub { !grep { $old{$_} } pids() });
    pass('and then it goes');
