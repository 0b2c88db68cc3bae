# The example of docs/operations.md, "Limits for each address", as it stands
# there: one address that opens too many streams or asks too often is refused,
# with the status that is told there, and gets no more places in line by it; all
# others see nothing of that; and who waits with the page and is refused a
# stream keeps the place by asking.

use WaitingQueue::Test;
use WaitingQueue::Live;

use IO::Socket::INET;
use WaitingQueue::Gate;
use WaitingQueue::Http2;
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

$ENV{TEST_NGINX_SHOP_PORT} = free_port();
$ENV{TEST_NGINX_HTTP2_PORT} = free_port();

# of http{}, of server{}, and behind a proxy
my ($http, $server, $proxy) = example();

# what the example says
my ($streams) = $server =~ /limit_conn +gate_streams +(\d+);/;
my ($burst) = $server =~ /limit_req +zone=asked +burst=(\d+) nodelay;/;
my ($rate) = $http =~ /zone=asked:10m +rate=(\d+)r\/s;/;

my ($one, $other) = qw(127.0.0.2 127.0.0.3);
my ($sse, $prefix);


# "--- check" runs after the request, as one test; "--- proxy" has the lines
# that are for a proxy in front, which is 127.0.0.1

add_block_preprocessor(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t021-$prefix:";

    my $more = defined $block->proxy ? "$proxy\nset_real_ip_from 127.0.0.1;"
                                     : '';

    $block->set_value('http_config', '
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET timeout=20s;
    waiting_queue_prefix ' . $prefix . ';
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 50ms;
    upstream shop { server 127.0.0.1:$TEST_NGINX_SHOP_PORT; }
    server {
        listen 127.0.0.1:$TEST_NGINX_SHOP_PORT;
        location / { return 200 "inside\n"; }
    }
' . "$http\n$more\n" . '
    server {
        listen 127.0.0.1:$TEST_NGINX_HTTP2_PORT http2;
' . $server . '
    }
');
    $block->set_value('config', '
    location = /status {
        waiting_queue_status;
        access_log off;
    }
' . $server);
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t021-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());
        ready();

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        $sse->close_all;
        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
    });
});

plan tests => repeat_each() * (blocks() * 4);

worker_connections(1024);
redis('FLUSHALL');

run_tests();


# the blocks of nginx in that section

sub example {
    open my $in, '<', 'docs/operations.md' or die "operations.md: $!\n";
    my $text = do { local $/; <$in> };

    my ($section) = $text =~ /^### Limits for each address\n(.*?)^##/ms
        or die "no such section\n";
    my @blocks = $section =~ /^```nginx\n(.*?)^```\n/msg;

    die scalar(@blocks) . " blocks\n" if @blocks != 3;
    return @blocks;
}


sub free_port {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
        or die "no port: $!\n";
    return $socket->sockport;
}


# an event that is full: all wait

sub line {
    my $line = WaitingQueue::Line->new(event => 'concert', prefix => $prefix,
                                       sse => $sse);
    $line->set(capacity => 0);
    return $line;
}


# made-up ids, as many as one likes

my $serial = 0;

sub id { return sprintf '%032x', ++$serial }


# ask(path, from => address, method => , accept => , cookie => , headers => ):
# one answer

sub ask {
    my ($path, %o) = @_;

    my $s = $sse->open(
        path => $path, source => $o{from}, method => $o{method} || 'GET',
        headers => { Cookie => 'wq_uid=' . ($o{id} || id()),
                     Accept => $o{accept} || 'application/json',
                     Connection => 'close', %{$o{headers} || {}} });

    $sse->run_until(sub { $s->ended || $s->events }, 20)
        or die "no answer\n" . $sse->describe . "\n";
    return $s;
}


sub listen_to {
    my ($path, %o) = @_;
    return ask($path, accept => 'text/event-stream', %o);
}


# the rate of requests must not be what refuses them

sub slowly {
    my $code = shift;
    $sse->run_for(1.2 / $rate);
    return $code->();
}

__DATA__

=== TEST 1: within the limits all is as ever
--- check
    my $line = line();

    my $v = visitor(path => '/shop/');
    is($v->get->json->{status}, 'none', 'a first visit');
    is($v->get->json->{rank}, 0, 'a place');
    like($v->get(undef, headers => { Accept => 'text/html' })->body,
         qr/data-position="1"/, 'the page');
    is(listen_to('/shop/', id => $v->id)->rank, 0, 'its stream');
    is(listen_to('/waiting', id => $v->id)->rank, 0, 'the other');
    is(visitor(path => '/token', jar => 0)->post(undef, '', headers => {
           Cookie => $v->cookie })->status, 202, 'the API');
    $line->set(capacity => 1);
    await('his turn', sub { "@{$line->inside}" eq $v->id });
    is($v->get->body, "inside\n", 'and he is in');



