# An open gate must not do to the backend what it stands there to prevent: with
# waiting_queue_on_error pass=N/time so many get through while Redis is away, for
# each event on a node whatever its number of workers, and nobody besides but
# those whom the node knows.

use WaitingQueue::Test;
use WaitingQueue::Live;

use File::Temp ();
use IO::Socket::INET;
use POSIX ();
use Time::HiRes ();
use WaitingQueue::Backend;
use WaitingQueue::Gate;
use WaitingQueue::Redis;

my $workers = $ENV{WQ_WORKERS} || 1;
my $backend = WaitingQueue::Backend->new;

$ENV{TEST_NGINX_BACKEND_PORT} = $backend->port;
$ENV{TEST_NGINX_PRIVATE_REDIS_PORT} = free_port();

my ($prefix, $redis_pid, $redis_dir);


# "--- check" runs after the request, as one test.  "--- gates" are locations
# with the gate in front of the backend, one a line: a path, an event and other
# directives.  Redis is one of the test's own, which is away until it starts it,
# unless "--- redis" names another.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t019-$prefix:";

    my $locations = '';

    for my $gate (split /\n/, $text->('gates')) {
        my ($path, $event, @directives) = split ' ', $gate;

        $locations .= "
    location $path {
        waiting_queue on;
        waiting_queue_event $event;
        @directives
        proxy_pass http://127.0.0.1:\$TEST_NGINX_BACKEND_PORT;
    }
";
    }

    $block->set_value('http_config', '
    waiting_queue_redis ' . ($text->('redis')
        || 'redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT timeout=500ms')
        . ';
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    waiting_queue_capacity 1;
' . $text->('http_config'));
    $block->set_value('config', '
    waiting_queue_user $arg_user;
    location = /status {
        waiting_queue off;
        waiting_queue_status;
        access_log off;
    }
' . $locations . $text->('config'));
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t019-$prefix:";

    Test::More::subtest($block->name => sub {
        await('all workers', sub { @{status()->{processes}} == $workers });
        $backend->forget;

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        wake_redis();
        kill_redis();
        undef $redis_dir;
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


# at(path, user, options): an answer to GET, without cookies

sub at {
    my ($path, $user, %options) = @_;

    return visitor(jar => 0)->ask($options{method} || 'GET',
                                  "$path?user=$user", %options);
}


# passed(path, n): how many of n who are new and come at once, on connections of
# their own and so to any worker; the others must get the 503

sub passed {
    my ($path, $n) = @_;

    my @pending = map { visitor(jar => 0)->send('GET', "$path?user=new$_") }
                      1 .. $n;
    my $passed = 0;

    for my $a (map { $_->answer } @pending) {
        if ($a->status eq '200' && $a->body eq "backend GET $path\n") {
            $passed++;
        } elsif ($a->status ne '503' || !defined $a->header('Retry-After')
                 || ($a->json || {})->{error} ne 'redis_unavailable') {
            fail("$path: neither passed nor refused") || diag($a->raw);
        }
    }

    return $passed;
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

=== TEST 1: so many pass, and then nobody who is not known
--- gates
/r/      e waiting_queue_on_error pass=5/1h;
/same/   e waiting_queue_on_error pass=5/h;
/other/  f waiting_queue_on_error pass=5/1h;
/any/    g waiting_queue_on_error pass;
/none/   e waiting_queue_on_error block;
--- check
    my $redis = private_redis();

    ready();
    is(at('/r/', 'in')->status, 200, 'one is in');
    is(at('/r/', 'w')->json->{status}, 'waiting', 'one waits');
    is(sum('gatePassedOnError') + sum('gateRationed'), 0,
       'nothing is rationed while Redis is there');
    lose_redis();
    $backend->forget;

    # whatever asks for a stream is no request for the backend
    unavailable(at('/r/', 'x', headers => { Accept => 'text/event-stream' }),
                'redis_unavailable', 'a stream');

    my $a = at('/r/', 'w', method => 'POST', body => 'buy');
    is($a->body, "backend POST /r/\n", 'who waited passes');
    is(($backend->requests)[-1]{body}, 'buy', 'with the body');
    is_deeply([ $a->cookies ], [], 'with nothing to show for it later');
    is(at('/r/', 'in')->status, 200, 'who is in passes') for 1 .. 20;
    is(passed('/r/', 40), 4, 'four more, of forty at once');
    reaches('gatePassedOnError', 5);
    reaches('gateRationed', 36);

    unavailable(at('/r/', 'w'), 'redis_unavailable', 'who passed before');
    unavailable(at('/same/', 'x'), 'redis_unavailable',
                'by another location of this event');
    unavailable(at('/none/', 'x'), 'redis_unavailable', 'where none may');
    reaches('gateRationed', 38, 'which is not for the ration');

    $a = at('/r/', 'w', headers => { Accept => 'text/html' });
    is($a->status, 503, 'the page');
    like($a->body, qr/data-status="unavailable"/, 'says so');
    like($a->header('Retry-After'), qr/^[1-5]$/, 'and when to come again');
    is($a->header('Cache-Control'), 'no-store', 'not to be cached');

    is(at('/r/', 'in')->status, 200, 'who is in passes still');
    is(passed('/other/', 9), 5, 'another event has its own');
    is(passed('/any/', 60), 60, 'and where there is none all pass');
    reaches('gatePassedOnError', 70);
    reaches('gateRationed', 43);
    is(scalar(grep { $_->{uri} =~ m{^/r/} && $_->{uri} !~ /user=in$/ }
                   $backend->requests), 5, 'the backend has seen five');

    if ($workers > 1) {
        my %old = map { $_->{pid} => 1 } @{status()->{processes}};

        reload();
        await('other workers', sub {
            my @pids = map { $_->{pid} } @{status()->{processes}};
            @pids == $workers && !grep { $old{$_} } @pids;
        });
        is(passed('/r/', 20), 0, 'a reload gives no other ration');
        is(at('/r/', 'in')->status, 200, 'who is in passes still');
    }

    $redis = private_redis();
    ready();
    is(at('/r/', 'w')->json->{status}, 'waiting', 'and waits again');



=== TEST 2: one after the other, and none is given away
--- gates
/r/ e waiting_queue_on_error pass=4/1s;
--- check
    my $begin = Time::HiRes::time();

    is(passed('/r/', 12), 4, 'at once');

    # the clock of a worker is that of its last event: a little behind, never
    # ahead
    my ($got, $late, $last) = (4, 0, Time::HiRes::time());
    my $took = $last - $begin;

    while ($last < $begin + 4) {
        $got++ if at('/r/', 'x')->status == 200;

        my $now = Time::HiRes::time();
        my $most = 4 + 4 * ($now - $begin);

        fail("$got, and not more than $most") if $got > $most;
        $late = $now - $last if $late < $now - $last;
        $last = $now;
    }

    # each answer but the last may have been waited for as long as the longest
    cmp_ok($got, '>=', 4 + int(4 * ($last - $begin - $took - $late)) - 1,
           "$got in all, which is not less than there were");
    cmp_ok($got, '<=', 4 + 4 * ($last - $begin), 'nor more');
    await('one more', sub { at('/r/', 'x')->status == 200 });
    pass('and so it goes on');



=== TEST 3: Redis is there, and busy: that opens no gate
--- redis
unix:$TEST_NGINX_REDIS_SOCKET timeout=20s in_flight=2
--- gates
/r/ e waiting_queue_on_error pass=1000/1s;
--- check
    my $full = sub {
        my @commands = map { $_->{links}{commands} } @{status()->{processes}};
        !grep { $_->{inFlight} < 2 } @commands;
    };

    ready();
    stop_redis();

    my @pending;
    await('all links are full', sub {
        push @pending, visitor(jar => 0)->send('GET', '/r/?user=p' . @pending)
            if @pending < 500;
        $full->();
    });

    is(passed('/r/', 30), 0, 'nobody passes');
    is(sum('gatePassedOnError') + sum('gateRationed'), 0,
       'it is no matter of the ration');
    ok($full->(), 'they were full all the time');
    wake_redis();
    ready();
    $_->close for @pending;



=== TEST 4: Redis does not answer: those who asked share the ration too
--- redis
unix:$TEST_NGINX_REDIS_SOCKET timeout=1s
--- gates
/r/ e waiting_queue_on_error pass=3/1h;
--- check
    ready();
    stop_redis();
    is(passed('/r/', 30), 3, 'three, whichever worker they have come to');
    wake_redis();
    reaches('gatePassedOnError', 3);
    reaches('gateRationed', 27);



=== TEST 5: no room to count: nobody passes, and nobody loses count
--- http_config
    waiting_queue_zone 512k;
--- gates
~^/long/(?<long>[^/]+)/   $long  waiting_queue_on_error pass=1/1h;
~^/plain/(?<plain>[^/]+)/ $plain waiting_queue_on_error pass;
--- check
    my (%got, @last);

    # names without end, as somebody may think of who wants more than one
    for my $n (1 .. 400) {
        my $status = at("/long/n$n/", 'x')->status;
        push @{$got{$status}}, $n;
    }
    is_deeply([ sort keys %got ], [ 200, 503 ], 'some pass, others do not');
    is_deeply($got{200}, [ 1 .. @{$got{200}} ], 'those who came first');
    cmp_ok(scalar @{$got{200}}, '>', 10, scalar(@{$got{200}}) . ' of 400');

    my @again = grep { at("/long/n$_/", 'x')->status != 503 } 1 .. 400;
    is_deeply(\@again, [], 'none of them passes twice');
    reaches('gateRationed', 800 - @{$got{200}});
    is(at('/plain/new/', 'x')->status, 200,
       'where nothing is counted there is room for all');



=== TEST 6: room that is not needed any more
--- http_config
    waiting_queue_zone 512k;
--- gates
~^/brief/(?<brief>[^/]+)/ $brief waiting_queue_on_error pass=1/50ms;
--- check
    # one whose ration is full again is forgotten for another
    for my $n (1 .. 400) {
        await("event $n", sub { at("/brief/n$n/", 'x')->status == 200 });
    }
    pass('they all have passed');



=== TEST 7: which ration a location has
--- http_config
    waiting_queue_on_error pass=3/1h;
--- gates
/inherited/ a
/own/       b waiting_queue_on_error pass=1/1h;
/any/       c waiting_queue_on_error pass;
/none/      d waiting_queue_on_error block;
/six/       s waiting_queue_on_error pass=6/1h;
/four/      s waiting_queue_on_error pass=4/1h;
/trial/     t waiting_queue_dry_run on;
--- check
    is(passed('/inherited/', 9), 3, 'that of http{}');
    is(passed('/own/', 9), 1, 'its own');
    is(passed('/any/', 9), 9, 'as many as come');
    is(passed('/none/', 9), 0, 'nobody');
    is(passed('/six/', 3), 3, 'two of one event: three of six');
    is(passed('/four/', 9), 1, 'leave one of four');
    is(passed('/six/', 9), 2, 'and two of six');
    reaches('gatePassedOnError', 19);
    my $dry = sum('gateDryRun');
    is(passed('/trial/', 9), 9, 'on trial all pass');
    reaches('gateDryRun', $dry + 6, 'and it is said who would not have');
