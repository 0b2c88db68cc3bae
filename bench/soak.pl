#!/usr/bin/perl

# Does anything grow?
#
# A sale that goes on: STREAMS users in line by a stream and an eighth as many
# by the token API, new ones all the time, in two events that go on and eight
# that are idle most of the time (churn.c says what they do).  In the first two
# thirds nginx is reloaded every SOAK_RELOAD seconds, in the last third the same
# workers serve.  Every 5 s it is looked at what nginx and Redis hold; a table
# and a verdict come at the end, and the status is 0 if nothing grows.
#
#     make soak                               30 minutes
#     SOAK_SECONDS=300 SOAK_RELOAD=15 make soak
#
# What is compared are medians, of the first third and of the last third of the
# samples after a warm-up of a fifth.  Workers of different generations are
# compared at the same age, right before the next reload.
#
# SOAK_LEAK shows that a leak is found: "redis" leaves a key for each new user,
# "connections" holds connections with half a request.  Both must fail.

use strict;
use warnings;

use IO::Socket::INET;
use Test::More;
use WaitingQueue::Bench;
use WaitingQueue::Soak;

my $seconds = $ENV{SOAK_SECONDS} || 1800;
my $reload = $ENV{SOAK_RELOAD} || 60;
my $streams = $ENV{STREAMS} || 5000;
my $leak = $ENV{SOAK_LEAK} || '';

my $every = 5;
my $warm_up = 0.2;

# What may be more at the end: a part, or so much, or as much as the middle half
# of the values lies apart, whichever is most.  Of something that grows steadily
# the middle half is half of the growth, and between the two thirds are two
# thirds of it; of chance it is the other way round.  Descriptors are no chance,
# and of the keys that stay an event that is busy has seven more.
my %bound = (
    worker_kb => [0.03, 256], all_kb => [0.03, 512], master_kb => [0.03, 256],
    fds => [0, 0], redis_kb => [0.03, 256], keys => [0, 30],
);

# Old workers must be gone by then: they tell their streams to go for 10 s, and
# then nothing keeps them but requests of a second.
my $old_for = 20;

my (@held, $leaked, @samples, @rows);


# leaks on purpose, from outside

sub leak {
    my ($room, $churn) = @_;

    if ($leak eq 'redis') {
        $room->redis->call('SET', "ENTRY_TOKEN:{hall0}:gone$leaked", 'x' x 40)
            while $leaked++ < $churn->{users};

    } elsif ($leak eq 'connections') {
        for (1 .. 10) {
            my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                               PeerPort => $room->port)
                or die "connect: $!\n";
            syswrite $socket, join "\r\n", 'GET / HTTP/1.1',
                                          ('X: ' . 'x' x 7000) x 4;
            push @held, $socket;
        }
    }
}


sub progress {
    my ($churn, $sample) = @_;

    printf "%5d s: %5d streams, %4d inside, %d admitted, %d users; workers "
           . "%d kB, %d descriptors; Redis %d kB (and %d of those who left, %d "
           . "of connections), %d keys\n",
           @$churn{qw(seconds streams inside admitted users)},
           @$sample{qw(worker_kb fds redis_kb gone_kb clients_kb keys)};
}


# one look after the other until the end, and reloads in the first two thirds

sub run {
    my ($room, $load) = @_;

    my ($generation, $reloaded, $printed) = (0, 0, 0);
    my $last_reload = $seconds * 2 / 3;

    while (1) {
        my $churn = $load->next or die "churn has ended\n";
        my $at = $churn->{seconds};
        my $sample = { %{$room->sample}, churn => $churn, at => $at,
                       generation => $generation, age => $at - $reloaded };

        push @samples, $sample;
        leak($room, $churn);

        if ($at - $printed >= 30) {
            progress($churn, $sample);
            $printed = $at;

            push @{$sample->{books}}, map { $_->wrong } $room->lines;
        }

        last if $at >= $seconds;

        # the last generation is the one that stays
        if ($at - $reloaded >= $reload - $every / 2
            && $reloaded < $last_reload)
        {
            $sample->{oldest} = 1;
            $room->reload;
            $reloaded = $at;
            $generation++;
        }
    }

    return $generation;
}


# grows(what, name, unit, samples): a row of the table, and the verdict

sub grows {
    my ($what, $name, @points) = @_;

    my ($part, $least) = @{$bound{$name}};
    my @values = map { $_->{$name} } @points;
    my ($first, $last) = thirds(@values);
    my $slope = slope(map { [$_->{at}, $_->{$name}] } @points);
    my $apart = percentile(75, @values) - percentile(25, @values);
    my $spread = $part && @values >= 6 ? $apart : 0;   # of fewer it says nothing
    my ($may) = sort { $b <=> $a } $least, $part * $first, $spread;
    my $grown = $last - $first;

    push @rows, sprintf "| %s | %d | %.0f | %.0f | %+.0f | %.0f | %+.1f |",
                $what, scalar @points, $first, $last, $grown, $may, $slope;

    cmp_ok($grown, '<=', $may, $rows[-1]);
}


