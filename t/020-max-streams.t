# A sale that fills a node with streams must leave it able to let people in: at
# waiting_queue_max_streams a worker refuses one more, and says so; it never has
# more, whoever comes at once; it loses count of none that ends, by whatever way;
# and who comes again is not refused for himself.

use WaitingQueue::Test;
use WaitingQueue::Live;

use IO::Socket::INET;
use WaitingQueue::Backend;
use WaitingQueue::Gate;
use WaitingQueue::Line;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;
my $max = 3;
my $all = $max * $workers;
my $backend = WaitingQueue::Backend->new;

$ENV{TEST_NGINX_BACKEND_PORT} = $backend->port;
$ENV{TEST_NGINX_STREAM_PORT} = free_port();

my $too_many = '{"error":"too_many_streams","message":"there are too many '
               . 'streams now, ask for JSON or try again later"}' . "\n";

my ($sse, $prefix);
my $serial = 0;


# "--- check" runs after the request, as one test.  Streams have a port of their
# own, with reuseport: else one worker could get them all.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t020-$prefix:";

    $block->set_value('http_config', '
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET timeout='
        . ($text->('timeout') || '20s') . ';
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    waiting_queue_capacity 0;
    waiting_queue_user $arg_user;
    waiting_queue_event e;
    waiting_queue_max_streams ' . $max . ';
    server {
        listen 127.0.0.1:$TEST_NGINX_STREAM_PORT reuseport;
        location /stream {
            waiting_queue_stream;
        }
        location /gate/ {
            waiting_queue on;
            proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT;
        }
        ' . $text->('locations') . '
    }
');
    $block->set_value('config', '
    location = /status {
        waiting_queue_status;
        access_log off;
    }
');
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t020-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => $ENV{TEST_NGINX_STREAM_PORT});
        ready();

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        wake_redis();
        is(scalar(grep { $_->{streams} > $max } @{status()->{processes}}), 0,
           'no worker has more than it may');
        $sse->close_all;
        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
    });
});

plan tests => repeat_each() * (blocks() * 4) + 6;

worker_connections(2048);
redis('FLUSHALL');

run_tests();


# what nginx says of a number for which there are too few connections; it has
# 512 where nothing is said

for my $case ([ 448, 0 ], [ 449, 1 ], [ 0, 0 ]) {
    my ($n, $warns) = @$case;
    my ($ok, $output) = nginx_t('waiting_queue_redis redis://127.0.0.1; '
                                . "waiting_queue_max_streams $n;");

    my $warning = '[warn] "waiting_queue_max_streams" is ' . $n
                  . ', for which at least ' . ($n + 64)
                  . ' "worker_connections" are needed, but there are 512';

    $output =~ s/\d+#\d+: //g;
    ok($ok, "$n streams: taken");
    is($output =~ /\[warn\]/ ? 1 : 0, $warns && $output =~ /\Q$warning\E/
       ? 1 : 0, "$n streams: " . ($warns ? 'with' : 'without') . ' a warning')
        or diag($output);
}


sub free_port {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
        or die "no port: $!\n";
    return $socket->sockport;
}


sub line {
    return WaitingQueue::Line->new(event => 'e', prefix => $prefix,
                                   sse => $sse, path => '/stream?user=%u', @_);
}


# told(stream): waits for its answer

sub told {
    my $s = shift;

    $sse->run_until(sub { $s->events || $s->ended }, 20)
        or die "no answer\n" . $sse->describe . "\n";

    return $s;
}


# is_refused(stream): to the letter

