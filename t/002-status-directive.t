# `waiting_queue_status` is what an operator looks at when something is wrong
# and what monitoring reads all day.  So it must answer whatever state Redis is
# in, be exactly what its readers parse, and behave like any other nginx
# location.

use WaitingQueue::Test;
use WaitingQueue::Live;
use WaitingQueue::Sse;

use IO::Socket::INET;
use IO::Uncompress::Gunzip ();
use JSON::PP;
use Time::HiRes ();

my $workers = $ENV{WQ_WORKERS} || 1;

# of each of them
my @links = qw(commands reader router);

my $not_allowed = '{"error":"method_not_allowed","message":"this address does '
                  . "not have this method\"}\n";


# [ what is wrong, the whole of http{}, what nginx says ]

my @bad = (
    [ 'unknown format', 'server { location / { waiting_queue_status xml; } }',
      '"waiting_queue_status" directive: invalid format "xml", must be "json" '
      . 'or "prometheus"' ],
    [ 'format in capitals',
      'server { location / { waiting_queue_status JSON; } }',
      '"waiting_queue_status" directive: invalid format "JSON", must be "json" '
      . 'or "prometheus"' ],
    [ 'empty format', 'server { location / { waiting_queue_status ""; } }',
      '"waiting_queue_status" directive: invalid format "", must be "json" or '
      . '"prometheus"' ],
    [ 'two formats',
      'server { location / { waiting_queue_status json prometheus; } }',
      'invalid number of arguments in "waiting_queue_status" directive' ],
    [ 'twice in one location',
      'server { location / { waiting_queue_status; waiting_queue_status; } }',
      '"waiting_queue_status" directive is duplicate' ],
    [ 'twice in one location with different formats',
      'server { location / { waiting_queue_status json; '
      . 'waiting_queue_status prometheus; } }',
      '"waiting_queue_status" directive is duplicate' ],
    [ 'in http{}', 'waiting_queue_status;',
      '"waiting_queue_status" directive is not allowed here' ],
    [ 'in server{}', 'server { waiting_queue_status; }',
      '"waiting_queue_status" directive is not allowed here' ],
    [ 'in if{}',
      'server { location / { if ($arg_a) { waiting_queue_status; } } }',
      '"waiting_queue_status" directive is not allowed here' ],
);


# figures: name in JSON => name in Prometheus

my %link_counters = map { @$_[0] => "waiting_queue_redis_$$_[1]_total" }
    [ connects => 'connects' ], [ reconnects => 'reconnects' ],
    [ connectFailures => 'connect_failures' ], [ sent => 'commands_sent' ],
    [ failed => 'commands_failed' ], [ timedOut => 'commands_timed_out' ],
    [ lost => 'commands_lost' ], [ refused => 'commands_refused' ],
    [ badReplies => 'bad_replies' ], [ scriptMisses => 'script_misses' ];

my %process_counters = map { @$_[0] => "waiting_queue_$$_[1]_total" }
    [ heartbeats => 'heartbeats' ], [ lateHeartbeats => 'late_heartbeats' ],
    [ streamsOpened => 'streams_opened' ],
    [ streamsClosed => 'streams_closed' ],
    [ streamsReplaced => 'streams_replaced' ],
    [ streamsStalled => 'streams_stalled' ],
    [ streamsTimedOut => 'streams_timed_out' ],
    [ streamsRefused => 'streams_refused' ],
    [ joinsRefused => 'joins_refused' ],
    [ positionsSent => 'positions_sent' ],
    [ promotionsTold => 'promotions_told' ],
    [ commentsSent => 'comments_sent' ],
    [ capacityAsked => 'capacity_requests' ],
    [ capacityFailed => 'capacity_failures' ],
    [ gatePassed => 'gate_passed' ], [ gateRemembered => 'gate_remembered' ],
    [ gatePassedOnError => 'gate_passed_on_error' ],
    [ gateRationed => 'gate_rationed' ],
    [ gateKeptBack => 'gate_kept_back' ],
    [ gateBypassed => 'gate_bypassed' ], [ gateDryRun => 'gate_dry_run' ],
    [ apiJoins => 'api_joins' ], [ apiPolls => 'api_polls' ],
    [ apiQuits => 'api_quits' ], [ apiUnavailable => 'api_unavailable' ],
    [ tokensRefused => 'tokens_refused' ], [ visitsDone => 'visits_done' ],
    [ visitsSold => 'visits_sold' ],
    [ seatsLocked => 'seats_locked' ], [ seatsWaited => 'seats_waited' ],
    [ seatsRefused => 'seats_refused' ], [ seatsLapsed => 'seats_lapsed' ],
    [ seatsFailed => 'seats_failed' ],
    [ seatsPassedOn => 'seats_passed_on' ], [ leaves => 'leaves' ],
    [ releases => 'releases' ], [ promoteRounds => 'promote_rounds' ],
    [ promoteCalls => 'promote_calls' ],
    [ promoteUs => 'promote_microseconds' ], [ promoted => 'promotions' ],
    [ lapsed => 'lapses' ], [ broadcasts => 'broadcasts' ],
    [ broadcastUs => 'broadcast_microseconds' ],
    [ lateTicks => 'late_ticks' ], [ resyncs => 'resyncs' ],
    [ restored => 'restored' ], [ leasesRestored => 'leases_restored' ],
    [ routed => 'routed_messages' ],
    [ unroutable => 'unroutable_messages' ],
    [ routerGarbage => 'router_garbage' ], [ claimed => 'claimed_messages' ],
    [ reaped => 'reaped' ], [ buried => 'buried_instances' ],
    [ dispatched => 'dispatch_messages' ],
    [ dispatchGarbage => 'dispatch_garbage' ];

