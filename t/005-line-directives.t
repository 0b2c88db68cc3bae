# The directives of the line say how many get in, for how long, and who is who.
# What is wrong must stop nginx with a message that names the directive and the
# reason; what is right must reach Redis as it was written, from whichever level
# of the configuration, because there it is the event's law for every node.

use WaitingQueue::Test;
use WaitingQueue::Live;

use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;

my $id = 'must be 1 to 128 of A-Z a-z 0-9 . _ ~ @ : -';
my $time = 'must be a time of 1ms to 365d';
my $long = 'a' x 129;

# directives that are inherited from http{} to server{} to location{}, and a
# value that each takes
my %inherited = (
    waiting_queue_event => 'e',
    waiting_queue_user => 'u',
    waiting_queue_capacity => '1',
    waiting_queue_ttl => '1m',
    waiting_queue_release => 'expiry',
    waiting_queue_grace => '1s',
    waiting_queue_max_waiting => '1',
);

# those of http{} alone
my %global = (
    waiting_queue_interval => '1s',
    waiting_queue_promote_interval => '1s',
    waiting_queue_max_streams => '1',
    waiting_queue_drain => '1s',
);

my %all = (%inherited, %global);


# [ what is wrong, the whole of http{}, what nginx says ]

my @bad = (
    (map { my $name = $_;
           map { [ "$name $_", "$name $_;",
                   "\"$name\" directive: invalid id \"" . unquote($_)
                   . "\", $id" ] }
               '""', '"a b"', 'a/b', '"{a}"', 'a+b', 'a,b', '"a\tb"', 'a%20b',
               "caf\xc3\xa9", $long }
         qw(waiting_queue_event waiting_queue_user)),

    (map { [ "$_ of an unknown variable", "$_ a\$no_such_variable;",
             'unknown "no_such_variable" variable' ],
           [ "$_ of half a variable", "$_ a\${host;",
             'the closing bracket in "host" variable is missing' ] }
         qw(waiting_queue_event waiting_queue_user)),

    (map { [ "capacity $_", "waiting_queue_capacity $_;",
             '"waiting_queue_capacity" directive: invalid number "'
             . unquote($_) . '", must be 0 to 1000000000, or "uri=" and where '
             . 'to ask' ] }
         qw(-1 +1 1.5 1e3 1k abc "" 1000000001 99999999999999999999 0x10 URI=/a
            url=/a /seats), '" 1"', '"1 "'),

    (map { [ "capacity 1 $_", "waiting_queue_capacity 1 $_;",
             '"waiting_queue_capacity" directive: invalid parameter "'
             . unquote($_) . '", can only follow "uri="' ] }
         qw(field=seats uri=/seats 2 "")),

    (map { [ "capacity uri=$_", "waiting_queue_capacity \"uri=$_\";",
             '"waiting_queue_capacity" directive: invalid uri "' . $_
             . '", must begin with "/"' ] }
         '', 'seats', 'http://127.0.0.1/seats', '@seats', ' /seats'),

    (map { [ "capacity uri=/seats $_", "waiting_queue_capacity uri=/seats $_;",
             '"waiting_queue_capacity" directive: invalid parameter "'
             . unquote($_) . '", must be "field="' ] }
         qw(seats 1 field Field=seats fields=seats uri=/a "")),

    (map { [ "capacity uri=/seats field=$_",
             "waiting_queue_capacity uri=/seats \"field=$_\";",
             '"waiting_queue_capacity" directive: invalid field "' . $_
             . '", must be a name, or names joined by dots, of at most 128 '
             . 'characters' ] }
         '', '.', 'a.', '.a', 'a..b', $long),

    [ 'capacity uri= of an unknown variable',
      'waiting_queue_capacity uri=/$no_such_variable;',
      'unknown "no_such_variable" variable' ],

    (map { [ "ttl $_", "waiting_queue_ttl $_;",
             '"waiting_queue_ttl" directive: invalid time "' . unquote($_)
             . "\", $time" ] }
         qw(0 0s 0ms -1 -1s abc 1.5s 5x "" 366d 2y 8761h max=1m claim=1m
            99999999999999999999 1y 1M), '"1 s"'),

    (map { my $parameter = $_;
           map { [ "ttl 1m $parameter=$_",
                   "waiting_queue_ttl 1m $parameter=$_;",
                   '"waiting_queue_ttl" directive: invalid parameter "'
                   . "$parameter=$_\", $time" ] }
               '', qw(0 0ms -1 abc 366d 1.5s) }
         qw(max claim)),

    (map { [ "ttl 1m $_", "waiting_queue_ttl 1m $_;",
             '"waiting_queue_ttl" directive: invalid parameter "'
             . unquote($_) . '", must be "max=" or "claim="' ] }
         qw(2m max claim Max=2m maximum=2m hold=1s "")),

    [ 'ttl with max= twice', 'waiting_queue_ttl 1m max=2m max=3m;',
      '"waiting_queue_ttl" directive: invalid parameter "max=3m", is '
      . 'duplicate' ],
    [ 'ttl with claim= twice', 'waiting_queue_ttl 1m claim=2s claim=2s;',
      '"waiting_queue_ttl" directive: invalid parameter "claim=2s", is '
      . 'duplicate' ],
    [ 'ttl above its max', 'waiting_queue_ttl 1m max=59s;',
      '"waiting_queue_ttl" directive has a "max" that is less than the time '
      . 'itself' ],
    [ 'ttl above its max, which is between 0 and 1 s',
      'waiting_queue_ttl 2ms claim=1ms max=1ms;',
      '"waiting_queue_ttl" directive has a "max" that is less than the time '
      . 'itself' ],
    [ 'ttl below its claim', 'waiting_queue_ttl 1m claim=61s;',
      '"waiting_queue_ttl" directive has a "claim" that is more than the time '
      . 'itself' ],
    [ 'ttl below its claim, within its max',
      'waiting_queue_ttl 1m claim=61s max=2m;',
      '"waiting_queue_ttl" directive has a "claim" that is more than the time '
      . 'itself' ],

    (map { [ "release $_", "waiting_queue_release $_;",
             '"waiting_queue_release" directive: invalid value "'
             . unquote($_) . '", must be "expiry" or "disconnect"' ] }
         qw(on off Expiry expire disconnected 0 1 "")),

    (map { [ "grace $_", "waiting_queue_grace $_;",
             '"waiting_queue_grace" directive: invalid time "' . unquote($_)
             . '", must be a time of 0 to 365d' ] }
         qw(-1 -1s abc 1.5s 5x off "" 366d 99999999999999999999), '"1 s"'),

    (map { [ "max_waiting $_", "waiting_queue_max_waiting $_;",
             '"waiting_queue_max_waiting" directive: invalid number "'
             . unquote($_) . '", must be 0 to 1000000000' ] }
         qw(-1 +1 1.5 1k abc off "" 1000000001 99999999999999999999)),

    (map { [ "max_streams $_", "waiting_queue_max_streams $_;",
             '"waiting_queue_max_streams" directive: invalid number "'
             . unquote($_) . '", must be 0 to 1000000' ] }
         qw(-1 +1 1.5 1k abc off "" 1000001 99999999999999999999)),

    (map { my $name = $_;
           map { [ "$name $_", "$name $_;",
                   "\"$name\" directive: invalid time \"" . unquote($_)
                   . '", must be a time of 20ms to 60s' ] }
               qw(0 19ms 61s 60001ms 2m -1 abc 5x "") }
         qw(waiting_queue_interval waiting_queue_promote_interval)),

    (map { [ "drain $_", "waiting_queue_drain $_;",
             '"waiting_queue_drain" directive: invalid time "'
             . unquote($_) . '", must be a time of at most 1h' ] }
         qw(-1 3601s 61m 2h abc 5x "")),

    [ 'waiting_queue_stream with a value',
      'server { location / { waiting_queue_stream on; } }',
      'invalid number of arguments in "waiting_queue_stream" directive' ],
    [ 'waiting_queue_stream twice', 'server { location / {
          waiting_queue_stream; waiting_queue_stream; } }',
      '"waiting_queue_stream" directive is duplicate' ],
    [ 'waiting_queue_stream in http{}', 'waiting_queue_stream;',
      '"waiting_queue_stream" directive is not allowed here' ],
    [ 'waiting_queue_stream in server{}', 'server { waiting_queue_stream; }',
      '"waiting_queue_stream" directive is not allowed here' ],

    (map { [ "$_ without a value", "$_;",
             "invalid number of arguments in \"$_\" directive" ],
           [ "$_ with too many values", "$_ 1 2 3 4;",
             "invalid number of arguments in \"$_\" directive" ],
           [ "$_ twice", "$_ $all{$_}; $_ $all{$_};",
             "\"$_\" directive is duplicate" ] }
         sort keys %all),

    (map { my ($name, $arguments) = @$_;
           [ "$name $arguments", "$name $arguments;",
             "invalid number of arguments in \"$name\" directive" ] }
         (map { [ $_, "$all{$_} $all{$_}" ] }
              grep { !/_(?:capacity|ttl)$/ } sort keys %all),
         [ 'waiting_queue_capacity', 'uri=/a field=b field=c' ]),

    (map { [ "$_ twice in server{}",
             "server { $_ $inherited{$_}; $_ $inherited{$_}; }",
             "\"$_\" directive is duplicate" ],
           [ "$_ twice in location{}",
             "server { location / { $_ $inherited{$_}; $_ $inherited{$_}; } }",
             "\"$_\" directive is duplicate" ] }
         sort keys %inherited),

    [ 'a capacity, then where to ask for it',
      'waiting_queue_capacity 1; waiting_queue_capacity uri=/seats;',
      '"waiting_queue_capacity" directive is duplicate' ],
    [ 'where to ask for a capacity, then one',
      'waiting_queue_capacity uri=/seats; waiting_queue_capacity 1;',
      '"waiting_queue_capacity" directive is duplicate' ],
    [ 'where to ask for a capacity, twice',
      'waiting_queue_capacity uri=/seats; waiting_queue_capacity uri=/seats;',
      '"waiting_queue_capacity" directive is duplicate' ],
    [ 'a grace of 0, twice', 'waiting_queue_grace 0; waiting_queue_grace 0;',
      '"waiting_queue_grace" directive is duplicate' ],
    [ 'a release that is the default, then another',
      'waiting_queue_release expiry; waiting_queue_release disconnect;',
      '"waiting_queue_release" directive is duplicate' ],

    (map { my $name = $_;
           my $use = exists $all{$name} ? "$name $all{$name};" : "$name;";
           map { [ "$name in $_->[0]", sprintf($_->[1], $use),
                   "\"$name\" directive is not allowed here" ] }
               [ 'if{} of a server', 'server { if ($host) { %s } }' ],
               [ 'if{} of a location',
                 'server { location / { if ($host) { %s } } }' ],
               [ 'limit_except{}',
                 'server { location / { limit_except GET { %s } } }' ],
               exists $global{$name}
               ? ([ 'server{}', 'server { %s }' ],
                  [ 'location{}', 'server { location / { %s } }' ]) : () }
         'waiting_queue_stream', sort keys %all),
);

