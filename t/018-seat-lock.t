# Two visitors want one seat at the same moment.  One request at a time is at
# the backend with it, the others wait in nginx in the order in which they came,
# and each is woken by the end of the one before, however it ends.  Nobody gets
# past the lock, and nobody keeps it.

use WaitingQueue::Test;
use WaitingQueue::Live;

use File::Temp ();
use IO::Socket::INET;
use POSIX ();
use Time::HiRes ();
use WaitingQueue::Backend;
use WaitingQueue::Gate;
use WaitingQueue::Http2;
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;
my $backend = WaitingQueue::Backend->new;

$ENV{TEST_NGINX_BACKEND_PORT} = $backend->port;
$ENV{TEST_NGINX_CLOSED_PORT} = free_port();
$ENV{TEST_NGINX_HTTP2_PORT} = free_port();
$ENV{TEST_NGINX_PRIVATE_REDIS_PORT} = free_port();

my ($sse, $prefix, $redis, $redis_pid, $redis_dir);

my $taken = '{"error":"seat_taken","message":"somebody else is at this seat, '
            . "try again or take another\"}\n";

my $time = 'must be a time of';
my $words = 'must be "wait=" or "lease="';
my $name = '"waiting_queue_seat_lock"';
my $id = 'must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ : -';


# [ the directive's words, what nginx says ]

my @bad = (
    [ '', "invalid number of arguments in $name directive" ],
    [ 's wait=1s lease=1s x', "invalid number of arguments in $name directive" ],
    (map { [ $_, "$name directive: invalid id \"" . s/^"(.*)"$/$1/r
                 . "\", $id" ] }
         '""', '"a b"', 'a/b', '"{s}"', '"é"', 's' x 129),
    [ '$no_such', 'unknown "no_such" variable' ],
    (map { [ "s $_", "$name directive: invalid parameter \"$_\", $words" ] }
         qw(3s wait waits=3s Wait=3s ttl=5s =5s off)),
    (map { [ "s wait=$_", "$name directive: invalid parameter \"wait=$_\", "
                          . "$time 0 to 60s" ] }
         qw(-1 x 1x 61s 60001ms 1.5s 99999999999999999999 2m), ''),
    (map { [ "s lease=$_", "$name directive: invalid parameter \"lease=$_\", "
                           . "$time 100ms to 10m" ] }
         qw(0 99ms -1 x 11m 601s 600001ms 99999999999999999999), ''),
    [ 's wait=1s wait=2s', "$name directive: invalid parameter \"wait=2s\", "
                           . 'is duplicate' ],
    [ 's lease=1s lease=1s', "$name directive: invalid parameter "
                             . '"lease=1s", is duplicate' ],
    [ 's; waiting_queue_seat_lock t', "$name directive is duplicate" ],
);

my @good = ('s', '$arg_seat', 'row-$arg_row:$arg_seat', 's wait=0',
            's wait=60s', 's lease=100ms', 's lease=10m', 's wait=1m',
            's lease=1s wait=0', 's' x 128, 's wait=10ms lease=600s');


# a single process has no workers to be replaced
master_on();