my %process_gauges = map { @$_[0] => "waiting_queue_$$_[1]" }
    [ streams => 'streams' ], [ absent => 'absent_clients' ],
    [ seatsHeld => 'seats_held' ], [ seatsWaiting => 'seats_waiting' ],
    [ routerLagMs => 'router_lag_milliseconds' ],
    [ dispatcherLagMs => 'dispatcher_lag_milliseconds' ],
    [ broadcastLastUs => 'broadcast_last_microseconds' ];

my %event_figures = map { @$_[0] => "waiting_queue_event_$$_[1]" }
    [ waiting => 'waiting' ], [ active => 'active' ],
    [ freeSlots => 'free_slots' ], [ capacity => 'capacity' ],
    [ joined => 'joined_total' ], [ direct => 'direct_total' ],
    [ promoted => 'promoted_total' ], [ entered => 'entered_total' ],
    [ left => 'left_total' ], [ expired => 'expired_total' ],
    [ done => 'done_total' ], [ sold => 'sold_total' ], [ drift => 'drift' ],
    [ rateUsers => 'rate_users' ],
    [ ratePeriodMs => 'rate_period_milliseconds' ],
    [ rateConcurrent => 'rate_concurrent' ],
    [ streams => 'streams' ], [ promotedPerMinute => 'promoted_per_minute' ];


# the fields, as they are documented; 'n' is a number, not negative, 'i' any
# whole one, 'known' a number that is null while nobody knows it

my %histogram = map { $_ => 'n' }
                    qw(0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025
                       0.05 0.1 0.25 0.5 1 2.5 +Inf count sumUs);

my %link = (
    state => qr/^(idle|resolving|connecting|authenticating|selecting
                  |loading_scripts|ready|draining)$/x,
    trouble => qr/^[a-z_]+$/,
    roundTrip => \%histogram,
    map { $_ => 'n' } qw(since inFlight), keys %link_counters
);

my %process = (
    instance => qr/^[A-Za-z0-9._~\@:-]+-\d+-\d{13}$/,
    draining => 'bool',
    links => { map { $_ => \%link } @links },
    map { $_ => 'n' } qw(worker pid), keys %process_counters,
                      keys %process_gauges
);

my %event = (
    (map { $_ => 'n' } keys %event_figures),
    event => qr/^[A-Za-z0-9._~\@:-]{1,128}$/,
    freeSlots => 'i',
    ageMs => 'n',
    reconciled => 'bool',
    seats => 'known',
    etaSeconds => 'known',
);

my %fields = (
    version => qr/^\d+\.\d+\.\d+$/,
    node => qr/^[A-Za-z0-9._~\@:-]{1,64}$/,
    prefix => qr/^[A-Za-z0-9._~\@:-]{0,64}$/,
    redis => { address => qr/^127\.0\.0\.1:\d+$/, db => 'n', timeoutMs => 'n',
               maxInFlight => 'n' },
    tokens => { map { $_ => 'n' } qw(known room evicted) },
    endings => 'n',
    processes => [ \%process ],
    events => [ \%event ],
);


# "--- check" runs after the request, as one test

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value('http_config', '
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT;
    waiting_queue_prefix t002:;
') if !defined $block->http_config;
});

add_response_body_check(sub {
    my ($block, $body) = @_;

    return if !defined $block->check;

    Test::More::subtest($block->name => sub {
        eval $block->check . '; 1' or Test::More::fail("died: $@");
    });
});

plan tests => @bad + repeat_each() * (blocks() * 4 + 53);

for my $case (@bad) {
    my ($name, $http, $message) = @$case;
    my ($ok, $output) = nginx_t($http);
    my @emerg = grep { /\[emerg\]/ } split /\n/, $output;

    ok(!$ok && @emerg == 1 && index($emerg[0], $message) >= 0,
       "$name: $message")
        or diag($output);
}

redis('FLUSHALL');

# streams count too
worker_connections(256);

run_tests();


# fits(value, type): what is wrong with a decoded JSON, or nothing

