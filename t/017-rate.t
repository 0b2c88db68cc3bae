# The rate says how many go in in how long, and by that how long it takes.  A
# number too many is a backend that breaks at the worst moment, and a period
# lost is a crowd that waits for nothing: so it holds for every road in, with
# all workers at once, and those who wait go in when a period begins and not
# some time later.  What the waiting are told must be what then happens, or
# nothing.

use WaitingQueue::Test;
use WaitingQueue::Live;

use IO::Socket::INET;
use JSON::PP ();
use Time::HiRes ();
use WaitingQueue::Gate;
use WaitingQueue::Line;
use WaitingQueue::Redis;
use WaitingQueue::Sse;

my $workers = $ENV{WQ_WORKERS} || 1;
my $slow = ($ENV{WQ_TEST_FLAVOUR} || 'plain') =~ /^asan/ ? 3 : 1;
my ($sse, $prefix);

$ENV{TEST_NGINX_INNER_PORT} = free_port();

my $example = 'tps=1000 calls=6 failure=0.15 session=5m load=0.8';
my $no_rate = 'must be users and a time, as "1400/10s", of 1 to 100000000 and '
              . '10ms to 1d, or "off", or begin with "tps="';
my $no_name = 'must be "tps=", "calls=", "failure=", "session=" or "load="';
my $no_number = 'must be a number as 12 or 0.15, or of session a time';
my $nothing = 'has numbers that give no rate: none but "failure=" can be 0, '
              . '"load=" is at most 1, and at least one user a minute must '
              . 'come of them';


# [ what is wrong, the whole of http{}, what nginx says of the directive ]