=== TEST 2: too many streams of one address
--- check
    my $line = line();

    for my $path ('/shop/', '/waiting') {
        my $before = @{$line->waiting};
        my @open = map { slowly(sub { listen_to($path, from => $one) }) }
                       1 .. $streams;

        is(scalar(grep { $_->is_open } @open), $streams,
           "$path: $streams are open");

        my @more = map { slowly(sub { listen_to($path, from => $one) }) }
                       1 .. 5;
        is($_->status, 429, "$path: and no more") for @more;
        is(scalar(@{$line->waiting}), $before + $streams,
           "$path: they get no place");
        ok(listen_to($path, from => $other)->is_open,
           "$path: another address may");

        # the page is refused a stream, and polls
        next if $path ne '/shop/';
        my $id = id();
        my $a = ask($path, from => $one, id => $id);
        is($a->status, 503, 'JSON is answered');
        is($a->json->{status}, 'waiting', 'with a place');
        my $idx = $line->idx($id);
        is(listen_to($path, from => $one, id => $id)->status, 429,
           'a stream is not');
        is($line->idx($id), $idx, 'which changes nothing');
        is(ask($path, from => $one, id => $id)->json->{rank},
           $a->json->{rank}, 'asking keeps it');
        is(slowly(sub { ask($path, from => $one, accept => 'text/html') })
               ->status, 503, 'and so does the page');

        # when one ends there is room
        $open[0]->close;
        my $s;
        await('room', sub {
            $s = slowly(sub { listen_to($path, from => $one, id => $id) });
            $s->is_open;
        });
        is($line->idx($id), $idx, 'the stream has the place that was kept');
    }
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 3: one address that comes too fast
--- check
    my $line = line();

    for my $case ([ '/shop/', 'GET' ], [ '/token', 'POST' ],
                  [ '/waiting', 'GET' ])
    {
        my ($path, $method) = @$case;
        my $before = @{$line->waiting};
        my $from = Time::HiRes::time();
        my @answers = map { ask($path, from => $one, method => $method) }
                          1 .. 3 * $burst;
        my $allowed = 1 + $burst
                      + $rate * (Time::HiRes::time() - $from) + 1;
        my @refused = grep { $_->status == 429 } @answers;
        my $places = @{$line->waiting} - $before;

        cmp_ok(scalar(@refused), '>', 0, "$path: refused");
        cmp_ok(scalar(@answers) - @refused, '<=', $allowed,
               "$path: but for so many");
        is($places, @answers - @refused, "$path: nor have the others places");

        if ($path eq '/shop/') {
            is($refused[-1]->header('retry-after'), 5, 'told to wait');
            like($refused[-1]->body, qr/http-equiv="refresh"/, 'and to come');
        }

        my $a = ask($path, from => $other, method => $method);
        isnt($a->status, 429, "$path: another address is served");
        $_->close for @answers;

        # and so is this one, in a while
        await('time', sub { ask($path, from => $one, method => $method)
                                ->status != 429 });
        $sse->run_for($burst / $rate);
    }
    is_deeply([ $line->wrong ], [], 'all is well in Redis');



=== TEST 4: HTTP/2: streams count, not connections
--- check
    my $line = line();
    my $h2 = WaitingQueue::Http2->new($sse, $ENV{TEST_NGINX_HTTP2_PORT});
    my $open = sub {
        my $s = $h2->open('/waiting', 'h2', headers => {
            cookie => 'wq_uid=' . id() });
        $sse->run_until(sub { defined $s->status }, 20, 'an answer');
        return $s;
    };

    my @open = map { slowly($open) } 1 .. $streams;
    is(scalar(grep { $_->status == 200 } @open), $streams, 'so many');
    is(slowly($open)->status, 429, 'and no more');
    is(scalar(@{$line->waiting}), $streams, 'nor places');



=== TEST 5: behind a proxy, the address that it names
--- proxy
--- check
    my $line = line();
    my $ask = sub {
        my ($address, $from) = @_;
        return ask('/shop/', from => $from, headers => {
            'X-Forwarded-For' => $address })->status;
    };
    my $fill = sub {
        my $address = shift;
        for (1 .. 10 * $burst) {
            return if $ask->($address) == 429;
        }
        die "no end of $address\n";
    };

    $fill->('198.51.100.1');
    is($ask->('198.51.100.2'), 503, 'another IPv4 address');
    is($ask->('::ffff:198.51.100.3'), 503, 'and one in the form of IPv6');

    $fill->('::ffff:198.51.100.4');
    is($ask->('198.51.100.4'), 429, 'which is the same as the other form');
    is($ask->('::ffff:198.51.100.5'), 503, 'not all of that form are one');

    $fill->('2001:db8:1:2::1');
    is($ask->('2001:db8:1:2:ffff:a:b:c'), 429, 'a /64 is one address');
    is($ask->('2001:db8:1:3::1'), 503, 'the next is another');
    $fill->('2001:db8:0:a00::');
    is($ask->('2001:db8:0:a01::'), 503, 'whatever bytes are in it');

    # a client's own word is not the proxy's
    $fill->('10.9.8.7, 198.51.100.6');
    is($ask->('10.9.8.6, 198.51.100.6'), 429, 'before the proxy anybody wrote');
    is($ask->('198.51.100.6', $other), 503, 'and who is no proxy is himself');