sub fits {
    my ($value, $type, $path) = @_;

    if (ref $type eq 'HASH') {
        my @names = sort keys %$type;
        return "$path: not an object" if ref $value ne 'HASH';
        return "$path: fields are @{[sort keys %$value]}"
            if "@names" ne join ' ', sort keys %$value;
        return map { fits($value->{$_}, $type->{$_}, "$path.$_") } @names;
    }

    if (ref $type eq 'ARRAY') {
        return "$path: not a list" if ref $value ne 'ARRAY';
        return map { fits($value->[$_], $type->[0], "$path\[$_]") }
                   0 .. $#$value;
    }

    if ($type eq 'bool') {
        return JSON::PP::is_bool($value) ? () : "$path: no boolean";
    }

    # JSON::PP writes a number as a number and a string as a string

    my $text = JSON::PP->new->allow_nonref->encode($value);

    return if $type eq 'known' && !defined $value;

    if ($type =~ /^(?:n|i|known)$/) {
        return $text =~ ($type eq 'i' ? qr/^-?\d+$/ : qr/^\d+$/)
               ? () : "$path: no number: $text";
    }

    return if $path =~ /\.trouble$/ && !defined $value;

    return $text =~ /^"/ && $value =~ $type ? () : "$path: $text";
}


# prometheus(text): dies of what Prometheus would not take, and of what promtool
# would complain about; returns { name => { labels => value } }

