# How bytes come to a client, and how its end is seen: over every protocol that
# nginx speaks, from clients that read, that do not, and that never say
# good-bye.  A place is given up for who has gone and for nobody else, and
# nobody can make a worker keep more than one event for him.

use WaitingQueue::Test;
use WaitingQueue::Live;

use File::Temp ();
use IO::Select;
use Socket qw(AF_INET IPPROTO_TCP SOCK_STREAM SOL_SOCKET SO_RCVBUF TCP_MAXSEG
              inet_aton pack_sockaddr_in);
use Time::HiRes ();
use WaitingQueue::Gate ();
use WaitingQueue::Http2;
use WaitingQueue::Line;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;

# one port, and an address for each protocol
my $h2c = '127.0.0.2';
my $h2 = '127.0.0.3';
my $tls = '127.0.0.4';

my ($sse, $prefix);

my $certificate = File::Temp->newdir();
$ENV{TEST_NGINX_CERTIFICATE} = "$certificate";

system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
       . " -keyout $certificate/key.pem -out $certificate/cert.pem"
       . " 2>$certificate/log") == 0 or die "openssl\n";


# "--- check" runs after the request, as one test.  Each block has a prefix of
# its own, $prefix.  All servers have a stream at
# /events/<event>/tickets/waiting?user=<user>, and one at
# /held/<event>?user=<user>, whose request stays to the end; "--- settings" are
# of both.

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    worker_connections($block->connections || 1024);

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t007-$prefix:";

    my $locations = '
        location ~ ^/events/(?<id>[^/]+)/tickets/waiting$ {
            waiting_queue_stream;
            waiting_queue_event $id;
            waiting_queue_user $arg_user;
        }

        location ~ ^/held/(?<id>[^/]+)$ {
            limit_conn users 1000;
            waiting_queue_stream;
            waiting_queue_event $id;
            waiting_queue_user $arg_user;
        }

        location = /cookie {
            waiting_queue_stream;
            waiting_queue_event cookie;
        }
';

    $block->set_value('http_config', '
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    waiting_queue_capacity 1;
    limit_conn_zone $arg_user zone=users:1m;
    ssl_certificate $TEST_NGINX_CERTIFICATE/cert.pem;
    ssl_certificate_key $TEST_NGINX_CERTIFICATE/key.pem;
    ' . $text->('settings')
      . join('', map { "
    server {
        listen $_->[0]:\$TEST_NGINX_SERVER_PORT $_->[1];
        $locations
    }" } [ $h2c, 'http2' ], [ $h2, 'ssl http2' ], [ $tls, 'ssl' ]));

    $block->set_value('config', "
    location = /status {
        waiting_queue_status;
    }
    $locations");

    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t007-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());

        ready();

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        $sse->close_all;
        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
    });
});

plan tests => repeat_each() * (blocks() * 4);

redis('FLUSHALL');

run_tests();


# line(event): its streams and what is in Redis of it