sub judge {
    my ($generations) = @_;

    my @warm = grep { $_->{at} >= $warm_up * $seconds } @samples;
    my @oldest = grep { $_->{oldest} } @warm;

    # they begin when the old ones have gone
    my ($still) = grep { $_->{generation} == $generations
                         && $_->{age} > $old_for } @samples;
    my $from = $still->{at} + $warm_up * ($seconds - $still->{at});
    my @still = grep { $_->{at} >= $from } @samples;

    die "no samples: the run is too short\n" if @oldest < 3 || @still < 3;

    grows('before a reload: workers, kB', 'worker_kb', @oldest);
    grows('all of nginx, kB', 'all_kb', @oldest);
    grows('the master, kB', 'master_kb', @oldest);
    grows('descriptors', 'fds', @oldest);
    grows('Redis, kB', 'redis_kb', @oldest);
    grows('keys in Redis that stay', 'keys', @oldest);

    grows('the same workers, kB', 'worker_kb', @still);
    grows('descriptors', 'fds', @still);
    grows('Redis, kB', 'redis_kb', @still);
    grows('keys in Redis that stay', 'keys', @still);

    my @late = grep { $_->{old} && $_->{age} > $old_for } @samples;
    is(scalar @late, 0, "old workers are gone within $old_for s");

    my @books = map { @{$_->{books} || []} } @samples;
    is("@books[0 .. ($#books > 4 ? 4 : $#books)]", '',
       'the books agree all the time');

    idle(@samples);
    served(@warm);
}


# every event that people came to for a while was idle some time later

sub idle {
    my (%busy, %idle);

    for my $sample (@_) {
        my %now = map { $_ => 1 } grep { /^brief/ } @{$sample->{busy}};

        $busy{$_} ||= $sample->{at} for keys %now;
        $idle{$_} ||= $sample->{at}
            for grep { !$now{$_} } keys %busy;
    }

    # people come for 15 s, and are through after a minute and a half
    my @never = grep { $busy{$_} < $seconds - 110 && !$idle{$_} }
                     sort keys %busy;

    is("@never", '', scalar(keys %busy) . ' events were busy, and idle again');
}


# there was a load, and it was served

sub served {
    my ($first, $last) = @_[0, -1];

    my $minutes = ($last->{at} - $first->{at}) / 60;
    my $admitted = ($last->{churn}{admitted} - $first->{churn}{admitted})
                   / $minutes;
    my $open = median(map { $_->{churn}{streams} } @_);

    # those who are about to come back are not open
    cmp_ok($open, '>=', 0.9 * $streams, "$open streams are open");
    cmp_ok($admitted, '>=', $streams / 25,
           sprintf '%.0f are admitted a minute', $admitted);
}


# what the load has seen

sub seen {
    my ($room, $churn) = @_;

    is($churn->{wrong}, 0, 'no answer was wrong, no place further back');
    cmp_ok($churn->{gapMs}, '<', 1000 * $room->grace,
           sprintf 'the longest without a stream: %.1f s',
                   $churn->{gapMs} / 1000);

    # a third of them, if all were told in one moment to come in 3 s to 6 s
    cmp_ok($churn->{busiestSecond}, '<=', $streams / 4,
           "who is to come back is spread: $churn->{busiestSecond} a second");

    # nginx closes what has not said anything yet when a worker is to leave
    my @cut = grep { $_->{age} > $old_for
                     && $_->{churn}{unanswered} > $_->{before} } map {
        $samples[$_]{before} = $samples[$_ - 1]{churn}{unanswered};
        $samples[$_] } 1 .. $#samples;

    is(scalar @cut, 0, "every request is answered, but for "
                       . "$churn->{unanswered} when workers leave");
}


my $room = start_sale();
my $fresh = join ' ', map { fds($_) } $room->workers;
my $load = start_churn(port => $room->port, streams => $streams,
                       polls => int($streams / 8), every => $every);

quiet();

my $generations = run($room, $load);
my $churn = $load->leave;

# leases and places lapse, within 15 s of their time
@held = ();
my $left = '';

wait_until { !($left = join ', ', $room->leftovers) }
           $room->grace + $room->ttl + 15, 'nothing is left of the users'
    or diag(substr $left, 0, 500);

wait_until { $fresh eq join ' ', map { fds($_) } $room->workers } 10,
           "workers have their descriptors back: $fresh"
    or diag(join ' ', map { fds($_) } $room->workers);

judge($generations);
seen($room, $churn);

my $command = join ' ', (map { defined $ENV{$_} ? "$_=$ENV{$_}" : () }
                         qw(SOAK_SECONDS SOAK_RELOAD STREAMS SOAK_LEAK)),
              'make soak';

printf "\n`%s`: %.0f s, %d reloads, %d users; %d streams opened, of them %d "
       . "after `reconnect`, at most %d in a second, and nobody without one "
       . "for more than %.1f s; %d positions, %d polls; %d admitted, %d done, "
       . "%d gave back, %d went without a word, %d refused.\n\n",
       $command, $churn->{seconds}, $generations,
       @$churn{qw(users opened reconnects busiestSecond)},
       $churn->{gapMs} / 1000,
       @$churn{qw(positions polls admitted done quits vanished refused)};

print "| what | samples | first third | last third | grown | may | a minute "
      . "|\n| --- | --- | --- | --- | --- | --- | --- |\n",
      map { "$_\n" } @rows;

print "\n", Test::More->builder->is_passing ? 'PASS' : 'FAIL', "\n";

finish();
