# With waiting_queue_capacity uri= the number of slots is the word of a service
# that the site's own people run: it is down, slow or wrong on the very day when
# everybody comes.  It must be asked once, whoever and however many come; what
# it says must count for everybody; and while it says nothing, nobody may be let
# in, nobody may be kept waiting for long, and nothing may be left behind.

use WaitingQueue::Test;
use WaitingQueue::Live;
use WaitingQueue::Http2;
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

use File::Temp ();
use IO::Socket::INET;
use POSIX ();
use Time::HiRes ();

my $workers = $ENV{WQ_WORKERS} || 1;

# the service listens before nginx is started: nothing has to wait for it
my $service = EventService->new;
my $sse;

$ENV{TEST_NGINX_SERVICE_PORT} = $service->port;
$ENV{TEST_NGINX_DOWN_PORT} = free_port();
$ENV{TEST_NGINX_HTTP2_PORT} = free_port();
$ENV{TEST_NGINX_PRIVATE_REDIS_PORT} = free_port();


# "--- check" runs after the request, as one test.  Each kind of service has its
# own place, and the event is named in the path or in an argument.

my $stream = 'waiting_queue_stream;
        waiting_queue_user $arg_user;
        waiting_queue_grace 0;';

my $locations = '
    location = /status {
        waiting_queue_status;
    }
    location = /prometheus {
        waiting_queue_status prometheus;
    }
    location ~ ^/events/(?<event>[^/]+)/tickets/waiting$ {
        ' . $stream . '
        waiting_queue_event $event;
        waiting_queue_capacity uri=/seats/$event;
    }
    location = /deep {
        ' . $stream . '
        waiting_queue_event $arg_event;
        waiting_queue_capacity uri=/seats/$waiting_queue_event?by=$arg_by
                               field=data.seats.free;
    }
    location = /any {
        ' . $stream . '
        waiting_queue_event $arg_event;
        waiting_queue_capacity uri=$arg_uri;
    }
    location /seats/ {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVICE_PORT;
        proxy_http_version 1.1;
    }
    location /headed/ {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVICE_PORT/seats/;
        proxy_set_header X-Event $waiting_queue_event;
        proxy_set_header X-User $waiting_queue_user;
    }
    location = /who {
        waiting_queue_event $arg_event;
        waiting_queue_user $arg_user;
        return 200 "[$waiting_queue_event][$waiting_queue_user]";
    }
    location = /cookie {
        waiting_queue_event fixed;
        return 200 "[$waiting_queue_event][$waiting_queue_user]";
    }
    location = /neither {
        return 200 "[$waiting_queue_event][$waiting_queue_user]";
    }
    location /down/ {
        internal;
        proxy_pass http://127.0.0.1:$TEST_NGINX_DOWN_PORT;
    }
    location /small/ {
        internal;
        subrequest_output_buffer_size 64;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVICE_PORT/seats/;
    }
    location /spot/ {
        internal;
        return 200 \'{"seatCount":5}\';
    }
    location /204 {
        internal;
        return 204;
    }
    location /301 {
        internal;
        return 301 /spot/;
    }
    location /444 {
        internal;
        return 444;
    }
    location /500 {
        internal;
        return 500;
    }
    location /rewritten/ {
        internal;
        rewrite ^ /spot/ last;
    }
    location /forbidden/ {
        deny all;
    }
';

