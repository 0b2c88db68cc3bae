# Not everybody has an EventSource: a place in line is as good for who comes and
# asks, as long as it does.  Who changes between the two, or does both in two
# tabs, has one place, the same one; and who has stopped asking makes room.

use WaitingQueue::Test;
use WaitingQueue::Live;

use IO::Socket::INET;
use Time::HiRes ();
use WaitingQueue::Gate;
use WaitingQueue::Line;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;

$ENV{TEST_NGINX_INNER_PORT} = free_port();

my ($sse, $prefix);


# "--- check" runs after the request, as one test; "--- settings" are those of
# the gate, at /shop/ for who has a name, and at /cookie/ for who has not.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t015-$prefix:";

    $block->set_value('http_config', '
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    server {
        listen 127.0.0.1:$TEST_NGINX_INNER_PORT;
        location / {
            return 200 "inside\n";
        }
    }
');
    $block->set_value('config', '
    location = /status {
        waiting_queue_status;
        access_log off;
    }
    waiting_queue_event e;
    waiting_queue_capacity 1;
    ' . $text->('settings') . '
    location /shop/ {
        waiting_queue on;
        waiting_queue_user $arg_user;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
    location /cookie/ {
        waiting_queue on;
        proxy_pass http://127.0.0.1:$TEST_NGINX_INNER_PORT;
    }
');
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t015-$prefix:";

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


sub line {
    return WaitingQueue::Line->new(event => 'e', prefix => $prefix,
                                   sse => $sse, path => '/shop/?user=%u');
}


# poll(user): the state that it is told

sub poll {
    my ($user) = @_;

    my $a = visitor(jar => 0)->get("/shop/?user=$user");

    return $a->status == 200 ? { status => 'inside' } : $a->json;
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

__DATA__

=== TEST 1: asking keeps the place, and moves up with it
--- settings
    waiting_queue_poll_timeout 2s;
--- check
    my $line = line();

    is(poll('in')->{status}, 'inside', 'one is in');
    is(poll("u$_")->{rank}, $_ - 1, "u$_ is behind") for 1 .. 4;
    my %idx = map { $_ => $line->idx($_) } qw(u1 u2 u3 u4);

    # longer than a silent one would be kept
    meanwhile(4, sub { poll($_) for qw(u1 u2 u3 u4) });
    is_deeply($line->waiting, [ qw(u1 u2 u3 u4) ], 'all are still there');
    is($line->idx($_), $idx{$_}, "$_ has its number") for sort keys %idx;
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # in the order of the line, whoever asks first
    for my $n (1 .. 4) {
        $line->release($n == 1 ? 'in' : 'u' . ($n - 1));

        for my $behind (reverse $n + 1 .. 4) {
            is_deeply([ @{poll("u$behind")}{qw(status rank)} ],
                      [ 'waiting', $behind - $n - 1 ], "u$behind moves up");
        }
        is(poll("u$n")->{status}, 'inside', "u$n is in");
    }
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 2: who asks no more leaves, and the others move up
--- settings
    waiting_queue_poll_timeout 2s;
--- check
    my $line = line();

    poll($_) for qw(in a b c);
    my $s = $line->join('d');
    is($s->rank, 3, 'a stream behind three who ask');

    # b goes silent
    my $since = $line->snapshot->{now};
    await('b has left', sub {
        poll($_) for qw(a c);
        $sse->turn(0.01);
        "@{$line->waiting}" eq 'a c d';
    });
    cmp_ok($line->snapshot->{now} - $since, '>=', 1500, 'not too soon');
    is(poll('c')->{rank}, 1, 'who asks is told');
    $sse->run_until(sub { $s->rank == 2 }, 10, 'who listens is told');
    is($line->stat('left'), 1, 'counted');

    # the stream is no poller: it stays though it never asks
    await('all who ask have left', sub { "@{$line->waiting}" eq 'd' });
    $sse->run_until(sub { $s->rank == 0 }, 10, 'the stream is the first');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # who comes again is new
    is(poll('b')->{rank}, 1, 'b comes again, behind');

    # and with nobody there nothing is left but the one inside
    $s->close;
    $line->release('in');
    is($line->call('ZCARD', $line->key('WAITING_SEEN')) <= 1 ? 'ok' : 'no',
       'ok', 'nobody is seen who is not there');



=== TEST 3: a slot for who is silent is not lost
--- settings
    waiting_queue_poll_timeout 30s;
    waiting_queue_ttl 1m claim=1s;
--- check
    my $line = line();

    poll($_) for qw(in silent next);
    $line->release('in');
    is_deeply($line->inside, [ 'silent' ], 'it is its turn');
    is($line->lease('silent')->{state}, 'ready', 'but it does not come');
    await('the next', sub { poll('next')->{status} eq 'inside' });
    is_deeply($line->inside, [ 'next' ], 'after the claim time');
    is($line->stat('expired'), 1, 'the other has lapsed');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 4: from asking to listening and back
--- settings
    waiting_queue_poll_timeout 2s;
    waiting_queue_grace 2s;
--- check
    my $line = line();

    poll($_) for qw(in u v);
    my $idx = $line->idx('u');
    is($line->record('u')->{instanceId}, '', 'nobody holds a connection');

    my $s = $line->join('u');
    is($s->rank, 0, 'the stream has the place of who asked');
    is($line->idx('u'), $idx, 'the very same');
    isnt($line->record('u')->{instanceId}, '', 'which a worker holds now');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # nobody asks for longer than a poller would be kept
    meanwhile(4, sub { poll('v') });
    is($line->idx('u'), $idx, 'listening is enough');
    is($s->ended, undef, 'the stream goes on');

    # back: the stream is closed, and grace would be over
    $s->close;
    meanwhile(5, sub { poll($_) for qw(u v) });
    is($line->idx('u'), $idx, 'asking is enough, too');
    is(poll('u')->{rank}, 0, 'it is the first');
    is_deeply($line->waiting, [ qw(u v) ], 'nobody has lost a place');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # and once more
    $s = $line->join('u');
    is($line->idx('u'), $idx, 'to the stream again');
    $line->release('in');
    $sse->run_until(sub { $s->last('promoted') }, 10, 'and in');
    is(poll('u')->{status}, 'inside', 'by whichever way');

    # nobody comes any more: gone, within grace or the time of a poller
    await('v has left', sub { !@{$line->waiting} });
    pass('who does neither leaves');



=== TEST 5: a stream that ends without asking leaves by grace, not later
--- settings
    waiting_queue_poll_timeout 10m;
    waiting_queue_grace 1s;
--- check
    my $line = line();

    poll('in');
    my $s = $line->join('u');
    $s->close;
    await('u has left', sub { !@{$line->waiting} });
    is($line->call('ZCARD', $line->key('WAITING_SEEN')), 0,
       'it was never one who asks');



=== TEST 6: two tabs, one place
--- settings
    waiting_queue_poll_timeout 5s;
--- check
    my $line = line();
    my %html = (headers => { Accept => 'text/html' });

    poll('in');

    my $v = visitor(path => '/cookie/');
    $v->get(undef, %html);
    my $id = $v->id;

    # both load the page, one listens and one asks
    like($v->get(undef, %html)->body, qr/data-position="1"/, 'one tab');
    like($v->get(undef, %html)->body, qr/data-position="1"/, 'the other');
    my $s = $sse->open(path => '/cookie/', headers => { Cookie => $v->cookie });
    $sse->run_until(sub { $s->last('position') }, 10, 'one listens');
    is($v->get->json->{rank}, 0, 'one asks');
    is($s->ended, undef, 'which does not end the stream');
    is_deeply($line->waiting, [ $id ], 'one place');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');

    # the newest stream wins, and the place stays
    my $t = $sse->open(path => '/cookie/', headers => { Cookie => $v->cookie });
    $sse->run_until(sub { $s->last('replaced') && $t->last('position') }, 10,
                    'the newest stream wins');
    is($t->rank, 0, 'with the place');
    is_deeply($line->waiting, [ $id ], 'still one');

    # a tab that is closed takes nothing from the other
    $t->close;
    meanwhile(2, sub { $v->get });
    is_deeply($line->waiting, [ $id ], 'a tab is closed, the other asks');

    # both are in, by one slot and one token
    $line->release('in');
    my $a = await('in', sub { my $a = $v->get(undef, %html);
                              $a->status == 200 && $a });
    is($a->body, "inside\n", 'one tab is in');
    is($v->get->body, "inside\n", 'the other is in');
    is_deeply($line->inside, [ $id ], 'one slot');
    is($v->token('e'), $line->token($id), 'one token');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 7: many tabs at once do not make many places
--- check
    my $line = line();

    poll('in');

    my @pending = map { visitor(jar => 0)->send('GET', '/shop/?user=u') }
                      1 .. 40;
    my @answers = map { $_->answer->json } @pending;

    is(scalar(grep { $_->{status} eq 'waiting' && $_->{rank} == 0
                     && $_->{total} == 1 } @answers), 40,
       'all are told the same');
    is_deeply($line->waiting, [ 'u' ], 'one place');
    is($line->stat('joined'), 2, 'and one join for each user');

    # nor many slots
    $line->release('in');
    @pending = map { visitor(jar => 0)->send('GET', '/shop/?user=u') } 1 .. 40;
    is(scalar(grep { $_->answer->status == 200 } @pending), 40, 'all are in');
    is_deeply($line->inside, [ 'u' ], 'by one slot');
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 8: who asks through several workers and a page has no other place
--- check
    my $line = line();

    poll('in');
    poll('first');

    for my $n (1 .. 20) {
        my $a = visitor(jar => 0)->get('/shop/?user=u', headers => {
            Accept => $n % 2 ? 'text/html' : 'application/json' });
        $n % 2 ? like($a->body, qr/data-position="2"/, 'the page')
               : is($a->json->{waitingPosition}, 2, 'the JSON');
    }
    is_deeply($line->waiting, [ qw(first u) ], 'in the order of coming');



=== TEST 9: let in while the stream was lost, and inside without one
--- settings
    waiting_queue_grace 1s;
--- check
    my $line = line();

    is(poll('in')->{status}, 'inside', 'one is in');
    my $s = $line->join('a');
    is($s->last('position')->{data}{rank}, 0, 'one waits, with a stream');
    $s->close;
    await('the stream is gone', sub {
        !grep { $_->{streams} } @{status()->{processes}}
    });
    $line->release('in');
    is(poll('a')->{status}, 'inside', 'in, by asking');
    await('the grace time is over', sub {
        !grep { $_->{absent} } @{status()->{processes}}
    });
    is_deeply($line->inside, [ 'a' ], 'is still in');
    is($line->stat('left'), 0, 'and has not left');
    is(poll('a')->{status}, 'inside', 'and goes on');
