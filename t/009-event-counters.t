# The figures of the events and of the jobs are all that an operator sees of a
# line with a hundred thousand people in it.  They must rise when something
# happens, by as much as has happened; what is so now must be so also after a
# worker has quit, was reloaded or killed; and they must not stand in the way
# when there are more events than room for them.

use WaitingQueue::Test;
use WaitingQueue::Live;
use WaitingQueue::Line;
use WaitingQueue::Sse;

use Time::HiRes ();

my $workers = $ENV{WQ_WORKERS} || 1;
my $sse;

# locations: a name, and what it says of its events
my %rules = (
    two => 'waiting_queue_capacity 2; waiting_queue_grace 0;',
    kept => 'waiting_queue_capacity 1; waiting_queue_grace 1m;',
    brief => 'waiting_queue_capacity 1; waiting_queue_grace 0;
              waiting_queue_ttl 1s claim=1s;',
    bound => 'waiting_queue_capacity 1; waiting_queue_grace 0;
              waiting_queue_release disconnect;',
    full => 'waiting_queue_capacity 0; waiting_queue_max_waiting 1;',
    spot => 'waiting_queue_capacity uri=/seats; waiting_queue_grace 0;',
);

my $locations = join '', map { "
    location /$_/ {
        waiting_queue_stream;
        waiting_queue_event \$arg_event;
        waiting_queue_user \$arg_user;
        $rules{$_}
    }" } sort keys %rules;

add_block_preprocessor(sub {
    my $block = shift;
    my $number = $block->name =~ /TEST (\d+)/ ? $1 : 0;

    my $more = defined $block->zone ? $block->zone
               : 'waiting_queue_promote_interval 100ms;';

    $block->set_value('http_config', "
    waiting_queue_redis unix:\$TEST_NGINX_REDIS_SOCKET;
    waiting_queue_prefix t009-$number:;
    waiting_queue_interval 100ms;
    $more
");

    $block->set_value('config', "
    location = /status {
        waiting_queue_status;
    }
    location = /metrics {
        waiting_queue_status prometheus;
    }
    location = /seats {
        internal;
        return 200 '{\"seatCount\":1}';
    }
    $locations
");
    $block->set_value('request', 'GET /status');
});

add_response_body_check(sub {
    my $block = shift;
    my $number = $block->name =~ /TEST (\d+)/ ? $1 : 0;

    $sse = WaitingQueue::Sse->new(port => server_port());
    ready();

    Test::More::subtest($block->name => sub {
        eval "my \$prefix = 't009-$number:';" . $block->check . '; 1'
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


sub line {
    my ($prefix, $location, $event) = @_;

    return WaitingQueue::Line->new(
        event => $event, prefix => $prefix, sse => $sse,
        path => "/$location/?event=%e&user=%u");
}


# the status; dies of a number that is less than nothing, which a counter shows
# as one beyond all bounds

sub figures {
    my $status = status();

    for my $process (@{$status->{processes}}) {
        for my $name (grep { !/^(?:instance|draining|links)$/ }
                           keys %$process)
        {
            die "$name is $process->{$name}\n"
                if $process->{$name} !~ /^\d+$/ || $process->{$name} > 1e15;
        }
    }

    for my $event (@{$status->{events}}) {
        die "$event->{event} is not reconciled\n" if !$event->{reconciled};

        for my $name (grep { defined $event->{$_}
                                 && !/^(?:event|reconciled)$/ } keys %$event)
        {
            die "$name of $event->{event} is $event->{$name}\n"
                if $event->{$name} !~ /^-?\d+$/ || $event->{$name} > 1e15
                   || ($event->{$name} < 0 && $name ne 'freeSlots');
        }
    }

    return $status;
}


# sums(), counter(name): over all processes that live

sub sums {
    my %sum;

    for my $process (@{figures()->{processes}}) {
        $sum{$_} += $process->{$_}
            for grep { !/^(?:instance|draining|links)$/ } keys %$process;
    }

    return \%sum;
}

sub counter {
    my ($name) = @_;
    return sums()->{$name};
}


sub event {
    my ($id) = @_;

    my ($event) = grep { $_->{event} eq $id } @{figures()->{events}};

    return $event;
}


# shows(what, event, figures): it comes to show these

sub shows {
    my ($what, $id, %expected) = @_;

    my $shown;
    my $text = sub {
        my ($figures) = @_;
        join ' ', map { "$_=" . (defined $figures->{$_} ? $figures->{$_} : '') }
                      sort keys %expected;
    };

    $sse->run_until(sub {
        $shown = event($id);
        $shown && $text->($shown) eq $text->(\%expected);
    }, 10);

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return is($text->($shown || {}), $text->(\%expected), $what);
}


# rises(what, counters): and comes to stand at these sums

sub rises {
    my ($what, %expected) = @_;

    my %sum;

    $sse->run_until(sub {
        my $sums = sums();
        %sum = map { ($_ => $sums->{$_}) } keys %expected;
        !grep { $sum{$_} != $expected{$_} } keys %expected;
    }, 10);

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return is_deeply(\%sum, \%expected, $what);
}


# metrics(): { name => { labels => value } }; dies of what is none

sub metrics {
    my %metrics;

    for my $line (split /\n/, http('GET', '/metrics')->{content}) {
        next if $line =~ /^# (?:HELP|TYPE) /;

        $line =~ /^([a-z_]+)(?:\{((?:[a-z]+="[^"\\]*",?)+)\})?
                  [ ](-?[0-9]+(?:\.[0-9]+)?)$/x
            or die "no metric: $line\n";
        die "twice: $line\n" if exists $metrics{$1}{defined $2 ? $2 : ''};
        $metrics{$1}{defined $2 ? $2 : ''} = $3;
    }

    return \%metrics;
}


# total(name): of a counter over all workers that ever were

sub total {
    my ($name) = @_;

    my $sum = 0;
    $sum += $_ for values %{metrics()->{"waiting_queue_${name}_total"} || {}};

    return $sum;
}


sub signal_nginx {
    my ($signal) = @_;

    open my $in, '<', server_root() . '/logs/nginx.pid' or die "pid: $!\n";
    chomp(my $pid = <$in>);
    kill $signal, $pid;
}

__DATA__

=== TEST 1: the figures of an event, from the first who comes to the last
--- check
    my $two = line($prefix, 'two', 'e1');
    my @s = $two->joins(map { "u$_" } 1 .. 5);

    is_deeply([ map { $_->{event} } @{figures()->{events}} ], [ 'e1' ],
              'there is an event') if shows(
        'two inside, three in line', 'e1', waiting => 3, active => 2,
        freeSlots => 0, joined => 5, direct => 2, promoted => 0, left => 0,
        expired => 0, streams => 5);

    $two->release('u1');
    shows('one out, one in', 'e1', waiting => 2, active => 2, freeSlots => 0,
          joined => 5, direct => 2, promoted => 1, left => 0, streams => 5);

    $s[3]->close;
    shows('one leaves the line', 'e1', waiting => 1, active => 2, promoted => 1,
          joined => 5, left => 1, streams => 4);

    $two->set(capacity => 1);
    shows('the operator takes a slot', 'e1', freeSlots => -1, active => 2,
          waiting => 1);

    $two->set(capacity => 5);
    shows('and gives more', 'e1', freeSlots => 2, active => 3, waiting => 0,
          promoted => 2);

    # a lease that lapses

    my $brief = line($prefix, 'brief', 'e2');
    my ($first, $second) = $brief->joins(qw(a b));
    shows('one inside', 'e2', active => 1, waiting => 1, expired => 0);
    shows('whose time is over', 'e2', active => 1, waiting => 0, expired => 1,
          promoted => 1, joined => 2);
    shows('and that of the next', 'e2', active => 0, freeSlots => 1,
          expired => 2);

    # by whom they were let in does not matter, but over which time

    my $throughput = sub {
        my $event = event('e1') or return 0;
        $event->{promotedPerMinute};
    };
    my $n = 0;
    $sse->run_until(sub {
        $two->join('w' . ++$n)->close;
        $two->release("w$n");
        $throughput->() > 0;
    }, 20, 'users who were let in in a minute');
    # from ten seconds at least, in which all of them came at most
    cmp_ok($throughput->(), '<=', 6 * ($n + 5), 'are not more than there were');

    # the same in the other format

    my $joined = 5 + $n;
    shows('all of them have come', 'e1', joined => $joined, active => 3,
          freeSlots => 2);

    my %name = (
        waiting => 'waiting', active => 'active', freeSlots => 'free_slots',
        joined => 'joined_total', direct => 'direct_total',
        promoted => 'promoted_total', left => 'left_total',
        expired => 'expired_total', streams => 'streams',
    );
    my $event = event('e1');
    my $metrics = metrics();

    is_deeply({ map { ($_ => $metrics->{"waiting_queue_event_$name{$_}"}
                                       {'event="e1"'}) } keys %name },
              { map { ($_ => $event->{$_}) } keys %name }, 'in Prometheus too');
    like($metrics->{waiting_queue_event_age_seconds}{'event="e1"'},
         qr/^\d+\.\d{3}$/, 'and how old it is');

    # everybody goes, and what has happened has happened

    $sse->close_all;
    $two->release($_) for qw(u2 u3 u5);
    shows('nobody is left', 'e1', waiting => 0, active => 0, freeSlots => 5,
          streams => 0, joined => $joined, left => 1, promoted => 2,
          direct => $joined - 3);
    shows('nor in the other', 'e2', waiting => 0, active => 0, streams => 0,
          joined => 2);

    # until somebody loses it all

    my $line = line($prefix, 'two', 'e1');
    $line->call('DEL', map { "$prefix$_" } $line->keys);
    $line->call('HDEL', "$prefix$_", 'e1')
        for qw(WAITING_QUEUE_IDX ENTRY_QUEUE_SLOTS);
    $line->join('u1');
    shows('figures that fall are believed after a while', 'e1', joined => 1,
          direct => 1, promoted => 0, left => 0, active => 1, streams => 1);



=== TEST 2: the counters and gauges of the jobs
--- check
    my %c = map { ($_ => 0) } qw(
        streamsOpened streamsClosed streamsReplaced positionsSent
        promotionsTold joinsRefused leaves releases promoted lapsed
        restored routerGarbage unroutable dispatchGarbage capacityAsked
        capacityFailed streams absent);
    my $add = sub {
        my ($what, %more) = @_;
        local $Test::Builder::Level = $Test::Builder::Level + 1;
        $c{$_} += $more{$_} for keys %more;
        rises($what, %c);
    };

    # streams

    my $kept = line($prefix, 'kept', 'k');
    my ($in, $one, $two) = $kept->joins(qw(in one two));
    $add->('one is let in at once and two wait', streamsOpened => 3,
           streams => 3, promotionsTold => 1, positionsSent => 2);

    $kept->set(capacity => 2);
    $sse->run_until(sub { $one->last('promoted') && $two->rank == 0 }, 10,
                    'one of them is let in');
    $add->('by a call of the promote script', promoted => 1,
           promotionsTold => 1, positionsSent => 1);

    my $again = $kept->join('two');
    $add->('who comes again takes the place of his old stream',
           streamsOpened => 1, streamsClosed => 1, streamsReplaced => 1,
           positionsSent => 1);

    $again->close;
    $add->('who goes is waited for', streamsClosed => 1, streams => -1,
           absent => 1);
    $again = $kept->join('two');
    $sse->run_until(sub { counter('absent') == 0 }, 20,
                    'until he is back, at whichever worker');
    $add->('and it is one more stream', streamsOpened => 1, streams => 1,
           absent => -1, positionsSent => 1);

    # who is refused has no stream

    my $full = line($prefix, 'full', 'f');
    $full->join('a');
    is($full->join('b')->status, 429, 'there is no place');
    $add->('which is no fault of the waiting room', streamsOpened => 1,
           streams => 1, positionsSent => 1);

    # the end of the line

    my $gone = line($prefix, 'two', 'g');
    $_->close for $gone->joins(qw(a b c));
    $add->('a place without grace time is given up', streamsOpened => 3,
           streamsClosed => 3, promotionsTold => 2, positionsSent => 1,
           leaves => 1);

    my $bound = line($prefix, 'bound', 'b');
    my ($holder, $next) = $bound->joins(qw(a b));
    $holder->close;
    $sse->run_until(sub { $next->last('promoted') }, 10, 'the next is let in');
    $add->('by the end of a stream that was bound to its lease',
           streamsOpened => 2, streamsClosed => 1, streams => 1,
           promotionsTold => 2, positionsSent => 1, releases => 1);

    my $brief = line($prefix, 'brief', 'l');
    my $short = $brief->join('a');
    $sse->run_until(sub { $short->ended }, 10, 'a lease lapses');
    is($short->names, 'promoted expired', 'and the client is told');
    $add->('and it is counted', streamsOpened => 1, streamsClosed => 1,
           promotionsTold => 1, lapsed => 1);

    # the capacity

    my $spot = line($prefix, 'spot', 's');
    $spot->joins(qw(a b));
    $add->('the service was asked', streamsOpened => 2, streams => 2,
           promotionsTold => 1, positionsSent => 1, capacityAsked => 1);

    # messages

    my $routed = counter('routed');
    cmp_ok($routed, '>=', 3, 'messages were handed on');
    $sse->run_until(sub { counter('dispatched') >= counter('routed') }, 10,
                    'and read');

    redis('XADD', "${prefix}ENTRY", '*', 'a', 'b');
    redis('XADD', "${prefix}ENTRY", '*', 'type', 'promoted', 'userId', 'u',
          'eventId', 'k', 'instanceId', 'nobody', 'idx', 1, 'token', 'a' x 40,
          'expiresAt', 1, 'serial', 0);
    $add->('what makes no sense, and what nobody is there for',
           routerGarbage => 1, unroutable => 1);
    is(counter('routed'), $routed + 2, 'were read all the same');

    # a loss of data

    $kept->call('DEL', map { "$prefix$_" } $kept->keys);
    $sse->run_until(sub { counter('restored') == 1 }, 10,
                    'who was in line is put back');
    ok(counter('resyncs') >= 1, 'after a look at all ranks');

    # how long things take

    my %sum = %{sums()};

    for my $process (@{figures()->{processes}}) {
        cmp_ok($process->{promoteUs}, '>', 0, 'promoteUs of one who promoted')
            if $process->{promoteCalls};
        cmp_ok($process->{broadcastUs}, '>=', $process->{broadcastLastUs},
               'the last broadcast is one of them');
        cmp_ok($process->{$_}, '<', 10000, "$_ is one of a living line")
            for qw(routerLagMs dispatcherLagMs);
    }

    cmp_ok($sum{$_}, '>', 0, $_)
        for qw(promoteRounds promoteCalls broadcasts broadcastUs);
    cmp_ok($sum{promoteUs} / $sum{promoteCalls}, '<', 1e6,
           'a call of the script takes less than a second');

    # a tick that Redis holds up is late, and none piles up behind it

    my $late = $sum{lateTicks};
    my $sent = counter('broadcasts');
    redis('DEBUG', 'SLEEP', '1');
    $sse->run_until(sub { counter('lateTicks') > $late }, 10,
                    'ticks are skipped while one is under way');
    $sse->run_until(sub { counter('broadcasts') > $sent + 2 }, 10,
                    'and go on after it');

    # all of it in the other format, by the number of the worker

    my $metrics = metrics();
    my %opened = map { (qq(worker="$_->{worker}") => $_->{streamsOpened}) }
                     @{figures()->{processes}};
    is_deeply($metrics->{waiting_queue_streams_opened_total}, \%opened,
              'in Prometheus too');

    # and when everybody has gone

    $sse->close_all;
    $sse->run_until(sub { counter('streams') == 0 }, 10, 'no stream is open');
    is(counter('streamsClosed'), counter('streamsOpened'),
       'all that were opened have been closed');
    $sse->run_until(sub { !grep { $_->{streams} } @{figures()->{events}} }, 10,
                    'nor is one counted for an event');



=== TEST 3: workers come and go
--- no_error_log
[emerg]
[crit]
--- check
    # a single process has nobody who would start another
    my $line = line($prefix, 'kept', 'k');

    if ($workers > 1) {
        my $quiet = line($prefix, 'kept', 'q');
        my @quiet = $quiet->joins(map { "u$_" } 1 .. 20);
        my @s = $line->joins(map { "u$_" } 1 .. 40);

        shows('forty streams', 'k', streams => 40, waiting => 39);
        shows('and twenty more', 'q', streams => 20, waiting => 19);

        my %on = map { ($_->{pid} => $_->{streams}) }
                     @{figures()->{processes}};
        my $opened = total('streams_opened');
        my $sent = total('positions_sent');
        is($opened, 60, 'all counted');

        # one is killed: its streams are not there any more, though it could
        # tell nobody

        # and nobody who promotes the other event, and could speak of it

        my ($victim) = sort { $on{$b} <=> $on{$a} } keys %on;
        cmp_ok($on{$victim}, '>', 0, 'one who has some');
        $quiet->call('SREM', $quiet->key('WAITING_EVENTS'), 'q');
        kill 'KILL', $victim;
        $sse->run_until(sub { $on{$victim} == grep { $_->ended } @s, @quiet },
                        10, 'its clients lose their streams');

        my $lost = grep { $_->ended } @s;
        shows('a killed worker has no streams', 'k', streams => 40 - $lost,
              waiting => 39);
        shows('of whichever event', 'q',
              streams => 20 - grep { $_->ended } @quiet);
        is(counter('streams'), 60 - $on{$victim}, 'nor do they stay a gauge');
        $sse->run_until(sub { @{figures()->{processes}} == $workers }, 10,
                        'there is a new one');
        cmp_ok(total('streams_opened'), '>=', $opened, 'no counter falls');

        $_->close for @quiet;

        # they come back

        my @back = map { $line->join($_->{user}) } grep { $_->ended } @s;
        shows('all are back', 'k', streams => 40, waiting => 39, left => 0);
        is(total('streams_opened'), 60 + @back, 'each one is a stream more');

        # all are replaced: who was told to connect again does so

        my %old = map { ($_->{pid} => 1) } @{figures()->{processes}};
        my @all = grep { !$_->ended } @s, @back;
        my $totals = metrics();
        signal_nginx('HUP');
        $sse->run_until(sub { !grep { !$_->ended } @all }, 20,
                        'all streams end');
        is(scalar(grep { $_->last('reconnect') } @all), 40,
           'and all are told why');
        $sse->run_until(sub {
            my @processes = @{figures()->{processes}};
            @processes == $workers && !grep { $old{$_->{pid}} } @processes;
        }, 20, 'the old workers are gone');
        shows('and no stream is left', 'k', streams => 0);

        is(counter('streams'), 0, 'none');
        is(counter('absent'), 0, 'nobody is waited for by those who are new');
        is(total('streams_closed'), total('streams_opened') - $on{$victim},
           'all were closed, but for those of the killed one');

        my $now = metrics();
        my @fallen;

        for my $name (grep { /_total$/ } keys %$totals) {
            for my $labels (keys %{$totals->{$name}}) {
                my $value = $now->{$name}{$labels};
                push @fallen, "$name $labels"
                    if !defined $value || $value < $totals->{$name}{$labels};
            }
        }

        is_deeply(\@fallen, [], 'no counter has fallen');

        @s = map { $line->join($_->{user}) } @all;
        shows('they are there again', 'k', streams => 40, waiting => 39,
              joined => 40, left => 0);
        is(counter('streams'), 40, 'in the gauge as well');

        is_deeply([ grep { !/$victim exited on signal 9/ }
                         error_log() =~ /^.*\[alert\].*$/mg ], [],
                  'nothing is alarming but what we did ourselves');
    } else {
        my @s = $line->joins(map { "u$_" } 1 .. 5);
        shows('five streams', 'k', streams => 5, waiting => 4);
        stop_nginx();
        $sse->run_until(sub { !grep { !$_->ended } @s }, 10, 'all are closed');
    }



=== TEST 4: more events than there is room for
--- zone
    waiting_queue_promote_interval 1s;
    waiting_queue_zone 512k;
--- check
    # an id may have all that an id may have, and no more: nothing in it could
    # end a label or a string

    my $all = join '', grep { /[A-Za-z0-9._~\@:-]/ } map { chr } 32 .. 126;
    $all x= 2;
    my $odd = substr $all, 0, 128;

    ok(line($prefix, 'two', $odd)->join('u1')->last('promoted'),
       'an event with a name of all letters there are');
    shows('is there', $odd, active => 1, streams => 1);
    is(metrics()->{waiting_queue_event_active}{qq(event="$odd")}, 1,
       'in Prometheus too');

    for my $bad ('%22', '%5c', '%0a', '%7d', '%00', '%c3%a9', 'a%20b',
                 "${odd}a")
    {
        my $s = $sse->open(path => "/two/?event=$bad&user=u");
        $sse->run_until(sub { $s->ended }, 10);
        is($s->status, 400, "event=$bad is none");
    }

    is(scalar @{figures()->{events}}, 1, 'and leaves nothing behind');

    # those that nobody is connected to make room for those that come

    my $n = 400;
    my $open;

    for my $i (1 .. $n) {
        $open->close if $open;
        $open = line($prefix, 'two', "event$i")->join('u1');
        die "$i: " . $open->describe if $open->names ne 'promoted';
    }

    shows('the last is there', "event$n", streams => 1);
    shows('and one that somebody is connected to', $odd, streams => 1);

    my $events = figures()->{events};
    cmp_ok(scalar @$events, '>', 30, 'and a good many others');
    cmp_ok(scalar @$events, '<', $n, 'but not all of them');
    is(scalar(keys %{metrics()->{waiting_queue_event_active}}),
       scalar @{figures()->{events}}, 'in Prometheus as many');

    # where somebody is connected to all of them there is no room for more, and
    # nothing is missing but their figures

    my $room = @$events;
    my @s = map { line($prefix, 'two', "busy$_")->open('u1') }
                1 .. $room + 100;
    $sse->run_until(sub { !grep { !$_->events && !$_->ended } @s }, 30,
                    'more events are in use than there is room for');
    is(scalar(grep { $_->names eq 'promoted' } @s), scalar @s,
       'all users are served');

    # also those whose capacity somebody must be asked for

    my @spot = map { line($prefix, 'spot', "spot$_")->open('u1') } 1 .. 50;
    $sse->run_until(sub { !grep { !$_->events && !$_->ended } @spot }, 30,
                    'and more are asked for');
    is(scalar(grep { $_->names eq 'promoted' } @spot), scalar @spot,
       'all users are served');

    shows('the one from the beginning is still there', $odd, streams => 1,
          active => 1);

    # they go, and there is room again

    $_->close for @s, @spot;
    my $last = line($prefix, 'two', 'last')->join('u1');
    shows('who comes later has figures', 'last', streams => 1, active => 1);
    is(counter('streams'), 3, 'the gauge knows of all who are left');