# each in http{}, server{} and location{}
my @good = (
    (map { ("waiting_queue_event $_", "waiting_queue_user $_") }
         'a', 'ABCXYZabcxyz0189._~@:-', 'a' x 128, '$host', '$arg_a',
         'a$host', '"$cookie_a b"', '${host}-$server_port',
         '$request_uri$request_uri'),

    (map { "waiting_queue_capacity $_" }
         qw(0 1 50 1000000000 007 uri=/ uri=/seats uri=/seats?event=$host
            uri=$uri/seats), '"uri=/a b"',
         (map { "uri=/seats $_" }
              qw(field=seatCount field=a.b.c field=0), '"field=a b"',
              '"field=a$b"', 'field=' . 'a' x 128)),

    (map { "waiting_queue_ttl $_" }
         qw(1ms 1 5m 1h30m 365d), '5m max=1h', '5m claim=1m',
         '5m max=1h claim=1m', '5m claim=1m max=1h', '1m max=1m claim=1m',
         '1ms max=365d claim=1ms', '10s max=10s'),

    'waiting_queue_release expiry',
    'waiting_queue_release disconnect',

    (map { "waiting_queue_grace $_" } qw(0 0s 1ms 30s 5m 365d)),
    (map { "waiting_queue_max_waiting $_" } qw(0 1 100000 1000000000)),
);