my @bad = (
    [ 'no value', 'waiting_queue_rate;',
      'invalid number of arguments in "waiting_queue_rate" directive' ],

    (map { [ "rate $_", "waiting_queue_rate $_;",
             '"waiting_queue_rate" directive: invalid rate "' . s/^"|"$//gr
             . "\", $no_rate" ] }
         qw(5 5/ /10s 0/10s -1/10s +1/10s 1.5/10s a/10s 1/a 1/10x 1/10s/ 1/-1s
            100000001/10s 99999999999999999999/10s 1/9ms 1/0 1/0s 1/25h 1/2d
            1/86401s 1/86400001ms 1/1.5s 1/1M 1/1y 1e3/10s 0x5/10s OFF Off on
            tps 1//10s), '""', '1,10s', '"1/10 s"', '"1 /10s"', '" 1/10s"'),

    (map { [ "rate $_->[0] $_->[1]", "waiting_queue_rate $_->[0] $_->[1];",
             "\"waiting_queue_rate\" directive: invalid parameter "
             . "\"$_->[1]\", can only stand with \"tps=\"" ] }
         [ '1/10s', '2/10s' ], [ '1/10s', 'off' ], [ 'off', 'off' ],
         [ 'off', 'tps=1000' ], [ '1/10s', 'tps=1000' ]),

    (map { [ "rate $_", "waiting_queue_rate $_;",
             '"waiting_queue_rate" directive needs both "tps=" and "calls="' ] }
         'tps=1000', 'calls=6', 'tps=1000 failure=0.1', 'load=0.5',
         'calls=6 session=1m'),

    (map { [ "rate with $_", "waiting_queue_rate tps=1000 calls=6 $_;",
             "\"waiting_queue_rate\" directive: invalid parameter \"$_\", "
             . $no_name ] }
         qw(off 5/10s calls Calls=6 call=6 users=5 load sessions=5m =5)),

    (map { my $name = $_;
           map { [ "$name=$_", "waiting_queue_rate $name=$_;",
                   "\"waiting_queue_rate\" directive: invalid parameter "
                   . "\"$name=$_\", $no_number" ] }
               '', qw(a -1 +1 1e3 .5 5. 1.2.3 1.2345 1234567890), '1,5' }
         qw(tps calls failure load)),

    (map { [ "session=$_", "waiting_queue_rate tps=1000 calls=6 session=$_;",
             "\"waiting_queue_rate\" directive: invalid parameter "
             . "\"session=$_\", $no_number" ] }
         '', qw(0 0s -1 abc 1.5s 5x 366d)),

    (map { [ "$_ twice", "waiting_queue_rate $example $_;",
             "\"waiting_queue_rate\" directive: invalid parameter \"$_\", is "
             . 'duplicate' ] }
         qw(tps=1000 calls=6 failure=0 session=5m load=1)),

    (map { [ "rate $_", "waiting_queue_rate $_;",
             "\"waiting_queue_rate\" directive $nothing" ] }
         'tps=0 calls=6', 'tps=1000 calls=0', 'tps=1000 calls=6 load=0',
         'tps=1000 calls=6 load=1.001', 'tps=1000 calls=6 load=80',
         'tps=0.001 calls=1', 'tps=1 calls=61', 'tps=1 calls=999999999',
         'tps=1 calls=60 failure=0.1'),

    (map { [ "$_->[0], then $_->[1]",
             "waiting_queue_rate $_->[0]; waiting_queue_rate $_->[1];",
             '"waiting_queue_rate" directive is duplicate' ] }
         [ '1/10s', '1/10s' ], [ 'off', 'off' ], [ 'off', '1/10s' ],
         [ '1/10s', 'off' ], [ $example, '1/10s' ], [ '1/10s', $example ]),

    (map { [ "twice in $_->[0]", sprintf($_->[1], 'waiting_queue_rate off; '
                                                  . 'waiting_queue_rate 1/1s;'),
             '"waiting_queue_rate" directive is duplicate' ] }
         [ 'server{}', 'server { %s }' ],
         [ 'location{}', 'server { location / { %s } }' ]),

    (map { [ "in $_->[0]", sprintf($_->[1], 'waiting_queue_rate 1/1s;'),
             '"waiting_queue_rate" directive is not allowed here' ] }
         [ 'if{} of a server', 'server { if ($host) { %s } }' ],
         [ 'if{} of a location',
           'server { location / { if ($host) { %s } } }' ],
         [ 'limit_except{}', 'server { location / { limit_except GET { %s } } }'
         ]),
);

my @good = (
    qw(1/10ms 1/1d 1/24h 100000000/1d 1400/10s 007/10s 5/1m30s 5/10 off),
    'tps=1000 calls=6', 'calls=6 tps=1000', $example,
    'tps=1000 calls=6 load=1', 'tps=1000 calls=6 failure=0',
    'tps=1000 calls=6 failure=25', 'tps=0.5 calls=0.001', 'tps=1 calls=60',
    'tps=999999999.999 calls=999 session=1d', 'tps=1000 calls=6 session=1ms',
);

# what the second form gives: [ words, rate and concurrent, what is said ]

my @plans = (
    [ $example, '1400/10000ms', 43478, 54347, 375000 ],
    [ 'tps=1000 calls=6 failure=0.15', '1400/10000ms', 43478, 54347, 375000 ],
    [ 'tps=1000 calls=6', '1600/10000ms', 50000, 62500, 375000 ],
    [ 'tps=1000 calls=6 load=1', '1600/10000ms', 50000, 50000, 300000 ],
    [ 'tps=2.5 calls=3.5 session=90s', '14/20000ms', 64, 80, 112500 ],
    [ 'tps=1 calls=60', '1/60000ms', 5, 6, 375000 ],
    [ 'tps=9.999 calls=1 session=1s load=1', '99/10000ms', 9, 9, 1000 ],
);


# "--- check" runs after the request, as one test.  "--- rules" are names, each
# with the directives of its three locations: /NAME/EVENT is the stream,
# /api/NAME/EVENT the API, and /gate/NAME/EVENT/PATH the gate; all of them of a
# user that comes with the request.

my $json = 'application/json';

add_block_preprocessor(sub {
    my $block = shift;

    my $text = sub { my $name = shift;
                     defined $block->$name ? $block->$name : '' };

    ($prefix) = $block->name =~ /^TEST (\d+)/;
    $prefix = "t017-$prefix:";

    my $locations = '';

    for my $rule (split /\n/, $text->('rules')) {
        my ($name, $directives) = $rule =~ /^(\w+): (.*)$/ or next;

        $locations .= "
    location ~ ^/$name/(?<e>[^/]+)\$ {
        waiting_queue_stream;
        waiting_queue_event \$e;
        $directives
    }
    location ~ ^/api/$name/(?<e>[^/]+)\$ {
        waiting_queue_api;
        waiting_queue_event \$e;
        $directives
    }
    location ~ ^/gate/$name/(?<e>[^/]+)/(?<path>.*)\$ {
        waiting_queue on;
        waiting_queue_event \$e;
        add_header X-Eta \"<\$waiting_queue_eta>\" always;
        proxy_pass http://127.0.0.1:\$TEST_NGINX_INNER_PORT/\$path;
        $directives
    }
";
    }

    my $intervals = $text->('intervals')
                    || 'waiting_queue_interval 20ms;
                        waiting_queue_promote_interval 50ms;';

    $block->set_value('http_config', $text->('http_config') . "
    waiting_queue_redis unix:\$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix $prefix;
    waiting_queue_user \$arg_user;
    $intervals
    server {
        listen 127.0.0.1:\$TEST_NGINX_INNER_PORT;
        location / { return 200 'inside'; }
        location = /done {
            add_header X-Waiting-Queue done;
            return 200 'inside';
        }
        location = /sold {
            add_header X-Waiting-Queue sold;
            return 200 'inside';
        }
    }
");
    $block->set_value('config', "
    location = /status {
        waiting_queue_status;
    }
    location = /metrics {
        waiting_queue_status prometheus;
    }
    $locations
" . $text->('config'));
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;

    ($prefix) = $block->name =~ /TEST (\d+)/;
    $prefix = "t017-$prefix:";

    Test::More::subtest($block->name => sub {
        $sse = WaitingQueue::Sse->new(port => server_port());

        ready();

        eval $block->check . '; 1' or Test::More::fail("died: $@");

        $sse->close_all;
        is_deeply([ $sse->violations ], [], 'every stream was well-formed');
    });
});

plan tests => @bad + 3 * @good + 2 * @plans + repeat_each() * (blocks() * 4);

worker_connections(2048);
redis('FLUSHALL');

# first: nobody else is to take nginx' port meanwhile
run_tests();

for my $case (@bad) {
    my ($name, $http, $message) = @$case;
    my ($ok, $output) = nginx_t("waiting_queue_redis redis://127.0.0.1; $http");
    my ($emerg) = $output =~ /\[emerg\] (.*?)(?: in \S+nginx\.conf:\d+)?$/ms;

    ok(!$ok && defined $emerg && $emerg eq $message, "$name: $message")
        or diag($output);
}

for my $where ('%s', 'server { %s }',
               'server { location / { %s waiting_queue_stream; } }')
{
    for my $good (@good) {
        my $http = sprintf $where, "waiting_queue_rate $good;";
        my ($ok, $output)
            = nginx_t("waiting_queue_redis redis://127.0.0.1; $http");

        ok($ok, "accepted: $http") or diag($output);
    }
}

for my $plan (@plans) {
    my ($words, $rate, $concurrent, $per_cycle, $cycle) = @$plan;
    my ($ok, $output, $log)
        = nginx_t('waiting_queue_redis redis://127.0.0.1; '
                  . "waiting_queue_rate $words;");
    my ($notice) = $log =~ /\[notice\] \S+: ("waiting_queue_rate" is .*)/;

    ok($ok, $words) or diag($output);
    is(($notice || $log) =~ s/ in \S+nginx\.conf:\d+$//r,
       '"waiting_queue_rate" is ' . $rate =~ s{/}{ in }r . ", with $concurrent "
       . "inside at once; $per_cycle in ${cycle}ms by the formulas", 'is said');
}


sub free_port {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1)
        or die "no port: $!\n";
    return $socket->sockport;
}


sub line {
    my ($rule, $event) = @_;

    return WaitingQueue::Line->new(event => $event, prefix => $prefix,
                                   sse => $sse, path => "/$rule/%e?user=%u");
}


# the API: its code and what it says

sub api {
    my ($method, $rule, $event, $user) = @_;

    my $answer = http($method, "/api/$rule/$event?user=$user");
    my $data = eval { JSON::PP::decode_json($answer->{content}) } || {};

    return { code => $answer->{status}, %$data };
}


# the gate: its code, its JSON or its page, and $waiting_queue_eta

sub gate {
    my ($rule, $event, $user, $accept, $path) = @_;

    my $answer = http('GET', "/gate/$rule/$event/" . ($path || '')
                             . "?user=$user",
                      headers => { Accept => $accept || $json });
    my $data = eval { JSON::PP::decode_json($answer->{content}) } || {};
    my ($shown) = $answer->{content} =~ /data-behind="\d*" data-eta="(\d*)"/;
    my ($variable) = $answer->{headers}{'x-eta'} =~ /<(.*)>/;

    return { code => $answer->{status}, %$data, shown => $shown,
             variable => $variable };
}


sub figures {
    my $event = shift;

    my ($figures) = grep { $_->{event} eq $event } @{status()->{events}};
    return $figures || {};
}


# metric(name, event): of the other format; undef where there is none

sub metric {
    my ($name, $event) = @_;

    my ($value) = http('GET', '/metrics')->{content}
                  =~ /^waiting_queue_event_$name\{event="\Q$event\E"\} (\S+)$/m;
    return $value;
}


# etas(rule, event, users): what each of those who wait is told, one per user by
# the API

sub etas {
    my ($rule, $event, @users) = @_;
    return join ' ', map { defined $_ ? $_ : 'null' }
                     map { api('GET', $rule, $event, $_)->{etaSeconds} } @users;
}


sub stream_etas {
    return join ' ', map { my $eta = $_->last('position')->{data}{etaSeconds};
                           defined $eta ? $eta : 'null' } @_;
}


# since(line, user): when the lease was given, by Redis' clock, in ms

sub since {
    my ($line, $user) = @_;

    my $lease = $line->lease($user);
    return $lease ? $lease->{since} : undef;
}


# within(limit, ms, what): so many ms at most, on a machine that is busy with
# other things

sub within {
    my ($limit, $ms, $what) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    ok(defined $ms && $ms >= 0 && $ms <= $limit * $slow,
       "$what: " . (defined $ms ? $ms : 'never') . ' ms');
}


# on_time(ms): so late each of them was.  It is no matter of a machine that is
# busy if more than one in six is.

sub on_time {
    my @late = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $late = grep { $_ > 150 * $slow } @late;
    cmp_ok($late, '<=', @late / 6, "on time: @late ms");
}


sub median { return (sort { $a <=> $b } @_)[$#_ / 2] }


# let_in(line, ms, users): how many went in in each period, and how late those
# of the line were, by when it began

sub let_in {
    my ($line, $ms, @users) = @_;

    my ($first, @n, @late);

    for my $user (@users) {
        my $since = since($line, $user);

        $first = $since if !defined $first;
        push @late, ($since - $first) % $ms if $since >= $first + $ms;
        $n[int(($since - $first) / $ms)]++;
    }

    return ([ map { $_ || 0 } @n ], \@late);
}

__DATA__

=== TEST 1: from http{}, to server{}, to location{}, and no further than `off`
--- http_config
    waiting_queue_rate 1/10s;

    server {
        listen 127.0.0.2:$TEST_NGINX_SERVER_PORT;
        waiting_queue_event http;
        location / {
            waiting_queue_stream;
        }
    }
--- config
    waiting_queue_rate 2/2m;

    location = /server {
        waiting_queue_stream;
        waiting_queue_event server;
    }

    location /own {
        waiting_queue_stream;
        waiting_queue_event own;
        waiting_queue_rate 3/30ms;

        location /own/off {
            waiting_queue_stream;
            waiting_queue_event own-off;
            waiting_queue_rate off;

            location = /own/off/below {
                waiting_queue_stream;
                waiting_queue_event own-off-below;
                waiting_queue_grace 7s;
            }
        }

        location = /own/nested {
            waiting_queue_stream;
            waiting_queue_event own-nested;
        }
    }

    location /tps {
        waiting_queue_stream;
        waiting_queue_event tps;
        waiting_queue_rate tps=1000 calls=6 failure=0.15 session=5m load=0.8;

        location = /tps/nested {
            waiting_queue_stream;
            waiting_queue_event tps-nested;
        }

        location = /tps/plain {
            waiting_queue_stream;
            waiting_queue_event tps-plain;
            waiting_queue_rate 4/4h;
        }
    }

    location = /if {
        waiting_queue_stream;
        waiting_queue_event if;
        waiting_queue_rate 5/1d;

        if ($arg_user = u) {
            set $a 1;
        }
    }
--- check
    my %rate = (
        server => '2/120000ms', own => '3/30ms', 'own-off' => undef,
        'own-off-below' => undef, 'own-nested' => '3/30ms',
        tps => '1400/10000ms', 'tps-nested' => '1400/10000ms',
        'tps-plain' => '4/14400000ms', if => '5/86400000ms',
    );
    my $redis = WaitingQueue::Redis->new;

    for my $event (sort keys %rate) {
        my $s = $sse->open(path => '/' . ($event =~ tr{-}{/}r) . '?user=u');
        $sse->run_until(sub { $s->last('promoted') }, 10, "$event: let in");

        my $concurrent = $event =~ /^tps(?:-nested)?$/ ? 43478 : undef;
        my $rate = $rate{$event};
        my %conf = @{$redis->call('HGETALL',
                                  "${prefix}WAITING_QUEUE_CONF:{$event}")};

        is($conf{rate}, $rate, 'the rate');
        is($conf{concurrent}, $concurrent, 'how many at once');
        like($conf{text}, qr/^capacity=50\ .*\ release=0
                             @{[ defined $rate ? "\\ rate=$rate" : '' ]}
                             @{[ $concurrent ? "\\ concurrent=43478" : '' ]}$/x,
             'in the text');

        my ($users, $ms) = defined $rate ? $rate =~ m{(\d+)/(\d+)} : (0, 0);
        my $figures = await("the figures of $event", sub {
            my $figures = figures($event);
            $figures->{active} && $figures;
        });
        is_deeply([ @$figures{qw(rateUsers ratePeriodMs rateConcurrent)} ],
                  [ $users, $ms, $concurrent || 0 ], 'in the status');
        is(metric('rate_users', $event), $users, 'in the other format');
        is(metric('rate_period_milliseconds', $event), $ms, 'too');
        is(metric('rate_concurrent', $event), $concurrent || 0, 'all of it');
    }

    my $s = $sse->open(path => '/?user=u', host => '127.0.0.2');
    $sse->run_until(sub { $s->last('promoted') }, 10, 'of http{}: let in');
    is($redis->call('HGET', "${prefix}WAITING_QUEUE_CONF:{http}", 'rate'),
       '1/10000ms', 'that of http{}');
    unlike(error_log(), qr/has new settings/, 'nobody disagrees');



=== TEST 2: so many and no more in a period, by whichever road
--- rules
r: waiting_queue_capacity 500; waiting_queue_rate 3/1h;
m: waiting_queue_capacity 500; waiting_queue_rate 10/1h;
--- check
    is(join(' ', map { api('POST', 'r', 'posts', "u$_")->{code} } 1 .. 8),
       '200 200 200 202 202 202 202 202', 'POST: three enter');
    is(api('POST', 'r', 'posts', 'u2')->{status}, 'entered', 'and stay in');
    is(api('POST', 'r', 'posts', 'u4')->{waitingPosition}, 1,
       'the fourth is the first in line');

    is(join(' ', map { gate('r', 'gates', "u$_")->{code} } 1 .. 8),
       '200 200 200 503 503 503 503 503', 'gate: three pass');
    is(gate('r', 'gates', 'u3')->{code}, 200, 'again and again');
    is(gate('r', 'gates', 'u5')->{waitingPosition}, 2, 'the fifth waits');

    my $line = line('r', 'streams');
    my @s = $line->joins(map { "u$_" } 1 .. 8);
    is(join(' ', map { $_->names } @s),
       join(' ', ('promoted') x 3, ('position') x 5),
       'streams: three are let in');

    is(gate('r', 'some', 'u1')->{code}, 200, 'of each');
    is(line('r', 'some')->join('u2')->names, 'promoted', 'one');
    is(api('POST', 'r', 'some', 'u3')->{code}, 200, 'go in');
    is(api('POST', 'r', 'some', 'u4')->{code}, 202, 'and whoever');
    is(gate('r', 'some', 'u5')->{waitingPosition}, 2, 'comes then');
    is(line('r', 'some')->join('u6')->rank, 2, 'waits behind the others');

    # a first visit takes a slot too
    is(gate('r', 'some', '')->{code}, 401, 'nobody is nobody');

    await('rounds', sub { sum('promoteRounds') > 8 });
    for my $event (qw(posts gates streams some)) {
        my $line = line('r', $event);
        is(scalar @{$line->inside}, 3, "$event: three are in");
        is($line->stat('used'), 3, 'and were counted');
        cmp_ok($line->slots, '>', 400, 'though there are slots');
        is_deeply([ $line->wrong ], [], 'all is sound');
    }

    # all at once
    $line = line('m', 'all');
    @s = map { $line->open("s$_") } 1 .. 40;
    my $gate = "GET /gate/m/all/?user=%s HTTP/1.1\r\nHost: localhost\r\n"
               . "Accept: $json\r\n";
    my $post = "POST /api/m/all?user=%s HTTP/1.1\r\nHost: localhost\r\n"
               . "Content-Length: 0\r\n";
    my @answers = many(map { (sprintf($gate, "g$_"), sprintf $post, "p$_") }
                           1 .. 60);
    $sse->run_until(sub { !grep { !$_->events } @s }, 20, 'all are answered');
    my $in = grep({ $_->status == 200 } @answers) + grep { $_->token } @s;
    is($in, 10, 'ten of a hundred and sixty go in');
    is(scalar @{$line->inside}, 10, 'they are inside');
    is(scalar @{$line->waiting}, 150, 'the others in line');
    $line->set(rate => '35/1h');
    await('25 more', sub { @{$line->inside} >= 35 });
    my $rounds = sum('promoteRounds');
    await('rounds', sub { sum('promoteRounds') > $rounds + 5 });
    is(scalar @{$line->inside}, 35, 'a higher rate: 25 more, and no more');
    is_deeply([ $line->wrong ], [], 'all is sound');



=== TEST 3: under a backlog exactly so many in each period, when it begins
--- intervals
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 1s;
--- rules
quick: waiting_queue_capacity 500; waiting_queue_rate 2/300ms;
slow: waiting_queue_capacity 500; waiting_queue_rate 3/700ms;
--- check
    for my $case ([ quick => 2, 300, 12 ], [ slow => 3, 700, 7 ]) {
        my ($rule, $users, $ms, $periods) = @$case;
        my $line = line($rule, "crowd.$rule");
        my @users = map { sprintf 'u%03d', $_ } 1 .. $users * $periods;
        my @s = $line->joins(@users);

        $sse->run_until(sub { !grep { !$_->token } @s }, $periods + 5,
                        "$rule: all are let in");

        my ($n, $late) = let_in($line, $ms, @users);
        my $lost = grep { $_ < $users } @$n[0 .. $#$n - 1];

        is((grep { $_ > $users } @$n), 0, "never more than $users: @$n");
        cmp_ok($lost, '<=', 1, 'and no fewer while anybody waits');
        within(40, median(@$late), "$rule: as a rule how late");
        on_time(@$late);

        my @told = map { int($_->first('promoted')->{at} * 1000
                             - since($line, $_->{user})) } @s;
        within(40, median(@told), "$rule: and until one is told");

        my @order = map { $_->{user} }
                    sort { $a->first('promoted')->{at}
                           <=> $b->first('promoted')->{at}
                           || $a->{user} cmp $b->{user} } @s;
        my @since = map { since($line, $_) } @users;
        is_deeply(\@since, [ sort { $a <=> $b } @since ], 'in their order');
        is_deeply([ $line->wrong ], [], 'all is sound');
    }



=== TEST 4: who comes when a period is used up does not wait for a round besides
--- intervals
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 1s;
--- rules
join: waiting_queue_capacity 500; waiting_queue_rate 1/300ms;
later: waiting_queue_capacity 500; waiting_queue_rate 1/700ms;
--- check
    # at all times of a round
    my @cases = map { my $n = $_;
                      map { { rule => $_, event => "$_.$n" } } qw(join later) }
                1 .. 8;
    my $begin = Time::HiRes::time();

    for my $n (0 .. $#cases) {
        my $case = $cases[$n];
        my $line = $case->{line} = line($case->{rule}, $case->{event});

        $sse->run_until(sub { Time::HiRes::time() > $begin + $n * 0.13 }, 10);
        is($line->join('in')->names, 'promoted', "$case->{event}: one is in");

        # two of each kind
        if ($n % 4 < 2) {
            $case->{stream} = $line->join('next');
        } else {
            api('POST', $case->{rule}, $case->{event}, 'next');
        }
    }

    my @late;

    for my $case (@cases) {
        my $line = $case->{line};
        my $ms = $case->{rule} eq 'join' ? 300 : 700;

        $sse->run_until(sub { since($line, 'next') }, 5, 'the next is let in')
            or next;
        push @late, since($line, 'next') - since($line, 'in') - $ms;
    }

    is((grep { $_ < 0 } @late), 0, 'nobody too early');
    on_time(@late);



=== TEST 5: nor does a slot that comes back then wait for one
--- intervals
    waiting_queue_interval 20ms;
    waiting_queue_promote_interval 1s;
--- rules
one: waiting_queue_capacity 1; waiting_queue_rate 1/300ms;
--- http_config
    waiting_queue_grace 0;
    waiting_queue_release disconnect;
--- check
    my %end = (
        done => sub { gate('one', $_[0]->event, 'in', $json, 'done') },
        quit => sub { api('DELETE', 'one', $_[0]->event, 'in') },
        disconnect => sub { $_[1]->close; $sse->run_for(0) },
    );
    my @cases = map { my $n = $_; map { { how => $_, event => "$_.$n" } }
                                      sort keys %end } 1 .. 6;
    my $begin = Time::HiRes::time();

    for my $n (0 .. $#cases) {
        my $case = $cases[$n];
        my $line = $case->{line} = line('one', $case->{event});

        $sse->run_until(sub { Time::HiRes::time() > $begin + $n * 0.11 }, 10);

        my $in = $line->join('in');
        $case->{since} = since($line, 'in');
        api('POST', 'one', $case->{event}, 'next');
        $end{$case->{how}}->($line, $in);
    }

    for my $how (sort keys %end) {
        my @late;

        for my $case (grep { $_->{how} eq $how } @cases) {
            my $line = $case->{line};

            $sse->run_until(sub { since($line, 'next') }, 5,
                            "$how: the next is let in") or next;
            push @late, since($line, 'next') - $case->{since} - 300;
        }

        is((grep { $_ < 0 } @late), 0, 'nobody too early');
        on_time(@late);
    }



=== TEST 6: both the capacity and the rate
--- rules
c: waiting_queue_capacity 4; waiting_queue_rate 3/800ms;
--- check
    my $line = line('c', 'e');
    my @s = $line->joins(map { "u$_" } 1 .. 10);
    my $begin = since($line, 'u1');

    is(scalar(grep { $_->token } @s), 3, 'three in the first period');
    is($line->slots, 1, 'there is a slot');
    $sse->run_until(sub { $s[3]->token }, 5, 'one in the next');
    within(150, since($line, 'u4') - $begin - 800, 'when it begins');
    is(scalar @{$line->inside}, 4, 'and then it is full');
    $sse->run_for(1.7);
    is(scalar(grep { $_->token } @s), 4, 'whatever periods come');

    # the beginning of one of which nothing was used, to have the whole of it
    my $at_begin = sub {
        my $first = $line->stat('period');
        await('a period', sub {
            my ($s, $us) = @{$line->call('TIME')};
            my $passed = $s * 1000 + $us / 1000 - $first;
            $passed >= 800 && $passed % 800 < 80;
        });
    };

    $at_begin->();
    $line->release('u1');
    $sse->run_until(sub { $s[4]->token }, 5, 'a visit ends');
    within(300, since($line, 'u5') - $line->stat('period'), 'the next at once');

    $at_begin->();
    $line->release("u$_") for 2 .. 5;
    is(scalar @{$line->inside}, 3, 'four end at once: three go in');
    is($line->slots, 1, 'one slot is left');
    is($line->stat('used'), 3, 'for the period is used up');
    $sse->run_until(sub { $s[8]->token }, 5, 'the fourth in the next');
    within(150, (since($line, 'u9') - $begin) % 800, 'when it begins');
    is_deeply([ $line->wrong ], [], 'all is sound');



=== TEST 7: whatever ends a visit, no more than the rate go in for it
--- rules
v: waiting_queue_capacity 2; waiting_queue_rate 3/1h; waiting_queue_ttl 9m;
n: waiting_queue_capacity 2; waiting_queue_rate 2/1200ms;
--- http_config
    waiting_queue_ttl 1m claim=200ms;
--- check
    for my $how (qw(done sold quit)) {
        my $line = line('v', $how);
        my $end = sub {
            my $user = shift;
            return api('DELETE', 'v', $how, $user)->{code} if $how eq 'quit';
            return gate('v', $how, $user, $json, $how)->{code};
        };

        is(join(' ', map { api('POST', 'v', $how, "u$_")->{code} } 1 .. 5),
           '200 200 202 202 202', "$how: two are in");
        $line->set(capacity => 4) if $how eq 'sold';
        $end->('u1');

        # gone at once for DELETE; the word of a backend takes a moment
        await('the third to be in', sub { $line->lease('u3') });
        $end->('u2');
        await('another slot', sub { !$line->lease('u2') });
        my $rounds = sum('promoteRounds');
        await('rounds', sub { sum('promoteRounds') > $rounds + 4 });
        is(join(' ', @{$line->inside}), 'u3', 'nobody more in this period');
        is($line->slots, 1, 'with a slot free');
        is($line->stat('used'), 3, 'three were let in');

        # another period, made by hand
        $line->call('HINCRBY', $line->key('WAITING_STATS'), 'period',
                    -3600000);
        await('the next', sub { $line->lease('u4') });
        is($line->stat('used'), 1, 'and in the next one more');
        is_deeply([ $line->wrong ], [], 'all is sound');
    }

    # nobody comes
    my $line = line('n', 'no-show');
    my @s = $line->joins(map { "u$_" } 1 .. 6);

    is(scalar(grep { $_->token } @s), 2, 'no-show: two are let in');
    $sse->run_until(sub { !grep { !$_->last('expired') } @s }, 10,
                    'all are, in the end');
    is($s[0]->names, 'promoted expired', 'and nobody has come');

    my %since = map { $_->{user} => $_->last('promoted')->{data}{expiresAt}
                                    - 200 } @s;
    my $first = $since{u1};

    within(150, $since{u3} - $first - 1200,
           'their slots go to others, when the next period begins');
    is($since{u4}, $since{u3}, 'two of them');
    within(150, $since{u5} - $first - 2400, 'and two in the one after that');



=== TEST 8: the waiting time with a rate: in the stream, the API, the gate
--- rules
r: waiting_queue_capacity 500; waiting_queue_rate 2/10m;
t: waiting_queue_capacity 500; waiting_queue_rate 3/7700ms;
x: waiting_queue_capacity 500; waiting_queue_rate 1/1d;
--- check
    my $line = line('r', 'e');
    my @in = $line->joins(qw(i1 i2));
    my @s = $line->joins(qw(s1 s2 s3));

    is($in[0]->last->{data}{etaSeconds}, undef, 'who is in waits for nothing');
    is(stream_etas(@s), '600 600 1200', 'streams: two in ten minutes');
    is(api('POST', 'r', 'e', 'p4')->{etaSeconds}, 1200, 'POST');
    is(api('GET', 'r', 'e', 'p4')->{etaSeconds}, 1200, 'GET');
    is(api('GET', 'r', 'e', 's1')->{etaSeconds}, 600, 'of one with a stream');
    is(api('POST', 'r', 'e', 'i1')->{etaSeconds}, undef, 'of one who is in');
    is(api('GET', 'r', 'e', 'nobody')->{etaSeconds}, undef, 'of nobody');

    my $gate = gate('r', 'e', 'g5');
    is($gate->{etaSeconds}, 1800, 'the gate in JSON');
    is($gate->{variable}, '1800', '$waiting_queue_eta');
    $gate = gate('r', 'e', 'g5', 'text/html');
    is($gate->{shown}, '1800', 'on the page');
    is($gate->{variable}, '1800', 'and the variable there');
    is(gate('r', 'e', 'i1')->{variable}, '', 'of one who passes it is empty');

    await('the figures', sub { (figures('e')->{waiting} || 0) == 5 });
    is(figures('e')->{etaSeconds}, 1800, 'the status: who comes now');
    is(metric('eta_seconds', 'e'), 1800, 'and so the other format');
    api('POST', 'r', 'e', 'p6');
    await('the figures', sub { (figures('e')->{waiting} || 0) == 6 });
    is(figures('e')->{etaSeconds}, 2400, 'one more: another period');

    # who moves up waits less
    $s[0]->close;
    api('DELETE', 'r', 'e', 's1');
    $sse->run_until(sub { $s[2]->rank == 1 }, 10, 'somebody leaves');
    is(stream_etas(@s[1, 2]), '600 600', 'those behind move up');
    is(etas('r', 'e', qw(p4 g5 p6)), '1200 1200 1800', 'all of them');

    # in whole seconds, rounded up
    $line = line('t', 'tenths');
    $line->joins(qw(i1 i2 i3));
    @s = $line->joins(map { "s$_" } 1 .. 7);
    is(stream_etas(@s), '8 8 8 16 16 16 24', '7.7 s, 15.4 s, 23.1 s');

    # too far away to be told
    $line = line('x', 'far');
    $line->join('i1');
    @s = $line->joins(map { "s$_" } 1 .. 9);
    is(stream_etas(@s), join(' ', map({ 86400 * $_ } 1 .. 7), 'null', 'null'),
       'more than a week is not known');



=== TEST 9: while nobody is let in there is no time, and then there is one again
--- rules
r: waiting_queue_capacity 500; waiting_queue_rate 2/10m;
--- check
    my $line = line('r', 'e');
    $line->joins(qw(i1 i2));
    my @s = $line->joins(map { "s$_" } 1 .. 4);

    is(stream_etas(@s), '600 600 1200 1200', 'a time');

    for my $case ([ paused => 1, 0 ], [ rate => '0/10s', '2/10m' ]) {
        my ($name, $halt, $go) = @$case;

        $line->set($name => $halt);
        $sse->run_until(sub { stream_etas(@s) eq 'null null null null' }, 10,
                        "$name $halt: those who wait are told that there is "
                        . 'none');
        is(join(' ', map { $_->rank } @s), '0 1 2 3', 'at the same place');
        is(etas('r', 'e', 's1', 's4'), 'null null', 'the API');

        my $gate = gate('r', 'e', 's2');
        is($gate->{code}, 503, 'the gate');
        is($gate->{etaSeconds}, undef, 'in JSON');
        is($gate->{variable}, '', 'the variable');
        is(gate('r', 'e', 's2', 'text/html')->{shown}, '', 'the page');
        await('the status', sub { !defined figures('e')->{etaSeconds} });
        is(metric('eta_seconds', 'e'), undef, 'no line in the other format');

        my $late = line('r', 'e')->join("late.$name");
        is($late->last->{data}{etaSeconds}, undef, 'who comes now');
        $late->close;
        api('DELETE', 'r', 'e', "late.$name");

        $line->set($name => $go);
        $sse->run_until(sub { stream_etas(@s) eq '600 600 1200 1200' }, 10,
                        "$name $go: those who wait are told a time again");
        is(etas('r', 'e', 's1', 's4'), '600 1200', 'the API');
        is(gate('r', 'e', 's2')->{variable}, '600', 'the variable');
        await('the status', sub { (figures('e')->{etaSeconds} || 0) == 1800 });
    }

    my @n = map { $_->count('position') } @s;
    await('rounds', sub { sum('broadcasts') > 30 });
    $sse->run_for(0.2);
    is(join(' ', map { $_->count('position') } @s), "@n",
       'nobody is told anything again');



=== TEST 10: another rate while it runs
--- rules
r: waiting_queue_capacity 500; waiting_queue_rate 2/10m;
o: waiting_queue_capacity 5;
--- check
    my $line = line('r', 'e');
    my @s = $line->joins(map { sprintf 's%02d', $_ } 1 .. 42);
    my $told = sub { scalar grep { $_->token } @s };

    is($told->(), 2, 'two go in');
    is($s[41]->last->{data}{etaSeconds}, 12000, 'the last will have to wait');

    # what is none is as if it was not said
    for my $garbage ('', 'fast', '5', '-5/10s', '5/0s', '5/2d', '5/10x',
                     '99999999999999/10s', "5/10s\0", '5/10s ; ')
    {
        $line->set(rate => $garbage);
        my $rounds = sum('promoteRounds');
        await('rounds', sub { sum('promoteRounds') > $rounds + 1 });
        is($told->(), 2, 'garbage: as before');
        is(etas('r', 'e', 's42'), '12000', 'and so is the time');
        is_deeply([ @{figures('e')}{qw(rateUsers ratePeriodMs)} ],
                  [ 2, 600000 ], 'and the rate');
    }

    $line->set(rate => '0/10s');
    await('the word is heard', sub { !defined figures('e')->{etaSeconds} });
    $line->set(rate => '5/300ms');
    $sse->run_until(sub { $told->() >= 22 }, 20, '5/300ms: more go in');

    my ($n, $late) = let_in($line, 300,
                            map { sprintf 's%02d', $_ } 1, 3 .. 22);
    my %at;
    $at{since($line, sprintf 's%02d', $_)}++ for 3 .. 22;
    is((grep { $_ > 5 } values %at), 0,
       'five at a time: ' . join ' ', map { $at{$_} } sort keys %at);
    is_deeply([ @{figures('e')}{qw(rateUsers ratePeriodMs)} ], [ 5, 300 ],
              'the status knows');

    $line->set(rate => '0/10s');
    await('the word is heard', sub { !defined figures('e')->{etaSeconds} });
    my $in = @{$line->inside};
    cmp_ok($in, '<', 42, '0/10s: some still wait');
    $sse->run_for(0.8);
    is(scalar @{$line->inside}, $in, 'and nobody is let in any more');

    $line->set(rate => 'off');
    $sse->run_until(sub { $told->() == 42 }, 10, 'off: all the others at once');
    is(figures('e')->{ratePeriodMs} || 0, 0, 'there is no rate');

    # and one where there was none
    $line = line('o', 'own');
    @s = $line->joins(map { "s$_" } 1 .. 9);
    is(stream_etas(@s[5 .. 8]), 'null null null null', 'no rate: no time');
    $line->set(rate => '1/10m', capacity => 8);
    await('the word is heard', sub { (figures('own')->{rateUsers} || 0) == 1 });
    await('one', sub { $line->lease('s6') });
    $sse->run_until(sub { stream_etas(@s[6 .. 8]) eq '600 1200 1800' }, 10,
                    'one is let in, and the others are told');
    $sse->run_for(0.3);
    is(scalar @{$line->inside}, 6, 'no more');
    $line->call('HDEL', $line->key('WAITING_QUEUE_OVERRIDE'), 'rate');
    $sse->run_until(sub { $s[7]->token }, 10, 'none again: two slots are free');
    is_deeply([ $line->wrong ], [], 'all is sound');



=== TEST 11: who comes right after a change is told it once
--- intervals
    waiting_queue_interval 500ms;
    waiting_queue_promote_interval 50ms;
--- rules
r: waiting_queue_capacity 500; waiting_queue_rate 1/10m;
--- check
    my $line = line('r', 'e');
    my @s = $line->joins('in', map { "s$_" } 1 .. 3);

    shift @s;

    for my $round (1 .. 4) {
        my $minutes = 10 + 10 * $round;
        my $broadcasts = sum('broadcasts');

        # just after a tick, so that there is time before the next
        $sse->run_until(sub { sum('broadcasts') > $broadcasts }, 10);
        $line->set(rate => "1/${minutes}m");
        push @s, $line->join("new$round");
        $sse->run_until(sub {
            stream_etas(@s) eq join ' ', map { 60 * $minutes * $_ } 1 .. @s;
        }, 10, "1/${minutes}m: all know");
        $sse->run_for(0.6);
    }

    is(join(' ', map { $_->count('position') } @s), '5 5 5 4 3 2 1',
       'by one event each');



=== TEST 12: without a rate the time is what was seen of the line
--- rules
m: waiting_queue_capacity 1;
--- check
    my $line = line('m', 'e');
    my @s = $line->joins(map { sprintf 's%02d', $_ } 1 .. 60);

    # behind them those who ask
    api('POST', 'm', 'e', 'p61');
    gate('m', 'e', 'g62');

    my $known = sub {
        my @last = map { $_->last('position') } grep { !$_->token } @s;
        return grep { defined $_->{data}{etaSeconds} } @last;
    };
    my $all = sub {
        my $gate = gate('m', 'e', 'g62');
        return ($s[-1]->last->{data}{etaSeconds}, etas('m', 'e', 'p61'),
                $gate->{etaSeconds}, $gate->{variable},
                gate('m', 'e', 'g62', 'text/html')->{shown},
                figures('e')->{etaSeconds});
    };

    is_deeply([ $all->() ], [ undef, 'null', undef, '', '', undef ],
              'at first nothing is known, and nothing is said');

    # one every 0.5 s
    my $begin = Time::HiRes::time();
    my $n = 0;
    my $next = sub {
        $line->release($line->inside->[0]);
        $n++;
        $sse->run_until(sub { Time::HiRes::time() >= $begin + 0.5 * $n }, 2);
    };

    $next->() for 1 .. 4;
    is(scalar($known->()), 0, 'four were let in: that is no basis');
    is_deeply([ ($all->())[1, 2] ], [ 'null', undef ], 'for nobody');

    while (Time::HiRes::time() < $begin + 13 && @{$line->waiting} > 30) {
        $next->();
    }

    my $each = (Time::HiRes::time() - $begin) / $n;
    my @eta = $all->();
    my @position = map { $_ + 1 - $n } 59, 60, 61, 61, 61, 62;

    for my $i (0 .. $#eta) {
        my $what = (qw(stream API gate variable page status))[$i];
        ok(defined $eta[$i] && $eta[$i] =~ /^\d+$/
           && abs($eta[$i] - $position[$i] * $each)
              < 0.15 * $position[$i] * $each + 1.5,
           sprintf "the $what: $eta[$i] s for $position[$i] * %.2f", $each);
    }

    is(metric('eta_seconds', 'e'), $eta[5], 'the other format is the same');
    my @told = map { $_->last('position')->{data} } grep { !$_->token } @s;
    is((grep { !defined $_->{etaSeconds} } @told), 0, 'all are told a time');
    is_deeply([ map { $_->{etaSeconds} } @told ],
              [ sort { $a <=> $b } map { $_->{etaSeconds} } @told ],
              'who stands behind waits no less');

    # a halt
    $line->set(paused => 1);
    $sse->run_until(sub { !$known->() }, 10, 'paused: no time any more');
    await('the status', sub { !defined figures('e')->{etaSeconds} });
    is_deeply([ $all->() ], [ undef, 'null', undef, '', '', undef ],
              'for nobody');
    $line->set(paused => 0);
    $sse->run_until(sub { $known->() == @told }, 10, 'then it is known again');
    $next->();
    ok(abs($s[-1]->last->{data}{etaSeconds} - ($position[0] - 1) * $each)
       < 0.2 * $position[0] * $each + 1.5, 'the pause is no time of the line');



=== TEST 13: slots may be fewer than the rate, and then take longer
--- rules
r: waiting_queue_capacity 2; waiting_queue_rate 100/1s;
--- check
    my $line = line('r', 'e');
    my @s = $line->joins(map { sprintf 's%02d', $_ } 1 .. 60);

    is($s[-1]->last->{data}{etaSeconds}, 1,
       'nothing was seen: as the rate says');

    my $begin = Time::HiRes::time();
    my $n = 0;

    while (Time::HiRes::time() < $begin + 12) {
        $line->release($line->inside->[0]);
        $n++;
        $sse->run_until(sub { Time::HiRes::time() >= $begin + 0.5 * $n }, 2);
    }

    my $each = (Time::HiRes::time() - $begin) / $n;
    my $position = 58 - $n;
    my $eta = $s[-1]->last->{data}{etaSeconds};
    ok(abs($eta - $position * $each) < 0.15 * $position * $each + 1.5,
       "all slots are taken: $eta s for $position * " . sprintf '%.2f', $each);

    # slots for all: what was seen does not matter
    $line->set(capacity => 20);
    $line->set(rate => '1/10m');
    $sse->run_until(sub {
        my $last = $s[-1]->last('position')->{data};
        ($last->{etaSeconds} || 0) == $last->{waitingPosition} * 600;
    }, 10, 'slots are free: the rate');