sub line {
    my ($event, %options) = @_;

    return WaitingQueue::Line->new(event => $event, prefix => $prefix,
                                   sse => $sse, %options);
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


# gone(streams, absent): so many are left, and so many places are kept; seen
# before a comment was due, which would have told it too

sub gone {
    my ($streams, $absent, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $from = Time::HiRes::time();

    ok(await($what, sub {
        $sse->turn(0);
        sum('streams') == $streams && sum('absent') == $absent;
    }), $what);

    cmp_ok(Time::HiRes::time() - $from, '<', 10, 'at once');
}


# a connection without TLS

sub http2 {
    local $sse->{host} = $h2c;
    return WaitingQueue::Http2->new($sse, server_port());
}


# told(streams): each has its first event

sub told {
    my (@streams) = @_;

    $sse->run_until(sub { !grep { !$_->events && !$_->ended } @streams }, 15,
                    'the first event');
}


# people(line, n): so many in front of whoever comes next, who are nobody's
# clients

sub people {
    my ($line, $n) = @_;

    my $settings = $line->call('HGET', $line->key('WAITING_QUEUE_CONF'),
                               'text');

    for my $i (1 .. $n) {
        $line->script('join', "p$i", 'elsewhere-1-1', 'stream', "seed$i",
                      $settings, '', 0);
    }

    $line->{people} = $n;
}


# leave(line, n): so many of them go, from the rear, so that all others move up

sub leave {
    my ($line, $n) = @_;

    for (1 .. $n) {
        $line->script('leave', 'p' . $line->{people}--, '', '');
    }
}


# stall(line, streams): moves them up, who do not read, until nothing more can
# be written to any

sub stall {
    my ($line, @streams) = @_;

    $_->stop_reading for @streams;

    while ($line->{people} > 400 && sum('streamsStalled') < @streams) {
        for (1 .. 10) {
            leave($line, 1);
            $sse->turn(0.02);
        }
    }

    is(sum('streamsStalled'), scalar @streams, 'they stall');
}


# both(line, user): one that nginx can detach from its request, and one that it
# cannot, of an event

sub both {
    my ($line, $user, %options) = @_;

    return map { $line->join("$user-$_", %options,
                             path => $_ eq 'held' ? "/held/e?user=$user-$_"
                                               : $line->path("$user-$_")) }
               qw(free held);
}


# slow_client(line, kind): one with a small buffer for what it has not read, and
# with segments as they are on a real network; read_some(client, bytes)

sub slow_client {
    my ($line, $kind) = @_;

    my $user = "slow-$kind";
    my $path = $kind eq 'held' ? "/held/e?user=$user" : $line->path($user);
    my @complaints;

    socket my $socket, AF_INET, SOCK_STREAM, 0 or die "socket: $!\n";
    setsockopt $socket, SOL_SOCKET, SO_RCVBUF, pack 'i', 32768 or die "$!\n";
    setsockopt $socket, IPPROTO_TCP, TCP_MAXSEG, pack 'i', 536 or die "$!\n";
    connect $socket, pack_sockaddr_in(server_port(), inet_aton('127.0.0.1'))
        or die "connect: $!\n";

    syswrite $socket, "GET $path HTTP/1.1\r\nHost: a\r\n\r\n";
    await("a place for $user", sub { defined $line->rank($user) });

    return { user => $user, socket => $socket, more => 1,
             complaints => \@complaints,
             parser => WaitingQueue::Sse::Parser->new(
                 complain => sub { push @complaints, $_[0] }) };
}

sub read_some {
    my ($client, $bytes) = @_;

    $client->{more} = IO::Select->new($client->{socket})->can_read(0);
    return if !$client->{more} || $bytes < 1;

    my $n = sysread $client->{socket}, my ($read), $bytes;

    if ($n) {
        $client->{parser}->feed($read, 0);
    } else {
        push @{$client->{complaints}}, 'it has ended';
        $client->{more} = 0;
    }
}

__DATA__

=== TEST 1: FIN and RST are seen at once, and the place is kept
--- check
    my $line = line('e');
    my $held = line('h', path => '/held/%e?user=%u');
    my $end = 0;

    my $in = $line->join('in');
    my $held_in = $held->join('in');

    for my $how (qw(close reset)) {
        for my $l ($line, $held) {
            for my $http (qw(1.1 1.0)) {
                my $user = "$how$http";
                my $s = $l->join($user, http => $http);
                is($s->names, 'position', "$user waits");
                reaches('streams', 3, 'three streams');

                $s->$how;
                gone(2, ++$end, $l->event . ": $user has gone");
                isnt($l->rank($user), undef, 'and has a place');
            }
        }
    }

    # one that is in keeps nothing here: its lease has a time of its own
    $in->close;
    gone(1, $end, 'one who was in');
    is_deeply($line->inside, [ 'in' ], 'still is');

    # and back again, each to its place
    for my $l ($line, $held) {
        my $idx = $l->idx('reset1.0');
        is($l->join('reset1.0')->names, 'position', 'comes back');
        is($l->idx('reset1.0'), $idx, 'to the same place');
        # the worker where it was before is told
        --$end;
        ok(await('one less', sub { sum('absent') == $end }),
           'and is not absent any more');
    }



=== TEST 2: one who closes only its own direction is gone
--- check
    my $line = line('e');
    my ($in, $s) = $line->joins(qw(in u));

    shutdown $s->{socket}, 1;
    gone(1, 1, 'has gone');
    $sse->run_until(sub { $s->ended }, 10, 'and the connection with it');



=== TEST 3: without a grace time the place goes with the connection
--- settings
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my ($in, $a, $b, $c) = $line->joins(qw(in a b c));

    $a->close;
    $sse->run_until(sub { $b->rank == 0 && $c->rank == 1 }, 10,
                    'the next move up');
    $b->reset;
    $sse->run_until(sub { $c->rank == 0 }, 10, 'and again');
    is_deeply($line->waiting, [ 'c' ], 'one is left');
    reaches('leaves', 2, 'two have left');



=== TEST 4: HTTP/2: many streams on a connection, each with an end of its own
--- check
    my $line = line('e');
    my $h2 = http2();
    my %s = map { $_ => $h2->open($line->path($_), "h2 $_") } 'in';

    told($s{in});
    is($s{in}->names, 'promoted', 'in');

    for my $user (qw(a b c d)) {
        $s{$user} = $h2->open($line->path($user), "h2 $user");
        told($s{$user});
        is($s{$user}->status, 200, "$user: a stream");
        is($s{$user}->names, 'position', 'which waits');
    }

    reaches('streams', 5, 'five streams');
    is($s{d}->rank, 3, 'the last');

    # CANCEL
    $s{b}->reset;
    gone(4, 1, 'one of them is cancelled');
    is($s{$_}->ended, undef, "not $_") for qw(in a c d);

    $line->release('in');
    $sse->run_until(sub { $s{a}->last('promoted') && $s{d}->rank == 2 }, 10,
                    'the others are told');

    # the same user again, on the same connection
    my $again = $h2->open($line->path('c'), 'h2 c again');
    told($again);
    $sse->run_until(sub { $s{c}->ended }, 10, 'replaced');
    is($s{c}->last->{event}, 'replaced', 'with that word');
    is($s{c}->ended, 'clean', 'and the end of the stream');
    is($h2->ended, undef, 'but not of the connection');

    $h2->close;
    gone(0, 3, 'the end of the connection is the end of all');
    is($line->rank('d'), 2, 'who keep their places');



=== TEST 5: HTTP/2: FIN, RST and the last word
--- settings
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my $in = $line->join('in');

    for my $how (qw(close reset)) {
        my $h2 = http2();
        my @s = map { $h2->open($line->path("$how$_"), "h2 $_") } 1 .. 3;
        told(@s);
        reaches('streams', 4, 'three more');
        $h2->$how;
        ok(await('the end', sub { sum('streams') == 1 }), $how);
        ok(await('an empty line', sub { !@{$line->waiting} }), 'all left');
    }

    my $h2 = http2();
    my @s = map { $h2->open($line->path("u$_"), "h2 u$_") } 1 .. 3;
    told(@s);
    $line->set(closed => 1);
    $sse->run_until(sub { !grep { !$_->ended } @s }, 10, 'all end');
    is($_->last->{event}, 'closed', 'with a last word') for @s;
    is($_->ended, 'clean', 'and an end') for @s;

    my $late = $h2->open($line->path('late'), 'h2 late');
    $sse->run_until(sub { $late->ended }, 10, 'one who comes late');
    is($late->names, 'closed', 'is told');
    is($h2->ended, undef, 'the connection stays');



=== TEST 6: TLS, with HTTP/1.1, HTTP/1.0 and HTTP/2
--- check
    my $port = server_port();
    my @ways = ([ 'h2', $h2, '--http2' ], [ 'h11', $h2, '--http1.1' ],
                [ 'tls11', $tls, '--http1.1' ],
                [ 'tls10', $tls, '--http1.0' ]);

    for my $way (@ways) {
        my ($event, $address, $option) = @$way;

        for my $path ('/events/%e/tickets/waiting?user=%u',
                      '/held/%e?user=%u')
        {
            my $line = line($path =~ /held/ ? "$event-held" : $event,
                            path => $path);
            my $open = sub {
                my $s = $sse->curl("https://$address:$port"
                                   . $line->path($_[0]), $option);
                told($s);
                return $s;
            };
            my ($in, $a, $b) = map { $open->($_) } qw(in a b);

            is($b->version, $event eq 'h2' ? '2' : '1.1', "$event: version");
            is($in->names, 'promoted', 'in');
            is($b->rank, 1, 'waits');

            $line->release('in');
            $sse->run_until(sub { $a->last('promoted') && $b->rank == 0 }, 10,
                            'told');

            my $again = $open->('b');
            $sse->run_until(sub { $b->ended }, 10, 'replaced');
            is($b->names, 'position position replaced', 'with that word');
            is($b->ended, 'clean', 'and a clean end');

            reaches('streams', 3, 'three are left');
            my $absent = sum('absent');
            $_->close for $in, $a, $again;
            gone(0, $absent + 1, 'which go');
        }
    }

    # over TLS the cookie is not for anybody else to read
    for my $address ($h2, $tls) {
        my $answer = `curl -ski https://$address:$port/cookie`;
        like($answer,
             qr{^set-cookie:\ wq_uid=[0-9a-f]{32};\ Path=/;\ HttpOnly;
                \ SameSite=Lax;\ Secure\r$}xmi, "Secure: $address");
    }

    # what cannot be
    my $url = "https://$h2:$port/events/e/tickets/waiting?user";
    like(`curl -skI $url=u`, qr{^HTTP/2 405.*^allow: GET\r$}ms, 'HEAD');
    like(`curl -ski $url=a+b`, qr{^HTTP/2 400.*"bad_user_id"}ms, 'no id');
    like(`curl -ski $url=u -X GET -d body`,
         qr{^HTTP/2 400.*"unexpected_body"}ms, 'a body');
    reaches('streams', 0, 'no stream');



=== TEST 7: what comes in on a stream does not hide its end
--- check
    my $line = line('e');
    my $held = line('h', path => '/held/%e?user=%u');
    my $absent = 0;

    $_->join('in') for $line, $held;
    reaches('streams', 2, 'two are in');

    for my $l ($line, $held) {
        my $request = 'GET ' . $l->path('%s') . " HTTP/1.1\r\nHost: a\r\n\r\n";
        my @cases = (
            # with the request
            [ 'garbage', "\0\xff\r\n" x 20 ],
            [ 'a request', sprintf $request, 'other' ],
            [ 'many requests', "GET /status HTTP/1.1\r\nHost: a\r\n\r\n" x 50 ],
            [ 'a megabyte', 'x' x 1048576 ],
        );

        for my $case (@cases) {
            my ($what, $bytes) = @$case;
            my $user = $what =~ s/ /-/gr;

            for my $when (qw(with after)) {
                my $s = $l->open("$user-$when", name => "$what $when",
                                 raw => sprintf($request, "$user-$when")
                                        . ($when eq 'with' ? $bytes : ''));
                told($s);
                is($s->names, 'position', "$what $when the request");

                if ($when eq 'after') {
                    $s->{out} = $bytes;
                    delete $sse->{pairs};
                }

                $sse->run_until(sub { $s->{out} eq '' }, 10, 'all is taken');
                is($s->ended, undef, 'and does not matter');
                reaches('streams', 3, 'three streams');

                $what =~ /^many/ ? $s->reset : $s->close;
                gone(2, ++$absent, 'the end is seen');
            }
        }

        is($l->rank('other'), undef, 'no second request was answered');
    }



=== TEST 8: those who do not read: no backlog, and what matters in the end
--- settings
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my $in = $line->join('in');

    people($line, 1500);

    my %slow = map { $_ => [ both($line, $_, rcvbuf => 1) ] }
                   qw(first reader replaced closed);
    my @all = map { @{$slow{$_}} } sort keys %slow;
    my $fast = $line->join('fast');

    is($fast->rank, 1508, 'far behind');
    stall($line, @all);

    my $current = sub {
        $sse->run_until(sub { $fast->rank == $line->{people} + 8 }, 15,
                        'one who reads moves up');
    };

    # 300 places that they do not need to know one by one
    $current->();
    my $sent = sum('positionsSent') - $fast->count('position');

    for (1 .. 30) {
        leave($line, 10);
        $sse->turn(0.02);
    }

    $current->();
    is(sum('positionsSent') - $fast->count('position'), $sent,
       'those who do not are written nothing');

    # one reads again

    for my $s (@{$slow{reader}}) {
        my $user = $s->{user};

        $s->resume;
        $sse->run_until(sub { $s->rank == $line->rank($user) }, 15,
                        "$user reads, and gets the newest");

        my @ranks = map { $_->{data}{rank} } $s->events;
        cmp_ok($ranks[-2] - $ranks[-1], '>=', 250, 'none in between');
        cmp_ok(scalar @ranks, '<', 500, 'nothing but what the kernel had');
    }

    is(sum('positionsSent') - $fast->count('position'), $sent + 2,
       'one was written to each');

    # one comes again, elsewhere

    for my $s (@{$slow{replaced}}) {
        my $again = $line->join($s->{user});
        is($again->rank, $line->rank($s->{user}), "$s->{user} comes again");

        $s->resume;
        $sse->run_until(sub { $s->ended }, 15, 'the old stream ends');
        is($s->last->{event}, 'replaced', 'and knows why');
        is($s->ended, 'clean', 'cleanly');
    }

    # one is let in

    leave($line, $line->{people});
    my $told = sum('promotionsTold');

    for my $s (@{$slow{first}}) {
        my $user = $s->{user};

        $line->release($_) for @{$line->inside};
        my $rank = $line->rank('fast');
        $sse->run_until(sub { $fast->rank == $rank }, 15, "$user is let in");
        is_deeply($line->inside, [ $user ], 'no other');
        is(sum('promotionsTold'), $told, 'and not told yet');

        $s->resume;
        $sse->run_until(sub { $s->last('promoted') }, 15, 'it reads');
        is($s->token, $line->token($user), 'and is told, with the token');
        is($s->last->{event}, 'promoted', 'as the last');
        is(sum('promotionsTold'), ++$told, 'once');
    }

    # all is over

    $line->set(closed => 1);
    $sse->run_until(sub { $fast->ended }, 15, 'closed');
    ok(await('the end for the queue', sub { !@{$line->waiting} }), 'for all');

    for my $s (@{$slow{closed}}) {
        $s->resume;
        $sse->run_until(sub { $s->ended }, 15, "$s->{user} reads");
        is($s->last->{event}, 'closed', 'and is told');
        is($s->ended, 'clean', 'cleanly');
    }



=== TEST 9: who never reads is gone after send_timeout, who does slowly is not
--- settings
    send_timeout 4s;
--- check
    my $line = line('e');
    my $in = $line->join('in');

    people($line, 1500);

    my @never = both($line, 'never', rcvbuf => 1);
    my @slow = map { slow_client($line, $_) } qw(free held);
    my $from = Time::HiRes::time();
    my $gone;

    $_->stop_reading for @never;

    # so much that it does not fit, read in small pieces, for a multiple of the
    # timeout

    while (Time::HiRes::time() < $from + 10) {
        for (1 .. 5) {
            leave($line, 1) if $line->{people} > 10;
            $sse->turn(0.02);
        }

        my $due = 3000 * (Time::HiRes::time() - $from);
        read_some($_, $due - $_->{parser}{bytes}) for @slow;
        $gone ||= Time::HiRes::time() if sum('streams') < 5;
    }

    ok(await('the end', sub { sum('streams') == 3 }), 'who never reads');
    cmp_ok(($gone || Time::HiRes::time()) - $from, '>', 2, 'not at once');
    cmp_ok(sum('streamsTimedOut'), '>', 0, 'counted');
    like(error_log(), qr/\[info\] .* client does not read its stream/,
         'logged');
    reaches('absent', 2, 'and it is absent');
    isnt($line->rank($_->{user}), undef, 'the place is kept') for @never;

    for my $client (@slow) {
        my $rank;

        ok(await('the newest', sub {
            read_some($client, 65536) while $client->{more};
            $client->{more} = 1;
            $rank = $line->rank($client->{user});
            $client->{parser}{rank} == $rank;
        }), "$client->{user} is there, and gets all of it in the end");
        is_deeply($client->{complaints}, [], 'in good order');
    }

    is($in->ended, undef, 'also one who had nothing to read');



=== TEST 10: HTTP/2: a window that is closed
--- settings
    send_timeout 5s;
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my $in = $line->join('in');

    people($line, 5);

    # of each a connection, because a size of windows is for all of its streams
    my %h2 = map { $_ => http2() } qw(a c d);
    my $open = sub {
        my $user = shift;
        my $s = $h2{$user}->open($line->path($user), "h2 $user",
                                 no_window => 1);
        $sse->run_until(sub { defined $s->status }, 10, "$user: a head");
        return $s;
    };

    my $a = $open->('a');
    my $b = $line->join('b');
    is(scalar $a->events, 0, 'and no event');

    # each of them is a position
    for (1 .. 5) {
        leave($line, 1);
        my $rank = $line->rank('b');
        $sse->run_until(sub { $b->rank == $rank }, 15, 'others move up');
    }

    is(scalar $a->events, 0, 'it cannot be told');
    $a->window(100000);
    $sse->run_until(sub { defined $a->rank && $a->rank == 0 }, 15,
                    'a window: it is told');

    # its worker may be a tick behind that of b: one more, but none of the five
    # that it could not be told
    my $told = $a->count('position');
    ok($told == 2 || $workers > 1 && $told == 3,
       "what it was first, and the newest: $told");

    # promoted behind a closed window
    my $c = $open->('c');
    $_->close for $a, $b;
    $sse->run_until(sub { "@{$line->waiting}" eq 'c' }, 15, 'it moves up');
    $line->release('in');
    $sse->run_until(sub { $line->lease('c') }, 15, 'it is let in');
    $c->window(100000);
    $sse->run_until(sub { $c->last('promoted') }, 15, 'it is told');
    is($c->token, $line->token('c'), 'with the token');
    is(sum('streamsTimedOut'), 0, 'nobody was late');

    # one that is never opened
    my $streams = sum('streams');
    my $from = Time::HiRes::time();
    my $d = $open->('d');
    $sse->run_until(sub { $d->ended }, 15, 'a window that stays closed');
    cmp_ok(Time::HiRes::time() - $from, '>', 3, 'for send_timeout');
    is($d->ended, 'reset', 'is the end of it');
    is(sum('streamsTimedOut'), 1, 'counted');
    ok(await('the end', sub { sum('streams') == $streams }), 'gone');
    is($h2{d}->ended, undef, 'but not of the connection');
    is($c->ended, undef, 'nor of others');



=== TEST 11: a request that comes byte by byte, or never to its end
--- settings
    client_header_timeout 2s;
--- check
    my $line = line('e');
    my $request = 'GET ' . $line->path('u') . " HTTP/1.1\r\nHost: a\r\n\r\n";

    my $s = $line->open('u', raw => substr $request, 0, 1);

    for my $i (1 .. length($request) - 1) {
        $sse->turn(0.005);
        $s->{out} .= substr $request, $i, 1;
        delete $sse->{pairs};
    }

    told($s);
    is($s->names, 'promoted', 'byte by byte');

    my @half = map { $line->open("h$_", raw => substr $request, 0, 20) }
                   1 .. 20;
    $sse->run_until(sub { !grep { !$_->ended } @half }, 15,
                    'half a request is refused');
    reaches('streams', 1, 'and the stream stays, as that is not for it');
    is($s->ended, undef, 'though it has nothing to say');



=== TEST 12: more clients than worker_connections
--- connections: 64
--- no_error_log
[emerg]
[crit]
--- settings
    waiting_queue_grace 0;
--- check
    my $line = line('e');
    my $in = $line->join('in');
    my @s = map { $line->open("u$_") } 1 .. 100 * $workers;

    $sse->run_until(sub { !grep { !$_->events && !defined $_->ended } @s }, 20,
                    'all have a stream, or none');

    my @open = grep { $_->events } @s;
    cmp_ok(scalar @open, '>=', 20, 'some have');
    cmp_ok(scalar @open, '<', @s, 'not all');
    like(error_log(), qr/worker_connections are not enough/, 'for want of it');

    is($_->status, 200, 'a stream') for @open;

    # there is no connection to ask for the status either
    $_->close for @open[0 .. 9];
    ok(await('one that is free', sub { eval { sum('streams') } }), 'some go');
    is($in->ended, undef, 'others stay');

    $_->close for @open, $in;
    ok(await('the end of all', sub { sum('streams') == 0 }), 'all go');
    ok(await('an empty line', sub { !@{$line->waiting} }), 'and leave');

    is($line->join('again')->names, 'position', 'and others may come');
    is_deeply([ $line->wrong ], [], 'all is in order');



=== TEST 13: a comment on quiet streams, after 15 seconds, also without Redis
--- check
    my $line = line('e');
    my $port = server_port();
    my $in = $line->join('in');
    my $h2_connection = http2();

    my %s = (
        plain => $line->open('plain'),
        old => $line->open('old', http => '1.0'),
        held => line('e', path => '/held/%e?user=%u')->open('held'),
        h2 => $h2_connection->open($line->path('h2'), 'h2'),
        tls => $sse->curl("https://$tls:$port" . $line->path('tls'),
                          '--http1.1'),
        curl => $sse->curl("https://$h2:$port" . $line->path('curl'),
                           '--http2'),
    );

    told(values %s);
    my $opened = Time::HiRes::time();
    WaitingQueue::Gate::stop_redis();

    $sse->run_until(sub { !grep { !$_->comments } values %s, $in }, 40,
                    'a comment on each');
    cmp_ok(Time::HiRes::time() - $opened, '>', 12, 'not before');
    is($_->comments, 1, $_->name . ': one') for values %s;
    reaches('commentsSent', 7, 'counted');
    reaches('streams', 7, 'they are all there');

    # and after it
    WaitingQueue::Gate::wake_redis();
    ready();
    $line->release('in');
    my ($next) = grep { $s{$_}->rank == 0 } keys %s;
    $sse->run_until(sub {
        $s{$next}->last('promoted')
            && !grep { $_ ne $next && $s{$_}->count('position') < 2 } keys %s;
    }, 15, 'events come as before');