my @good_global = (
    (map { ("waiting_queue_interval $_", "waiting_queue_promote_interval $_") }
         qw(20ms 1s 1 60s 1m 60000ms)),
    (map { "waiting_queue_max_streams $_" } qw(0 1 448 1000000)),
    (map { "waiting_queue_drain $_" } qw(0 1ms 10s 1h 3600)),
);


# "--- check" runs after the request, as one test

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value('config', '    location = /status {
        waiting_queue_status;
    }' . "\n" . (defined $block->config ? $block->config : ''));
    $block->set_value('request', 'GET /status');
});

my $sse;

add_response_body_check(sub {
    my $block = shift;

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
        $sse->close_all;
    });
});

plan tests => @bad + 3 * @good + @good_global + repeat_each() * (blocks() * 4);

redis('FLUSHALL');

# first: nobody else is to take nginx' port meanwhile
run_tests();

for my $case (@bad) {
    my ($name, $http, $message) = @$case;
    my ($ok, $output) = nginx_t("waiting_queue_redis redis://127.0.0.1; $http");

    # nginx itself does not tell where an unknown variable is used
    my ($emerg)
        = $output =~ /\[emerg\] (.*?)(?: in \S+nginx\.conf:\d+)?$/ms;

    ok(!$ok && defined $emerg && $emerg eq $message, "$name: $message")
        or diag($output);
}