sub is_refused {
    my ($s, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(($s->status || 0) == 503 && $s->body eq $too_many
       && $s->header('Retry-After') =~ /^[1-5]$/
       && $s->header('Content-Type') eq 'application/json'
       && $s->header('Cache-Control') eq 'no-store', $what)
        or diag($sse->describe, $s->body);
}


# fill(line): streams of new users, until all workers are full; those that are
# open, and those that were refused meanwhile

sub fill {
    my $line = shift;

    my (@open, @refused);

    await('all workers are full', sub {
        my $s = $line->join('u' . ++$serial);

        if ($s->is_open) {
            push @open, $s;
        } else {
            push @refused, $s;
        }
        @open >= $all;
    });

    return (\@open, \@refused);
}


# another(line): a stream of somebody new, when there is room

sub another {
    my $line = shift;

    my $s;
    await('room for another', sub {
        $s = $line->join('u' . ++$serial);
        $s->is_open;
    });
    return $s;
}


# their users, in the order in which they came

sub users { return [ map { $_->{user} } @_ ] }

__DATA__

=== TEST 1: so many, and no more
--- check
    my $line = line();
    my ($open, $refused) = fill($line);

    push @$refused, map { $line->join('u' . ++$serial) } 1 .. 20;
    is_refused($_, "$_->{user} is refused") for @$refused;
    reaches('streams', $all);
    is_deeply([ map { $_->{streams} } @{status()->{processes}} ],
              [ ($max) x $workers ], 'each worker has as many as it may');
    is(sum('streamsRefused'), scalar @$refused, 'the others are counted');
    is(sum('joinsRefused'), 0, 'not as what Redis has refused');
    is_deeply($line->waiting, users(@$open), 'they have no place');
    is($line->stat('joined'), $all, 'and Redis was not asked');

    # by the gate it is the same, but for who does not want a stream
    my $s = told($sse->open(path => '/gate/?user=x',
                            headers => { Accept => 'text/event-stream' }));
    is_refused($s, 'at the gate');

    my $v = visitor(jar => 0, port => $ENV{TEST_NGINX_STREAM_PORT});
    is($v->get('/gate/?user=x')->json->{rank}, $all, 'JSON gives a place');
    like($v->get('/gate/?user=y', headers => { Accept => 'text/html' })->body,
         qr/data-status="waiting"/, 'and so does the page');

    # who polls comes by the stream when there is room
    $open->[0]->close;
    my $joined;
    await('there is room', sub {
        $joined = $line->join('x');
        $joined->is_open;
    });
    cmp_ok($joined->rank, '<=', $all, 'with the place it has');
    is($line->stat('joined'), $all + 2, 'it has come once');
    reaches('streams', $all);



=== TEST 2: a place is kept while there is no room
--- check
    my $line = line();
    my ($open) = fill($line);
    my $s = shift @$open;
    my $idx = $line->idx($s->{user});

    $s->close;
    reaches('streams', $all - 1);

    my $other = another($line);

    my @again = map { $line->join($s->{user}) } 1 .. 10;
    is_refused($_, 'who has lost the stream is refused') for @again;
    is($line->idx($s->{user}), $idx, 'and has the place');

    $other->close;
    my $back;
    await('room again', sub {
        $back = $line->join($s->{user});
        $back->is_open;
    });
    is($line->idx($s->{user}), $idx, 'the same, with a stream');
    is($back->rank, 0, 'which is the first');



=== TEST 3: who comes again is not refused for himself
--- check
    my $line = line();
    my ($open) = fill($line);
    my $old = $open->[0];
    my $new;

    # on the worker of the old one; the others are full
    for my $round (1 .. 5) {
        await('the same worker', sub {
            $new = $line->join($old->{user});
            is_refused($new, 'by another worker') if !$new->is_open;
            $new->is_open;
        });
        $sse->run_until(sub { $old->ended }, 20, 'the old one ends');
        is($old->last->{event}, 'replaced', 'as it is replaced');
        is($new->rank, 0, 'the place is the same');
        $old = $new;
    }
    reaches('streams', $all);
    is(sum('streamsReplaced'), 5, 'five times');
    is_refused($line->join('u' . ++$serial), 'there is no room by that')
        for 1 .. 10;



=== TEST 4: and not many times at once
--- check
    my $line = line();
    my ($open) = fill($line);
    my $user = $open->[0]{user};

    stop_redis();

    # all at once, until one of them is with the worker that has the old one
    my (@waits, @refused);
    await('one is being joined', sub {
        my @come = map { $line->open($user) } 1 .. 10 * $workers;

        $sse->run_until(sub { 1 >= grep { !$_->ended } @waits, @come }, 20,
                        'all but one are answered');
        push @waits, grep { !$_->ended } @come;
        push @refused, grep { $_->ended } @come;
        @waits;
    });
    my ($waits) = @waits;

    push @refused, map { told($line->open($user)) } 1 .. 20;
    is_refused($_, 'another') for @refused;
    is($waits->ended, undef, 'one waits');
    wake_redis();
    told($waits);
    is($waits->rank, 0, 'and gets the place');
    $sse->run_until(sub { $open->[0]->ended }, 20, 'from the old one');
    reaches('streams', $all);



=== TEST 5: those that are being joined count
--- check
    my $line = line();

    stop_redis();

    my (@waiting, @refused);
    my $come = sub {
        my $n = shift;

        for (1 .. $n) {
            push @waiting, $line->open('u' . ++$serial);
        }
        $sse->run_until(sub {
            push @refused, grep { $_->ended } @waiting;
            @waiting = grep { !$_->ended } @waiting;
            @waiting <= $all;
        }, 20);
        return scalar @waiting;
    };

    await('as many as may be', sub { $come->(10 * $workers) == $all });
    is(scalar(@waiting), $all, 'so many wait for Redis');
    is_refused($_, 'the others are refused at once') for @refused;

    # who gives up makes room
    my $before = @refused;
    $_->close for @waiting;
    @waiting = ();
    await('room', sub { $come->(10 * $workers) == $all });
    is_refused($_, 'and no more room than that')
        for @refused[$before .. $#refused];

    wake_redis();
    told($_) for @waiting;
    is(scalar(grep { $_->is_open } @waiting), $all, 'they get a stream');
    reaches('streams', $all);



=== TEST 6: none is forgotten that comes to nothing
--- timeout
1s
--- locations
        location /full {
            waiting_queue_stream;
            waiting_queue_event f;
            waiting_queue_max_waiting 1;
        }
        location /closed {
            waiting_queue_stream;
            waiting_queue_event c;
        }
        location /asked {
            waiting_queue_stream;
            waiting_queue_event a;
            waiting_queue_capacity uri=/seats;
        }
        location = /seats {
            internal;
            proxy_pass http://127.0.0.1:$TEST_NGINX_BACKEND_PORT/?hold=never;
        }
--- check
    my $line = line();
    my $path = sub { $sse->open(path => $_[0] . '?user=u' . ++$serial) };
    my $n = 10 * $workers;

    # each of these is more than all workers may have at once, one after another
    my $first = $path->('/full');
    told($first);
    told($path->('/full')) for 1 .. $n;
    is(sum('streamsRefused'), 0, 'full, again and again: there is room');

    WaitingQueue::Line->new(event => 'c', prefix => $prefix)->set(closed => 1);
    is(told($path->('/closed'))->last->{event}, 'closed', 'closed')
        for 1 .. $n;
    is(sum('streamsRefused'), 0, 'and there is room');

    # those who wait for the event service count too
    my @asking = map { $path->('/asked') } 1 .. $n;
    $sse->run_until(sub { !grep { !$_->ended } @asking }, 20, 'all end');
    my %status = map { (eval { $_->json->{error} } || 'none') => 1 } @asking;
    is_deeply([ sort keys %status ],
              [ qw(capacity_unavailable too_many_streams) ], 'by one or other');

    # Redis does not answer in time
    stop_redis();
    my @lost = map { $line->open('u' . ++$serial) } 1 .. $n;
    $sse->run_until(sub { !grep { !$_->ended } @lost }, 20, 'all end');
    wake_redis();
    ready();

    # and nothing is left of it: there is room for all but one, which is open
    my @open;
    await('all workers are full', sub {
        push @open, grep { $_->is_open } $line->join('u' . ++$serial);
        @open == $all - 1;
    });
    reaches('streams', $all);
    is_refused($line->join('u' . ++$serial), 'then it is full') for 1 .. 10;

    $_->close for @open, $first;
    reaches('streams', 0);
    my ($again) = fill($line);
    is(scalar(@$again), $all, 'and the same once more');