# "--- check" runs after the request, as one test.  /seat/?seat= locks a seat in
# front of the backend, with the words of "--- lock" besides; "--- redis" is
# another Redis.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t018-$prefix:";

    my $lock = $text->('lock');
    chomp $lock;

    my $locations = $text->('config') . '
    location = /status {
        waiting_queue_status;
        access_log off;
    }
    location /seat/ {
        waiting_queue_seat_lock $arg_seat ' . $lock . ';
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
    $prefix = "t018-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());
        $redis = WaitingQueue::Redis->new;

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

plan tests => @bad + @good + 4 + repeat_each() * (blocks() * 4);

worker_connections(2048);
redis('FLUSHALL');

sub in_location { return "server { location / { waiting_queue_seat_lock $_[0]; } }" }

for my $case (@bad) {
    my ($words, $message) = @$case;
    my ($ok, $output) = nginx_t(in_location($words));
    my @emerg = grep { /\[emerg\]/ } split /\n/, $output;

    ok(!$ok && @emerg == 1 && index($emerg[0], $message) >= 0,
       "$words: $message") or diag($output);
}

for my $words (@good) {
    my ($ok, $output) = nginx_t(in_location($words));
    ok($ok && $output !~ /\[(?:warn|emerg)\]/, "$words: is taken")
        or diag($output);
}

for my $where ([ 'http', '%s' ], [ 'server', 'server { %s }' ],
               [ 'if', 'server { location / { if ($host) { %s } } }' ],
               [ 'limit_except',
                 'server { location / { limit_except GET { %s } } }' ])
{
    my ($ok, $output) = nginx_t(sprintf $where->[1],
                                'waiting_queue_seat_lock s;');
    ok(!$ok && $output =~ /\Q$name\E directive is not allowed here/,
       "not in $where->[0]") or diag($output);
}

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


# start(path with arguments, options): a request that is under way

sub start {
    my ($path, %options) = @_;

    return visitor(jar => 0)->send($options{method} || 'GET', $path, %options);
}

sub at { return start(@_)->answer }


# arrived(what): requests at the backend whose address has this

sub arrived {
    my ($what) = @_;
    return grep { $_->{uri} =~ /$what/ } $backend->requests;
}

sub at_backend {
    my ($what) = @_;
    return await("$what at the backend", sub { scalar arrived($what) });
}


# what is in Redis of a seat: who has it, who waits

sub lock_of {
    my ($seat, $event) = @_;
    return "${prefix}lock:seat:{" . (defined $event ? $event : 'e')
           . "}:$seat";
}

sub owner { return $redis->call('GET', lock_of(@_)) }
sub in_line { return $redis->call('ZCARD', lock_of(@_) . '/waiting') }

sub lines {
    my ($seat, $n) = @_;
    return await("$n in line", sub { in_line($seat) == $n });
}

# nothing is left of any seat

sub free {
    my ($what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $free = eval {
        await('no lock', sub {
            !@{$redis->call('KEYS', "${prefix}lock:seat:*")}
                && !sum('seatsHeld') && !sum('seatsWaiting');
        });
    };
    Test::More::ok($free, $what || 'nothing is left')
        or Test::More::diag(join "\n",
               @{$redis->call('KEYS', "${prefix}lock:seat:*")});
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
             '--dir', "$redis_dir", '--save', '', '--appendonly', 'yes',
             '--appendfsync', 'always' or POSIX::_exit(127);
    }

    $redis = WaitingQueue::Redis->new(port => $port);
    await('a Redis', sub { eval { $redis->call('PING') } });
}

sub kill_redis {
    return if !$redis_pid;

    kill 'KILL', $redis_pid;
    waitpid $redis_pid, 0;
    undef $redis_pid;
}


sub pids { return map { $_->{pid} } @{status()->{processes}} }

__DATA__

=== TEST 1: a seat that is free, and one that is not
--- check
    is(at('/seat/?seat=A-1')->status, 200, 'free: to the backend');
    free('and free again');
    reaches('seatsLocked', 1);
    reaches('seatsWaited', 0);

    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');
    like(owner('A-1'), qr{^[\w.~\@:-]+-\d+-\d{13}/\d+$}, 'it is locked');
    my $left = $redis->call('PTTL', lock_of('A-1'));
    ok($left > 3000 && $left <= 5000, 'for the lease');
    is(sum('seatsHeld'), 1, 'counted');

    my $second = start('/seat/?seat=A-1&second');
    lines('A-1', 1);
    is(sum('seatsWaiting'), 1, 'who comes next waits');
    like($redis->call('ZRANGE', lock_of('A-1') . '/waiting', 0, 0)->[0],
         qr{^[\w.~\@:-]+-\d+-\d{13}/\d+/3000/5000$}, 'for 3 s, with a lease');
    is(at('/seat/?seat=A-2')->status, 200, 'another seat is free');
    is(at('/seat/?seat=a-1')->status, 200, 'the case of letters counts');
    is(scalar(arrived('second')), 0, 'nobody is at this one but the first');

    my $start = Time::HiRes::time();
    $backend->let_go('first');
    is($first->answer->status, 200, 'the first is answered');
    is($second->answer->status, 200, 'and then the second');
    cmp_ok(Time::HiRes::time() - $start, '<', 1.5,
           'at once, not when the lease is over');
    free();
    reaches('seatsLocked', 5);
    reaches('seatsWaited', 1);
    reaches('seatsRefused', 0);
    reaches('seatsLapsed', 0);
    reaches('seatsFailed', 0);



=== TEST 2: 409 when the wait is over
--- lock
wait=400ms
--- config
    location /now/ {
        waiting_queue_seat_lock $arg_seat wait=0;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /pages/ {
        waiting_queue_seat_lock $arg_seat wait=0;
        error_page 409 /error.html;
        proxy_intercept_errors on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');

    my $start = Time::HiRes::time();
    my $a = at('/seat/?seat=A-1&late');
    my $took = Time::HiRes::time() - $start;

    is($a->status, 409, 'the wait is over');
    ok($took > 0.35 && $took < 3, 'after as long as was said') or diag($took);
    is($a->body, $taken, 'the JSON');
    is($a->header('Content-Type'), 'application/json', 'its type');
    is($a->header('Cache-Control'), 'no-store', 'not to be kept');
    is($a->header('Content-Length'), length $taken, 'its length');
    ok(lines('A-1', 0), 'it has left the line');
    like(owner('A-1'), qr/./, 'the first holds the seat');

    $a = at('/seat/?seat=A-1&late', method => 'POST', body => 'x' x 100000);
    is_deeply([ $a->status, $a->body ], [ 409, $taken ], 'POST with a body');
    $a = at('/seat/?seat=A-1&late', method => 'HEAD');
    is_deeply([ $a->status, $a->body ], [ 409, '' ], 'HEAD');

    $start = Time::HiRes::time();
    is(at('/now/?seat=A-1&late')->status, 409, 'wait=0');
    cmp_ok(Time::HiRes::time() - $start, '<', 0.35, 'is at once');
    $a = at('/pages/?seat=A-1&late');
    is_deeply([ $a->status, $a->body ], [ 409, $taken ],
              'error_page does not apply');

    reaches('seatsRefused', 5);
    reaches('seatsWaited', 3, 'those who waited');
    is(scalar(arrived('late')), 0, 'none of them came to the backend');
    $backend->let_go('first');
    is($first->answer->status, 200, 'the first is answered');
    free();
    is(at('/now/?seat=A-1')->status, 200, 'wait=0 of one that is free');
    free();



=== TEST 3: first come, first served
--- lock
wait=30s
--- check
    my @pending = start('/seat/?seat=A-1&n=0&hold=turn0');
    at_backend('n=0');

    for my $n (1 .. 20) {
        push @pending, start("/seat/?seat=A-1&n=$n&hold=turn$n");
        lines('A-1', $n);
    }

    for my $n (0 .. 20) {
        at_backend("n=$n&");
        is(scalar(arrived('n=')), $n + 1, "$n, and nobody else")
            if $n % 5 == 0;
        $backend->let_go("turn$n");
    }

    is_deeply([ map { $_->answer->status } @pending ], [ (200) x 21 ], 'all');
    is_deeply([ map { $_->{uri} =~ /n=(\d+)/ } arrived('n=') ], [ 0 .. 20 ],
              'in the order in which they came');
    free();
    reaches('seatsWaited', 20);
    reaches('seatsLocked', 21);



=== TEST 4: who goes away while waiting
--- lock
wait=30s
--- check
    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');

    my @pending;
    for my $n (1 .. 5) {
        push @pending, start("/seat/?seat=A-1&n=$n",
                             $n == 2 ? (method => 'POST', body => 'y' x 5000)
                                     : ());
        lines('A-1', $n);
    }

    $pending[$_]->close for 0, 1, 3;
    lines('A-1', 2);
    pass('who is gone is not in line');
    reaches('seatsWaiting', 2);

    $backend->let_go('first');
    is($_->answer->status, 200, 'the others are answered')
        for $first, @pending[2, 4];
    is_deeply([ map { $_->{uri} =~ /n=(\d)/ } arrived('n=') ], [ 3, 5 ],
              'in turn');
    free();
    reaches('seatsRefused', 0);
    reaches('seatsLocked', 3);



=== TEST 5: who goes away while at the backend
--- lock
wait=30s lease=10m
--- config
    location /stubborn/ {
        waiting_queue_seat_lock $arg_seat wait=30s lease=10m;
        proxy_ignore_client_abort on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $first = start('/seat/?seat=A-1&hold=never');
    at_backend('hold=never');
    my $second = start('/seat/?seat=A-1&n=2');
    lines('A-1', 1);

    $first->close;
    is($second->answer->status, 200, 'the next has the seat');
    free();

    # nobody waits
    $first = start('/seat/?seat=A-1&hold=never&alone');
    at_backend('alone');
    $first->close;
    free('nor does it stay locked where nobody waits');

    # what goes on without its client goes on with its seat
    $first = start('/stubborn/?seat=A-1&hold=stubborn');
    at_backend('hold=stubborn');
    $second = start('/seat/?seat=A-1&n=3');
    lines('A-1', 1);
    $first->close;
    status() for 1 .. 20;
    is(scalar(arrived('n=3')), 0, 'proxy_ignore_client_abort: still locked');
    $backend->let_go('stubborn');
    is($second->answer->status, 200, 'until the backend has answered');
    free();
    reaches('seatsLapsed', 0);



=== TEST 6: the backend fails
--- lock
wait=30s
--- config
    location /refused/ {
        waiting_queue_seat_lock $arg_seat wait=30s lease=10m;
        proxy_pass http://127.0.0.1:$TEST_NGINX_CLOSED_PORT;
    }
    location /slow/ {
        waiting_queue_seat_lock $arg_seat wait=30s lease=10m;
        proxy_read_timeout 2s;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /file/ {
        waiting_queue_seat_lock $arg_seat wait=30s lease=10m;
        alias html/;
    }
    location /large/ {
        waiting_queue_seat_lock $arg_seat wait=30s lease=10m;
        client_max_body_size 10;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    is(at('/refused/?seat=A-1')->status, 502, 'nobody listens');
    free();

    my $first = start('/slow/?seat=A-1&hold=never');
    at_backend('hold=never');
    my $second = start('/seat/?seat=A-1');
    lines('A-1', 1);
    is($first->answer->status, 504, 'no answer in time');
    is($second->answer->status, 200, 'the next has the seat');
    free();

    is(at('/seat/?seat=A-1&status=500')->status, 500, 'an error');
    free();
    is(at('/file/none?seat=A-1')->status, 404, 'no such file');
    free();
    is(at('/large/?seat=A-1', method => 'POST', body => 'x' x 100)->status,
       413, 'too large');
    free();
    is(at('/seat/?seat=A-1&status=204&size=0')->status, 204, 'no content');
    free();
    is(at('/seat/?seat=A-1&status=304&size=0')->status, 304, 'not modified');
    free();
    reaches('seatsLapsed', 0);



=== TEST 7: the lease is over while the request is at the backend
--- lock
wait=30s lease=300ms
--- check
    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');
    my $second = start('/seat/?seat=A-1&hold=second');
    lines('A-1', 1);
    at_backend('hold=second');
    pass('the next does not wait for ever');
    reaches('seatsLapsed', 1);

    my @lines = grep { /lease of the lock/ } split /\n/, error_log();
    is(scalar(@lines), 1, 'the log says it once');
    like($lines[0], qr/\[warn\].*waiting_queue:\ the\ lease\ of\ the\ lock\ of
                       \ seat\ "A-1"\ of\ event\ "e"\ is\ over\ .*
                       upstream,.*seat=A-1&hold=first/x,
         'with the seat and the request');

    # the end of the first does not take the lock from the second
    my $third = start('/seat/?seat=A-1&third');
    await('the third comes', sub { in_line('A-1') || arrived('third') });
    $backend->let_go('first');
    is($first->answer->status, 200, 'the first gets its answer');
    $backend->let_go('second');
    is($_->answer->status, 200, 'and so do the others') for $second, $third;
    free();

    # nobody waits: it is free
    $first = start('/seat/?seat=A-1&hold=last');
    at_backend('hold=last');
    await('no lock', sub { !defined owner('A-1') });
    is(at('/seat/?seat=A-1')->status, 200, 'free for the next');
    $backend->let_go('last');
    is($first->answer->status, 200, 'answered');
    free();
    like(error_log(), qr/hold=last/, 'logged');



=== TEST 8: one client, two requests; and one seat in two events
--- config
    location ~ ^/(?<event>\w+)/events/(?<seat>\w+)$ {
        waiting_queue_event $event;
        waiting_queue_seat_lock $seat wait=30s;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $v = visitor(headers => { Cookie => 'wq_uid=' . 'a' x 32 });
    my $first = $v->send('GET', '/seat/?seat=A-1&hold=first');
    at_backend('hold=first');
    my $second = $v->send('GET', '/seat/?seat=A-1&second');
    lines('A-1', 1);
    is(scalar(arrived('second')), 0, 'a double click waits, too');
    $backend->let_go('first');
    is($_->answer->status, 200, 'both are answered') for $first, $second;
    free();

    $first = start('/one/events/A1?hold=one');
    at_backend('hold=one');
    ok(defined owner('A1', 'one'), 'the seat of one event');
    is(at('/two/events/A1')->status, 200, 'is not that of another');
    $backend->let_go('one');
    is($first->answer->status, 200, 'answered');
    free();



=== TEST 9: internal redirects
--- lock
wait=0
--- config
    location /again/ {
        waiting_queue_seat_lock $arg_seat wait=0;
        proxy_intercept_errors on;
        error_page 502 504 = /seat/;
        error_page 500 = @named;
        error_page 503 = @other;
        error_page 404 = /open/;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /broken/ {
        waiting_queue_seat_lock $arg_seat wait=0;
        error_page 502 = @named;
        proxy_pass http://127.0.0.1:$TEST_NGINX_CLOSED_PORT;
    }
    location @named {
        waiting_queue_seat_lock $arg_seat wait=0;
        rewrite ^ /named?seat=$arg_seat&hold=named? break;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location @other {
        waiting_queue_seat_lock other-$arg_seat wait=0;
        rewrite ^ /other?seat=$arg_seat&hold=other? break;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /open/ {
        rewrite ^ /open?hold=open? break;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /tried/ {
        waiting_queue_seat_lock $arg_seat wait=0;
        try_files /none @named;
    }
    location /accel/ {
        internal;
        waiting_queue_seat_lock $arg_seat wait=0;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /stream/ {
        internal;
        waiting_queue_stream;
        waiting_queue_seat_lock $arg_seat wait=0;
    }
--- check
    # locked all the time, and asked for once; a lock that was asked for again
    # would be refused, because this request holds it
    my $locked = 0;
    my $through = sub {
        my ($what, $path, $hold, $seat) = @_;

        my $p = start($path);
        at_backend("hold=$hold");
        like(owner($seat || 'A-1'), qr/./, "$what: locked");
        is(at('/seat/?seat=' . ($seat || 'A-1'))->status, 409, 'for others');
        $locked++;
        $backend->let_go($hold);
        is($p->answer->status, 200, 'answered');
        free();
        reaches('seatsLocked', $locked);
        $backend->forget;
    };

    $through->('error_page to a named location', '/again/?seat=A-1&status=500',
               'named');
    $through->('no backend', '/broken/?seat=A-1', 'named');
    $through->('try_files', '/tried/?seat=A-1', 'named');
    $through->('to where nothing is locked', '/again/?seat=A-1&status=404',
               'open');
    # another seat: the first is given back before the other is asked for
    my $p = start('/again/?seat=A-1&status=503');
    at_backend('hold=other');
    like(owner('other-A-1'), qr/./, 'another seat: locked');
    is(owner('A-1'), undef, 'and the first is not');
    $backend->let_go('other');
    is($p->answer->status, 200, 'answered');
    free();
    reaches('seatsLocked', $locked + 2);

    # the same location once more, by an address of the backend
    $p = start('/seat/?seat=A-1&accel=/accel/x');
    is($p->answer->status, 400, 'X-Accel-Redirect without the seat: no id');
    free();
    $p = start('/seat/?seat=A-1&accel=/seat/?seat=A-1');
    is($p->answer->status, 200, 'with it: goes on');
    free();
    reaches('seatsLocked', $locked + 4);

    # who becomes a stream needs no seat
    my $s = $sse->open(path => '/seat/?seat=A-1&accel=/stream/',
                       headers => { 'X-User' => 'u' });
    $sse->run_until(sub { $s->events }, 10, 'a stream');
    free('holds nothing');
    $s->close;



=== TEST 10: Redis is away
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=1s
--- lock
wait=20s lease=2s
--- http_config
    waiting_queue_on_error pass;
--- check
    my $unavailable = sub {
        my ($what) = @_;
        my $a = at('/seat/?seat=A-1&away');
        is($a->status, 503, "$what: 503");
        is($a->json->{error}, 'redis_unavailable', 'which says why');
        like($a->header('Retry-After'), qr/^[1-5]$/, 'and when to try again');
    };

    $unavailable->('not there');
    is(scalar(arrived('away')), 0, 'waiting_queue_on_error does not matter');
    reaches('seatsFailed', 1);

    private_redis();
    ready();
    is(at('/seat/?seat=A-1')->status, 200, 'there: to the backend');

    # it does not answer: not for longer than its timeout
    kill 'STOP', $redis_pid;
    my $start = Time::HiRes::time();
    $unavailable->('does not answer');
    cmp_ok(Time::HiRes::time() - $start, '<', 5, 'in good time');
    kill 'CONT', $redis_pid;
    ready();
    free('and nothing of it is left, when it does');
    is(at('/seat/?seat=A-1')->status, 200, 'to the backend again');

    # those who hold and wait when it goes: the line is lost with its data
    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');
    my $second = start('/seat/?seat=A-1&second');
    lines('A-1', 1);
    kill_redis();
    await('it is gone', sub {
        !grep { $_->{state} eq 'ready' } links(status());
    });
    unlink glob("$redis_dir/appendonlydir/*"), "$redis_dir/appendonly.aof";
    is(scalar(arrived('second')), 0, 'who waits goes on waiting');
    $backend->let_go('first');
    is($first->answer->status, 200, 'who is at the backend is answered');
    private_redis();
    is($second->answer->status, 200, 'and the next when it is back');
    free();
    is(scalar(arrived('away')), 0, 'nobody came past the lock');



=== TEST 11: the wait is over while Redis is away
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- lock
wait=1500ms lease=10m
--- check
    private_redis();
    ready();

    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');
    my $second = start('/seat/?seat=A-1&second');
    lines('A-1', 1);
    kill_redis();
    is($second->answer->status, 503, 'nobody knows whether it is taken');
    is(scalar(arrived('second')), 0, 'and so nobody goes on');

    # a lock is given back when Redis is there again, not after ten minutes
    $backend->let_go('first');
    is($first->answer->status, 200, 'who is at the backend is answered');
    private_redis();
    like(owner('A-1'), qr/./, 'Redis knows of no end');
    free('until it is told');
    is(at('/seat/?seat=A-1')->status, 200, 'the next');
    free();



=== TEST 12: behind the gate
--- config
    location /shop/ {
        waiting_queue on;
        waiting_queue_seat_lock $arg_seat wait=30s;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /dry/ {
        waiting_queue on;
        waiting_queue_dry_run on;
        waiting_queue_bypass $arg_bypass;
        waiting_queue_seat_lock $arg_seat wait=0;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $line = WaitingQueue::Line->new(event => 'e', prefix => $prefix,
                                       sse => $sse, path => '/shop/?user=%u');
    my $as = sub { my ($user, @o) = @_; return (headers => {
        'X-User' => $user }, @o) };

    my $first = start('/shop/?seat=A-1&hold=first', $as->('a'));
    at_backend('hold=first');
    my $second = start('/shop/?seat=A-1&second&say=done', $as->('b'));
    lines('A-1', 1);
    is_deeply($line->inside, [ 'a', 'b' ], 'both are let in');

    my $out = at('/shop/?seat=A-1', $as->('c'));
    is($out->status, 503, 'who is not let in');
    is($out->json->{status}, 'waiting', 'waits for a slot');
    is(in_line('A-1'), 1, 'and for no seat');

    # the gate in a dry run, or passed by, does not open the lock
    is(at('/dry/?seat=A-1', $as->('c'))->status, 409, 'a dry run');
    is(at('/dry/?seat=A-1&bypass=1', $as->('c'))->status, 409, 'a bypass');

    $backend->let_go('first');
    is($first->answer->status, 200, 'the first');
    my $a = $second->answer;
    is($a->status, 200, 'the second');
    is($a->header('X-Waiting-Queue'), undef, 'its word is heard');
    await('done', sub { $line->stat('done') == 1 });
    free();
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # the cookies of who was let in come with a 409, too
    $first = start('/seat/?seat=A-1&hold=cookies');
    at_backend('hold=cookies');
    $a = at('/dry/?seat=A-1', $as->('c'));
    is($a->status, 409, 'taken');
    like(join(' ', $a->cookies), qr/wq_[0-9a-f]{8}=[0-9a-f]{40}/, 'a token');
    $backend->let_go('cookies');
    $first->answer;
    free();



=== TEST 13: connections that are kept, and HTTP/2
--- lock
wait=30s
--- check
    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');

    # two requests on one connection, sent at once: one after the other, and
    # both wait
    my $host = "Host: localhost\r\n";
    my $piped = WaitingQueue::Gate::Pending->new(
        "GET /seat/?seat=A-1&piped=1 HTTP/1.1\r\n$host\r\n"
        . "POST /seat/?seat=A-1&piped=2 HTTP/1.1\r\n$host"
        . "Content-Length: 4\r\n\r\nbody"
        . "GET /seat/?seat=A-1&piped=3 HTTP/1.1\r\n${host}Connection: close"
        . "\r\n\r\n");
    lines('A-1', 1);
    is(scalar(arrived('piped')), 0, 'pipelined: wait');
    $backend->let_go('first');
    is($first->answer->status, 200, 'the first');
    my @statuses = $piped->answer->raw =~ m{^HTTP/1.1 (\d+)}mg;
    is_deeply(\@statuses, [ (200) x 3 ], 'all are answered');
    is_deeply([ map { [ $_->{method}, $_->{body} ] } arrived('piped') ],
              [ [ GET => '' ], [ POST => 'body' ], [ GET => '' ] ],
              'in their order, as they came');
    free();

    # a connection that is kept does not keep the lock
    my $kept = WaitingQueue::Gate::Pending->new(
        "GET /seat/?seat=A-1 HTTP/1.1\r\n$host\r\n");
    $kept->until(qr{backend GET /seat/\n});
    free('free while the connection is kept');
    $kept->{in} = '';
    $kept->write("GET /seat/?seat=A-1&hold=kept HTTP/1.1\r\n$host\r\n");
    at_backend('hold=kept');
    like(owner('A-1'), qr/./, 'and locked by its next request');
    $backend->let_go('kept');
    $kept->until(qr{backend GET /seat/\n});
    $kept->close;
    free();

    # streams of one connection, though not of events
    my $client = WaitingQueue::Sse->new(port => server_port());
    my $h2 = WaitingQueue::Http2->new($client, $ENV{TEST_NGINX_HTTP2_PORT});
    my $one = $h2->open('/seat/?seat=A-1&hold=h2one', 'one');
    $client->run_until(sub { arrived('h2one') }, 10, 'at the backend');
    my @more = map {
        my $s = $h2->open("/seat/?seat=A-1&h2=$_", "stream $_");
        my $n = $_;
        $client->run_until(sub { in_line('A-1') == $n }, 10, "$n in line");
        $s;
    } 1 .. 4;
    $more[1]->reset;
    $client->run_until(sub { in_line('A-1') == 3 }, 10,
                    'a stream that is cancelled leaves');
    $backend->let_go('h2one');
    $client->run_until(sub { !grep { !defined $_->{ended} } @more }, 10,
                    'all are answered');
    is_deeply([ map { $_->{uri} =~ /h2=(\d)/ } arrived('h2=') ], [ 1, 3, 4 ],
              'in turn');
    free();

    $one = $h2->open('/seat/?seat=A-1&hold=h2never', 'never');
    $client->run_until(sub { arrived('h2never') }, 10, 'at the backend');
    $one->reset;
    $client->run_until(sub { !defined owner('A-1') }, 10,
                    'cancelled at the backend: free');
    $h2->close;
    free();



=== TEST 14: ids
--- config
    location ~ ^/e/(?<event>.*)/s/(?<seat>.*)$ {
        waiting_queue_event $event;
        waiting_queue_seat_lock $seat wait=0;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    for my $seat ('', 'a%20b', 'a/b', '%7Bx%7D', '%C3%A9', '*',
                  'x' x 129, 'a%09b', 'a%22b')
    {
        my $a = at("/e/e1/s/$seat");
        is($a->status, 400, "seat \"$seat\"");
        is($a->body, '{"error":"bad_seat_id","message":"a seat id is 1 to 128 '
                     . "of A-Z a-z 0-9 . _ ~ @ : -\"}\n", 'the JSON');

        next if $seat eq '';
        $a = at("/e/$seat/s/s1");
        is($a->status, 400, "event \"$seat\"");
        is($a->json->{error}, 'bad_event_id', 'the JSON');
    }

    is(at('/e/!/s/!')->json->{error}, 'bad_event_id', 'both: the event');
    is(at('/e/e1/s/!', method => 'POST', body => 'x')->status, 400, 'POST');
    is(at('/seat/?seat=%41')->status, 400, 'an argument is taken as it came');
    is(scalar($backend->requests), 0, 'nobody came to the backend');
    is_deeply($redis->call('KEYS', "${prefix}lock:*"), [], 'nor to Redis');

    for my $seat ('x' x 128, 'A-1', 'a.b_c~d@e:f-g', '0') {
        is(at("/e/$seat/s/$seat")->status, 200, "\"$seat\"");
    }
    free();



=== TEST 15: methods, bodies, and answers of any size
--- lock
wait=30s
--- http_config
    client_max_body_size 10m;
    proxy_buffers 256 64k;
    proxy_max_temp_file_size 0;
--- config
    location /linger/ {
        waiting_queue_seat_lock $arg_seat wait=30s lease=10m;
        lingering_close always;
        lingering_timeout 30s;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location /unbuffered/ {
        waiting_queue_seat_lock $arg_seat wait=30s;
        proxy_buffering off;
        proxy_request_buffering off;
        proxy_http_version 1.1;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $body = join '', map { chr(65 + $_ % 26) } 1 .. 2_000_000;
    my $digest = Digest::SHA::sha1_hex($body);

    for my $path ('/seat/', '/unbuffered/', '/linger/') {
        my $first = start("$path?seat=A-1&hold=first");
        at_backend('hold=first');
        my $second = start("$path?seat=A-1&second", method => 'POST',
                           body => substr $body, 0, 50);
        lines('A-1', 1);
        $backend->let_go('first');
        is($first->answer->status, 200, "$path: the first");
        is($second->answer->status, 200, 'a body that waited');
        is((arrived('second'))[0]{body}, substr($body, 0, 50), 'as it was');
        free();

        my $large = at("$path?seat=A-1&large", method => 'PUT', body => $body);
        is($large->body, "backend PUT $path\n", 'a large one');
        is((arrived('large'))[0]{body}, $digest, 'as it was');
        free();

        my $head = at("$path?seat=A-1&head", method => 'HEAD');
        is_deeply([ $head->status, $head->body ], [ 200, '' ], 'HEAD');
        free();
        is(length at("$path?seat=A-1&size=3000000")->body, 3000000,
           'a large answer');
        free();
        $backend->forget;
    }

    # who sends the body slowly does not have the seat meanwhile, and does not
    # come to the backend without it
    my $late = WaitingQueue::Gate::Pending->new(
        "POST /seat/?seat=A-1&late HTTP/1.1\r\nHost: localhost\r\n"
        . "Connection: close\r\nContent-Length: 8\r\n\r\nfour");
    is(at('/seat/?seat=A-1&quick')->status, 200, 'another has it');
    my $holder = start('/seat/?seat=A-1&hold=holder');
    at_backend('hold=holder');
    $late->write('more');
    lines('A-1', 1);
    is(scalar(arrived('late')), 0, 'all of it is there, the seat is not');
    $backend->let_go('holder');
    is($holder->answer->status, 200, 'who has the seat');
    is($late->answer->status, 200, 'and then the one who was slow');
    is((arrived('late'))[0]{body}, 'fourmore', 'with all of the body');
    free();

    # the answer is complete in nginx: who reads it slowly, or leaves the
    # connection open, does not keep the next waiting
    my $slow = start('/seat/?seat=A-1&size=15000000&slow');
    at_backend('slow');
    free('a client that does not read');
    is(length $slow->answer->body, 15000000, 'has its answer all the same');

    for my $method (qw(POST HEAD)) {
        my $open = WaitingQueue::Gate::Pending->new(
            "$method /linger/?seat=A-1 HTTP/1.1\r\nHost: localhost\r\n"
            . "Connection: close\r\nContent-Length: 3\r\n\r\nabcdef");
        $open->until(qr{\r\n\r\n});
        free("$method: a connection that lingers");
        $open->close;
    }

    reaches('seatsLapsed', 0);



=== TEST 16: what is in a location, and what is not
--- config
    location /outer/ {
        waiting_queue_seat_lock $arg_seat wait=0;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;

        location /outer/inner/ {
            proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
        }
        location /outer/own/ {
            waiting_queue_seat_lock own-$arg_seat wait=0;
            proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
        }
        if ($arg_if) {
            add_header X-If yes;
        }
        limit_except GET {
            allow all;
        }
    }
    location = /sub {
        auth_request /outer/auth;
        waiting_queue_seat_lock sub wait=0;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
    location = /stream {
        waiting_queue_stream;
        waiting_queue_seat_lock $arg_seat wait=0;
    }
    location = /figures {
        waiting_queue_status;
        waiting_queue_seat_lock $arg_seat wait=0;
    }
    location = /returned {
        waiting_queue_seat_lock $arg_seat wait=0;
        return 200 "returned";
    }
    location /named-seat/ {
        waiting_queue_seat_lock box-office wait=0;
        proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
    }
--- check
    my $first = start('/outer/?seat=A-1&hold=first');
    at_backend('hold=first');

    is(at('/outer/?seat=A-1')->status, 409, 'the location itself');
    is(at('/outer/?seat=A-1&if=1')->status, 409, 'an if within it');
    is(at('/outer/?seat=A-1', method => 'POST', body => 'x')->status, 409,
       'limit_except within it');
    is(at('/outer/inner/?seat=A-1')->status, 200, 'not another within it');
    is(at('/outer/own/?seat=A-1')->status, 200, 'unless with its own,');
    like(join(' ', map { $_->{uri} } $backend->requests), qr{/outer/own/},
         'which came through');
    is(at('/outer/?seat=A-2&if=1')->header('X-If'), 'yes', 'the if is one');

    my $own = start('/outer/own/?seat=A-1&hold=own');
    at_backend('hold=own');
    like(owner('own-A-1'), qr/./, 'of its own');
    $backend->let_go('own');
    is($own->answer->status, 200, 'answered');

    is(at('/sub?seat=A-1')->status, 200, 'subrequests are not locked');
    my $s = $sse->open(path => '/stream?user=u&seat=A-1');
    $sse->run_until(sub { $s->events }, 10, 'nor streams');
    is(at('/figures?seat=A-1')->status, 200, 'nor the figures');
    is(at('/figures')->status, 200, 'whatever the seat');
    is(at('/returned?seat=A-1')->body, 'returned', 'nor what is returned');
    $s->close;

    my $named = start('/named-seat/?hold=named');
    at_backend('hold=named');
    is(at('/named-seat/')->status, 409, 'a name without variables');

    $backend->let_go($_) for qw(first named);
    is($_->answer->status, 200, 'answered') for $first, $named;
    free();



=== TEST 17: messages that somebody has forged
--- lock
wait=2s lease=10s
--- check
    my @instances = map { $_->{instance} } @{status()->{processes}};
    my $send = sub {
        my ($instance, %more) = @_;
        my %f = (type => 'seat', userId => 'A-1', eventId => 'e',
                 instanceId => $instance, idx => 1, token => '',
                 expiresAt => 0, serial => 0, %more);
        $redis->call('XADD', "${prefix}DISPATCH:{$instance}", '*',
                     map { ($_ => $f{$_}) } qw(type userId eventId instanceId
                                               idx token expiresAt serial));
    };
    my $read = sub {
        await('all messages are read', sub {
            !grep { $redis->call('XLEN', "${prefix}DISPATCH:{$_}") }
                  @instances;
        });
    };

    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');
    my $second = start('/seat/?seat=A-1&second');
    lines('A-1', 1);
    my ($instance, $number) = $redis->call(
        'ZRANGE', lock_of('A-1') . '/waiting', 0, 0)->[0] =~ m{^(.*?)/(\d+)/};
    my $owner = owner('A-1');

    # an old one, by which the lock was handed to the second long ago
    $send->($instance, idx => $number, expiresAt => 1);
    $send->($instance, idx => $number,
            expiresAt => 1000 * int Time::HiRes::time());
    # to who is not there
    for my $i (@instances) {
        $send->($i, idx => $_) for 0, 1000, '9223372036854775807';
        $send->($i, idx => $number, userId => 'A-2');
        $send->($i, idx => $number, eventId => 'f');
    }
    $read->();
    is(sum('dispatchGarbage'), 0, 'they make sense');
    is(owner('A-1'), $owner, 'the lock is where it was');
    is(scalar(arrived('second')), 0, 'and nobody came past it');
    is($second->answer->status, 409, 'the wait is over');
    reaches('seatsPassedOn', 0);

    # a lock that is really handed to nobody is given on
    $redis->call('SET', lock_of('B-1'), "$instances[0]/999", 'PX', 100000);
    my $third = start('/seat/?seat=B-1&third');
    lines('B-1', 1);
    $send->($instances[0], idx => 999, userId => 'B-1');
    is($third->answer->status, 200, 'one that nobody waits for: given on');
    reaches('seatsPassedOn', 1);

    # of a kind that does not exist, or without its fields
    $send->($instances[0], type => 'seats');
    $send->($instances[0], userId => '');
    $send->($instances[0], idx => -1);
    $send->($instances[0], idx => 'x');
    reaches('dispatchGarbage', 4);

    $backend->let_go('first');
    is($first->answer->status, 200, 'answered');
    free();



=== TEST 18: a message that is lost
--- lock
wait=30s lease=10m
--- check
    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');
    my $second = start('/seat/?seat=A-1&second');
    lines('A-1', 1);

    # what the unlock would do, but without telling anybody
    my ($member) = @{$redis->call('ZRANGE', lock_of('A-1') . '/waiting', 0, 0)};
    my ($next) = $member =~ m{^(.*?/\d+)/};
    $redis->call('MULTI');
    $redis->call('ZREM', lock_of('A-1') . '/waiting', $member);
    $redis->call('SET', lock_of('A-1'), $next, 'PX', 600000);
    $redis->call('EXEC');
    is($second->answer->status, 200, 'it asks again by itself');
    $backend->let_go('first');
    is($first->answer->status, 200, 'answered');
    free();

    # a lock by hand, of no request, and without end
    $redis->call('SET', lock_of('A-1'), 'the box office');
    $second = start('/seat/?seat=A-1&box');
    lines('A-1', 1);
    is(scalar(arrived('box')), 0, 'is a lock');
    $redis->call('DEL', lock_of('A-1'));
    is($second->answer->status, 200, 'until it is taken away');
    free();

    # what is no lock at all
    $redis->call('HSET', lock_of('A-1'), 'owner', 1);
    is(at('/seat/?seat=A-1&hash')->status, 503, 'a key of another kind');
    is(scalar(arrived('hash')), 0, 'lets nobody past');
    $redis->call('DEL', lock_of('A-1'));
    free();



=== TEST 19: a reload, with one at the backend and others in line
--- lock
wait=30s lease=10m
--- check
    my $first = start('/seat/?seat=A-1&n=0&hold=turn0');
    at_backend('n=0');
    my @pending = map {
        my $p = start("/seat/?seat=A-1&n=$_&hold=turn$_");
        lines('A-1', $_);
        $p;
    } 1 .. 3;

    my %old = map { $_ => 1 } pids();
    reload();
    await('new workers, and old ones that wait', sub {
        my @processes = @{status()->{processes}};
        grep({ !$old{$_->{pid}} && $_->{heartbeats} } @processes) == $workers
            && grep { $old{$_->{pid}} && $_->{draining} } @processes;
    });

    for my $n (4 .. 6) {
        push @pending, start("/seat/?seat=A-1&n=$n&hold=turn$n");
        lines('A-1', $n);
    }

    for my $n (0 .. 6) {
        at_backend("n=$n&");
        is(scalar(arrived('n=')), $n + 1, "$n, and nobody else");
        $backend->let_go("turn$n");
    }

    is($_->answer->status, 200, 'answered') for $first, @pending;
    free();
    await('the old are gone', sub { !grep { $old{$_} } pids() });
    is(scalar(grep { kill 0, $_ } keys %old), 0, 'for good');

    # one that goes with the lock of a client that goes
    $first = start('/seat/?seat=A-1&hold=gone');
    at_backend('hold=gone');
    my $second = start('/seat/?seat=A-1&next');
    lines('A-1', 1);
    %old = map { $_ => 1 } pids();
    reload();
    await('new workers', sub {
        grep({ !$old{$_->{pid}} && $_->{heartbeats} }
             @{status()->{processes}}) == $workers;
    });
    $first->close;
    is($second->answer->status, 200, 'given back by an old worker');
    free();
    await('the old are gone', sub { !grep { $old{$_} } pids() });



=== TEST 20: nobody waits for a dead Redis as long as for a seat
--- redis
redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms
--- lock
wait=60s lease=10m
--- check
    private_redis();
    ready();

    my $first = start('/seat/?seat=A-1&hold=first');
    at_backend('hold=first');
    my $second = start('/seat/?seat=A-1&second');
    lines('A-1', 1);

    my $begin = time;
    kill_redis();
    is($second->answer->status, 503, 'who is in line hears of it');
    cmp_ok(time - $begin, '<', 20, 'soon');
    is(scalar(arrived('second')), 0, 'and does not go on');
    $backend->let_go('first');
    is($first->answer->status, 200, 'who is at the backend is answered');
    private_redis();
    free('all is given back in the end');