accepted('%s', @good, @good_global);
accepted('server { %s }', @good);
accepted('server { location / { %s waiting_queue_stream; } }', @good);


# accepted(where, directives): all that nginx takes; those that go together are
# tried in one configuration

sub accepted {
    my ($where, @directives) = @_;

    my @rounds;

    for my $directive (@directives) {
        my ($name) = split ' ', $directive;
        my ($round) = grep { !exists $_->{$name} } @rounds;

        push @rounds, $round = {} if !$round;
        $round->{$name} = $directive;
    }

    for my $round (@rounds) {
        my @together = map { $round->{$_} } sort keys %$round;
        my ($ok, $output) = nginx_t('waiting_queue_redis redis://127.0.0.1; '
                                    . sprintf $where, join ' ', map { "$_;" }
                                                            @together);

        for my $directive (@together) {
            ok($ok, sprintf("accepted: $where", "$directive;"));
        }
        diag($output) if !$ok;
    }
}


# unquote(word): what nginx makes of a word of the configuration

sub unquote {
    my %escapes = (t => "\t", n => "\n");

    return $_[0] =~ s/^"(.*)"$/$1/r =~ s/\\([tn])/$escapes{$1}/gr;
}


# conf(prefix, event): what the joins have told Redis of the configuration

sub conf {
    my ($prefix, $event) = @_;
    return { @{WaitingQueue::Redis->new->call(
                 'HGETALL', "${prefix}WAITING_QUEUE_CONF:{$event}")} };
}


# join_at(path, name of the user): the stream, with its first event