add_block_preprocessor(sub {
    my $block = shift;
    my $number = $block->name =~ /TEST (\d+)/ ? $1 : 0;

    $block->set_value('http_config', '
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t008-' . $number . ':;
    waiting_queue_interval 100ms;
    waiting_queue_promote_interval 100ms;
    server {
        listen 127.0.0.1:$TEST_NGINX_HTTP2_PORT http2;
' . $locations . '
    }
') if !defined $block->http_config;

    $block->set_value('config', $locations);
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;
    my $number = $block->name =~ /TEST (\d+)/ ? $1 : 0;

    $sse = WaitingQueue::Sse->new(port => server_port());
    $service->forget;
    ready() if !defined $block->private_redis;

    Test::More::subtest($block->name => sub {
        eval "my \$prefix = 't008-$number:';" . $block->check . '; 1'
            or Test::More::fail("died: $@");
        Test::More::is_deeply([ $sse->violations ], [],
                              'all streams were well-formed');
    });

    $sse->close_all;
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


# until(code, seconds, what): the streams and the service go on meanwhile

sub until_true {
    my ($code, $seconds, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return $sse->run_until(sub { $service->turn; $code->() }, $seconds, $what);
}


# for what must not happen

sub let_pass {
    my ($seconds) = @_;

    my $end = Time::HiRes::time() + $seconds;

    while (Time::HiRes::time() < $end) {
        $service->turn;
        $sse->turn(0.01);
    }
}


sub line {
    my ($prefix, $event, %options) = @_;

    return WaitingQueue::Line->new(event => $event, prefix => $prefix,
                                   sse => $sse, %options);
}


# answered(streams): each has its first event, or its end

sub answered {
    my (@streams) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return until_true(sub { !grep { !$_->events && !$_->ended } @streams },
                      20, 'all are answered');
}


# what is wrong with the 503 of one stream; nothing if all is well

sub refusal {
    my ($s, $error) = @_;

    my $json = $s->json || {};
    my $retry = $s->header('Retry-After');

    return map { $s->name . ": $_" } (
        ($s->status || 0) == 503 ? () : 'status ' . ($s->status || '-'),
        ($s->header('Content-Type') || '') eq 'application/json'
            ? () : 'type ' . ($s->header('Content-Type') || '-'),
        defined $retry && $retry =~ /^[1-5]$/
            ? () : 'Retry-After ' . (defined $retry ? $retry : '-'),
        ($s->header('Cache-Control') || '') eq 'no-store' ? () : 'cacheable',
        ($json->{error} || '') eq ($error || 'capacity_unavailable')
            && $json->{message} ? () : 'body ' . $s->body,
        "@{[sort keys %$json]}" eq 'error message' ? () : 'more than an error');
}


# anything in Redis, key, field or member, that has this event in it

sub traces {
    my ($line) = @_;

    my $event = $line->event;
    my $redis = $line->redis;
    my @found;

    for my $key (@{$redis->call('KEYS', $line->prefix . '*')}) {
        push @found, $key if index($key, $event) >= 0;

        my $type = $redis->call('TYPE', $key);
        my @command = $type eq 'hash' ? ('HGETALL', $key)
                      : $type eq 'set' ? ('SMEMBERS', $key)
                      : $type eq 'list' ? ('LRANGE', $key, 0, -1)
                      : $type eq 'stream' ? ('XRANGE', $key, '-', '+')
                      : $type eq 'zset' ? ('ZRANGE', $key, 0, -1) : next;
        my $content = JSON::PP::encode_json($redis->call(@command));

        push @found, "$key: $content"
            if $content =~ /(?<![A-Za-z0-9])\Q$event\E(?![A-Za-z0-9])/;
    }

    return @found;
}


# counter(name): the sum over all processes that live

sub counter {
    my ($name) = @_;

    my $sum = 0;
    $sum += $_->{$name} for @{status()->{processes}};

    return $sum;
}


sub seats {
    my ($n) = @_;
    return EventService::json(qq({"seatCount":$n}));
}


# The event service: an HTTP server in this very process, served by turn().
# What it says of an event is set with on(event => answer): the bytes of an
# answer, a code that gives them, or undef: it hangs until told what to say.

package EventService {

    use Errno qw(EAGAIN EWOULDBLOCK);
    use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);

    sub new {
        my $class = shift;

        my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
                                           Listen => 512, ReuseAddr => 1)
            or die "no service: $!\n";
        $listen->blocking(0);

        return bless { listen => $listen }, $class;
    }


    sub port { return $_[0]{listen}->sockport }


    sub forget {
        my $self = shift;

        $self->turn;
        $_->{socket}->close for @{$self->{clients}};
        @$self{qw(clients on asked)} = ([], {}, []);
    }


    sub on {
        my ($self, %answers) = @_;
        $self->{on}{$_} = $answers{$_} for keys %answers;
    }


    # json(text), http(status line, body, headers): the bytes of an answer

    sub json { return http('200 OK', $_[0], 'Content-Type: application/json') }

    sub http {
        my ($status, $body, @headers) = @_;

        return join "\r\n", "HTTP/1.1 $status", 'Connection: close', @headers,
                            'Content-Length: ' . length $body, '', $body;
    }


    sub turn {
        my $self = shift;

        while (my $socket = $self->{listen}->accept) {
            $socket->blocking(0);
            push @{$self->{clients}}, { socket => $socket, in => '' };
        }

        for my $client (@{$self->{clients}}) {
            $self->_serve($client);
        }

        @{$self->{clients}} = grep { !$_->{over} } @{$self->{clients}};
    }


    sub _serve {
        my ($self, $client) = @_;

        my $n = sysread $client->{socket}, my $bytes, 65536;

        if (defined $n ? $n == 0 : $! != EAGAIN && $! != EWOULDBLOCK) {
            # nginx does not want to know any more
            $client->{socket}->close;
            $client->{over} = 1;
            $client->{request}{aborted} = 1 if $client->{request};
            return;
        }

        $client->{in} .= $bytes if $n;

        if (!$client->{request}) {
            return if $client->{in} !~ /\r\n\r\n/;

            my ($event) = $client->{in} =~ m{^GET /seats/([^ ?]*)};
            $client->{request} = { head => $client->{in}, client => $client,
                                   event => defined $event ? $event : '' };
            push @{$self->{asked}}, $client->{request};
        }

        my $answer = $self->{on}{$client->{request}{event}};
        $answer = $answer->($client->{request}) if ref $answer;

        $self->answer($client->{request}, $answer) if defined $answer;
    }


    # answer(request, bytes): and the connection ends

    sub answer {
        my ($self, $request, $bytes) = @_;

        my $client = $request->{client};

        return if $client->{over};

        # small enough for any socket's buffer
        local $SIG{PIPE} = 'IGNORE';
        syswrite $client->{socket}, $bytes;
        $client->{socket}->close;
        $client->{over} = 1;
    }


    # asked(event): the requests so far

    sub asked {
        my ($self, $event) = @_;
        return grep { $_->{event} eq $event } @{$self->{asked}};
    }
}


__DATA__

=== TEST 1: the service is asked by the first who comes, and never again
--- check
    my $line = line($prefix, 'e1');

    $service->on(e1 => seats(2));

    my @s = map { my $s = $line->open("u$_"); answered($s); $s } 1 .. 4;

    is(join(' ', map { $_->names } @s),
       'promoted promoted position position', 'two get in, two wait');
    is($s[3]->rank, 1, 'in their order');
    is(scalar $service->asked('e1'), 1, 'asked once');

    my ($request) = $service->asked('e1');
    like($request->{head}, qr{^GET /seats/e1 HTTP/1\.1\r\n}, 'by its name');

    is_deeply([ $line->wrong ], [], 'the invariants');
    is($line->stat('capacity'), 2, 'the capacity in force');
    is($line->slots, 0, 'free slots');
    is($line->call('HGET', $line->key('WAITING_QUEUE_CONF'),
                   'service_capacity'), 2, 'whose word it was');
    is($line->call('HGET', $line->key('WAITING_QUEUE_CONF'), 'capacity'),
       undef, 'and whose it was not');

    # a place in the answer, and arguments in the question

    my $deep = line($prefix, 'e2', path => '/deep?event=%e&user=%u&by=a%20b');
    $service->on(e2 => EventService::json(
        '{"seatCount":9,"data":{"free":8,"seats":{"all":7,"free":1}}}'));

    @s = map { my $s = $deep->open("u$_"); answered($s); $s } 1 .. 2;

    is(join(' ', map { $_->names } @s), 'promoted position', 'a nested field');
    is($deep->stat('capacity'), 1, 'no other of the same name');

    ($request) = $service->asked('e2');
    like($request->{head}, qr{^GET /seats/e2\?by=a%20b HTTP/1\.1\r\n},
         'variables in the uri and its arguments');

    # an answer on the spot, by a location that asks nobody

    for my $uri ('/spot/', '/rewritten/') {
        my $spot = line($prefix, 'e3' . length $uri,
                        path => "/any?event=%e&user=%u&uri=$uri");
        @s = map { my $s = $spot->open("u$_"); answered($s); $s } 1 .. 6;
        is(join(' ', map { $_->names } @s), 'promoted ' x 5 . 'position',
           "$uri answers on the spot");
    }

    # what no JSON parser minds

    my %fine = (
        e40 => '{"seatCount":0}', e41 => " \r\n\t{ \"seatCount\" : 3 } \n",
        e42 => '{"seatCount":1e3}', e43 => '{"seatCount":2.0}',
        e44 => '{"a":"\u00e9\"}","b":[1,{"seatCount":1}],"seatCount":4}',
        e45 => '{"seatCount":1000000000}', e46 => '{"seatCount":-0}',
    );
    my %capacity = (e40 => 0, e41 => 3, e42 => 1000, e43 => 2, e44 => 4,
                    e45 => 1000000000, e46 => 0);

    my %stream = map { $service->on($_ => EventService::json($fine{$_}));
                       ($_ => line($prefix, $_)->open('u1')) } keys %fine;
    answered(values %stream);

    is_deeply({ map { ($_ => line($prefix, $_)->stat('capacity')) }
                    keys %fine },
              \%capacity, 'numbers in all their dresses');
    is_deeply({ map { ($_ => $stream{$_}->names) } keys %fine },
              { map { ($_ => $capacity{$_} ? 'promoted' : 'position') }
                    keys %fine },
              'nobody gets in where there is no slot');

    # in as many pieces as the service likes

    $service->on(e5 => join "\r\n", 'HTTP/1.1 200 OK',
                 'Transfer-Encoding: chunked', '',
                 (map { ('1', $_) } split //, '{"seatCount":12}'), '0', '', '');
    answered(line($prefix, 'e5')->open('u1'));
    is(line($prefix, 'e5')->stat('capacity'), 12, 'chunked');

    is(counter('capacityAsked'), 6 + keys(%fine) - 1, 'capacityAsked');
    is(counter('capacityFailed'), 0, 'capacityFailed');



=== TEST 2: whatever it does wrong, nobody gets in and nothing is stored
--- check
    my $good = EventService::json('{"seatCount":1}');
    my %bad = (
        hangs => undef,
        closes => '',
        garbage => "\0\1\2\3",
        cut => "HTTP/1.1 200 OK\r\nContent-Le",
        short => "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"seatCou",
        error => EventService::http('500 Oops', '{"seatCount":1}'),
        missing => EventService::http('404 Not Found', '{"seatCount":1}'),
        created => EventService::http('201 Created', '{"seatCount":1}'),
        accepted => EventService::http('202 Accepted', '{"seatCount":1}'),
        partial => EventService::http('206 Partial Content',
                                      '{"seatCount":1}',
                                      'Content-Range: bytes 0-14/15'),
        moved => EventService::http('302 Found', '{"seatCount":1}',
                                    'Location: /spot/'),
        unchanged => "HTTP/1.1 304 Not Modified\r\n\r\n",
        nothing => "HTTP/1.1 204 No Content\r\n\r\n",
        empty => EventService::json(''),
        html => EventService::http('200 OK', '<html>{"seatCount":1}'),
        half => EventService::json('{"seatCount":1'),
        two => EventService::json('{"seatCount":1}{"seatCount":1}'),
        tail => EventService::json('{"seatCount":1} x'),
        zero => EventService::json("{\"seatCount\":1}\0"),
        list => EventService::json('[1]'),
        number => EventService::json('1'),
        no_field => EventService::json('{"seats":1,"seatcount":1}'),
        nested => EventService::json('{"data":{"seatCount":1}}'),
        string => EventService::json('{"seatCount":"1"}'),
        null => EventService::json('{"seatCount":null}'),
        true => EventService::json('{"seatCount":true}'),
        object => EventService::json('{"seatCount":{"a":1}}'),
        negative => EventService::json('{"seatCount":-1}'),
        fraction => EventService::json('{"seatCount":1.5}'),
        large => EventService::json('{"seatCount":1000000001}'),
        huge => EventService::json('{"seatCount":1e308}'),
        infinite => EventService::json('{"seatCount":1e999}'),
        nan => EventService::json('{"seatCount":NaN}'),
        hex => EventService::json('{"seatCount":0x10}'),
        deep => EventService::json('{"seatCount":' . '[' x 1500),
        gzip => EventService::http('200 OK',
            "\x1f\x8b\x08\0\0\0\0\0\0\x03\xabV*NM,q\xce/\xcd+Q\xb22\xac\5\0\x85"
            . "\x94\4\x9a\x0f\0\0\0", 'Content-Encoding: gzip'),
        big => EventService::json('{"seatCount":1,"x":"' . 'x' x 10000
                                  . '"}'),
    );

    # and those that are none: the place to ask is at fault
    my %uri = (
        down => '/down/', no_such => '/no/such/place', s204 => '/204',
        s301 => '/301', s444 => '/444', s500 => '/500', no_uri => '',
        no_slash => 'seats/no_slash', up => '/seats/../spot/',
        denied => '/forbidden/', itself => '/events/itself/tickets/waiting',
        chunks => '/small/chunks',
    );

    $bad{chunks} = join "\r\n", 'HTTP/1.1 200 OK',
                   'Transfer-Encoding: chunked', '', '10', '{"seatCount":1, ',
                   '40', ' ' x 64, '40', ' ' x 63 . '}', '0', '', '';

    my %line = ((map { ($_ => line($prefix, $_)) } keys %bad),
                (map { ($_ => line($prefix, $_,
                                   path => '/any?event=%e&user=%u&uri='
                                           . $uri{$_})) }
                     keys %uri));

    $service->on(%bad);

    # two at once of each, in one connection each
    my @streams = map { ($_->open('u1'), $_->open('u2')) }
                      map { $line{$_} } sort keys %line;

    my $began = Time::HiRes::time();
    answered(@streams);
    cmp_ok(Time::HiRes::time() - $began, '>=', 2.9,
           'one who hangs is waited for');

    is_deeply([ map { refusal($_) } @streams ], [],
              'all are told to come again later');
    is_deeply([ map { traces($_) } values %line ], [],
              'of none there is a trace in Redis');
    is_deeply([ grep { $service->asked($_) != 1 } sort keys %bad ], [],
              'each was asked once');
    is(counter('capacityFailed'), keys %line, 'capacityFailed');
    is(counter('capacityAsked'), keys %line, 'capacityAsked');
    is(counter('joinsRefused'), @streams, 'joinsRefused');
    is(counter('streamsOpened'), 0, 'streamsOpened');

    my @said = error_log() =~ /event service gave no capacity for "([^"]*)"/g;
    is_deeply([ sort @said ], [ sort keys %line ], 'the operator is told');

    # who comes at once is refused without a question, and who comes later asks
    # again: the service has recovered

    $service->on(map { ($_ => $good) } keys %bad);

    # the last failure was the one of those who hang
    my $hangs = $line{hangs}->open('u3');
    answered($hangs);
    is_deeply([ refusal($hangs) ], [], 'refused at once');
    is(scalar $service->asked('hangs'), 1, 'without a question');

    my %late = map { ($_ => 1) } keys %line;
    delete @late{keys %uri};

    my $n = 3;
    my @wrong;

    until_true(sub {
        my %s = map { ($_ => $line{$_}->open('u' . ++$n)) } keys %late;

        until_true(sub { !grep { !$_->events && !$_->ended } values %s }, 20);

        for my $event (keys %s) {
            if ($s{$event}->names eq 'promoted') {
                delete $late{$event};
            } else {
                push @wrong, refusal($s{$event});
            }
        }

        $sse->close_all;
        !%late;
    }, 20, 'after a while all can join again');

    is_deeply(\@wrong, [], 'and those before are refused as ever');
    is_deeply([ grep { $service->asked($_) != 2 }
                     grep { !$uri{$_} } sort keys %bad ], [],
              'each was asked once more');



=== TEST 3: hundreds at once, over all workers: the service is asked once
--- check
    # while it thinks

    my $line = line($prefix, 'slow');
    my @s = map { $line->open("u$_") } 1 .. 300;

    until_true(sub { $service->asked('slow') }, 10, 'it is asked');

    # by the first of them, and the others are there too
    until_true(sub { counter('capacityAsked') == 1
                     && $line->call('INFO', 'commandstats')
                        =~ /evalsha:calls=(\d+)/ && $1 >= 300 }, 20,
               'all have come');
    let_pass(0.2);

    is(scalar $service->asked('slow'), 1, 'once');
    ok(!(grep { $_->status } @s), 'nobody is answered before it has');
    is_deeply([ traces($line) ], [], 'and nothing is stored');

    $service->on(slow => seats(7));
    answered(@s);

    is(scalar(grep { $_->names eq 'promoted' } @s), 7, 'seven get in');
    is(scalar(grep { $_->names =~ /^position/ } @s), 293, 'the others wait');
    is_deeply([ $line->wrong ], [], 'the invariants');
    is(scalar $service->asked('slow'), 1, 'asked once');

    # and where it answers on the spot, which leaves no time to wait for it

    my @events = map { "spot$_" } 1 .. 20;
    my %line = map { ($_ => line($prefix, $_,
                         path => '/any?event=%e&user=%u&uri=/spot/')) } @events;

    $sse->close_all;
    @s = map { my $n = $_; map { $line{$_}->open("u$n") } @events } 1 .. 30;
    answered(@s);

    is(scalar(grep { $_->names eq 'promoted' } @s), 5 * @events,
       'five of each');
    is(scalar(grep { $_->names =~ /^position/ } @s), 25 * @events,
       'the others wait');
    is_deeply([ map { $_->wrong } values %line ], [], 'the invariants');

    is(counter('capacityAsked'), 1 + @events, 'asked once for each event');
    is(counter('capacityFailed'), 0, 'capacityFailed');
    is(counter('joinsRefused'), 0, 'joinsRefused');



=== TEST 4: who asks may go: another asks, and all are served
--- check
    my $line = line($prefix, 'e1');
    my %how = (fin => 'close', rst => 'reset');

    for my $event (sort keys %how) {
        my $line = line($prefix, $event);
        my $how = $how{$event};
        my $asker = $line->open('asker');

        until_true(sub { $service->asked($event) == 1 }, 10, "$how: asked");

        my @s = map { $line->open("u$_") } 1 .. 20;
        let_pass(0.2);
        is(scalar $service->asked($event), 1, 'not again by those who follow');

        my $left = Time::HiRes::time();
        $asker->$how;
        until_true(sub { $service->asked($event) == 2 }, 10, 'another asks');
        cmp_ok(Time::HiRes::time() - $left, '<', 2,
               'and not only when the time of the first is over');
        ok(($service->asked($event))[0]{aborted},
           'and nobody waits for the first answer');

        $service->on($event => seats(3));
        answered(@s);

        is(scalar(grep { $_->names eq 'promoted' } @s), 3, 'three get in');
        is(scalar(grep { $_->names =~ /^position/ } @s), 17, 'the others wait');
        is(scalar $service->asked($event), 2, 'asked twice');
        is_deeply([ $line->wrong ], [], 'the invariants');
        ok(!$line->lease('asker') && !$line->record('asker'),
           'who has gone has nothing');
        $sse->close_all;
    }

    # one after the other, until nobody is left

    $line = line($prefix, 'alone');
    my @s = map { $line->open("u$_") } 1 .. 10;

    until_true(sub { $service->asked('alone') }, 10, 'asked');

    while (my $s = shift @s) {
        $s->close;
        let_pass(0.03);
    }

    until_true(sub { !grep { !$_->{aborted} } $service->asked('alone') }, 10,
               'nobody wants an answer any more');
    is_deeply([ traces($line) ], [], 'nothing is stored');

    # the next one is not made to wait for having been left alone

    $service->on(alone => seats(1));
    my $next = $line->open('next');
    answered($next);
    is($next->names, 'promoted', 'the next who comes is served');

    # in HTTP/2, where all are on one connection

    $line = line($prefix, 'h2');

    my $h2 = WaitingQueue::Http2->new($sse, $ENV{TEST_NGINX_HTTP2_PORT});
    my @h2 = map { $h2->open($line->path("u$_"), "h2 u$_") } 1 .. 10;

    until_true(sub { $service->asked('h2') == 1 }, 10, 'HTTP/2: asked');
    $h2[0]->reset;
    until_true(sub { $service->asked('h2') == 2 }, 10, 'another asks');
    $h2[1]->reset;
    $h2[2]->reset;
    until_true(sub { $service->asked('h2') == 3 }, 10, 'and another');
    $h2->close;
    until_true(sub { $service->asked('h2') == 3
                     && ($service->asked('h2'))[2]{aborted} }, 10,
               'nobody is left');
    is_deeply([ traces($line) ], [], 'nothing is stored');

    $h2 = WaitingQueue::Http2->new($sse, $ENV{TEST_NGINX_HTTP2_PORT});
    @h2 = map { $h2->open($line->path("u$_"), "h2 u$_") } 1 .. 10;
    until_true(sub { $service->asked('h2') == 4 }, 10, 'a new one asks');
    $service->on(h2 => seats(4));
    answered(@h2);
    is(scalar(grep { $_->names eq 'promoted' } @h2), 4, 'four get in');
    is(scalar(grep { $_->names =~ /^position/ } @h2), 6, 'the others wait');

    is(counter('capacityFailed'), 0, 'capacityFailed');



=== TEST 5: what a visitor sends does not reach the service
--- check
    my $line = line($prefix, 'e1');
    my %headers = (
        Cookie => 'a=SECRET', Authorization => 'Basic SECRET',
        Range => 'bytes=0-3', 'If-Range' => '"SECRET"',
        'If-None-Match' => '*', 'If-Match' => '"SECRET"',
        'If-Modified-Since' => 'Sat, 29 Oct 2094 19:43:31 GMT',
        'If-Unmodified-Since' => 'Sat, 29 Oct 1994 19:43:31 GMT',
        'Accept-Encoding' => 'gzip', 'X-Secret' => 'SECRET',
        'User-Agent' => 'SECRET', Referer => 'http://SECRET/',
        'X-Forwarded-For' => 'SECRET', 'Accept-Language' => 'SECRET',
        'Content-Length' => 0, Upgrade => 'SECRET', TE => 'trailers',
    );

    $service->on(e1 => seats(1));

    my $s = $line->open('u1', headers => \%headers);
    answered($s);

    is($s->names, 'promoted', 'it is served');

    my ($request) = $service->asked('e1');
    my ($first, @lines) = split /\r\n/, $request->{head};

    is($first, 'GET /seats/e1 HTTP/1.1', 'what was asked');
    is_deeply([ sort @lines ],
              [ 'Connection: close',
                'Host: 127.0.0.1:' . $service->port ],
              'nothing of the visitor is with it');

    # not even where nginx itself answers, and would know what to do with them

    for my $user (qw(u1 u2)) {
        my $file = line($prefix, "file$user",
                        path => '/any?event=%e&user=%u&uri=/seats.json');
        my $s = $file->open($user, headers => \%headers);
        answered($s);
        is($s->names, 'promoted', 'it is served');
        is($file->stat('capacity'), 1234, 'by a file');
    }

    # unless the site says so

    $service->on(e2 => seats(1));
    answered(line($prefix, 'e2',
                  path => '/any?event=%e&user=%u&uri=/headed/e2')->open('u9'));
    ($request) = $service->asked('e2');
    like($request->{head}, qr/^X-Event: e2\r$/m, 'the event of the visitor');
    like($request->{head}, qr/^X-User: u9\r$/m, 'and who it is');

    # which are also for logs, headers and whatever else takes a variable; but
    # nothing that is no id gets there

    my $all = '-0aZ.~_:@';
    my $id = '0123456789abcdef0123456789abcdef';
    my $cookie = sub { (headers => { Cookie => "a=b; wq_uid=$_[0]" }) };
    my %shown = (
        '/who?event=e&user=u' => '[e][u]',
        "/who?event=$all&user=$all" => "[$all][$all]",
        '/who?event=' . 'a' x 129 . '&user=u' => '[][u]',
        '/who?event=e&user=' . 'a' x 129 => '[e][]',
        '/who?event=a%20b&user=a/b' => '[][]', '/who' => '[][]',
        '/cookie' => '[fixed][]', '/neither' => '[127.0.0.1][]',
    );

    is_deeply({ map { ($_ => http('GET', $_)->{content}) } keys %shown },
              \%shown, 'variables');
    is(http('GET', '/cookie', $cookie->($id))->{content}, "[fixed][$id]",
       'a user with a cookie of the module');
    is(http('GET', '/cookie', $cookie->("${id}0"))->{content}, '[fixed][]',
       'and one with a cookie of his own making');
--- user_files
>>> seats.json
{"seatCount":1234}



=== TEST 6: whose word counts
--- check
    # no slot at all: they wait until the operator gives some

    my $line = line($prefix, 'e1');
    $service->on(e1 => seats(0));

    my @s = map { my $s = $line->open("u$_"); answered($s); $s } 1 .. 3;
    is(join(q{ }, map { $_->names } @s), q{position position position},
       'a capacity of 0: all wait');

    $line->set(capacity => 2);
    until_true(sub { 2 == grep { $_->last('promoted') } @s }, 10,
               'the operator has the last word');
    is($line->stat('capacity'), 2, 'the capacity in force');
    is($line->call('HGET', $line->key('WAITING_QUEUE_CONF'),
                   'service_capacity'), 0, 'and the one that is not');

    $line->call('DEL', $line->key('WAITING_QUEUE_OVERRIDE'));
    until_true(sub { $line->slots == -2 }, 10,
               'without it the service counts again');
    ok(!$s[2]->last('promoted'), 'and nobody else gets in');

    # the operator was there before anybody came: nobody needs to be asked

    my $early = line($prefix, 'e2');
    $early->set(capacity => 1);
    @s = map { my $s = $early->open("u$_"); answered($s); $s } 1 .. 2;
    is(join(' ', map { $_->names } @s), 'promoted position',
       'the operator was first');
    is(scalar $service->asked('e2'), 0, 'the service is not asked');

    # then the operator does not want to say any more, and it is not known what
    # the service would say: what was said last counts

    $early->call('DEL', $early->key('WAITING_QUEUE_OVERRIDE'));
    let_pass(0.5);
    is($early->stat('capacity'), 1, 'the last capacity that was in force');
    my $third = $early->open('u3');
    answered($third);
    is($third->rank, 1, 'and the line goes on');

    # the first word of the service stays, also when all have gone and come back

    my $first = line($prefix, 'e3');
    $service->on(e3 => seats(1));
    my $s = $first->open('u1');
    answered($s);
    $service->on(e3 => seats(100));
    $s->close;
    $first->release('u1');
    until_true(sub { !$first->leftovers }, 15, 'all have gone');

    @s = map { my $s = $first->open("v$_"); answered($s); $s } 1 .. 2;
    is(join(' ', map { $_->names } @s), 'promoted position', 'the first word');
    is(scalar $service->asked('e3'), 1, 'asked once');

    # data that are lost are asked for again

    my $lost = line($prefix, 'e4');
    $service->on(e4 => seats(1));
    $s = $lost->open('u1');
    answered($s);
    $s->close;
    $lost->call('DEL', map { "$prefix$_" } $lost->keys);
    $service->on(e4 => seats(2));
    @s = map { my $s = $lost->open("v$_"); answered($s); $s } 1 .. 3;
    is(join(' ', map { $_->names } @s), 'promoted promoted position',
       'the new word');
    is(scalar $service->asked('e4'), 2, 'asked once more');



=== TEST 7: a visitor who was refused can go on with the connection
--- check
    # the one whose request carries the question, too: what became of it is not
    # the visitor's problem

    for my $event (qw(hangs stops error)) {
        $service->on(stops => sub {
            my ($request) = @_;
            # the head, and not all of the body: the rest never comes
            syswrite $request->{client}{socket},
                     "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"sea"
                if !$request->{stopped}++;
            return;
        }, error => EventService::http('500 Oops', ''));

        my $socket = IO::Socket::INET->new(
            PeerAddr => '127.0.0.1', PeerPort => server_port()) or die $!;
        my $path = line($prefix, $event)->path('u1');

        syswrite $socket, "GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n"
                          . "GET /status HTTP/1.1\r\nHost: localhost\r\n"
                          . "Connection: close\r\n\r\n";
        $socket->blocking(0);

        my $in = '';
        until_true(sub {
            my $n = sysread $socket, $in, 65536, length $in;
            defined $n && $n == 0;
        }, 15, "$event: the next request is answered");

        like($in, qr{^HTTP/1\.1\ 503\ .*capacity_unavailable.*
                     ^HTTP/1\.1\ 200\ .*"processes":}xms, 'both answers');
        until_true(sub { ($service->asked($event))[0]{client}{over} }, 5,
                   'the service has been left alone');
    }



=== TEST 8: Redis goes away while the service is asked
--- private_redis
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_PRIVATE_REDIS_PORT
                        timeout=500ms;
    waiting_queue_prefix t008-8:;
--- check
    my $dir = File::Temp->newdir();
    my $port = $ENV{TEST_NGINX_PRIVATE_REDIS_PORT};
    my $start = sub {
        defined(my $pid = fork) or die "fork: $!\n";
        if (!$pid) {
            open STDOUT, '>', "$dir/out";
            open STDERR, '>&', \*STDOUT;
            exec 'redis-server', '--bind', '127.0.0.1', '--port', $port,
                 '--dir', "$dir", '--save', '', '--appendonly', 'no'
                or POSIX::_exit(1);
        }
        return $pid;
    };

    my $pid = $start->();
    my $stop = sub { kill 'KILL', $pid; waitpid $pid, 0 };

    eval {
        ready();

        my $redis = WaitingQueue::Redis->new(port => $port);
        my $line = line($prefix, 'e1', redis => $redis);
        my @s = map { $line->open("u$_") } 1 .. 5;

        until_true(sub { $service->asked('e1') }, 10, 'asked');
        let_pass(0.2);

        $stop->();
        until_true(sub { !grep { $_->{state} eq 'ready' } links(status()) }, 15,
                   'Redis is away');
        $service->on(e1 => seats(2));
        answered(@s);

        is_deeply([ map { refusal($_, 'redis_unavailable') } @s ], [],
                  'the answer is there, but Redis is not');

        $pid = $start->();
        ready();

        @s = map { my $s = $line->open("v$_"); answered($s); $s } 1 .. 3;
        is(join(q{ }, map { $_->names } @s), q{position position position},
           'when Redis is back the service is asked again, without delay');
        until_true(sub { 2 == grep { $_->token } @s }, 15,
                   'and two are let in when all are back');
        is(scalar $service->asked('e1'), 2, 'asked once more');
        is_deeply([ $line->wrong ], [], 'the invariants');

        # with those who wait for the answer of another process: it never comes

        $line = line($prefix, 'e2', redis => $redis);
        @s = map { $line->open("u$_") } 1 .. 20;
        until_true(sub { $service->asked('e2') }, 10, 'asked');
        let_pass(0.2);
        kill 'STOP', $pid;
        $service->on(e2 => seats(2));
        answered(@s);
        is_deeply([ map { refusal($_, 'redis_unavailable') } @s ], [],
                  'Redis does not answer');
        1;
    } or fail("died: $@");

    kill 'CONT', $pid;
    $stop->();



=== TEST 9: nginx quits while the service is asked
--- check
    my $line = line($prefix, 'e1');
    my @s = map { $line->open("u$_") } 1 .. 20;

    until_true(sub { $service->asked('e1') }, 10, 'asked');
    let_pass(0.2);

    # new workers, where there are such; the old ones owe an answer

    if ($workers > 1) {
        my %old = map { ($_->{pid} => 1) } @{status()->{processes}};

        open my $in, '<', server_root() . '/logs/nginx.pid' or die $!;
        chomp(my $master = <$in>);
        kill 'HUP', $master;

        until_true(sub {
            my @processes = @{status()->{processes}};
            my @new = grep { !$old{$_->{pid}} } @processes;
            @new == $workers
                && !(grep { $_->{links}{commands}{state} ne 'ready' } @new)
                && !(grep { $old{$_->{pid}} && !$_->{draining} } @processes);
        }, 20, 'new workers');

        my $next = $line->open('next');
        $service->on(e1 => seats(2));
        answered(@s, $next);

        is($next->names, 'promoted', 'who comes to the new ones is served');
        is_deeply([ map { refusal($_, 'redis_unavailable') } @s ], [],
                  'the others are told to come again');
        is($line->slots, 1, 'and have taken nothing away');

        until_true(sub { !grep { $old{$_->{pid}} } @{status()->{processes}} },
                   20, 'the old ones are gone');
        is_deeply([ $line->wrong ], [], 'the invariants');
    }

    # the end, and nobody who answers

    my $last = line($prefix, 'e2');
    @s = map { $last->open("u$_") } 1 .. 5;
    until_true(sub { $service->asked('e2') }, 10, 'asked');
    let_pass(0.1);

    my $file = server_root() . '/logs/nginx.pid';
    open my $in, '<', $file or die $!;
    chomp(my $pid = <$in>);
    kill 'QUIT', $pid;

    # a single process, without a master, knows no graceful way to quit

    answered(@s);
    is_deeply([ map { refusal($_) } @s ], [], 'all are told in time')
        if $workers > 1;
    until_true(sub { !-e $file }, 15, 'and nginx can go');
    is_deeply([ traces($last) ], [], 'nothing is stored');
