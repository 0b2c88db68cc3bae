# Proves that nothing grows: neither with reloads (processes, descriptors and
# memory of the master, connections and keys in Redis) nor with reconnects
# (descriptors and memory of the workers).

use strict;
use warnings;

use Test::More;
use WaitingQueue::Fault;


my $reloads = 50;
my $reconnects = 100;

# kB: an allocator may take a few pages more, but less than 1 kB for each of 80
# reconnects of three links
my $slack = 128;

# of the two workers
my $links = 2 * link_names();

my $redis = start_redis();
my $nginx = start_nginx(
    http => 'waiting_queue_redis ' . $redis->url . ' timeout=1s;',
    # what is free goes back at once, else one large answer more or less would
    # be more than is looked for here
    env => { MALLOC_TRIM_THRESHOLD_ => 4096, MALLOC_TOP_PAD_ => 0 });

$nginx->wait_ready;


sub connected { return scalar grep { length $_->{name} } $redis->clients }


# asserts but when it fails: a hundred lines would say nothing

sub await(&$) {
    my ($event, $what) = @_;

    my $deadline = time + patience(8);

    while (!eval { $event->() }) {
        if (time > $deadline) {
            fail($what);
            diag($nginx->describe);
            return 0;
        }
        sleep 0.01;
    }

    return 1;
}


# Redis holds the living workers and nobody else

sub exactly_the_living {
    my $when = shift;

    my $instances = join ' ', sort map { $_->{instance} } $nginx->rows;
    my $members = join ' ', sort split /\n/,
                  $redis->cli('ZRANGE', 'WAITING_INSTANCES', 0, -1);
    my $streams = join ' ', sort map { /^DISPATCH:\{(.*)\}$/ ? $1 : () }
                  split /\n/, $redis->cli('KEYS', '*');

    is($members, $instances, "$when: WAITING_INSTANCES is the living workers");
    is($streams, $instances, "$when: so are the streams");
}


# reloads, each when the one before is over

my (@fds, @rss);

for my $round (1 .. $reloads) {
    my @old = $nginx->workers;

    $nginx->signal('HUP');

    await { !(grep { alive($_) } @old) && $nginx->workers == 2
            && $nginx->ready } "reload $round is over" or last;

    # the first few bring everything to its size
    next if $round < 10;

    push @fds, fds($nginx->pid);
    push @rss, rss_kb($nginx->pid);
}

is(scalar(@rss), $reloads - 9, "$reloads reloads were done");
is(scalar(children($nginx->pid)), 2, 'reloads: as many processes');
is($fds[-1], $fds[0], 'reloads: as many descriptors in the master');
is(connected(), $links, 'reloads: as many connections');
exactly_the_living('reloads');

SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if sanitized();

    my $grown = $rss[-1] - $rss[0];
    ok($grown <= $slack, "reloads: the master has grown by $grown kB");
}


# reloads that do not wait for each other

$nginx->signal('HUP'), sleep 0.02 for 1 .. 10;
wait_until { $nginx->workers == 2 && children($nginx->pid) == 2
             && $nginx->ready } 10, 'ten reloads at once: two workers are left';
wait_until { connected() == $links } 5,
           'ten reloads at once: as many connections';
exactly_the_living('ten reloads at once');


# reconnects of all links of both workers

sub reconnected {
    my @links = $nginx->links;
    my ($least) = sort { $a <=> $b } map { $_->{reconnects} } @links;
    return $least;
}

my @workers = $nginx->workers;
my (%fds, %rss);

for my $round (1 .. $reconnects) {
    $redis->cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');

    await { reconnected() >= $round && $nginx->ready }
          "reconnect $round is over" or last;

    next if $round != 20 && $round != $reconnects;

    push @{ $fds{$_} }, fds($_) for @workers;
    push @{ $rss{$_} }, rss_kb($_) for @workers;
}

is_deeply([$nginx->workers], \@workers, "$reconnects reconnects, same workers");
is(connected(), $links, 'reconnects: as many connections');
exactly_the_living('reconnects');

for my $worker (@workers) {
    my ($before, $after) = @{ $fds{$worker} };
    # a client of the test itself may come or go
    ok(abs($after - $before) <= 1,
       "reconnects: $before, then $after descriptors");

    SKIP: {
        skip 'a sanitizer keeps what is freed', 1 if sanitized();

        ($before, $after) = @{ $rss{$worker} };
        my $grown = $after - $before;
        ok($grown <= $slack, "reconnects: a worker has grown by $grown kB");
    }
}

finish();