sub join_at {
    my ($path, %options) = @_;

    my $s = $sse->open(path => $path, %options);

    $sse->run_until(sub { $s->events || $s->ended }, 10, "an answer to $path");

    return $s;
}


# reaches(prefix, { path => [ event, settings ] }): a join at each of them tells
# Redis just these, as one text and one by one

sub reaches {
    my ($prefix, $places) = @_;

    for my $path (sort keys %$places) {
        my ($event, $text, %more) = @{$places->{$path}};

        my $s = join_at("$path?user=u");
        is($s->status, 200, "$path: a stream");
        is($s->first && $s->first->{data}{eventId}, $event, 'of that event');

        is_deeply(conf($prefix, $event),
                  { text => $text, (map { split /=/ } split ' ', $text),
                    %more },
                  "$path: $text");

        $s->close;
    }
}


sub sum {
    my ($counter) = @_;

    my $sum = 0;
    $sum += $_->{$counter} for @{status()->{processes}};
    return $sum;
}

__DATA__

=== TEST 1: the defaults
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-1:;
    waiting_queue_user $arg_user;
--- config
    location /stream {
        waiting_queue_stream;
    }
--- check
    ready();
    reaches('t005-1:', {
        '/stream' => [ 'localhost', 'capacity=50 ttl=300000 ttl_max=0 '
                       . 'claim=60000 max_waiting=0 grace=30000 '
                       . 'poll_timeout=30000 release=0' ],
    });

    # the event is the host, as nginx has it: without port, in lower case
    my $s = join_at('/stream?user=v',
                    headers => { Host => 'Concert.EXAMPLE:8080' });
    is($s->first->{data}{eventId}, 'concert.example', 'the host is the event');



=== TEST 2: from http{}, to server{}, to location{}, each by itself
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-2:;
    waiting_queue_event http;
    waiting_queue_user http;
    waiting_queue_capacity 1;
    waiting_queue_ttl 1m max=1h claim=1s;
    waiting_queue_release disconnect;
    waiting_queue_grace 1s;
    waiting_queue_max_waiting 1;

    server {
        listen 127.0.0.2:$TEST_NGINX_SERVER_PORT;
        location / {
            waiting_queue_stream;
        }
    }
--- config
    waiting_queue_event server;
    waiting_queue_user $arg_user;
    waiting_queue_capacity 2;
    waiting_queue_ttl 2m max=2h claim=2s;
    waiting_queue_release expiry;
    waiting_queue_grace 2s;
    waiting_queue_max_waiting 2;

    location = /none {
        waiting_queue_stream;
    }

    location /all {
        waiting_queue_stream;
        waiting_queue_event location;
        waiting_queue_user x$arg_user;
        waiting_queue_capacity 3;
        waiting_queue_ttl 3m max=3h claim=3s;
        waiting_queue_release disconnect;
        waiting_queue_grace 3s;
        waiting_queue_max_waiting 3;

        location = /all/nested {
            waiting_queue_stream;
            waiting_queue_event nested;
            waiting_queue_grace 4s;
        }

        location = /all/other {
            return 200 "no stream\n";
        }

        location = /all/nothing {
        }
    }

    location = /capacity {
        waiting_queue_stream;
        waiting_queue_event capacity;
        waiting_queue_capacity 4;
    }

    location = /ttl {
        waiting_queue_stream;
        waiting_queue_event ttl;
        # what it does not say of itself is the default, not another's
        waiting_queue_ttl 30s;
    }

    location = /ttl-long {
        waiting_queue_stream;
        waiting_queue_event ttl-long;
        waiting_queue_ttl 2h;
    }

    location = /release {
        waiting_queue_stream;
        waiting_queue_event release;
        waiting_queue_release disconnect;
    }

    location = /grace {
        waiting_queue_stream;
        waiting_queue_event grace;
        waiting_queue_grace 0;
    }

    location = /max_waiting {
        waiting_queue_stream;
        waiting_queue_event max_waiting;
        waiting_queue_max_waiting 0;
    }