sub prometheus {
    my ($text) = @_;

    my (%help, %type, %samples, %closed);
    my $family = '';

    die "no newline at the end\n" if $text !~ s/\n\z//;

    for my $line (split /\n/, $text, -1) {
        if ($line =~ /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S.*)$/) {
            die "HELP twice: $line\n" if $help{$1}++;
            die "HELP in the wrong place: $line\n" if $closed{$1};
            $closed{$family} = 1;
            $family = $1;
            next;
        }

        if ($line =~ /^# TYPE (\S+) (counter|gauge|histogram)$/) {
            die "TYPE without HELP: $line\n" if $1 ne $family;
            die "TYPE twice: $line\n" if $type{$1};
            die "TYPE after a sample: $line\n" if $samples{$1};
            $type{$1} = $2;
            die "counter without _total, or _total of no counter: $line\n"
                if ($line =~ /_total /) ne ($line =~ / counter$/);
            next;
        }

        my ($name, $labels, $value) = $line =~
            /^([a-zA-Z_:][a-zA-Z0-9_:]*)
              (\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*"
                 (?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*")*\})?
              [ ]([+-]?Inf|NaN|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/x
            or die "not a sample: $line\n";

        die "sample outside its family: $line\n"
            if !$type{$family}
               || $name !~ ($type{$family} eq 'histogram'
                            ? qr/^\Q$family\E_(bucket|sum|count)$/
                            : qr/^\Q$family\E$/);

        my %labels = ($labels || '') =~ /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;
        my $key = join ',', map { "$_=$labels{$_}" } sort keys %labels;

        die "series twice: $line\n" if exists $samples{$name}{$key};
        $samples{$name}{$key} = $value;
    }

    for my $name (grep { $type{$_} eq 'histogram' } keys %type) {
        histogram($name, \%samples);
    }

    return \%samples;
}


# buckets grow with their bounds, and the last is the count

sub histogram {
    my ($name, $samples) = @_;

    my %series;

    while (my ($key, $value) = each %{$samples->{$name . '_bucket'}}) {
        $key =~ s/^le=([^,]+),// or die "bucket without le: $key\n";
        $series{$key}{$1} = $value;
    }

    for my $key (keys %series) {
        my $last = 0;
        my @bounds = sort { ($a eq '+Inf') <=> ($b eq '+Inf') || $a <=> $b }
                          keys %{$series{$key}};

        die "$name\{$key}: no +Inf\n" if $bounds[-1] ne '+Inf';

        for my $bound (@bounds) {
            die "$name\{$key}: not cumulative at $bound\n"
                if $series{$key}{$bound} < $last;
            $last = $series{$key}{$bound};
        }

        die "$name\{$key}: +Inf is not the count\n"
            if $last != $samples->{$name . '_count'}{$key};
        die "$name\{$key}: no sum\n"
            if !defined $samples->{$name . '_sum'}{$key};
    }

    die "$name: other series of count or sum\n"
        if keys %series != keys %{$samples->{$name . '_count'}}
           || keys %series != keys %{$samples->{$name . '_sum'}};
}


# conversation(bytes, answers): sends them on one connection and reads so many
# answers; returns [ status line, headers, body ] for each

sub conversation {
    my ($bytes, $n) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => server_port(),
                                       Timeout => 10)
        or die "connect: $@";
    my @answers;

    local $SIG{ALRM} = sub { die "no answer in time\n" };
    alarm 10;

    print $socket $bytes;
    $socket->flush;

    for (1 .. $n) {
        my ($head, $body) = ('', '');

        while ($head !~ /\r\n\r\n\z/) {
            my $line = <$socket>;
            die "closed in the head: $head\n" if !defined $line;
            $head .= $line;
        }

        my ($length) = $head =~ /^Content-Length: (\d+)\r$/m;
        read $socket, $body, $length;
        push @answers, [ $head =~ /^(.*)\r\n/, $head, $body ];
    }

    alarm 0;

    return @answers;
}

__DATA__

=== TEST 1: no argument is JSON
--- config
    location = /status {
        waiting_queue_status;
    }
--- request
GET /status
--- response_headers
Content-Type: application/json
Cache-Control: no-store
! Allow
--- check
    is_deeply([ fits(decode_json($body), \%fields, '$') ], [],
              'every field is there and of its type');
    is_deeply([ fits(ready(), \%fields, '$') ], [], 'and when Redis is there');



=== TEST 2: json
--- config
    location = /status {
        waiting_queue_status json;
    }
--- request
GET /status?a=b
--- response_headers
Content-Type: application/json
Cache-Control: no-store
--- check
    my $status = ready();
    is_deeply([ fits($status, \%fields, '$') ], [], 'fields');

    my $now = int(Time::HiRes::time() * 1000);
    my @workers = map { $_->{worker} } @{$status->{processes}};
    is_deeply([ sort @workers ], [ 0 .. $workers - 1 ], 'worker numbers');

    for my $process (@{$status->{processes}}) {
        ok(kill(0, $process->{pid}), 'the pid is of a process');
        ok(!$process->{draining}, 'not draining');

        for my $link (values %{$process->{links}}) {
            is($link->{connects}, 1, 'one connect');
            is($link->{reconnects}, 0, 'no reconnect');
            is($link->{connectFailures}, 0, 'no failure');
            is($link->{$_}, 0, $_) for qw(failed timedOut lost refused
                                          badReplies scriptMisses);
            ok($link->{sent} > 0, 'commands were sent');
            ok($link->{roundTrip}{count} > 0, 'and timed');
            is($link->{roundTrip}{count}, $link->{roundTrip}{'+Inf'},
               'count and +Inf');
            ok(abs($now - $link->{since}) < 60000, 'since is of now');
        }
    }



=== TEST 3: figures move
--- config
    location = /status {
        waiting_queue_status json;
    }
--- request
GET /status
--- check
    my %before = map { $_->{pid} => $_ } @{ready()->{processes}};

    my $after = await('two more heartbeats', sub {
        my $status = status();
        !(grep { $_->{heartbeats} < $before{$_->{pid}}{heartbeats} + 2 }
               @{$status->{processes}}) && $status;
    });

    for my $process (@{$after->{processes}}) {
        my $old = $before{$process->{pid}};
        my ($from, $to) = map { $_->{links}{commands} } $old, $process;
        ok($to->{sent} >= $from->{sent} + 2, 'commands were sent');
        ok($to->{roundTrip}{count} >= $from->{roundTrip}{count} + 2, 'timed');
        ok($to->{roundTrip}{sumUs} > $from->{roundTrip}{sumUs}, 'and summed');
        is($to->{since}, $from->{since}, 'the state is as old as before');
        is($process->{lateHeartbeats}, 0, 'no heartbeat was late');
    }



=== TEST 4: prometheus
--- config
    location = /status {
        waiting_queue_status;
    }
    location = /metrics {
        waiting_queue_status prometheus;
    }
--- request
GET /metrics
--- response_headers
Content-Type: text/plain; version=0.0.4; charset=utf-8
Cache-Control: no-store
--- check
    ok(prometheus($body), 'well-formed from the first moment');

    ready();

    my $first = status();
    my $metrics = prometheus(http('GET', '/metrics')->{content});
    my $second = status();

    is_deeply($metrics->{waiting_queue_info},
              { "node=$first->{node},version=$first->{version}" => 1 },
              'version and node');

    my %expected = map { $_ => 1 }
        'waiting_queue_info', 'waiting_queue_worker_draining',
        'waiting_queue_redis_up', 'waiting_queue_redis_in_flight',
        'waiting_queue_redis_state', 'waiting_queue_tokens_known',
        'waiting_queue_tokens_room', 'waiting_queue_tokens_evicted_total',
        'waiting_queue_endings',
        values %link_counters, values %process_counters,
        values %process_gauges,
        map { "waiting_queue_redis_round_trip_seconds_$_" }
            qw(bucket sum count);
    is_deeply([ sort keys %$metrics ], [ sort keys %expected ], 'the metrics');

    my ($before, $after) = map { { map { $_->{worker} => $_ }
                                       @{$_->{processes}} } } $first, $second;

    for my $worker (0 .. $workers - 1) {
        my ($low, $high) = ($before->{$worker}, $after->{$worker});
        my $process = "pid=$low->{pid},worker=$worker";

        is($metrics->{waiting_queue_worker_draining}{$process}, 0, 'draining');

        while (my ($json, $name) = each %process_counters) {
            my $value = $metrics->{$name}{"worker=$worker"};
            ok($low->{$json} <= $value && $value <= $high->{$json}, $name);
        }

        # nobody is there, and there are no messages

        while (my ($json, $name) = each %process_gauges) {
            is($low->{$json}, 0, $json);
            is($metrics->{$name}{$process}, 0, $name);
        }

        for my $link (@links) {
            my ($from, $to) = map { $_->{links}{$link} } $low, $high;
            my $series = "link=$link,worker=$worker";

            is($metrics->{waiting_queue_redis_up}{"link=$link,$process"}, 1,
               'up');
            is($metrics->{waiting_queue_redis_state}
                         {"link=$link,pid=$low->{pid},state=ready,"
                          . "trouble=none,worker=$worker"}, 1, 'state');
            like($metrics->{waiting_queue_redis_in_flight}
                           {"link=$link,$process"}, qr/^\d+$/, 'in flight');

            while (my ($json, $name) = each %link_counters) {
                my $value = $metrics->{$name}{$series};
                ok($from->{$json} <= $value && $value <= $to->{$json}, $name);
            }

            for my $bound (grep { !/count|sum/ } keys %histogram) {
                my $value = $metrics->{'waiting_queue_redis_round_trip_seconds'
                                       . '_bucket'}{"le=$bound,$series"};
                my @range = map { $_->{roundTrip}{$bound} } $from, $to;
                ok($range[0] <= $value && $value <= $range[1], "le $bound");
            }

            my $sum = $metrics->{'waiting_queue_redis_round_trip_seconds_sum'}
                                {$series};
            my @range = map { $_->{roundTrip}{sumUs} / 1e6 } $from, $to;
            ok($range[0] <= $sum + 1e-9 && $sum <= $range[1] + 1e-9, 'sum');
        }
    }



=== TEST 5: HEAD has the header of GET and no body
--- config
    location = /status {
        waiting_queue_status;
    }
    location = /metrics {
        waiting_queue_status prometheus;
    }
--- request
HEAD /status
--- response_headers
Content-Type: application/json
Cache-Control: no-store
--- response_body:
--- check
    ready();

    for my $path (qw(/status /metrics)) {
        my $head = await("$path of the same length twice", sub {
            my ($before, $head, $after) = map { http($_, $path) }
                                              qw(GET HEAD GET);
            length $before->{content} == length $after->{content}
                && { %$head, length => length $before->{content},
                     get => $before->{headers} };
        });

        is($head->{status}, 200, "$path: status");
        is($head->{content} || '', '', "$path: no body");
        is($head->{headers}{'content-length'}, $head->{length},
           "$path: Content-Length");
        is($head->{headers}{$_}, $head->{get}{$_}, "$path: $_")
            for qw(content-type cache-control);
    }



=== TEST 6: POST without a body
--- config
    location = /status {
        waiting_queue_status;
    }
--- request
POST /status
--- error_code: 405
--- response_headers
Allow: GET, HEAD
Content-Type: application/json
Cache-Control: no-store
--- response_body
{"error":"method_not_allowed","message":"this address does not have this method"}



=== TEST 7: POST with a body
--- config
    location = /status {
        waiting_queue_status prometheus;
    }
--- request
POST /status
hello=world
--- error_code: 405
--- response_headers
Allow: GET, HEAD
Content-Type: application/json
Cache-Control: no-store
--- response_body
{"error":"method_not_allowed","message":"this address does not have this method"}



=== TEST 8: PUT with a body
--- config
    location = /status {
        waiting_queue_status;
    }
--- request
PUT /status
hello
--- error_code: 405
--- response_headers
Allow: GET, HEAD
--- response_body
{"error":"method_not_allowed","message":"this address does not have this method"}



=== TEST 9: DELETE
--- config
    location = /status {
        waiting_queue_status;
    }
--- request
DELETE /status
--- error_code: 405
--- response_headers
Allow: GET, HEAD
--- response_body
{"error":"method_not_allowed","message":"this address does not have this method"}



=== TEST 10: all other methods, known to nginx or not
--- config
    location = /status {
        waiting_queue_status;
    }
--- request
GET /status
--- check
    for my $method (qw(OPTIONS PATCH PROPFIND MKCOL BREW)) {
        my $answer = http($method, '/status');
        is($answer->{status}, 405, "$method: status");
        is($answer->{headers}{allow}, 'GET, HEAD', "$method: Allow");
        is($answer->{content}, $not_allowed, "$method: body");
    }



=== TEST 11: the connection goes on after a 405, whatever the body was
--- config
    location = /status {
        waiting_queue_status;
    }
--- request
GET /status
--- check
    my $get = "GET /status HTTP/1.1\r\nHost: a\r\n\r\n";
    my $megabyte = 'x' x 1048576;

    my %bodies = (
        'no body' => "\r\n",
        'an empty one' => "Content-Length: 0\r\n\r\n",
        'a short one' => "Content-Length: 5\r\n\r\nhello",
        'one that looks like a request' =>
            'Content-Length: ' . length($get) . "\r\n\r\n$get",
        'a large one' => "Content-Length: 1048576\r\n\r\n$megabyte",
        'a chunked one' => "Transfer-Encoding: chunked\r\n\r\n"
                           . "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        'a large chunked one' => "Transfer-Encoding: chunked\r\n\r\n"
                                 . "100000\r\n$megabyte\r\n0\r\n\r\n",
    );

    for my $name (sort keys %bodies) {
        for my $method (qw(POST PUT DELETE)) {
            my ($refused, $served) = conversation(
                "$method /status HTTP/1.1\r\nHost: a\r\n$bodies{$name}$get",
                2);
            is($refused->[0], 'HTTP/1.1 405 Not Allowed', "$method, $name");
            is($refused->[2], $not_allowed, "$method, $name: body");
            is($served->[0], 'HTTP/1.1 200 OK', "$method, $name: and then");
        }
    }

    my ($first, $second) = conversation(
        "GET /status HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
        . $get, 2);
    is($first->[0], 'HTTP/1.1 200 OK', 'a GET with a body');
    is($second->[0], 'HTTP/1.1 200 OK', 'and the next');



=== TEST 12: while Redis is away the status is there and says so
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_RAND_PORT_1;
--- config
    location = /status {
        waiting_queue_status;
    }
    location = /metrics {
        waiting_queue_status prometheus;
    }
    location = /plain {
        return 200 "plain";
    }
    location /html/ {
        alias $TEST_NGINX_SERVROOT/html/;
    }
--- user_files
>>> file.txt
a file
--- request
GET /plain
--- response_body chomp
plain
--- check
    my $status = await('several tries', sub {
        my $status = status();
        @{$status->{processes}} == $workers
            && !(grep { $_->{connectFailures} < 3 } links($status))
            && $status;
    });

    is_deeply([ fits($status, \%fields, '$') ], [], 'fields');

    for my $link (links($status)) {
        isnt($link->{state}, 'ready', 'not ready');
        is($link->{trouble}, 'connect_failed', 'trouble');
        is($link->{$_}, 0, $_) for qw(connects reconnects sent inFlight);
    }

    is($_->{heartbeats}, 0, 'no heartbeat') for @{$status->{processes}};

    my $metrics = prometheus(http('GET', '/metrics')->{content});
    is((grep { $_ != 0 } values %{$metrics->{waiting_queue_redis_up}}), 0,
       'no link is up');
    is(scalar(grep { /trouble=connect_failed/ }
                   keys %{$metrics->{waiting_queue_redis_state}}),
       @links * $workers, 'every link is in trouble');
    is(scalar keys %{$metrics->{waiting_queue_redis_connect_failures_total}},
       @links * $workers, 'failures of every link');

    is(http('GET', '/html/file.txt')->{content}, "a file\n",
       'a file is served untouched');
    is(http('POST', '/status')->{status}, 405, 'and POST is a 405');

    my @down = error_log() =~ /(link is down: connect_failed \(127)/g;
    is(scalar @down, @links * $workers,
       'each link says it once, not at each try');
--- error_log
redis commands link is down: connect_failed (127.0.0.1:
redis reader link is down: connect_failed (127.0.0.1:
redis router link is down: connect_failed (127.0.0.1:



=== TEST 13: a configuration without the module's directives stays as it was
--- http_config
--- config
    location = /plain {
        return 200 "plain";
    }
--- request
GET /plain
--- response_body chomp
plain
--- check
    unlike(redis('CLIENT', 'LIST'), qr/:commands/, 'nobody talks to Redis');
--- no_error_log
waiting_queue
[alert]
[emerg]



=== TEST 14: with gzip
--- config
    gzip on;
    gzip_min_length 1;
    gzip_types application/json text/plain;

    location = /status {
        waiting_queue_status;
    }
    location = /metrics {
        waiting_queue_status prometheus;
    }
--- request
GET /status
--- response_headers
! Content-Encoding
--- check
    ready();

    for my $path (qw(/status /metrics)) {
        my $answer = http('GET', $path,
                          headers => { 'Accept-Encoding' => 'gzip' });
        is($answer->{status}, 200, "$path: status");
        is($answer->{headers}{'cache-control'}, 'no-store', "$path: cache");

        is($answer->{headers}{'content-encoding'}, 'gzip', "$path: encoding");

        IO::Uncompress::Gunzip::gunzip(\$answer->{content}, \my $text);

        $path eq '/status'
            ? is_deeply([ fits(decode_json($text), \%fields, '$') ], [], 'JSON')
            : ok(prometheus($text), 'text');
    }



=== TEST 15: HTTP/1.0
--- config
    location = /status {
        waiting_queue_status;
    }
--- request
GET /status HTTP/1.0
--- response_headers
Content-Type: application/json
Connection: close
--- check
    is_deeply([ fits(decode_json($body), \%fields, '$') ], [], 'fields');



=== TEST 16: HTTP/2
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT;
    waiting_queue_prefix t002:;

    server {
        listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1 http2;

        location = /status {
            waiting_queue_status;
        }
    }
--- config
    location = /status {
        waiting_queue_status;
    }
--- request
GET /status
--- check
    my $port = $Test::Nginx::Util::RandPorts->{TEST_NGINX_RAND_PORT_1};
    my $curl = "curl -sS -i -m 10 --http2-prior-knowledge";
    my $url = "http://127.0.0.1:$port/status";

    my ($head, $json) = split /\r\n\r\n/, `$curl $url`, 2;
    like($head, qr{^HTTP/2 200 \r\n}, 'GET: status');
    like($head, qr{^content-type: application/json\r?$}m, 'GET: type');
    like($head, qr{^cache-control: no-store\r?$}m, 'GET: cache');
    is_deeply([ fits(decode_json($json), \%fields, '$') ], [], 'GET: fields');

    my $answer = `$curl -I $url`;
    like($answer, qr{^HTTP/2 200 \r\n.*^content-length: \d+\r\n.*\r\n\r\n\z}ms,
         'HEAD: no body');

    # without a body: curl takes nginx's early answer to one for an error

    for my $method (qw(POST DELETE)) {
        my ($head, $error) = split /\r\n\r\n/, `$curl -X $method $url`, 2;
        like($head, qr{^HTTP/2 405 \r\n}, "$method: status");
        like($head, qr{^allow: GET, HEAD\r?$}m, "$method: Allow");
        is($error, $not_allowed, "$method: body");
    }



=== TEST 17: `if` in the same location
--- config
    location = /status {
        if ($arg_secret != "yes") {
            return 404;
        }
        if ($arg_set) {
            set $anything 1;
        }
        waiting_queue_status prometheus;
    }
--- request eval
[ "GET /status", "GET /status?secret=yes", "GET /status?secret=yes&set=1" ]
--- error_code eval
[ 404, 200, 200 ]
--- response_headers eval
[ "Content-Type: text/html",
  "Content-Type: text/plain; version=0.0.4; charset=utf-8",
  "Content-Type: text/plain; version=0.0.4; charset=utf-8" ]



=== TEST 18: allow and deny, and an error page of the location
--- config
    location = /closed {
        deny all;
        error_page 403 /closed.txt;
        waiting_queue_status;
    }
    location = /open {
        allow 127.0.0.1;
        deny all;
        waiting_queue_status;
    }
    location = /closed.txt {
        internal;
        return 403 "for operators\n";
    }
--- request eval
[ "GET /closed", "GET /open" ]
--- error_code eval
[ 403, 200 ]
--- response_body_like eval
[ '^for operators$', '^\{"version"' ]



=== TEST 19: auth_basic
--- config
    location = /status {
        auth_basic "operators";
        auth_basic_user_file ../html/users;
        waiting_queue_status;
    }
--- user_files
>>> users
operator:{PLAIN}figures
--- request eval
[ "GET /status", "POST /status\nhello", "GET /status" ]
--- more_headers eval
[ "", "", "Authorization: Basic b3BlcmF0b3I6ZmlndXJlcw==" ]
--- error_code eval
[ 401, 401, 200 ]
--- response_headers eval
[ 'WWW-Authenticate: Basic realm="operators"',
  'WWW-Authenticate: Basic realm="operators"',
  'Content-Type: application/json' ]



=== TEST 20: error_page 405 does not replace the answer, which is the module's
--- config
    location = /status {
        error_page 405 /405.txt;
        waiting_queue_status;
    }
    location = /405.txt {
        internal;
        return 405 "no\n";
    }
--- request
POST /status
hello
--- error_code: 405
--- response_headers
Allow: GET, HEAD
--- response_body
{"error":"method_not_allowed","message":"this address does not have this method"}



=== TEST 21: headers of the location are added
--- config
    location = /status {
        add_header X-Who operator always;
        waiting_queue_status;
    }
--- request eval
[ "GET /status", "DELETE /status" ]
--- error_code eval
[ 200, 405 ]
--- response_headers eval
[ 'X-Who: operator', 'X-Who: operator' ]



=== TEST 22: events
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT;
    waiting_queue_prefix t002-22:;
--- config
    location = /status {
        waiting_queue_status;
    }
    location = /metrics {
        waiting_queue_status prometheus;
    }
    location ~ ^/events/(?<id>[^/]+)$ {
        waiting_queue_stream;
        waiting_queue_event $id;
        waiting_queue_user $arg_user;
        waiting_queue_capacity 1;
    }
--- request
GET /status
--- response_body_like: "events":\[\]
--- check
    my $sse = WaitingQueue::Sse->new(port => server_port());
    my $long = 'z' x 128;

    ready();

    # one inside and two in line, which Redis tells once in a round

    my @streams = map { $sse->open(path => "/events/b?user=$_") } qw(u1 u2 u3);
    $sse->run_until(sub { !grep { !$_->last } @streams }, 10, 'three streams');

    push @streams, $sse->open(path => "/events/$long?user=u"),
                   $sse->open(path => '/events/A?user=u');

    my $status = await('all that was said of three events', sub {
        $sse->turn(0);
        my $status = status();
        my ($event) = grep { $_->{event} eq 'b' } @{$status->{events}};
        @{$status->{events}} == 3 && $event->{waiting} == 2
            && !(grep { $_->{active} != 1 || $_->{streams} < 1 }
                      @{$status->{events}})
            && $event->{streams} == 3 && $status;
    });

    is_deeply([ fits($status, \%fields, '$') ], [], 'fields');
    is_deeply([ map { $_->{event} } @{$status->{events}} ],
              [ 'A', 'b', $long ], 'in order');

    my %figures = (active => 1, freeSlots => 0, capacity => 1, direct => 1,
                   promoted => 0, entered => 0, left => 0, expired => 0,
                   done => 0, sold => 0, promotedPerMinute => 0, drift => 0,
                   reconciled => JSON::PP::true, seats => undef,
                   etaSeconds => undef, rateUsers => 0, ratePeriodMs => 0,
                   rateConcurrent => 0);
    my %more = (b => { waiting => 2, joined => 3, streams => 3 },
                A => { waiting => 0, joined => 1, streams => 1 });

    for my $event (@{$status->{events}}) {
        my %event = %$event;
        ok(delete $event{ageMs} < 15000, 'not of long ago');
        is_deeply(\%event, { %figures, %{$more{$event{event}} || $more{A}},
                             event => $event{event} },
                  substr $event{event}, 0, 1);
    }

    my $metrics = prometheus(http('GET', '/metrics')->{content});

    for my $event (@{$status->{events}}) {
        is($metrics->{$event_figures{$_}}{"event=$event->{event}"},
           $event->{$_}, $event_figures{$_}) for sort keys %event_figures;
        like($metrics->{waiting_queue_event_age_seconds}
                       {"event=$event->{event}"}, qr/^\d+\.\d{3}$/, 'age');
    }

    is((grep { keys %{$metrics->{$_}} != 3 }
             grep { /^waiting_queue_event_/ } keys %$metrics), 0,
       'three series of each');

    # what the processes say adds up to it

    my $sum = 0;
    $sum += $_->{streams} for @{$status->{processes}};
    is($sum, 5, 'streams of the processes');

    $sum = 0;
    $sum += $_ for values %{$metrics->{waiting_queue_streams}};
    is($sum, 5, 'for Prometheus too');

    $_->close for @streams;

    await('the streams to be gone', sub {
        my $status = status();
        !grep { $_->{streams} } @{$status->{processes}}, @{$status->{events}};
    });

    is_deeply([ $sse->violations ], [], 'what the streams said');



=== TEST 23: a lot of events with long names
--- http_config
    waiting_queue_redis redis://127.0.0.1:$TEST_NGINX_REDIS_PORT;
    waiting_queue_prefix t002-23:;
--- config
    location = /status {
        waiting_queue_status;
    }
    location = /metrics {
        waiting_queue_status prometheus;
    }
    location ~ ^/events/(?<id>[^/]+)$ {
        waiting_queue_stream;
        waiting_queue_event $id;
        waiting_queue_user $arg_user;
        waiting_queue_capacity 1000000000;
    }
--- request
GET /status
--- check
    my $sse = WaitingQueue::Sse->new(port => server_port());
    my @ids = map { sprintf '%03d%s', $_, 'e' x 125 } 1 .. 100;

    ready();

    my @streams = map { $sse->open(path => "/events/$_?user=u") } @ids;
    $sse->run_until(sub { !grep { !$_->last } @streams }, 10, 'streams');

    my $status = await('all events', sub {
        $sse->turn(0);
        my $status = status();
        @{$status->{events}} == @ids
            && !(grep { $_->{active} != 1 } @{$status->{events}}) && $status;
    });

    is_deeply([ fits($status, \%fields, '$') ], [], 'fields');
    is_deeply([ map { $_->{event} } @{$status->{events}} ], \@ids, 'all');

    my $metrics = prometheus(http('GET', '/metrics')->{content});
    is((grep { keys %{$metrics->{$_}} != @ids }
             grep { /^waiting_queue_event_/ } keys %$metrics), 0,
       'a series for each');
    is($metrics->{waiting_queue_event_free_slots}{"event=$ids[-1]"}, 999999999,
       'up to the last');