--- check
    ready();
    reaches('t005-2:', {
        '/none' => [ 'server',
            'capacity=2 ttl=120000 ttl_max=7200000 claim=2000 max_waiting=2 '
            . 'grace=2000 poll_timeout=30000 release=0' ],
        '/all' => [ 'location',
            'capacity=3 ttl=180000 ttl_max=10800000 claim=3000 max_waiting=3 '
            . 'grace=3000 poll_timeout=30000 release=1' ],
        '/all/nested' => [ 'nested',
            'capacity=3 ttl=180000 ttl_max=10800000 claim=3000 max_waiting=3 '
            . 'grace=4000 poll_timeout=30000 release=1' ],
        '/capacity' => [ 'capacity',
            'capacity=4 ttl=120000 ttl_max=7200000 claim=2000 max_waiting=2 '
            . 'grace=2000 poll_timeout=30000 release=0' ],
        '/ttl' => [ 'ttl',
            'capacity=2 ttl=30000 ttl_max=0 claim=30000 max_waiting=2 '
            . 'grace=2000 poll_timeout=30000 release=0' ],
        '/ttl-long' => [ 'ttl-long',
            'capacity=2 ttl=7200000 ttl_max=0 claim=60000 max_waiting=2 '
            . 'grace=2000 poll_timeout=30000 release=0' ],
        '/release' => [ 'release',
            'capacity=2 ttl=120000 ttl_max=7200000 claim=2000 max_waiting=2 '
            . 'grace=2000 poll_timeout=30000 release=1' ],
        '/grace' => [ 'grace',
            'capacity=2 ttl=120000 ttl_max=7200000 claim=2000 max_waiting=2 '
            . 'grace=0 poll_timeout=30000 release=0' ],
        '/max_waiting' => [ 'max_waiting',
            'capacity=2 ttl=120000 ttl_max=7200000 claim=2000 max_waiting=0 '
            . 'grace=2000 poll_timeout=30000 release=0' ],
    });

    # a server that says nothing
    my $s = join_at('/', host => '127.0.0.2');
    is($s->first->{data}{$_}, 'http', "$_ of http{}") for qw(eventId userId);
    is(conf('t005-2:', 'http')->{text},
       'capacity=1 ttl=60000 ttl_max=3600000 claim=1000 max_waiting=1 '
       . 'grace=1000 poll_timeout=30000 release=1', 'all of http{}');

    # who is who
    is(join_at('/all?user=u')->first->{data}{userId}, 'xu', 'user of /all');
    is(join_at('/none?user=u')->first->{data}{userId}, 'u', 'of the server');

    # the stream itself is of its location alone
    is(http('GET', '/all/other')->{content}, "no stream\n", 'another handler');
    is(http('GET', '/all/nothing')->{status}, 404, 'nor is it inherited');



=== TEST 3: where to ask for the capacity, and what to read there
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-3:;
    waiting_queue_user $arg_user;
    waiting_queue_capacity uri=/seats/http field=data.seats;
--- config
    location /seats/ {
        default_type application/json;
        return 200 '{"seatCount":11,"data":{"seats":12}}';
    }

    location = /seats/http {
        default_type application/json;
        return 200 '{"seatCount":1,"data":{"seats":2}}';
    }

    location = /seats/args {
        default_type application/json;
        return 200 '{"seatCount":$arg_n}';
    }

    location = /inherited {
        waiting_queue_stream;
        waiting_queue_event inherited;
    }

    location /number {
        waiting_queue_stream;
        waiting_queue_event number;
        waiting_queue_capacity 5;

        location = /number/uri {
            waiting_queue_stream;
            waiting_queue_event number-uri;
            # the field is not that of http{}
            waiting_queue_capacity uri=/seats/own;
        }
    }

    location = /variable {
        waiting_queue_stream;
        waiting_queue_event variable;
        waiting_queue_capacity uri=/seats/args?n=${arg_n}7;
    }

    location = /zero {
        waiting_queue_stream;
        waiting_queue_event zero;
        waiting_queue_capacity 0;
    }
--- check
    ready();

    my $rest = 'ttl=300000 ttl_max=0 claim=60000 max_waiting=0 grace=30000 '
               . 'poll_timeout=30000 release=0';

    reaches('t005-3:', {
        '/inherited' => [ 'inherited', $rest, service_capacity => 2 ],
        '/number' => [ 'number', "capacity=5 $rest" ],
        '/number/uri' => [ 'number-uri', $rest, service_capacity => 11 ],
        '/zero' => [ 'zero', "capacity=0 $rest" ],
    });

    my $s = join_at('/variable?user=u&n=4');
    is_deeply(conf('t005-3:', 'variable'),
              { text => $rest, (map { split /=/ } split ' ', $rest),
                service_capacity => 47 }, 'the uri is made of variables');

    # a capacity of 0: everybody waits
    is(join_at('/zero?user=v')->names, 'position', 'nobody is let in');
    is(redis('HGET', 't005-3:ENTRY_QUEUE_SLOTS', 'zero'), 0, 'no slots');



=== TEST 4: `if` has the stream and the settings of its location
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-4:;
    waiting_queue_user $arg_user;
    waiting_queue_grace 1s;
--- config
    location = /if {
        waiting_queue_stream;
        waiting_queue_event if-$arg_a;
        waiting_queue_capacity 7;
        waiting_queue_ttl 7s;
        waiting_queue_max_waiting 7;
        waiting_queue_release disconnect;

        if ($arg_a = yes) {
            set $a $arg_a;
            add_header X-If $a;
        }
    }
--- check
    ready();

    my $text = 'capacity=7 ttl=7000 ttl_max=0 claim=7000 max_waiting=7 '
               . 'grace=1000 poll_timeout=30000 release=1';

    for my $a (qw(no yes)) {
        my $s = join_at("/if?user=u&a=$a");
        is($s->status, 200, 'a stream');
        is($s->header('X-If'), $a eq 'yes' ? 'yes' : undef, 'the condition');
        is(conf('t005-4:', "if-$a")->{text}, $text, 'its settings');
    }



=== TEST 5: locations that disagree: the latest join wins, and that is said
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-5:;
    waiting_queue_user $arg_user;
    waiting_queue_event e;
--- config
    location = /one {
        waiting_queue_stream;
        waiting_queue_capacity 1;
    }

    location = /two {
        waiting_queue_stream;
        waiting_queue_capacity 2;
        waiting_queue_max_waiting 9;
    }
--- check
    ready();

    my $rest = 'ttl=300000 ttl_max=0 claim=60000 max_waiting=%d grace=30000 '
               . 'poll_timeout=30000 release=0';
    my @texts = ("capacity=1 " . sprintf($rest, 0),
                 "capacity=2 " . sprintf($rest, 9));

    my $one = join_at('/one?user=u1');
    is(conf('t005-5:', 'e')->{text}, $texts[0], 'the first');
    unlike(error_log(), qr/has new settings/, 'there is nothing to say yet');

    my $again = join_at('/one?user=u2');
    is($again->names, 'position', 'one is enough');
    unlike(error_log(), qr/has new settings/, 'nor of the same again');

    my $two = join_at('/two?user=u3');
    is(conf('t005-5:', 'e')->{text}, $texts[1], 'the latest');
    is(redis('HGET', 't005-5:WAITING_STATS:{e}', 'capacity'), 2, 'in force');

    like(error_log(),
         qr/\[warn\]\ .*\ waiting_queue:\ event\ "e"\ has\ new\ settings,
            \ "\Q$texts[1]\E":\ the\ configuration\ has\ changed,\ or\ two
            \ locations\ or\ nodes\ disagree;\ the\ latest\ join\ wins/x,
         'it is said');

    # and back
    my $back = join_at('/one?user=u4');
    is(conf('t005-5:', 'e')->{text}, $texts[0], 'the latest again');
    is(redis('HGET', 't005-5:WAITING_STATS:{e}', 'capacity'), 1, 'in force');



=== TEST 6: a claim and a ttl are what a lease gets, and who may wait is told
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-6:;
    waiting_queue_user $arg_user;
--- config
    location = /s {
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_capacity 1;
        waiting_queue_ttl 1h claim=1000s;
        waiting_queue_max_waiting 1;
    }
--- check
    ready();

    my ($before) = split /\n/, redis('TIME');
    my $in = join_at('/s?user=in');
    my ($after) = split /\n/, redis('TIME');
    my $expires = $in->first('promoted')->{data}{expiresAt};

    cmp_ok($expires, '>=', ($before + 1000) * 1000, 'expires not too early');
    cmp_ok($expires, '<=', ($after + 1001) * 1000, 'nor too late');

    is(join_at('/s?user=first')->names, 'position', 'one may wait');
    is(join_at('/s?user=second')->status, 429, 'and no more');



=== TEST 7: an interval of 20ms, and a minute between promotions
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-7:;
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 60s;
--- config
    location = /s {
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_user $arg_user;
        waiting_queue_capacity 0;
        waiting_queue_grace 0;
    }
--- check
    ready();

    my ($first, $second) = map { join_at("/s?user=$_") } qw(u1 u2);
    is($second->rank, 1, 'the second');

    ok(await('a hundred ticks', sub { sum('broadcasts') >= 100 }),
       'a tick every 20 ms');
    cmp_ok(sum('promoteRounds'), '<=', 1, 'and a promotion every minute');

    $first->close;
    $sse->run_until(sub { $second->rank == 0 }, 10, 'who moves is told');



=== TEST 8: a promotion every 20 ms, and a minute between positions
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-8:;
    waiting_queue_interval 1m;
    waiting_queue_promote_interval 20ms;
--- config
    location = /s {
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_user $arg_user;
        waiting_queue_capacity 0;
    }
--- check
    ready();

    my ($first, $second) = map { join_at("/s?user=$_") } qw(u1 u2);

    ok(await('a hundred rounds', sub { sum('promoteRounds') >= 100 }),
       'a round every 20 ms');

    redis('HSET', 't005-8:WAITING_QUEUE_OVERRIDE:{e}', 'capacity', 1);
    $sse->run_until(sub { $first->last('promoted') }, 10, 'the first is in');

    my $rounds = sum('promoteRounds');
    ok(await('fifty more', sub { sum('promoteRounds') >= $rounds + 50 }),
       'and a second later');
    $sse->run_for(0);
    is(sum('broadcasts'), 0, 'no tick yet');
    is($second->names, 'position', 'the second has not been told to move up');



=== TEST 9: by default there is a second between ticks, and between promotions
--- http_config
    waiting_queue_redis unix:$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t005-9:;
--- config
    location = /s {
        waiting_queue_stream;
        waiting_queue_event e;
        waiting_queue_user $arg_user;
        waiting_queue_capacity 0;
    }
--- check
    ready();

    my $s = join_at('/s?user=u');
    my (%from, %counted);

    for my $counter (qw(broadcasts promoteRounds)) {
        $counted{$counter} = sum($counter);
        $from{$counter} = Time::HiRes::time();
    }

    # the first may come at once
    for my $counter (qw(broadcasts promoteRounds)) {
        await("3 more $counter", sub {
            sum($counter) >= $counted{$counter} + 3;
        });
        my $s = Time::HiRes::time() - $from{$counter};
        cmp_ok($s, '>', 1.6, "$counter are not more often");
        cmp_ok($s, '<', 12, 'nor much less');
    }
